"""Two candidates that ran the very same: neither can be better, so neither is the other's rival."""

import msgspec
import pytest

from autotune.decide.schema import Judgement
from autotune.records.folder import LoadedRun
from autotune.records.schema import Candidate
from tests.decide.builders import around, judge, launch, make_run

# Launches of one backend that differ by far more than delta, and a rival that both beat.
FIRST = around(120, 0.04, -0.03, 0.01)
SECOND = around(120, -0.03, 0.04, -0.02)
SLOW = around(80, 0.001, -0.002, 0.001)
ROUTED = "flashinfer_trtllm_routed"


def run_of(*, auto_is: str = ROUTED, arguments: tuple[str, ...] = ()) -> LoadedRun:
    """`auto`, the incumbent, beside what it became, and a slow one."""
    launches = [
        launch("auto", number, resolved_backend=auto_is, command=("x",)) for number in (1, 2, 3)
    ]
    run = make_run(
        {"auto": SECOND, ROUTED: FIRST, "slow": SLOW}, launches=launches, incumbent="auto"
    )
    candidates = tuple(
        Candidate(
            name=candidate.name,
            engine=candidate.engine,
            backend=candidate.name,
            arguments=arguments if candidate.name == ROUTED else (),
        )
        for candidate in run.run.candidates
    )
    return msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, candidates=candidates))


def test_a_twin_does_not_keep_the_outcome_open() -> None:
    judgement = judge(run_of())
    assert judgement.outcome == "decisive" and judgement.blockers == ()


def test_the_incumbent_stays_where_it_is_the_leader_by_another_name() -> None:
    judgement = judge(run_of())
    assert judgement.choice == "auto"
    assert chosen_backend(judgement) == ROUTED
    assert "decisive: auto is ahead of slow" in judgement.summary
    (note,) = [note for note in judgement.notes if "both ran" in note]
    assert note.startswith(f"{ROUTED} and auto both ran {ROUTED}: the ")
    assert not any("is ahead by" in note for note in judgement.notes)


@pytest.mark.parametrize("changes", [{"auto_is": "slow"}, {"arguments": ("--page-size", "64")}])
def test_whoever_ran_something_else_is_a_rival(changes: dict[str, str]) -> None:
    judgement = judge(run_of(**changes))
    assert judgement.outcome == "open"
    assert not any("both ran" in note for note in judgement.notes)


def test_a_published_table_says_too_little_for_twins() -> None:
    run = run_of()
    imported = msgspec.structs.replace(run.run, kind="import")
    assert judge(msgspec.structs.replace(run, run=imported)).outcome == "open"


def chosen_backend(judgement: Judgement) -> str:
    return next(s.backend for s in judgement.standings if s.candidate == judgement.choice)
