"""Which files are looked at, and what is said of the others."""

import os
from pathlib import Path

import pytest

from autotune.review.check_files import list_files


def make(root: Path, *files: str) -> Path:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return root


def told(root: Path) -> dict[str, tuple[str, str]]:
    return {
        path.relative_to(root).as_posix(): (issue.level, issue.code)
        for path, issue in list_files(root).issues
    }


def test_decision_files_are_found_by_their_place(tmp_path: Path) -> None:
    listing = list_files(make(tmp_path, "sm90/B/fp8.json", "sm100/A/none.json", "sm100/B/x.y.json"))
    assert [str(place.key) for place in listing.files] == [
        "(A, none, sm100)",
        "(B, x.y, sm100)",
        "(B, fp8, sm90)",
    ]
    assert listing.issues == []


def test_strays_are_told(tmp_path: Path) -> None:
    make(tmp_path, "README.md", "top.json", "sm100/two.json", "sm100/A/deep/x.json")
    make(tmp_path, "sm100/A/none.JSON", "sm100/A/none.json.orig", "sm100/A/.hidden.json")
    assert told(tmp_path) == {
        "README.md": ("note", "stray"),
        "top.json": ("wrong", "stray"),
        "sm100/two.json": ("wrong", "stray"),
        "sm100/A/deep": ("wrong", "stray"),
        "sm100/A/none.JSON": ("wrong", "stray"),
        "sm100/A/none.json.orig": ("note", "stray"),
        "sm100/A/.hidden.json": ("wrong", "bad_name"),
    }
    assert list_files(tmp_path).files == []


@pytest.mark.parametrize("place", ["sm100/A/none.json", "sm100/A", "sm100"])
def test_links_arent_followed(tmp_path: Path, place: str) -> None:
    target = make(tmp_path / "elsewhere", "sm100/A/none.json") / place
    root = tmp_path / "root"
    (root / place).parent.mkdir(parents=True)
    os.symlink(target, root / place)
    assert told(root) == {place: ("wrong", "link")}
    assert list_files(root).files == []


def test_a_link_in_a_circle_ends(tmp_path: Path) -> None:
    os.symlink(tmp_path, tmp_path / "again")
    assert told(tmp_path) == {"again": ("wrong", "link")}


def test_names_that_differ_in_case_only(tmp_path: Path) -> None:
    make(tmp_path, "sm100/A/none.json", "sm100/a/none.json", "sm100/A/None.json")
    if len(list((tmp_path / "sm100").iterdir())) == 1:
        pytest.skip("this file system doesn't tell upper and lower case apart")
    assert told(tmp_path) == {
        "sm100/a": ("wrong", "case_twins"),
        "sm100/A/none.json": ("wrong", "case_twins"),
    }


def test_run_folders(tmp_path: Path) -> None:
    make(tmp_path, "one/run.json", "one/decision.json", "open/run.json", "notes.txt")
    listing = list_files(tmp_path)
    assert [place.run for place in listing.files] == [tmp_path / "one"]
    assert told(tmp_path) == {"notes.txt": ("note", "stray")}
    assert [place.path.name for place in list_files(tmp_path / "one").files] == ["decision.json"]
    assert list_files(tmp_path / "open").files == []


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    ((path, issue),) = list_files(tmp_path / "gone").issues
    assert (path.name, issue.code) == ("gone", "unreadable")
