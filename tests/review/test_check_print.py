"""Findings as text, as GitHub's annotations and as JSON."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from autotune.review.check_print import exit_code, render, text_line
from autotune.review.findings import Finding, Issue, Review, locate

WRONG = Finding(
    level="wrong",
    code="differs",
    path="a/b.json",
    message="x: file says 1",
    remedy="fix it",
    entry=0,
    line=3,
)


def review(*levels: str) -> Review:
    made = tuple(msgspec.structs.replace(WRONG, level=level) for level in levels)
    return Review(findings=made, checked=2)


def github(**changes: Any) -> str:
    one = Review(findings=(msgspec.structs.replace(WRONG, **changes),), checked=1)
    return render(one, "github", workplace="/repo").splitlines()[0]


def test_exit_codes() -> None:
    assert exit_code(review("ok", "note")) == 0
    assert exit_code(review("ok", "stale", "note")) == 4
    assert exit_code(review("stale", "wrong", "ok")) == 2


def test_a_line_says_level_place_message_and_remedy() -> None:
    assert text_line(WRONG) == "wrong  a/b.json#0  x: file says 1; fix it"
    plain = msgspec.structs.replace(WRONG, level="ok", entry=None, remedy="")
    assert text_line(plain) == "ok     a/b.json  x: file says 1"


def test_the_last_line_counts() -> None:
    text = render(review("ok", "wrong", "note"), "text", workplace="/")
    assert text.splitlines()[-1] == "2 decisions checked: 1 ok, 0 stale, 1 wrong, 1 note"


def test_an_annotation() -> None:
    title = "title=autotune check%3A wrong in entry 0"
    assert github() == f"::error file=a/b.json,line=3,{title}::x: file says 1; fix it"
    assert github(level="stale").startswith("::warning ")
    assert github(level="note", line=None).startswith("::notice file=a/b.json,title=")


def test_annotations_come_worst_first_and_leave_out_what_is_fine() -> None:
    lines = render(review("note", "ok", "stale", "wrong"), "github", workplace="/").splitlines()
    assert [line.split()[0] for line in lines] == ["::error", "::warning", "::notice", "2"]


def test_paths_start_from_the_repositorys_root() -> None:
    assert "file=a/b.json," in github(path="/repo/a/b.json")
    assert "file=a/b.json," in github(path="./a/b.json")
    assert "file=/elsewhere/b.json," in github(path="/elsewhere/b.json")


def test_what_means_something_to_github_is_escaped() -> None:
    line = github(path="a,b:c%.json", message="50%: a,b\r\n::error::no", remedy="")
    assert line.startswith("::error file=a%2Cb%3Ac%25.json,line=3,")
    assert line.endswith("::50%25: a,b%0D%0A::error::no")


@given(st.text(), st.text(max_size=30))
def test_no_text_makes_another_command(message: str, path: str) -> None:
    issue = Issue(level="wrong", code="x", message=message)
    one = Review(findings=(locate(issue, path, lines={}),), checked=0)
    line, _ = render(one, "github", workplace="/").split("\n")
    command, properties, _ = line[2:].split(":", maxsplit=2)
    assert command.startswith("error ") and properties == ""
    render(one, "text", workplace="/").encode()


def test_json_holds_the_findings() -> None:
    whole = json.loads(render(review("ok", "wrong"), "json", workplace="/"))
    assert whole == {"findings": [msgspec.to_builtins(WRONG)], "checked": 2}


def test_the_line_is_that_of_the_nearest_place_known() -> None:
    place = ("entries", 1, "choice", "ratio")
    issue = Issue(level="wrong", code="x", message="y", place=place)
    lines = {(): 1, ("entries", 1): 7}
    finding = locate(issue, "p", lines=lines)
    assert (finding.line, finding.entry) == (7, 1)
    assert locate(issue, "p", lines={**lines, place: 9}).line == 9
    assert locate(issue, "p", lines={}).line is None
