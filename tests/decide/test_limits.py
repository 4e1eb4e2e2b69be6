"""What a candidate must keep to, whatever its throughput: judged by the mean, dropped with care."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.decide.limits import check_limits, limited_figure, over_limit
from autotune.decide.rule import judge_run
from autotune.records.folder import LoadedRun
from autotune.records.rule import Limit, LimitedFigure, Rule
from autotune.records.schema import Distribution, PointFigures, PointRecord
from autotune.sweep.race import Round, Stop, next_round
from tests.decide.builders import judge, launch, make_run, point, standing, verdicts

LATENCY = Limit(figure="latency_p99_s", at_most=2.0, concurrency=(16,))
ERRORS = Limit(figure="error_rate", at_most=0.01)


def timed(
    name: str, number: int, concurrency: int, *, throughput: float, p99: float | None
) -> PointRecord:
    figures = PointFigures(output_tokens_per_s=throughput, latency_s=Distribution(p99=p99))
    return point(name, number, concurrency, figures=figures)


def swept(
    latencies: dict[str, Sequence[float | None]],
    *,
    throughputs: dict[str, float] | None = None,
    rule: Rule | None = None,
    **fields: Any,
) -> LoadedRun:
    """A run of a round for each latency (p99 at concurrency 16; at 1 it is 1 s)."""
    speeds = throughputs or {}
    points, launches = [], [launch(next(iter(latencies)), 0)]
    for name, values in latencies.items():
        for number, p99 in enumerate(values, start=1):
            # A little noise, so that there is something to estimate by.
            speed = speeds.get(name, 100.0) * math.exp(0.001 * ((number + len(name)) % 3))
            points += [
                timed(name, number, 1, throughput=speed, p99=1.0),
                timed(name, number, 16, throughput=speed, p99=p99),
            ]
            launches.append(launch(name, number))
    return make_run(
        {name: [] for name in latencies},
        rule=rule or Rule(limits=(LATENCY,)),
        points=points,
        launches=launches,
        **fields,
    )


def step(run: LoadedRun) -> Round | Stop:
    return next_round(run, verdicts(run))


# -- the final judgement


def test_the_fastest_is_refused_where_it_is_over_a_limit() -> None:
    run = swept(
        {"fast": [2.3, 2.4, 2.23], "slow": [1.0, 1.1, 1.2]},
        throughputs={"fast": 200.0, "slow": 100.0},
    )
    judgement = judge(run)
    assert judgement.choice == "slow" and judgement.outcome == "decisive"
    refused = standing(judgement, "fast")
    assert not refused.admissible
    assert refused.reason == (
        "latency_p99_s at concurrency 16 is 2.31 s, above the limit of 2 s (mean of 3 rounds)"
    )


def test_the_mean_counts_not_the_worst_round() -> None:
    run = swept({"a": [1.0, 3.0, 1.5], "b": [1.0, 1.0, 1.0]})
    assert standing(judge(run), "a").admissible
    (check,) = check_limits([one for one in run.points if one.candidate == "a"], run.run)
    assert (check.observed, check.rounds, check.kept) == (pytest.approx(5.5 / 3), 3, True)


def test_a_limit_holds_everywhere_unless_it_says_where() -> None:
    run = swept({"a": [1.0] * 3}, rule=Rule(limits=(Limit(figure="latency_p99_s", at_most=0.9),)))
    checks = check_limits(run.points, run.run)
    assert [(one.concurrency, one.kept) for one in checks] == [(1, False), (16, False)]


def test_what_is_just_over_is_told_with_enough_digits() -> None:
    run = swept({"a": [2.00004] * 3})
    told = over_limit(check_limits(run.points, run.run))
    assert told is not None and "is 2.00004 s, above the limit of 2 s" in told


def test_an_unknown_figure_is_never_taken_for_kept() -> None:
    run = swept(
        {"fast": [None, None, None], "slow": [1.0, 1.0, 1.0]},
        throughputs={"fast": 200.0, "slow": 100.0},
    )
    judgement = judge(run)
    assert judgement.outcome == "open" and judgement.choice == "slow"
    assert not standing(judgement, "fast").admissible
    (blocker,) = judgement.blockers
    assert "fast wasn't beaten, only not measured: latency_p99_s at concurrency 16" in blocker
    assert "can't be checked" in blocker


def test_where_nothing_can_be_checked_nobody_is_chosen() -> None:
    judgement = judge(swept({"a": [None] * 3, "b": [None] * 3}))
    assert judgement.choice is None
    assert "no candidate can be held against every limit: a: latency_p99_s" in judgement.summary


def test_nobody_keeps_to_the_limits_and_each_is_told_why() -> None:
    run = swept({"a": [2.5] * 3, "b": [3.0] * 3, "dead": []})
    dead = launch("dead", 1, status="oom", reason="CUDA out of memory")
    run = make_run(
        {"a": [], "b": [], "dead": []},
        rule=run.run.rule,
        points=run.points,
        launches=(*run.launches, dead),
    )
    judgement = judge(run)
    assert judgement.outcome == "open" and judgement.choice is None
    assert "no candidate that is right keeps to the limits: a: latency_p99_s" in judgement.summary
    assert "is 3 s, above" in judgement.summary and "dead" not in judgement.summary
    assert "is 2.5 s, above the limit of 2 s" in (standing(judgement, "a").reason or "")
    assert standing(judgement, "dead").reason == "oom in round 1: CUDA out of memory"


def test_a_failure_is_told_before_a_limit() -> None:
    run = swept({"a": [2.5] * 3, "b": [1.0] * 3})
    judgement = judge_run(run, verdicts(run, a="fail"))
    assert (standing(judgement, "a").reason or "").startswith("wrong answers")


def test_failed_requests_are_counted_over_all_rounds() -> None:
    counts = [(100, 100), (100, 98), (200, 199)]
    points = [
        point("a", number, 1, throughput=1.0, requests_sent=sent, requests_ok=ok)
        for number, (sent, ok) in enumerate(counts, start=1)
    ]
    # Nothing was counted there: that says nothing.
    points.append(point("a", 4, 1, throughput=1.0))
    run = make_run({"a": []}, concurrencies=(1,), rule=Rule(limits=(ERRORS,)), points=points)
    (check,) = check_limits(run.points, run.run)
    assert (check.observed, check.rounds, check.kept) == (3 / 400, 3, True)


def test_a_share_that_is_met_exactly_is_kept() -> None:
    one = point("a", 1, 1, throughput=1.0, requests_sent=100, requests_ok=99)
    run = make_run({"a": []}, concurrencies=(1,), rule=Rule(limits=(ERRORS,)), points=[one])
    assert check_limits(run.points, run.run)[0].kept is True


def test_points_that_are_not_valid_and_search_rounds_say_nothing() -> None:
    points = [
        timed("a", 1, 16, throughput=1.0, p99=9.0),
        timed("a", 2, 16, throughput=1.0, p99=1.0),
        point(
            "a",
            3,
            16,
            status="not_steady",
            figures=PointFigures(latency_s=Distribution(p99=9.0)),
        ),
    ]
    run = make_run({"a": []}, rule=Rule(limits=(LATENCY,)), points=points, search_rounds=1)
    (check,) = check_limits(run.points, run.run)
    assert (check.observed, check.rounds) == (1.0, 1)


@pytest.mark.parametrize("figure", get_args(LimitedFigure))
def test_every_figure_can_be_looked_up(figure: LimitedFigure) -> None:
    times = Distribution(mean=1.0, p50=1.0, p90=1.0, p95=1.0, p99=1.0)
    one = point(
        "a",
        1,
        1,
        figures=PointFigures(ttft_s=times, latency_s=times, tpot_s=times),
        requests_sent=4,
        requests_ok=0,
    )
    assert limited_figure(Limit(figure=figure, at_most=1.0), one) == 1.0


# -- the race


def test_one_round_over_a_limit_drops_nobody() -> None:
    run = swept({"a": [9.0], "b": [1.0]})
    assert step(run) == Round(number=2, names=("a", "b"), resting={})
    # One round over, one within: whatever the mean, that may be chance.
    run = swept({"a": [9.0, 1.0], "b": [1.0, 1.0]})
    assert step(run) == Round(number=3, names=("a", "b"), resting={})


def test_every_one_of_the_first_rounds_over_it_does() -> None:
    found = step(swept({"a": [2.1, 2.2], "b": [1.0, 1.0], "c": [1.0, 1.0]}))
    assert isinstance(found, Round) and found.names == ("b", "c")
    assert found.resting == {
        "a": "latency_p99_s at concurrency 16 is 2.15 s, above the limit of 2 s (mean of 2 rounds)"
    }


def test_from_the_needed_rounds_on_the_mean_does() -> None:
    # b and c differ by too much noise to be settled.
    run = swept({"a": [9.0, 1.0, 1.0], "b": [1.0] * 3, "c": [1.0] * 3})
    noisy = [
        point("b", 3, concurrency, figures=PointFigures(
            output_tokens_per_s=140.0, latency_s=Distribution(p99=1.0)
        ))
        for concurrency in (1, 16)
    ]  # fmt: skip
    kept = [one for one in run.points if (one.candidate, one.round) != ("b", 3)]
    run = make_run(
        {"a": [], "b": [], "c": []},
        rule=run.run.rule,
        points=(*kept, *noisy),
        launches=run.launches,
    )
    found = step(run)
    assert isinstance(found, Round) and found.names == ("b", "c")
    assert "is 3.67 s, above" in found.resting["a"]


def test_nobody_left_ends_the_race() -> None:
    found = step(swept({"a": [9.0, 9.0], "b": [9.0, 9.0]}))
    assert found == Stop(reason="no candidate is left")


@given(
    st.lists(st.floats(0.1, 10.0), min_size=1, max_size=6),
    st.floats(0.1, 10.0),
    st.integers(1, 4),
)
def test_whoever_is_dropped_could_not_win(
    values: list[float], at_most: float, drop_after: int
) -> None:
    limit = Limit(figure="latency_p99_s", at_most=at_most, concurrency=(16,))
    rule = Rule(limits=(limit,), drop_after=drop_after)
    run = swept({"a": values}, rule=rule)
    (check,) = check_limits(run.points, run.run)
    if check.is_lasting(rule):
        assert check.kept is False
        assert check.rounds >= min(drop_after, rule.needed_rounds)
    if check.kept is False and check.rounds >= rule.needed_rounds:
        assert check.is_lasting(rule)
