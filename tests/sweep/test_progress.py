"""What a sweep tells of itself: how far a point is, what is left, who leads."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from autotune.config import SweepConfig, parse_config
from autotune.load.client import Endpoint
from autotune.load.client import Progress as LoopProgress
from autotune.probe import ask
from autotune.probe.task import shipped_questions
from autotune.records.folder import LoadedRun
from autotune.records.rule import Rule
from autotune.records.schema import LaunchRecord
from autotune.sweep import correctness, progress
from autotune.sweep.earlier import Timing
from autotune.sweep.pace import left_to_do, progress_of, standings_of
from autotune.sweep.progress import (
    ConclusionBegan,
    Event,
    Gauge,
    LaunchBegan,
    LeftToDo,
    PhaseBegan,
    PointProgress,
    QuestionsProgress,
    Standings,
    SweepEnded,
    telling,
    telling_questions,
)
from tests.decide.builders import make_run, verdicts
from tests.decide.test_search import passing, searched
from tests.probe.test_ask import answer
from tests.sweep.test_estimate import NAMES, timed

ELSEWHERE = Timing(launches=3, mean_s=50.0, longest_s=80.0)


def config(budget: str = "") -> SweepConfig:
    return parse_config(
        f"""
name = "demo"
candidates = ["eager", "batched_mm", "grouped_mm"]
reference = "eager"
incumbent = "grouped_mm"
[model]
witness = "minimax-m2"
[engine]
name = "transformers"
[load]
concurrency = [1, 16]
[decision]
max_rounds = 5
[budget]
{budget}
""",
        where="demo.toml",
    )


def run_of(
    *launches: LaunchRecord, throughputs: dict[str, Any] | None = None, **fields: Any
) -> LoadedRun:
    given = {name: [] for name in NAMES} | (throughputs or {})
    return make_run(
        given,
        launches=launches,
        rule=Rule(max_rounds=5),
        reference="eager",
        incumbent="grouped_mm",
        **fields,
    )


def served(name: str, number: int, seconds: float = 60.0, **fields: Any) -> LaunchRecord:
    return timed(name, number, seconds, command=("serve",), **fields)


def left(run: LoadedRun | None, budget: str = "", elsewhere: Timing | None = None) -> LeftToDo:
    where = None if run is None else progress_of(run, verdicts(run))
    return left_to_do(config(budget), launchable=NAMES, progress=where, elsewhere=elsewhere)


# -- how far a point is


def gauge_at(finished: int, failed: int = 0) -> Gauge:
    gauge = Gauge()
    gauge.begin()
    gauge.set(LoopProgress(finished=finished, failed=failed, total=30))
    return gauge


def test_nothing_is_said_before_a_request_has_ended() -> None:
    gauge = Gauge()
    assert gauge.read(measured=20, output_tokens=8) is None
    gauge.begin()
    assert gauge.read(measured=20, output_tokens=8) is None


def test_tokens_are_those_of_requests_that_ended_well(monkeypatch: pytest.MonkeyPatch) -> None:
    gauge = gauge_at(10, failed=2)
    gauge.began_at_s = 100.0
    monkeypatch.setattr(progress.time, "perf_counter", lambda: 104.0)
    point = gauge.read(measured=20, output_tokens=8)
    assert point == PointProgress(
        finished=10, failed=2, total=30, measured=20, tokens_per_s=(10 - 2) * 8 / 4
    )


@pytest.mark.parametrize(("finished", "failed"), [(21, 0), (3, 3)], ids=["probes", "all failed"])
def test_no_rate_where_none_can_be_told(finished: int, failed: int) -> None:
    point = gauge_at(finished, failed).read(measured=20, output_tokens=8)
    assert point is not None and point.tokens_per_s is None


def test_a_point_is_told_while_it_runs_and_only_what_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "POLL_S", 0.001)
    told: list[Event] = []

    async def measure() -> None:
        gauge = Gauge()
        async with telling(gauge, told.append, measured=20, output_tokens=8):
            gauge.begin()
            for finished in (1, 2):
                gauge.set(LoopProgress(finished=finished, failed=0, total=30))
                while len(told) < finished:
                    await asyncio.sleep(0.001)
            await asyncio.sleep(0.02)
        gauge.set(LoopProgress(finished=3, failed=0, total=30))
        await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(measure(), 30))
    assert [point.finished for point in told if isinstance(point, PointProgress)] == [1, 2]


def test_questions_are_told_now_and_then_and_not_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "POLL_S", 0.001)
    told: list[Event] = []

    async def ask() -> None:
        gauge = Gauge()
        async with telling_questions(gauge, told.append):
            await asyncio.sleep(0.02)
            for finished in range(1, 401):
                gauge.set(LoopProgress(finished=finished, failed=finished // 100, total=400))
            while not told:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(ask(), 30))
    assert told == [QuestionsProgress(answered=400, failed=4, total=400)]


def test_an_event_comes_through_a_pipe_as_it_was() -> None:
    events: list[Event] = [
        LaunchBegan(number=1, candidate="a", round=1, concurrencies=(1,), left=left(None)),
        QuestionsProgress(answered=3, failed=1, total=400),
        SweepEnded(reason="over\x1b[31m", stopped=True),
        ConclusionBegan(),
        standings_of(progress_of(run_of(), verdicts(run_of()))),
    ]
    for event in events:
        assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


# -- what is left


def test_a_new_sweep_goes_by_another_run() -> None:
    assert left(None) == LeftToDo(made=0, fewest=1 + 9, most=1 + 15)
    known = left(None, elsewhere=ELSEWHERE)
    assert (known.expected_s, known.worst_s) == (10 * 50.0, 16 * 80.0)


def test_its_own_launches_under_load_count_more_than_another_runs() -> None:
    first = served("eager", 0, 20.0)
    assert left(run_of(first), elsewhere=ELSEWHERE).usual_s == 50.0
    assert left(run_of(first)).usual_s == 20.0
    begun = run_of(first, served("eager", 1, 60.0), served("grouped_mm", 1, 100.0))
    now = left(begun, elsewhere=ELSEWHERE)
    assert (now.made, now.fewest, now.most) == (3, 1 + 6, 1 + 12)
    assert (now.expected_s, now.worst_s) == (7 * 80.0, 13 * 100.0)


def test_what_was_never_started_isnt_counted_as_made() -> None:
    unsupported = timed("batched_mm", 1, 0.0, status="unsupported")
    assert left(run_of(served("eager", 0), unsupported)).made == 1


@pytest.mark.parametrize(
    ("budget", "fewest", "most", "worst_s"),
    [
        ("max_launches = 12", 8, 10, 600.0),
        ("max_launches = 6", 4, 4, 240.0),
        ("max_hours = 0.1", 8, 14, 240.0),
    ],
)
def test_no_more_is_left_than_the_budget_allows(
    budget: str, fewest: int, most: int, worst_s: float
) -> None:
    begun = run_of(served("eager", 0), served("eager", 1))
    expected = left(begun, budget)
    assert (expected.fewest, expected.most) == (fewest, most)
    assert expected.worst_s == pytest.approx(worst_s)
    assert expected.expected_s is not None and expected.expected_s <= worst_s


# -- who leads


def standings(run: LoadedRun) -> Standings:
    return standings_of(progress_of(run, verdicts(run)))


def test_nobody_leads_until_two_can_be_compared() -> None:
    launches = [served("eager", 0), served("eager", 1)]
    alone = run_of(*launches, throughputs={"eager": [[10, 100]]})
    assert standings(alone).leader is None
    rivals = run_of(
        *launches,
        served("grouped_mm", 1),
        throughputs={"eager": [[10, 100]], "grouped_mm": [[20, 200]]},
    )
    found = standings(rivals)
    assert (found.leader, found.baseline) == ("grouped_mm", "grouped_mm")
    eager = found.rows[0]
    assert eager.ratio is not None and eager.ratio.ratio == pytest.approx(0.5)
    assert eager.throughputs == {1: 10.0, 16: 100.0} and eager.rounds == 1


def test_who_is_out_is_told_with_the_reason() -> None:
    rounds = {"eager": [[10, 100]] * 2, "grouped_mm": [[20, 200]] * 2, "batched_mm": []}
    failed = served("batched_mm", 1, status="oom", reason="out of\x1b[2J memory")
    launches = [served("eager", 0), failed]
    launches += [served(name, number) for number in (1, 2) for name in ("eager", "grouped_mm")]
    rows = {row.candidate: row for row in standings(run_of(*launches, throughputs=rounds)).rows}
    assert rows["batched_mm"].failed and "oom in round 1" in (rows["batched_mm"].out or "")
    assert not rows["eager"].failed
    assert rows["eager"].out is None  # The nearest rival stays, however far behind.
    assert rows["grouped_mm"].out is None


def test_a_search_tells_of_its_settings() -> None:
    loaded = searched(110, None, 130)  # The second round lacks a setting, so it isn't over.
    found = standings_of(progress_of(loaded, passing(loaded)))
    assert (found.stage, found.leader, found.baseline) == ("search", "tuned-t0002", "base")
    ratios = {row.candidate: row.ratio and row.ratio.ratio for row in found.rows}
    assert ratios == {
        "tuned-t0000": pytest.approx(1.1),
        "tuned-t0001": None,
        "tuned-t0002": pytest.approx(1.3),
    }
    failed = found.rows[1]
    assert failed.failed and failed.out == "oom: no memory"


def test_a_launchs_questions_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "POLL_S", 0.001)
    monkeypatch.setattr(correctness, "probe_prompts_of", lambda context: ())
    told: list[Event] = []

    async def answers(endpoint: Any, prompts: Any, **options: Any) -> list[Any]:
        options["on_progress"](LoopProgress(finished=2, failed=1, total=len(prompts)))
        while not any(isinstance(event, QuestionsProgress) for event in told):
            await asyncio.sleep(0.001)
        return [answer(index) for index in range(len(prompts))]

    monkeypatch.setattr(ask, "ask", answers)
    context: Any = SimpleNamespace(config=config("[probe.task]"))
    endpoint = Endpoint(base_url="http://127.0.0.1:1", model="m")
    planned: Any = None
    asking = correctness.Correctness(context, planned, endpoint, tell=told.append)
    questions = shipped_questions()[:7]
    found = asyncio.run(asyncio.wait_for(asking._task(questions, concurrency=4), 30))
    assert len(found) == 7
    assert told == [
        PhaseBegan(phase="asking", requests=7),
        QuestionsProgress(answered=2, failed=1, total=7),
        PhaseBegan(phase="probing"),
    ]
