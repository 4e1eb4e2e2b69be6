"""A search's results, its finalists, and what the race sees of it."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.decide.limits import over_limits
from autotune.decide.rule import judge_run
from autotune.decide.search import (
    anchor_of,
    finalists,
    missing_trials,
    next_search_round,
    race_view,
    trial_results,
)
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.rule import Limit, Rule
from autotune.records.schema import (
    Distribution,
    LaunchRecord,
    PointFigures,
    PointRecord,
    ProbeRecord,
    TrialRecord,
    Tunable,
)
from autotune.tunables import apply, trial_name
from tests.decide.builders import launch, make_run, point

SPACE = {"size": Tunable(argument="--size", low=1, high=5)}
ROUNDS = 2


def searched(
    *speeds: float | None,
    per_round: int = 2,
    race: dict[str, float] | None = None,
    rule: Rule | None = None,
) -> LoadedRun:
    """A run whose trials have these speeds, the anchor's being 100; ``None`` failed to start."""
    run = make_run({"base": [], "tuned": []}, incumbent="base", rule=rule).run
    run = msgspec.structs.replace(
        run, search_rounds=ROUNDS, trials_per_round=per_round, tunables={"tuned": SPACE}
    )
    parent = run.candidates[1]
    trials, launches, points = [], [], []
    for number, speed in enumerate(speeds):
        round_number = number // per_round + 1
        values = {"size": number % 5 + 1}
        name = trial_name("tuned", number)
        trials.append(
            TrialRecord(
                number=number,
                round=round_number,
                parent="tuned",
                values=values,
                candidate=apply(parent, SPACE, values=values, name=name),
            )
        )
        status = "oom" if speed is None else "ok"
        launches.append(launch(name, round_number, status=status, reason="no memory"))
        points += [] if speed is None else figures(name, round_number, speed)
    for number in range(1, ROUNDS + 1):
        launches.append(launch("base", number))
        points += figures("base", number, 100.0)
    for name, speed in (race or {}).items():
        for number in range(ROUNDS + 1, ROUNDS + 4):
            launches.append(launch(name, number))
            points += figures(name, number, speed + number / 10)
    return LoadedRun(
        run=run,
        launches=tuple(launches),
        points=tuple(points),
        probes=(),
        trials=tuple(trials),
    )


def figures(name: str, round_number: int, speed: float) -> list[PointRecord]:
    return [point(name, round_number, one, throughput=speed * one) for one in (1, 16)]


def passing(loaded: LoadedRun, **others: str) -> dict[str, CandidateVerdict]:
    names = [one.name for one in loaded.run.candidates]
    names += [trial.candidate.name for trial in loaded.trials]
    return {
        name: CandidateVerdict(
            candidate=name,
            verdict=others.get(name.replace("-", "_"), "pass"),  # type: ignore[arg-type]
            reason="because",
        )
        for name in names
    }


def without(loaded: LoadedRun, name: str, round_number: int) -> LoadedRun:
    """Without one launch and its points."""
    return msgspec.structs.replace(
        loaded,
        launches=tuple(
            r for r in loaded.launches if (r.candidate, r.round) != (name, round_number)
        ),
        points=tuple(r for r in loaded.points if (r.candidate, r.round) != (name, round_number)),
    )


def names_of(trials: tuple[TrialRecord, ...]) -> list[str]:
    return [trial.candidate.name for trial in trials]


def test_a_trial_is_held_against_the_anchor_of_its_round() -> None:
    loaded = searched(110.0, 90.0, 120.0, None)
    slow = [
        msgspec.structs.replace(p, figures=PointFigures(output_tokens_per_s=50.0 * p.concurrency))
        if (p.candidate, p.round) == ("base", 2)
        else p
        for p in loaded.points
    ]
    loaded = msgspec.structs.replace(loaded, points=tuple(slow))
    results = trial_results(loaded, passing(loaded))
    assert [r.ratio for r in results] == [
        pytest.approx(1.1),
        pytest.approx(0.9),
        pytest.approx(2.4),
        None,
    ]
    assert [r.reason for r in results] == [None, None, None, "oom: no memory"]
    assert names_of(finalists(loaded, passing(loaded))) == ["tuned-t0002"]


def test_the_reference_is_the_anchor_without_an_incumbent() -> None:
    run = make_run({"a": [], "b": []}, reference="b").run
    assert anchor_of(run) == "b"
    assert anchor_of(msgspec.structs.replace(run, incumbent="a")) == "a"


def test_weights_count() -> None:
    loaded = searched(100.0, 100.0, 100.0, 100.0, rule=Rule(weights={1: 0.75, 16: 0.25}))
    points = [
        msgspec.structs.replace(p, figures=PointFigures(output_tokens_per_s=200.0))
        if (p.candidate, p.concurrency) == ("tuned-t0000", 1)
        else p
        for p in loaded.points
    ]
    loaded = msgspec.structs.replace(loaded, points=tuple(points))
    assert trial_results(loaded, passing(loaded))[0].ratio == pytest.approx(2**0.75)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("wrong", "wrong answers: because"),
        ("crash", "crashed at concurrency 16: gone"),
        ("unsteady", "not_steady at concurrency 16: gone"),
        ("missing", "not measured at every concurrency"),
        ("anchor", "base has no valid figures in its round to compare with"),
        ("launch", "not launched yet"),
    ],
)
def test_what_keeps_a_trial_from_counting(spoil: str, reason: str) -> None:
    loaded = searched(150.0, 90.0, 120.0, 110.0)
    verdicts = passing(loaded, **({"tuned_t0000": "fail"} if spoil == "wrong" else {}))
    best = ("tuned-t0000", 1)
    points = loaded.points
    status = {"crash": "crashed", "unsteady": "not_steady"}.get(spoil)
    if status is not None:
        points = tuple(
            msgspec.structs.replace(p, status=status, reason="gone", figures=None)
            if (p.candidate, p.round) == best and p.concurrency == 16
            else p
            for p in points
        )
    if spoil == "missing":
        points = tuple(p for p in points if (p.candidate, p.round) != best or p.concurrency != 16)
    if spoil == "anchor":
        points = tuple(p for p in points if (p.candidate, p.round) != ("base", 1))
    loaded = msgspec.structs.replace(loaded, points=points)
    if spoil == "launch":
        loaded = without(loaded, *best)
    assert trial_results(loaded, verdicts)[0].reason == reason
    expected = [] if spoil == "launch" else ["tuned-t0002"]
    assert names_of(finalists(loaded, verdicts)) == expected


def test_an_inconclusive_trial_may_go_on() -> None:
    loaded = searched(150.0, 90.0, 120.0, 110.0)
    verdicts = passing(loaded, tuned_t0000="inconclusive")
    assert names_of(finalists(loaded, verdicts)) == ["tuned-t0000"]


def test_limits_are_kept() -> None:
    limit = Limit(figure="ttft_mean_s", at_most=0.15, concurrency=(16,))
    loaded = searched(150.0, 140.0, 120.0, 110.0, rule=Rule(limits=(limit,)))
    late = {"tuned-t0000": Distribution(mean=0.25), "tuned-t0001": Distribution()}
    points = tuple(
        msgspec.structs.replace(
            p,
            figures=PointFigures(
                output_tokens_per_s=p.figures.output_tokens_per_s, ttft_s=late[p.candidate]
            ),
        )
        if p.candidate in late and p.figures is not None
        else p
        for p in loaded.points
    )
    loaded = msgspec.structs.replace(loaded, points=points)
    results = trial_results(loaded, passing(loaded))
    assert results[0].over == {"ttft_mean_s at concurrency 16": pytest.approx(0.1)}
    assert results[0].reason == "over the limit: ttft_mean_s at concurrency 16 by 0.1"
    assert results[1].reason is not None and results[1].reason.startswith("not known, so that")
    assert names_of(finalists(loaded, passing(loaded))) == ["tuned-t0002"]


@pytest.mark.parametrize(
    ("figure", "at_most", "over"),
    [
        ("ttft_mean_s", 0.05, 0.05),
        ("ttft_p99_s", 0.05, None),
        ("error_rate", 0.2, 0.05),
        ("latency_p50_s", 1.0, None),
    ],
)
def test_how_far_a_point_is_over_a_limit(figure: str, at_most: float, over: float | None) -> None:
    one = point("a", 1, 16, throughput=1.0, requests_sent=64, requests_ok=48)
    limit = Limit(figure=figure, at_most=at_most)  # type: ignore[arg-type]
    found = over_limits(one, Rule(limits=(limit,)))
    expected = over if over is None else pytest.approx(over)
    assert found == {f"{figure} at concurrency 16": expected}
    elsewhere = msgspec.structs.replace(limit, concurrency=(1,))
    assert over_limits(one, Rule(limits=(elsewhere,))) == {}


def test_a_search_goes_round_by_round_and_ends_when_all_is_launched() -> None:
    full = searched(110.0, 90.0, 120.0, None)
    assert next_search_round(full) is None
    for name, number in (("tuned-t0001", 1), ("base", 1), ("tuned-t0003", 2), ("base", 2)):
        partial = without(full, name, number)
        assert next_search_round(partial) == number
        assert finalists(partial, passing(partial)) == ()
    unasked = msgspec.structs.replace(full, trials=full.trials[:3])
    assert next_search_round(unasked) == 2
    assert missing_trials(unasked, 2) == {"tuned": 1}
    begun = msgspec.structs.replace(full, trials=(), launches=(), points=())
    assert next_search_round(begun) == 1
    assert missing_trials(begun, 1) == {"tuned": 2}


def test_a_search_without_settings_left_ends_early() -> None:
    full = searched(1.0, 2.0, 3.0, 4.0, 5.0, per_round=5)
    without_second = without(full, "base", 2)
    assert missing_trials(full, 2) == {}
    assert next_search_round(without_second) is None
    assert names_of(finalists(without_second, passing(full))) == ["tuned-t0004"]


def test_a_trial_that_adds_nothing_is_no_finalist() -> None:
    loaded = searched(150.0, 90.0, 120.0, 110.0)
    parent = loaded.run.candidates[1]
    same = msgspec.structs.replace(parent, name="tuned-t0000")
    first = msgspec.structs.replace(loaded.trials[0], candidate=same)
    loaded = msgspec.structs.replace(loaded, trials=(first, *loaded.trials[1:]))
    assert finalists(loaded, passing(loaded)) == ()


def test_a_run_without_a_search_is_seen_as_it_is() -> None:
    run = make_run({"a": [[1, 2]], "b": [[1, 2]]})
    assert race_view(run, passing(run)) is run
    assert finalists(run, passing(run)) == ()
    assert trial_results(run, {}) == ()


def test_the_race_sees_racers_and_their_rounds_alone() -> None:
    loaded = searched(
        150.0, 90.0, 120.0, None, race={"base": 100, "tuned": 101, "tuned-t0000": 120}
    )
    probe = ProbeRecord(candidate="base", round=0, prompts_digest="d", max_tokens=1, answers=())
    other = msgspec.structs.replace(probe, candidate="tuned-t0001", round=1)
    broken = point("base", 1, 4, status="stalled", figures=None)
    loaded = msgspec.structs.replace(loaded, probes=(probe, other), points=(*loaded.points, broken))
    verdicts = passing(loaded)
    race = race_view(loaded, verdicts)
    racers = ["base", "tuned", "tuned-t0000"]
    assert [one.name for one in race.run.candidates] == racers
    assert {r.candidate for r in race.launches} == set(racers)
    assert ("tuned-t0000", 1) in {(r.candidate, r.round) for r in race.launches}
    assert {p.round for p in race.points if p.status == "ok"} == {3, 4, 5}
    assert broken in race.points
    assert race.probes == (probe,)
    assert race.trials == ()
    assert race_view(race, verdicts) == race


def test_the_winner_of_a_search_is_judged_by_the_race() -> None:
    loaded = searched(
        300.0, 90.0, 120.0, 110.0, race={"base": 100, "tuned": 101, "tuned-t0000": 99}
    )
    verdicts = passing(loaded)
    judgement = judge_run(race_view(loaded, verdicts), verdicts)
    standings = {one.candidate: one for one in judgement.standings}
    assert list(standings) == ["base", "tuned", "tuned-t0000"]
    assert all(one.rounds == 3 for one in standings.values())
    ratio = standings["tuned-t0000"].to_baseline
    assert ratio is not None and ratio.ratio < 1


def test_a_finalist_that_turns_out_wrong_stays_the_finalist() -> None:
    """What the race finds out must stand beside its name, not go with it."""
    loaded = searched(150.0, 90.0, 120.0, 110.0, race={"base": 100, "tuned-t0000": 150})
    verdicts = passing(loaded, tuned_t0000="fail")
    assert names_of(finalists(loaded, verdicts)) == ["tuned-t0000"]
    judgement = judge_run(race_view(loaded, verdicts), verdicts)
    rejected = {one.candidate: one.reason for one in judgement.standings if not one.admissible}
    assert "wrong answers" in (rejected["tuned-t0000"] or "")


def test_an_anchor_that_cannot_be_launched_ends_the_search() -> None:
    loaded = without(searched(150.0, 90.0), "base", 1)
    failed = launch("base", 1, status="oom")
    loaded = msgspec.structs.replace(loaded, launches=(*loaded.launches, failed))
    assert next_search_round(loaded) is None


SPEEDS = st.lists(st.one_of(st.none(), st.floats(1, 1e6)), min_size=4, max_size=4)


@given(SPEEDS)
def test_the_finalist_is_the_fastest_that_counts(speeds: list[float | None]) -> None:
    loaded = searched(*speeds)
    results = trial_results(loaded, passing(loaded))
    found = finalists(loaded, passing(loaded))
    counting = [r for r in results if r.reason is None]
    assert len(counting) == sum(one is not None for one in speeds)
    if not counting:
        assert found == ()
        return
    (best,) = found
    ratios = {r.candidate: r.ratio or math.nan for r in counting}
    assert ratios[best.candidate.name] == max(ratios.values())
    view = race_view(loaded, passing(loaded))
    assert view.points == ()
    assert isinstance(view.launches[0], LaunchRecord)
