"""What changed between two decision files: pairing, figures, the sentence, the Markdown."""

from typing import Any

import msgspec
import pytest

from autotune.decisions import DecisionFile, Entry, RejectedCandidate
from autotune.decisions.schema import ConcurrencyWinner
from autotune.review.diff import compare_sides
from autotune.review.diff_markdown import render
from autotune.review.diff_schema import Difference, SideKind, SideName
from autotune.review.diff_sides import Side, SideEntry
from tests.decisions.builders import CUTLASS, ROUTED, decision, origin_entry


def side(file: DecisionFile | None, *, kind: SideKind = "decision") -> Side:
    if file is None:
        return Side(name=SideName(path="/dev/null", kind="nothing", entries_from=None))
    entries = tuple(
        SideEntry(scope=one.scope, choice=one.choice, evidence=one.evidence) for one in file.entries
    )
    return Side(
        name=SideName(path="a.json", kind=kind, entries_from="file"), key=file.key, entries=entries
    )


def diff(old: DecisionFile | None, new: DecisionFile | None) -> Difference:
    return compare_sides(side(old), side(new))


def faster(entry: Entry, factor: float) -> Entry:
    rows = tuple(
        msgspec.structs.replace(row, output_tokens_per_s=row.output_tokens_per_s * factor)
        for row in entry.evidence.rows
    )
    return msgspec.structs.replace(
        entry, evidence=msgspec.structs.replace(entry.evidence, rows=rows)
    )


def only(difference: Difference) -> Any:
    (entry,) = difference.entries
    return entry


def test_another_choice_for_one_of_two_scopes() -> None:
    other = origin_entry(scope={"tp": 8})
    new = faster(origin_entry(choice={"backend": CUTLASS, "outcome": "within_delta"}), 1.031)
    difference = diff(decision(origin_entry(), other), decision(new, other))
    assert difference.summary == (
        "MiniMaxM2ForCausalLM, modelopt_fp4, sm100: flashinfer_trtllm_routed -> "
        "flashinfer_cutlass for 1 of 2 scopes; outcome decisive -> within_delta for 1 of 2 scopes; "
        "throughput +3.1%."
    )
    entry = only(difference)
    assert "tp 4" in entry.label and entry.status == "changed" and entry.scope == ()
    assert {change.what for change in entry.choice} == {"backend", "outcome"}
    assert len(entry.figures) == 12
    figure = entry.figures[0]
    assert (figure.candidate, figure.concurrency, figure.unit) == (
        f"sglang-{CUTLASS}",
        1,
        "tokens/s",
    )
    assert figure.change == pytest.approx(0.031) and figure.spread == "not_recorded"


def test_a_patch_release_is_the_same_scope_and_a_minor_one_is_not() -> None:
    other = origin_entry(scope={"tp": 8})
    patch = origin_entry(
        scope={"engine_version": "0.5.10", "kernel_libraries": {"torch": "2"}, "also_arch": ()}
    )
    entry = only(diff(decision(origin_entry(), other), decision(patch, other)))
    assert entry.status == "changed"
    assert [change.what for change in entry.scope] == [
        "engine_version",
        "kernel_libraries.torch",
        "kernel_libraries.flashinfer-python",
        "also_arch",
    ]
    minor = origin_entry(scope={"engine_version": "0.6.0"})
    difference = diff(decision(origin_entry(), other), decision(minor, other))
    assert [entry.status for entry in difference.entries] == ["added", "removed"]
    assert "1 scope added" in difference.summary and "1 scope removed" in difference.summary


def test_single_entries_are_compared_whatever_their_scopes() -> None:
    entry = only(diff(decision(), decision(origin_entry(scope={"tp": 8, "device_count": 8}))))
    assert entry.status == "changed"
    assert {(one.what, one.old, one.new) for one in entry.scope} == {
        ("tp", 4, 8),
        ("device_count", 4, 8),
    }


def test_entries_that_are_there_twice_are_told_apart() -> None:
    # A hand-edited file may hold one scope twice, which no server would take for one.
    difference = diff(decision(origin_entry()), decision(origin_entry(), origin_entry()))
    assert [entry.status for entry in difference.entries] == ["added"]


def test_a_new_file_and_one_that_goes() -> None:
    new = diff(None, decision())
    assert new.summary == (
        "MiniMaxM2ForCausalLM, modelopt_fp4, sm100: new decision: flashinfer_trtllm_routed."
    )
    assert only(new).status == "added" and only(new).old_backend is None
    text = render(new)
    assert "| what | value |" in text and "198.7" in text and "corrupted text" in text
    gone = diff(decision(), None)
    assert "decision removed" in gone.summary and only(gone).status == "removed"
    assert diff(None, None).summary == "No difference."


def test_another_key() -> None:
    difference = diff(decision(), decision(arch="sm103"))
    assert [(one.what, one.old, one.new) for one in difference.key_changes] == [
        ("arch", "sm100", "sm103")
    ]
    assert not difference.empty and "arch sm100 -> sm103" in difference.summary
    assert "## Key" in render(difference)


def test_winners_rejected_and_accepted() -> None:
    winner = ConcurrencyWinner(
        concurrency=1, candidate="x", backend="x", ratio_to_choice=1.02, interval=None
    )
    rejected = RejectedCandidate(candidate="y", backend="y", reason="oom", verdict=None)
    new = origin_entry(
        choice={"winners": (winner,)}, evidence={"rejected": (rejected,), "accepted": ("why not",)}
    )
    entry = only(diff(decision(), decision(new)))
    assert (entry.winners[0].concurrency, entry.winners[0].old) == (1, None)
    assert [(one.candidate, one.old is None) for one in entry.rejected] == [
        ("y", True),
        ("sglang-flashinfer_trtllm", False),
    ]
    assert entry.accepted_added == ("why not",) and entry.accepted_removed == ()
    text = render(diff(decision(), decision(new)))
    assert "| 1 | none | x, 1.020 |" in text
    assert "| `y` | added | none | oom |" in text and "- why not" in text


def test_a_figure_that_only_one_side_has() -> None:
    entry = origin_entry()
    fewer = msgspec.structs.replace(
        entry, evidence=msgspec.structs.replace(entry.evidence, rows=entry.evidence.rows[1:])
    )
    figure = only(diff(decision(fewer), decision(entry))).figures[0]
    assert (figure.old, figure.new, figure.change, figure.old_rounds) == (None, 142.9, None, None)
    text = render(diff(decision(fewer), decision(entry)))
    assert "| n/a | 142.9 | n/a | on one side only | n/a | 3 |" in text


def test_times_are_in_one_unit_and_tiny_changes_are_told() -> None:
    old, new = (
        origin_entry(
            evidence={
                "rows": (
                    msgspec.structs.replace(
                        origin_entry().evidence.rows[0], ttft_mean_s=ttft, latency_p99_s=latency
                    ),
                )
            }
        )
        for ttft, latency in ((0.1, 1.0), (0.10000001, 1.5))
    )
    text = render(diff(decision(old), decision(new)))
    assert "| TTFT mean | 100.0 | 100.00001 | +1e-05% |" in text
    assert "old (ms)" in text and "| latency p99 | 1,000 | 1,500 | +50.0% |" in text
    assert "2 times changed" in text


def test_a_long_reason_is_shown_where_it_differs() -> None:
    old = origin_entry(choice={"reason": "same " * 100 + "OLD"})
    new = origin_entry(choice={"reason": "same " * 100 + "NEW"})
    text = render(diff(decision(old), decision(new)))
    assert "OLD" in text and "NEW" in text


def test_hostile_texts_are_disarmed() -> None:
    evil = "a | b\n# c <img src=x> @everyone \x1b[31m [x](http://y) ``` `tick`"
    new = origin_entry(
        choice={"reason": evil, "candidate": evil, "environment": {evil: evil}},
        evidence={"accepted": (evil,), "run": evil},
    )
    text = render(diff(decision(), decision(new)))
    assert "\x1b" not in text and "<img" not in text and "\n# c" not in text
    assert "@everyone" not in text.replace("`@`everyone", "")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    for line in tables:
        assert line.replace("\\|", "").count("|") in {3, 4, 5, 9, 10}, line


def test_the_difference_says_the_same_as_json() -> None:
    difference = diff(decision(), decision(origin_entry(choice={"backend": ROUTED + "2"})))
    again = msgspec.json.decode(msgspec.json.encode(difference))
    assert again["summary"] == difference.summary
    assert again["entries"][0]["choice"] == [
        {"what": "backend", "old": ROUTED, "new": ROUTED + "2"}
    ]


def test_decisions_about_other_things_are_no_measure_of_each_other() -> None:
    entry = origin_entry()
    other = msgspec.structs.replace(entry, scope=msgspec.structs.replace(entry.scope, tp=8))
    difference = diff(decision(entry), decision(faster(other, 3.0)))
    assert any("(tp)" in one for one in difference.caveats)
    assert diff(decision(entry), decision(faster(entry, 3.0))).caveats == ()
