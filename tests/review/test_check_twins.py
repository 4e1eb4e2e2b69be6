"""Two decisions for one key: in two folders, or lent by another arch."""

from typing import Any

from autotune.decisions.schema import DecisionFile
from autotune.review.check_twins import Placed, check_keys, check_lending
from tests.decisions.builders import CUTLASS, decision, origin_entry


def sm103(**choice: Any) -> DecisionFile:
    """What somebody measured on the arch that `origin_entry` is lent to, on another device."""
    scope = {"also_arch": (), "also_arch_reason": None, "device_name": "GB300", "device_count": 8}
    return decision(origin_entry(scope=scope, choice=choice), arch="sm103")


def lending(*files: DecisionFile) -> list[tuple[str, str, str]]:
    placed = [Placed(f"file{number}", file) for number, file in enumerate(files)]
    return [(one.path, issue.level, issue.message) for one, issue in check_lending(placed)]


def test_one_file_for_each_key() -> None:
    files = [Placed("a", decision()), Placed("b", sm103()), Placed("c", decision())]
    ((placed, issue),) = check_keys(files)
    assert (placed.path, issue.level) == ("c", "wrong")
    assert issue.message.startswith("a is for the same key")


def test_lending_to_nobody_else_is_fine() -> None:
    assert lending(decision()) == []
    other_size = decision(origin_entry(scope={"tp": 8, "also_arch": ()}), arch="sm103")
    assert lending(decision(), other_size) == []


def test_lending_what_the_other_arch_found_too_is_a_note() -> None:
    ((path, level, message),) = lending(decision(), sm103())
    assert (path, level) == ("file0", "note")
    assert "lent to sm103" in message and "file1#0 is its own" in message


def test_lending_what_the_other_arch_found_otherwise_is_wrong() -> None:
    ((path, level, message),) = lending(sm103(backend=CUTLASS), decision())
    assert (path, level) == ("file1", "wrong")
    assert f"chooses {CUTLASS} instead" in message


def test_two_lenders_that_disagree() -> None:
    other = decision(origin_entry(choice={"backend": CUTLASS}), arch="sm10a")
    ((_, level, message),) = lending(decision(), other)
    assert level == "wrong" and "lent to it too" in message
