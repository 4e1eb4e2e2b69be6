"""Figures over sweeps: rates against the truth, costs, intervals, and that seeds repeat them."""

import math
import random

import pytest
from scipy.stats import binomtest

from autotune.decisions.schema import Outcome
from autotune.simulate import Noise, Scenario, SimulatedSweep, simulate, simulate_sweep
from autotune.simulate.summary import summarize, wilson

BEHIND = math.log(1.05)


def sweep(
    outcome: Outcome, behind: float | None, *, rivalled: bool = False, launches: int = 10
) -> SimulatedSweep:
    return SimulatedSweep(outcome=outcome, behind=behind, rivalled=rivalled, launches=launches)


def test_rates_say_what_became_of_the_truth() -> None:
    found = summarize(
        Scenario(),
        [
            sweep("decisive", 0.0),
            sweep("within_delta", math.log1p(0.02)),
            sweep("within_delta", BEHIND, rivalled=True),
            sweep("decisive", BEHIND, rivalled=True),
            sweep("open", 0.0),
            sweep("open", BEHIND, rivalled=True),
            sweep("open", None, rivalled=True),
            sweep("decisive", 0.0, rivalled=True),
        ],
        seed=3,
    )
    assert (found.runs, found.seed) == (8, 3)
    assert (found.correct_rate, found.wrong_rate, found.open_rate) == (3 / 8, 2 / 8, 3 / 8)
    assert (found.leads_rate, found.false_decisive_rate) == (4 / 8, 2 / 8)
    assert found.outcomes == {"decisive": 3, "within_delta": 2, "open": 3}


def test_costs_are_those_of_the_sweeps() -> None:
    sweeps = [sweep("open", 0.0, launches=number) for number in range(1, 101)]
    found = summarize(Scenario(), sweeps, seed=1)
    assert (found.mean_launches, found.p95_launches) == (50.5, 95)
    assert found.exhaustive_launches == 33
    assert found.launches_share == pytest.approx(50.5 / 33)
    low, high = found.intervals["mean_launches"]
    assert (low + high) / 2 == pytest.approx(50.5)
    # 1.96 * 29.01 / sqrt(100)
    assert high - low == pytest.approx(2 * 5.686, rel=1e-3)


def test_one_sweep_has_a_summary() -> None:
    found = summarize(Scenario(), [sweep("decisive", 0.0)], seed=1)
    assert found.intervals["mean_launches"] == (10.0, 10.0)
    assert found.intervals["correct_rate"] == (pytest.approx(0.2065, abs=1e-4), 1.0)


@pytest.mark.parametrize(("count", "runs"), [(0, 20), (1, 1), (10, 20), (499, 500), (500, 500)])
def test_intervals_are_wilsons(count: int, runs: int) -> None:
    theirs = binomtest(count, runs).proportion_ci(method="wilson")
    assert wilson(count, runs) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_the_same_seed_gives_the_same_figures() -> None:
    scenario = Scenario(noise=Noise(sd=0.03, tails="heavy"))
    one, same, other = (simulate(scenario, runs=20, seed=seed) for seed in (5, 5, 6))
    assert one == same
    assert one.mean_launches != other.mean_launches


def test_a_sweep_depends_on_its_own_number_alone() -> None:
    scenario = Scenario(noise=Noise(sd=0.03))
    alone = [simulate_sweep(scenario, random.Random(f"5:{number}")) for number in (3, 2, 1, 0)]
    assert simulate(scenario, runs=4, seed=5) == summarize(scenario, alone[::-1], seed=5)


@pytest.mark.parametrize("runs", [0, -1, 1_000_001])
def test_so_many_runs_are_refused(runs: int) -> None:
    with pytest.raises(ValueError, match=r"^runs .*: give 1 to 1000000"):
        simulate(Scenario(), runs=runs, seed=1)
