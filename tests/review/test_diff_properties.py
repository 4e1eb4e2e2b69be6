"""No difference between a decision and itself; of a changed one, every leaf that was changed."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.decisions import DecisionFile, Interval, encode
from autotune.decisions.schema import ConcurrencyWinner
from autotune.review.diff import compare_sides
from autotune.review.diff_markdown import render
from autotune.review.diff_schema import Difference, SideName
from autotune.review.diff_sides import Side, SideEntry
from tests.decisions.builders import ROUTED, decision, origin_entry

Path = tuple[str | int, ...]

_OTHERS = {"outcome": "open", "verdict": "inconclusive", "baseline_role": "incumbent"}


def whole() -> DecisionFile:
    """A decision of two entries in which every field says something."""
    winner = ConcurrencyWinner(
        concurrency=16,
        candidate=f"sglang-{ROUTED}",
        backend=ROUTED,
        ratio_to_choice=1.0,
        interval=Interval(0.9, 1.1, 0.95),
    )
    full = origin_entry(
        scope={"a2a_mode": "auto", "engine_settings": {"lora": "on"}},
        choice={
            "interval": Interval(1.2, 1.4, 0.95),
            "winners": (winner,),
            "arguments": ("--tune", "3"),
            "environment": {"SGLANG_Y": "2"},
        },
        evidence={"accepted": ("somebody said so",), "source": "https://example.org/pull/1"},
    )
    rows = tuple(
        msgspec.structs.replace(
            row, ttft_mean_s=0.1, ttft_p99_s=0.2, latency_mean_s=1.5, latency_p99_s=2.5
        )
        for row in full.evidence.rows
    )
    full = msgspec.structs.replace(full, evidence=msgspec.structs.replace(full.evidence, rows=rows))
    return decision(full, origin_entry(scope={"tp": 8}))


def side(file: DecisionFile) -> Side:
    entries = tuple(
        SideEntry(scope=one.scope, choice=one.choice, evidence=one.evidence) for one in file.entries
    )
    name = SideName(path="a.json", kind="decision", entries_from="file")
    return Side(name=name, key=file.key, entries=entries)


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list) and value:
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, place))
    else:
        yield path


PLAIN = json.loads(encode(whole()))
LEAVES = sorted((path for path in leaves(PLAIN) if path != ("schema_version",)), key=str)


def other(value: Any, name: str | int) -> Any:
    """Another value that the schema allows there."""
    match value:
        case bool():
            return not value
        case int():
            return value + 100_003
        case float():
            return value * 1.0000001
        case str():
            return _OTHERS.get(str(name), f"{value}x")
        case None:
            return {"ratio": 1.5, "interval": None}.get(str(name), 7.5 if is_time(name) else "x")
    return value


def is_time(name: str | int) -> bool:
    return str(name).endswith("_s")


def changed(paths: list[Path]) -> tuple[DecisionFile, list[tuple[Path, Any, Any]]]:
    """The decision with these leaves changed, and which of them really are: to what, from what."""
    plain, told = copy.deepcopy(PLAIN), []
    for path in paths:
        holder = plain
        for step in path[:-1]:
            holder = holder[step]
        before = holder[path[-1]]
        holder[path[-1]] = after = other(before, path[-1])
        if after != before:
            told.append((path, before, after))
    return msgspec.convert(plain, DecisionFile), told


def values(difference: Difference) -> str:
    """All that a difference says, but for what it repeats of either side whole."""
    plain = msgspec.to_builtins(difference, str_keys=True)
    for entry in plain["entries"]:
        del entry["old_scope"], entry["new_scope"], entry["label"]
        del entry["old_backend"], entry["new_backend"]
    del plain["summary"], plain["key"]
    return json.dumps(plain)


def test_nothing_differs_from_itself() -> None:
    difference = compare_sides(side(whole()), side(whole()))
    assert difference.empty and difference.entries == ()
    assert render(difference) == "No difference.\n"


def test_order_makes_no_difference() -> None:
    plain = copy.deepcopy(PLAIN)
    plain["entries"].reverse()
    for entry in plain["entries"]:
        entry["evidence"]["rows"].reverse()
    assert compare_sides(side(whole()), side(msgspec.convert(plain, DecisionFile))).empty


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=6, unique=True))
def test_every_changed_leaf_is_told(paths: list[Path]) -> None:
    file, told = changed(paths)
    difference = compare_sides(side(whole()), side(file))
    assert difference.empty == (not told)
    said = values(difference)
    for path, before, after in told:
        assert json.dumps(after) in said and json.dumps(before) in said, path
    text = render(difference)
    assert text.startswith("**") if told else text == "No difference.\n"
    assert compare_sides(side(file), side(whole())).empty == (not told)


def test_leaves_reach_everything() -> None:
    names = {path[-1] for path in LEAVES}
    assert {"backend", "ttft_p99_s", "points.csv", "SGLANG_Y", "also_arch_reason", "arch"} <= names
    assert len(LEAVES) > 200
