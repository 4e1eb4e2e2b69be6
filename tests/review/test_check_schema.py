"""What is told of a decision file's bytes, before anybody looks at its evidence."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.decide.entry import merge_entry
from autotune.decisions.schema import DecisionFile, DecisionKey, encode
from autotune.decisions.store import SIZE_LIMIT
from autotune.review.check_fields import differences, same_number
from autotune.review.check_lines import read_lines
from autotune.review.check_schema import check_duplicates, check_form, read_decision
from autotune.review.findings import Issue, shown
from tests.decisions.builders import decision, origin_entry
from tests.review.check_folder import ENTRY, ROOT

KEY = DecisionKey("MiniMaxM2ForCausalLM", "modelopt_fp4", "sm100")
REAL = (ROOT / "configs" / "decisions" / ENTRY).read_bytes()


def edited(change: Callable[[dict[str, Any]], object]) -> bytes:
    content = json.loads(REAL)
    change(content)
    return json.dumps(content, indent=2, sort_keys=True).encode() + b"\n"


def issues(data: bytes, key: DecisionKey | None = KEY) -> list[Issue]:
    read = read_decision(data, key)
    if isinstance(read, Issue):
        return [read]
    return [*check_form(data, read, read_lines(data)), *check_duplicates(read)]


def test_the_real_file_has_nothing_against_it() -> None:
    assert issues(REAL) == []


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_schema_version_is_refused(version: Any) -> None:
    data = edited(lambda content: content.update(schema_version=version))
    (issue,) = issues(data)
    assert (issue.level, issue.code) == ("wrong", "schema")
    if isinstance(version, int):
        assert f"schema_version is {version}, this release reads 1" in issue.message
        assert issue.place == ("schema_version",)


def test_an_unknown_key_is_refused_in_its_line() -> None:
    data = edited(lambda content: content["entries"][0]["choice"].update(colour="red"))
    (issue,) = issues(data)
    assert "unknown field `colour`" in issue.message
    assert issue.line is not None and b'"colour"' in data.splitlines()[issue.line - 1]


def test_a_value_of_the_wrong_type_is_refused_in_its_line() -> None:
    data = edited(lambda content: content["entries"][0]["choice"].update(rounds="three"))
    (issue,) = issues(data)
    assert issue.line is not None and b'"three"' in data.splitlines()[issue.line - 1]


def test_half_a_file_is_refused() -> None:
    (issue,) = issues(REAL[: len(REAL) // 2])
    assert issue.code == "schema"


def test_a_file_in_another_keys_place() -> None:
    (issue,) = issues(REAL, DecisionKey("Other", "modelopt_fp4", "sm100"))
    assert (issue.code, issue.place) == ("contradiction", ("key",))
    assert "(Other, modelopt_fp4, sm100)" in issue.message


def test_too_large_a_file() -> None:
    assert [issue.code for issue in issues(REAL + b" " * SIZE_LIMIT)] == ["too_large"]


@pytest.mark.parametrize(
    "data",
    [
        REAL.rstrip(b"\n"),
        REAL.replace(b"\n", b"\r\n"),
        REAL.replace(b"  ", b"\t"),
        json.dumps(json.loads(REAL)).encode(),
        REAL.replace(b"201.5,", b"2.015e2,"),
    ],
)
def test_the_same_content_in_another_form_isnt_canonical(data: bytes) -> None:
    assert data != REAL
    assert [(issue.level, issue.code) for issue in issues(data)] == [("wrong", "not_canonical")]


def test_a_key_that_is_written_twice_is_told() -> None:
    """A reviewer would read the one, a server the other."""
    line = b'"backend": "flashinfer_trtllm_routed",'
    data = REAL.replace(line, b'"backend": "triton",\n        ' + line, 1)
    (issue,) = issues(data)
    assert (issue.level, issue.code) == ("wrong", "written_twice")
    assert shown(issue.place) == "choice.backend"


def test_fields_left_to_their_defaults_are_a_note() -> None:
    """Files of older releases lack the fields that came later."""
    data = edited(lambda content: content["entries"][0]["scope"].pop("attention_dp"))
    (issue,) = issues(data)
    assert (issue.level, issue.code) == ("note", "defaults")
    assert "entries[0].scope.attention_dp" in issue.message


def test_entries_in_another_order_are_told() -> None:
    file: DecisionFile | None = None
    for tp in (1, 2, 4):
        file = merge_entry(file, KEY, origin_entry(scope={"tp": tp}))
    assert file is not None and issues(encode(file)) == []
    turned = DecisionFile(schema_version=1, key=KEY, entries=file.entries[::-1])
    assert [issue.code for issue in issues(encode(turned))] == ["not_canonical"]


def test_two_entries_of_one_scope_are_told() -> None:
    """Patch releases and kernel libraries don't make another scope."""
    newer = {"engine_version": "0.5.10", "kernel_libraries": {}}
    file = decision(origin_entry(), origin_entry(scope=newer))
    (issue,) = issues(encode(file))
    assert (issue.code, issue.place) == ("same_scope", ("entries", 1))


@given(st.integers(0, len(REAL)), st.integers(0, 40), st.binary(max_size=12))
def test_no_bytes_break_it(start: int, length: int, patch: bytes) -> None:
    data = REAL[:start] + patch + REAL[start + length :]
    found = issues(data)
    assert data == REAL or found or isinstance(read_decision(data, KEY), DecisionFile)


def test_differences_name_every_field() -> None:
    one = origin_entry()
    other = origin_entry(
        scope={"tp": 8},
        choice={"ratio": None, "reason": "x" * 300 + "b", "arguments": ("--a", "--b")},
        evidence={"rejected": ()},
    )
    long = origin_entry(choice={"reason": "x" * 300 + "a"})
    told = {
        shown(one.place): (one.file_says, one.evidence_says) for one in differences(long, other)
    }
    assert told == {
        "scope.tp": ("4", "8"),
        "choice.ratio": ("1.31", "null"),
        "choice.arguments": ("0 of them", "2 of them"),
        "choice.reason": (f'"...{"x" * 40}a"', f'"...{"x" * 40}b"'),
        "evidence.rejected": ("1 of them", "0 of them"),
    }
    assert differences(one, one) == ()


def test_only_last_digits_may_differ() -> None:
    assert same_number(9716.7, 9716.7 * (1 + 1e-10))
    assert not same_number(9716.7, 9716.7 * (1 + 1e-8))
    assert not same_number(1e-3, 0.0)
