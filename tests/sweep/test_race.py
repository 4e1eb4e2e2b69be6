"""Who is launched in the next round, who rests, and when the race is over."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.config.schema import BudgetConfig
from autotune.decide.rule import judge_run
from autotune.decisions.schema import Verdict
from autotune.records.folder import LoadedRun
from autotune.records.rule import Limit, Rule
from autotune.records.schema import Distribution, LaunchStatus, PointFigures, PointStatus
from autotune.sweep.race import Round, Stop, next_round, over_budget
from tests.decide.builders import launch, make_run, point, verdicts

FATAL_POINTS = {"crashed", "stalled", "request_errors"}
CONCURRENCIES = (1, 16)
Score = Callable[[str, int], float]


def empty(*names: str, rule: Rule | None = None, **fields: object) -> LoadedRun:
    return make_run({name: [] for name in names}, rule=rule or Rule(), **fields)


def with_launch(run: LoadedRun, name: str, number: int, score: float | None) -> LoadedRun:
    """The run with one more launch; without a score its points aren't steady."""
    valid = {"throughput": 100 * math.exp(score)} if score is not None else {"status": "not_steady"}
    points = [point(name, number, concurrency, **valid) for concurrency in CONCURRENCIES]
    return msgspec.structs.replace(
        run, launches=(*run.launches, launch(name, number)), points=(*run.points, *points)
    )


def with_rounds(run: LoadedRun, scores: Mapping[str, Sequence[float | None]]) -> LoadedRun:
    """The run with these scores in its rounds 1, 2, ...; shorter lists rest in the later ones."""
    for number in range(1, max(map(len, scores.values())) + 1):
        for name, values in scores.items():
            if number <= len(values):
                run = with_launch(run, name, number, values[number - 1])
    return run


def step(run: LoadedRun, **others: Verdict) -> Round | Stop:
    return next_round(run, verdicts(run, **others))


def going(run: LoadedRun, **others: Verdict) -> Round:
    found = step(run, **others)
    assert isinstance(found, Round), found
    return found


def stopped(run: LoadedRun, **others: Verdict) -> Stop:
    found = step(run, **others)
    assert isinstance(found, Stop), found
    return found


# -- rounds


def test_the_first_round_launches_everybody() -> None:
    assert going(empty("a", "b", "c")) == Round(number=1, names=("a", "b", "c"), resting={})


def test_the_references_own_launch_is_no_round() -> None:
    run = msgspec.structs.replace(empty("a", "b"), launches=(launch("a", 0),))
    assert going(run).number == 1


def test_a_round_that_was_begun_is_completed() -> None:
    run = with_launch(empty("a", "b", "c"), "b", 1, 0.0)
    assert going(run) == Round(number=1, names=("a", "b", "c"), resting={})
    run = with_launch(with_launch(run, "a", 1, 0.0), "c", 1, 0.0)
    assert going(run).number == 2


def test_the_race_begins_after_the_search() -> None:
    run = empty("a", "b", search_rounds=3)
    run = with_launch(with_launch(run, "a", 1, 0.0), "a", 3, 0.0)
    assert going(run).number == 4
    run = with_launch(with_launch(run, "a", 4, 0.0), "b", 4, 0.0)
    assert going(run).number == 5


# -- failures


@pytest.mark.parametrize("status", get_args(LaunchStatus))
def test_who_cannot_be_launched_is_dropped(status: LaunchStatus) -> None:
    run = with_rounds(empty("a", "b", "c"), {"a": [0.0], "b": [0.0]})
    failed = launch("c", 1, status=status, reason="because")
    found = going(msgspec.structs.replace(run, launches=(*run.launches, failed)))
    assert ("c" in found.names) == (status == "ok")
    assert found.resting == ({} if status == "ok" else {"c": f"{status} in round 1: because"})


@pytest.mark.parametrize("status", get_args(PointStatus))
def test_only_a_candidates_own_failure_at_a_point_drops_it(status: PointStatus) -> None:
    run = with_rounds(empty("a", "b", "c"), {"a": [0.0], "b": [0.0]})
    run = msgspec.structs.replace(
        run,
        launches=(*run.launches, launch("c", 1)),
        points=(*run.points, point("c", 1, 16, status=status, figures=None)),
    )
    assert ("c" not in going(run).names) == (status in FATAL_POINTS)


@pytest.mark.parametrize("kind", get_args(Verdict))
def test_wrong_answers_drop_a_candidate(kind: Verdict) -> None:
    run = with_rounds(empty("a", "b", "c"), {"a": [0.0], "b": [0.0], "c": [0.5]})
    found = going(run, c=kind)
    assert ("c" not in found.names) == (kind == "fail")


def test_nobody_left_ends_the_race() -> None:
    run = msgspec.structs.replace(
        empty("a", "b"), launches=tuple(launch(name, 1, status="oom") for name in "ab")
    )
    assert stopped(run) == Stop(reason="no candidate is left")


def test_whoever_a_failed_candidate_had_beaten_comes_back() -> None:
    """b is out because of a's figures; then a turns out to be wrong."""
    run = with_rounds(empty("a", "b", "c"), {"a": [0.4, 0.4], "b": [0, 0], "c": [0.02, 0.0]})
    assert going(run).resting.keys() == {"b"}
    assert going(run, a="fail").names == ("b", "c")


# -- speed


def test_nobody_is_dropped_after_one_round_however_slow() -> None:
    run = with_rounds(empty("a", "b", "c"), {"a": [1.0], "b": [0.0], "c": [0.9]})
    assert going(run).names == ("a", "b", "c")


def test_who_is_far_behind_twice_rests() -> None:
    run = with_rounds(empty("a", "b", "c"), {"a": [1.0, 1.0], "b": [0.0, 0.0], "c": [0.9, 0.9]})
    found = going(run)
    assert found.names == ("a", "c")
    assert found.resting == {"b": "more than 15% behind a in each of 2 rounds"}


def test_who_is_far_behind_once_stays() -> None:
    """One launch of b went wrong, or one of a was lucky."""
    run = with_rounds(empty("a", "b", "c"), {"a": [1.0, 1.0], "b": [0.0, 0.9], "c": [0.9, 0.9]})
    assert going(run).names == ("a", "b", "c")


def test_a_round_that_is_not_valid_drops_nobody() -> None:
    run = with_rounds(empty("a", "b", "c"), {"a": [1.0, 1.0], "b": [0.0, None], "c": [0.9, 0.9]})
    assert "b" in going(run).names


def test_the_rule_says_how_far_and_how_often() -> None:
    scores = {"a": [0.3, 0.3], "b": [0.0, 0.0], "c": [0.3, 0.3]}
    assert "b" not in going(with_rounds(empty("a", "b", "c"), scores)).names
    wide = Rule(drop_behind=0.3)
    assert "b" in going(with_rounds(empty("a", "b", "c", rule=wide), scores)).names
    hasty = Rule(drop_after=1)
    first = {name: values[:1] for name, values in scores.items()}
    assert "b" not in going(with_rounds(empty("a", "b", "c", rule=hasty), first)).names


def test_the_incumbent_stays_however_slow() -> None:
    scores = {"a": [1.0, 1.0], "b": [0.0, 0.0], "c": [0.9, 0.9]}
    assert "b" in going(with_rounds(empty("a", "b", "c", incumbent="b"), scores)).names


def test_a_leader_keeps_its_nearest_rival() -> None:
    """A round of one would say nothing of differences."""
    scores = {"a": [1.0, 1.0], "b": [0.0, 0.0], "c": [0.5, 0.5]}
    found = going(with_rounds(empty("a", "b", "c"), scores))
    assert found.names == ("a", "c") and found.resting.keys() == {"b"}


def test_who_was_far_behind_comes_back_where_rounds_differ_that_much() -> None:
    scores = {"a": [1.0, 1.0, 0.2], "b": [0.7, 0.7], "c": [0.9, 0.9, 1.1]}
    assert "b" in going(with_rounds(empty("a", "b", "c"), scores)).names


def test_who_is_beaten_rests() -> None:
    scores = {"a": [0.1, 0.101, 0.1], "b": [0, 0, 0.001], "c": [0.09, 0.13, 0.08]}
    found = going(with_rounds(empty("a", "b", "c"), {**scores, "b": [-0.5, -0.5, -0.499]}))
    assert found.names == ("a", "c")
    assert "beyond doubt" in found.resting["b"]


# -- the end


def test_a_clear_winner_ends_the_race_at_the_least_number_of_rounds() -> None:
    scores = {"a": [0.2, 0.201, 0.2], "b": [0, 0, 0.001], "c": [0.1, 0.1, 0.101]}
    assert stopped(with_rounds(empty("a", "b", "c"), scores)) == Stop(
        reason="decisive after 3 rounds", settled=True
    )


def test_equals_end_the_race_where_none_can_be_much_better() -> None:
    scores = {"a": [0.001, 0, 0], "b": [0, 0.001, 0], "c": [0, 0, 0.001]}
    found = stopped(with_rounds(empty("a", "b", "c"), scores))
    assert found == Stop(reason="within_delta after 3 rounds", settled=True)


def test_noise_asks_for_more_rounds_up_to_the_last() -> None:
    noisy = {"a": [0.05, -0.06, 0.04, -0.03], "b": [-0.05, 0.04, 0.06, -0.02]}
    rule = Rule(max_rounds=4)
    assert going(with_rounds(empty("a", "b", rule=rule), {n: v[:3] for n, v in noisy.items()}))
    found = stopped(with_rounds(empty("a", "b", rule=rule), noisy))
    assert found == Stop(reason="all 4 rounds are measured")


def test_a_round_that_was_not_valid_is_made_up_for() -> None:
    scores = {"a": [0.2, None, 0.2], "b": [0.0, 0.0, 0.001]}
    run = with_rounds(empty("a", "b"), scores)
    assert going(run).number == 4
    run = with_launch(with_launch(run, "a", 4, 0.201), "b", 4, 0.0)
    assert stopped(run).settled


def test_one_candidate_alone_gets_the_least_number_of_rounds() -> None:
    assert going(with_rounds(empty("a"), {"a": [0.0, 0.0]})).names == ("a",)
    found = stopped(with_rounds(empty("a"), {"a": [0.0, 0.0, 0.0]}))
    assert found == Stop(reason="3 rounds are measured, and there is nothing to compare")


def test_the_last_one_standing_is_launched_often_enough() -> None:
    run = empty("a", "b")
    run = msgspec.structs.replace(run, launches=(launch("b", 1, status="oom"),))
    run = with_rounds(run, {"a": [0.0, 0.0]})
    assert going(run).names == ("a",)
    assert stopped(with_launch(run, "a", 3, 0.0)).reason == "decisive after 3 rounds"


def test_who_could_not_be_judged_is_measured_but_drops_nobody() -> None:
    """c leads, but nobody knows yet whether it is right."""
    scores = {"a": [0.1, 0.08, 0.12], "b": [0.11, 0.1, 0.07], "c": [0.5, 0.5, 0.501]}
    run = with_rounds(empty("a", "b", "c"), scores)
    assert going(run, c="inconclusive").names == ("a", "b", "c")
    slow = {**scores, "c": [-0.5, -0.5, -0.501]}
    found = going(with_rounds(empty("a", "b", "c"), slow), c="inconclusive")
    assert found.names == ("a", "b")


# -- budgets


def timed(minutes: Sequence[int]) -> LoadedRun:
    launches = [
        launch(
            "a",
            number,
            started_at="2026-01-02T03:00:00+00:00",
            ended_at=f"2026-01-02T03:{minute:02d}:00+00:00",
        )
        for number, minute in enumerate(minutes)
    ]
    return msgspec.structs.replace(empty("a"), launches=tuple(launches))


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (BudgetConfig(), None),
        (BudgetConfig(max_launches=4), None),
        (BudgetConfig(max_launches=3), "budget.max_launches: 3 launches are made"),
        (BudgetConfig(max_hours=1.0), None),
        (
            BudgetConfig(max_hours=0.6),
            "budget.max_hours: 0.50 of 0.6 hours are spent, and a launch takes 0.17",
        ),
    ],
)
def test_a_launch_that_the_budget_cannot_carry_is_not_made(
    budget: BudgetConfig, told: str | None
) -> None:
    assert over_budget(timed([10, 5, 15]), budget) == told


def test_the_first_launch_is_always_within_the_hours() -> None:
    assert over_budget(empty("a"), BudgetConfig(max_hours=0.001)) is None


def test_times_that_nobody_recorded_are_no_spending() -> None:
    run = with_rounds(empty("a"), {"a": [0.0] * 5})
    assert over_budget(run, BudgetConfig(max_hours=0.001)) is None


# -- whatever happens


def race(run: LoadedRun, score: Score, draw: random.Random) -> list[LoadedRun]:
    """Every state that a race goes through, one launch after the other, to its end."""
    states = [run]
    while isinstance(found := step(run), Round):
        missing = [
            name
            for name in found.names
            if (name, found.number) not in {(one.candidate, one.round) for one in run.launches}
        ]
        name = draw.choice(missing)
        run = with_launch(run, name, found.number, score(name, found.number))
        states.append(run)
    return states


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 5), st.sampled_from([0.001, 0.02, 0.2]), st.sampled_from([0, 0.05, 0.5]),
    st.integers(0, 2**32),
)  # fmt: skip
def test_every_race_ends_as_it_is_judged(
    candidates: int, spread: float, gap: float, seed: int
) -> None:
    draw = random.Random(seed)
    names = [f"c{number}" for number in range(candidates)]
    rule = Rule(max_rounds=draw.randint(3, 6))
    start = empty(*names, rule=rule, incumbent=draw.choice(names))
    states = race(start, lambda name, _: draw.gauss(gap * (name == "c0"), spread), draw)
    end = states[-1]
    assert len(end.launches) <= candidates * rule.max_rounds
    assert len({(one.candidate, one.round) for one in end.launches}) == len(end.launches)
    judgement = judge_run(end, verdicts(end))
    assert stopped(end).settled == (judgement.outcome != "open")
    shuffled = msgspec.structs.replace(
        end,
        points=tuple(draw.sample(end.points, len(end.points))),
        launches=tuple(draw.sample(end.launches, len(end.launches))),
    )
    assert step(shuffled) == step(end)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_a_round_stays_the_same_while_it_is_made(seed: int) -> None:
    """An interrupted sweep goes on with the launches that the round began with."""
    draw = random.Random(seed)
    names = [f"c{number}" for number in range(4)]
    states = race(empty(*names), lambda name, _: draw.gauss(0.1 * names.index(name), 0.05), draw)
    rounds: dict[int, set[tuple[str, ...]]] = {}
    for state in states[:-1]:
        found = going(state)
        rounds.setdefault(found.number, set()).add(found.names)
    assert all(len(kinds) == 1 for kinds in rounds.values())
    assert sorted(rounds) == list(range(1, len(rounds) + 1))


def test_one_shared_round_beats_nobody() -> None:
    """c was measured once, and far behind: the others' rounds say nothing of that launch."""
    scores = {"a": [0.2, 0.201, 0.2], "b": [0, 0, 0.001], "c": [-0.5, None, None]}
    run = with_rounds(empty("a", "b", "c"), scores)
    assert "c" in going(run).names
    assert judge_run(run, verdicts(run)).outcome == "open"


def test_a_limit_broken_once_does_not_end_the_race() -> None:
    """b is over in its only valid round: the next ones may show that it was chance."""
    limit = Limit(figure="ttft_mean_s", at_most=0.05)
    run = empty("a", "b", rule=Rule(limits=(limit,)))
    for number in (1, 2, 3):
        for name, ttft_s in (("a", 0.01), ("b", 0.06)):
            figures = PointFigures(output_tokens_per_s=100, ttft_s=Distribution(mean=ttft_s))
            status = "ok" if name == "a" or number == 1 else "not_steady"
            points = [point(name, number, c, status=status, figures=figures) for c in CONCURRENCIES]
            run = msgspec.structs.replace(
                run,
                launches=(*run.launches, launch(name, number)),
                points=(*run.points, *points),
            )
    assert going(run).names == ("a", "b")


def test_what_was_never_started_costs_no_budget() -> None:
    run = timed([10, 5, 15])
    run = msgspec.structs.replace(
        run, launches=(*run.launches, launch("b", 1, status="unsupported"))
    )
    assert over_budget(run, BudgetConfig(max_launches=4)) is None
