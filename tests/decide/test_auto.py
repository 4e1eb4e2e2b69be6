"""The candidate `auto`: what it became is what a decision names, and what nobody told it can't."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from autotune.decide.entry import build_entry, merge_entry
from autotune.decide.schema import Judgement
from autotune.decisions import check_decision
from autotune.decisions.schema import Entry, decode, encode
from autotune.errors import AutotuneError
from autotune.records.folder import LoadedRun
from autotune.records.schema import Candidate, LaunchRecord
from tests.decide.builders import (
    KEY,
    Rounds,
    around,
    judge,
    launch,
    make_run,
    standing,
    verdicts,
)

SLOW = around(100, 0.001, -0.002, 0.001)
FAST = around(120, -0.001, 0.001, 0.0)
CLOSE = around(119.5, 0.001, -0.001, 0.0)
ROUTED = "flashinfer_trtllm_routed"


def told(*backends: str | None, candidate: str = "auto") -> list[LaunchRecord]:
    """One launch a round, with what the server said it runs."""
    return [
        launch(candidate, number, resolved_backend=backend)
        for number, backend in enumerate(backends, start=1)
    ]


def run_of(
    rounds: Mapping[str, Rounds], launches: Sequence[LaunchRecord] = (), **fields: Any
) -> LoadedRun:
    """A run in which `auto` is asked for by that name, the others by theirs."""
    run = make_run(rounds, launches=launches, **fields)
    candidates = tuple(
        Candidate(name=name, engine="sglang", backend="auto" if name.startswith("auto") else name)
        for name in rounds
    )
    return msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, candidates=candidates))


def freeze(run: LoadedRun, judgement: Judgement, *, accepted: Sequence[str] = ()) -> Entry:
    entry = build_entry(
        run,
        judgement,
        verdicts(run),
        run_name="demo",
        tables={},
        measured_at="2026-01-02",
        accepted=accepted,
    )
    file = merge_entry(None, KEY, entry)
    check_decision(decode(encode(file), where="here"), KEY, where="here")
    return entry


def test_what_auto_became_is_chosen_and_named_everywhere() -> None:
    run = run_of({"slow": SLOW, "auto": FAST}, told(ROUTED, ROUTED, ROUTED))
    judgement = judge(run)
    assert (judgement.outcome, judgement.choice) == ("decisive", "auto")
    assert standing(judgement, "auto").backend == ROUTED
    assert {(winner.candidate, winner.backend) for winner in judgement.winners} == {
        ("auto", ROUTED)
    }
    entry = freeze(run, judgement)
    assert (entry.choice.backend, entry.choice.candidate) == (ROUTED, "auto")
    assert {winner.backend for winner in entry.choice.winners} == {ROUTED}
    assert {row.candidate: row.backend for row in entry.evidence.rows} == {
        "slow": "slow",
        "auto": ROUTED,
    }


@pytest.mark.parametrize(
    "launches",
    [
        told(ROUTED, "triton", ROUTED),
        told(None, None, None),
        told(ROUTED, None, ROUTED),
        told("auto", "auto", "auto"),
        [],
    ],
    ids=["differently", "never told", "not told once", "still auto", "no launches"],
)
def test_what_nobody_can_name_is_not_decided(launches: list[LaunchRecord]) -> None:
    run = run_of({"slow": SLOW, "auto": FAST}, launches)
    judgement = judge(run)
    assert (judgement.outcome, judgement.choice) == ("open", None)
    assert judgement.summary.startswith("open: ")
    (blocker,) = judgement.blockers
    assert "which backend it runs" in blocker and blocker in judgement.summary
    assert standing(judgement, "auto").backend == "auto"
    # Nothing that somebody accepts gives the backend a name.
    with pytest.raises(AutotuneError, match="no decision"):
        freeze(run, judgement, accepted=judgement.blockers)


def test_backends_that_differ_are_told() -> None:
    judgement = judge(run_of({"slow": SLOW, "auto": FAST}, told(ROUTED, "triton", ROUTED)))
    assert ROUTED in judgement.summary and "triton" in judgement.summary


def test_only_launches_that_went_well_count() -> None:
    launches = [*told(ROUTED, ROUTED, ROUTED), launch("slow", 1, resolved_backend="other")]
    assert judge(run_of({"slow": SLOW, "auto": FAST}, launches)).choice == "auto"


def test_another_candidate_wins_whatever_auto_became() -> None:
    """Nobody needs to know what lost by."""
    run = run_of({"fast": FAST, "auto": SLOW}, told(None, ROUTED, "triton"), incumbent="auto")
    judgement = judge(run)
    assert (judgement.outcome, judgement.choice) == ("decisive", "fast")
    entry = freeze(run, judgement)
    assert (entry.choice.baseline, entry.choice.baseline_role) == ("auto", "incumbent")
    assert {row.backend for row in entry.evidence.rows} == {"fast", "auto"}


def test_the_incumbent_auto_stays_within_delta_of_the_leader() -> None:
    run = run_of({"fast": FAST, "auto": CLOSE}, told(ROUTED, ROUTED, ROUTED), incumbent="auto")
    judgement = judge(run)
    assert (judgement.outcome, judgement.choice) == ("within_delta", "auto")
    assert "incumbent" in judgement.summary
    entry = freeze(run, judgement)
    assert (entry.choice.backend, entry.choice.outcome) == (ROUTED, "within_delta")


def test_the_incumbent_auto_is_not_kept_by_a_decision_that_cannot_name_it() -> None:
    run = run_of({"fast": FAST, "auto": CLOSE}, told(None, None, None), incumbent="auto")
    judgement = judge(run)
    assert (judgement.outcome, judgement.choice) == ("open", None)
    assert "auto stays" in judgement.summary


def test_a_named_incumbent_beats_an_auto_within_delta() -> None:
    run = run_of({"named": CLOSE, "auto": FAST}, told(None, None, None), incumbent="named")
    assert judge(run).choice == "named"


def test_an_auto_that_failed_is_rejected_by_that_name() -> None:
    launches = [launch("auto", 1, status="launch_failed", reason="NotImplementedError")]
    run = run_of({"slow": SLOW, "fast": FAST, "auto": []}, launches, incumbent="auto")
    judgement = judge(run)
    assert judgement.choice == "fast"
    (rejected,) = freeze(run, judgement).evidence.rejected
    assert (rejected.candidate, rejected.backend) == ("auto", "auto")
    assert "launch_failed in round 1: NotImplementedError" in rejected.reason


def test_auto_alone_against_its_twin_is_decided_for_what_both_ran() -> None:
    run = run_of(
        {ROUTED: FAST, "auto": around(120, 0.05, -0.04, 0.02)},
        told(ROUTED, ROUTED, ROUTED),
        incumbent="auto",
    )
    judgement = judge(run)
    entry = freeze(run, judgement, accepted=judgement.blockers)
    assert entry.choice.backend == ROUTED
    assert any("both ran" in note for note in judgement.notes)


def test_of_two_twins_neither_is_the_only_one() -> None:
    run = run_of({ROUTED: FAST, "auto": FAST}, told(ROUTED, ROUTED, ROUTED))
    assert "only admissible" not in judge(run).summary


@pytest.mark.parametrize("name", ["../../etc/passwd", "a b", "x" * 200, "\x1b[31mred"])
def test_a_backend_by_an_unusable_name_is_never_written(name: str) -> None:
    """A server's word is text from outside: such a name can't be a decision's."""
    run = run_of({"slow": SLOW, "auto": FAST}, told(name, name, name))
    with pytest.raises((AutotuneError, ValueError)):
        freeze(run, judge(run))
