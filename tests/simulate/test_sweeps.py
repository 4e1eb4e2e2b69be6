"""One simulated sweep: what is launched, who is incumbent, what the outcome is held against."""

import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.records.folder import LoadedRun
from autotune.records.rule import Rule
from autotune.simulate import Noise, Scenario, simulate_sweep, sweeps

QUIET = Noise(sd=0.001)


def runs_of(scenario: Scenario, monkeypatch: pytest.MonkeyPatch, *, seeds: int) -> list[LoadedRun]:
    """The records that the rule judges, one run a seed."""
    seen: list[LoadedRun] = []
    judge = sweeps.judge_run

    def judged(run: LoadedRun, verdicts: Any) -> Any:
        seen.append(run)
        return judge(run, verdicts)

    monkeypatch.setattr(sweeps, "judge_run", judged)
    for seed in range(seeds):
        simulate_sweep(scenario, random.Random(seed))
    return seen


def fastest(run: LoadedRun) -> str:
    """Who is truly best, told from figures without noise."""
    first = {p.candidate: p.figures for p in run.points if p.round == 1 and p.concurrency == 1}
    return max(first, key=lambda name: first[name].output_tokens_per_s)  # type: ignore[union-attr]


def test_it_leaves_the_records_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = runs_of(Scenario(noise=QUIET), monkeypatch, seeds=1)
    reference, *launches = run.launches
    assert (reference.candidate, reference.round) == (run.run.reference, 0)
    rounds = {launch.round for launch in launches}
    assert rounds == set(range(1, len(rounds) + 1)) and len(rounds) >= 3
    first = [launch for launch in launches if launch.round == 1]
    assert [launch.position for launch in first] == [1, 2, 3, 4]
    assert {launch.candidate for launch in first} == {one.name for one in run.run.candidates}
    assert len(run.points) == len(launches) * len(sweeps.CONCURRENCIES)


def test_launches_come_in_another_order_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of(Scenario(gap=0.0, equals=4), monkeypatch, seeds=200)
    first = Counter(launch.candidate for run in runs for launch in run.launches if launch.round > 0)
    leading = Counter(
        launch.candidate for run in runs for launch in run.launches if launch.position == 1
    )
    assert len(first) == len(leading) == 4
    assert max(leading.values()) < 1.3 * min(leading.values())


def test_which_one_is_best_is_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of(Scenario(noise=QUIET), monkeypatch, seeds=200)
    best = Counter(fastest(run) for run in runs)
    assert len(best) == 4 and max(best.values()) < 2 * min(best.values())


@pytest.mark.parametrize("incumbent", ["slower", "best", "none"])
def test_the_incumbent_is_the_one_asked_for(
    incumbent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario(noise=QUIET, incumbent=incumbent)  # type: ignore[arg-type]
    for run in runs_of(scenario, monkeypatch, seeds=20):
        if incumbent == "none":
            assert run.run.incumbent is None
        else:
            assert (run.run.incumbent == fastest(run)) == (incumbent == "best")


@pytest.mark.parametrize("failing", [1, 3])
def test_those_that_fail_are_launched_once(failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(noise=QUIET, failing=failing)
    for run in runs_of(scenario, monkeypatch, seeds=20):
        broken = [launch for launch in run.launches if launch.status != "ok"]
        assert [launch.round for launch in broken] == [1] * failing
        assert len({launch.candidate for launch in broken}) == failing
        names = {launch.candidate for launch in broken}
        assert not names & {point.candidate for point in run.points}


def test_the_best_never_fails() -> None:
    for seed in range(50):
        sweep = simulate_sweep(Scenario(noise=QUIET, failing=3), random.Random(seed))
        assert (sweep.outcome, sweep.behind, sweep.rivalled) == ("decisive", 0.0, False)


def test_one_launch_is_wild(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule(min_rounds=4, max_rounds=4, drop_after=4)
    scenario = Scenario(noise=Noise(sd=0.0, wild=-0.3), gap=0.0, equals=4, rule=rule)
    places = Counter[tuple[str, int]]()
    for run in runs_of(scenario, monkeypatch, seeds=300):
        slow = {
            (point.candidate, point.round)
            for point in run.points
            if point.figures and (point.figures.output_tokens_per_s or 0.0) < 999
        }
        (place,) = slow
        places[place] += 1
        values = {p.figures.output_tokens_per_s for p in run.points if p.figures}
        assert sorted(values) == pytest.approx([700.0, 1000.0])
    assert len(places) == 16


def test_the_wild_launch_can_be_the_bests_first(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = Noise(sd=0.0, wild=0.5, wild_hits="best")
    for run in runs_of(Scenario(noise=noise), monkeypatch, seeds=10):
        wild = {
            (point.candidate, point.round)
            for point in run.points
            if point.figures and (point.figures.output_tokens_per_s or 0.0) > 1001
        }
        assert wild == {(run.run.reference, 1)}


def test_a_choice_is_held_against_the_truth() -> None:
    # The wild launch makes the best look far worse in the only round that is looked at.
    noise = Noise(sd=0.0, wild=-0.5, wild_hits="best")
    rule = Rule(min_rounds=1, max_rounds=1)
    sweep = simulate_sweep(Scenario(noise=noise, gap=0.1, rule=rule), random.Random(1))
    assert sweep.outcome == "open" and sweep.rivalled
    assert sweep.behind == pytest.approx(math.log(1.1))


def test_equals_rival_each_other() -> None:
    for seed in range(10):
        sweep = simulate_sweep(Scenario(noise=QUIET, equals=2), random.Random(seed))
        assert (sweep.behind, sweep.rivalled) == (0.0, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"candidates": 1},
        {"candidates": 51},
        {"gap": -0.01},
        {"gap": math.nan},
        {"equals": 0},
        {"equals": 5},
        {"failing": -1},
        {"failing": 4},
    ],
)
def test_what_makes_no_sense_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"^{name} .*: give "):
        Scenario(**wrong).check()


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_rounds": 0},
        {"max_rounds": 2},
        {"max_rounds": 101},
        {"drop_after": 0},
        {"delta": math.nan},
        {"alpha": 0.5},
        {"drop_behind": 1.0},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        Scenario(rule=Rule(**wrong)).check()


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Any scenario that may be asked for, as long as it isn't slow."""
    candidates = draw(st.integers(2, 7))
    rounds = sorted(draw(st.tuples(st.integers(1, 6), st.integers(1, 6))))
    return Scenario(
        candidates=candidates,
        gap=draw(st.floats(0, 10)),
        equals=draw(st.integers(1, candidates)),
        failing=draw(st.integers(0, candidates - 1)),
        incumbent=draw(st.sampled_from(("slower", "best", "none"))),
        noise=Noise(
            sd=draw(st.floats(0, 1)),
            drift=draw(st.floats(-1, 1)),
            autocorrelation=draw(st.floats(-0.99, 0.99)),
            tails=draw(st.one_of(st.just("normal"), st.just("heavy"), st.floats(2.01, 1000))),
            wild=draw(st.floats(-0.99, 10)),
            wild_hits=draw(st.sampled_from(("any", "best"))),
        ),
        rule=Rule(
            min_rounds=rounds[0],
            max_rounds=rounds[1],
            delta=draw(st.floats(0.001, 0.49)),
            alpha=draw(st.floats(0.001, 0.49)),
            drop_behind=draw(st.floats(0.01, 0.99)),
            drop_after=draw(st.integers(1, 10)),
        ),
    )


@settings(max_examples=150, deadline=None)
@given(scenario=scenarios(), seed=st.integers(0, 2**32))
def test_whatever_is_asked_for_comes_to_an_end(scenario: Scenario, seed: int) -> None:
    scenario.check()
    sweep = simulate_sweep(scenario, random.Random(seed))
    assert scenario.candidates < sweep.launches <= scenario.exhaustive_launches
    assert sweep.behind is None or sweep.behind in (0.0, math.log1p(scenario.gap))
    assert sweep == simulate_sweep(scenario, random.Random(seed))
