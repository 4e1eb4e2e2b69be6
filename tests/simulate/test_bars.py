"""What the method must reach, by simulation: right, rarely wrong, and cheaper than everybody's all.

Seeds are fixed, and the numbers of sweeps are large enough that a method that falls short of a bar
would be found out, and small enough for every run of the tests. docs/simulations.md has them with
2,000 sweeps each.
"""

import functools
import random
from typing import Any

import pytest

from autotune.records.rule import Rule
from autotune.simulate import Scenario, Summary, simulate, simulate_sweep
from tests.simulate.rows import equal, fixed, scenario

RUNS = 400
# The chance of a false claim that the rule allows itself; it comes to about 1%.
FALSE_DECISIVE = Rule().alpha


@functools.cache
def summary(asked: str, runs: int = RUNS, **fields: Any) -> Summary:
    """A scenario's figures, simulated once for all tests that ask for them."""
    make = {"gap": scenario, "equal": equal}[asked]
    return simulate(make(**fields), runs=runs, seed=11)


def test_it_is_right_and_cheap_where_the_best_is_5_percent_ahead() -> None:
    found = summary("gap")
    assert found.correct_rate >= 0.99
    assert found.launches_share <= 0.65
    assert found.leads_rate >= 0.99
    assert found.wrong_rate <= 0.005


def test_no_fixed_number_of_rounds_is_as_right_for_as_few_launches() -> None:
    found = summary("gap")
    affordable = int((found.mean_launches - 1) / 4)
    assert affordable >= 3
    other = simulate(fixed(scenario(), affordable), runs=RUNS, seed=11)
    assert other.mean_launches <= found.mean_launches
    assert other.correct_rate < found.correct_rate - 0.02


@pytest.mark.parametrize("candidates", [2, 6])
def test_so_it_is_with_fewer_and_with_more(candidates: int) -> None:
    found = summary("gap", runs=200, candidates=candidates)
    assert found.correct_rate >= 0.98
    assert found.wrong_rate <= 0.005
    assert found.launches_share < 0.8


def test_a_larger_gap_takes_fewer_launches() -> None:
    large = summary("gap", runs=200, gap=0.2)
    assert large.correct_rate >= 0.99
    assert large.mean_launches < summary("gap").mean_launches - 3


@pytest.mark.parametrize(
    "fields",
    [
        {"candidates": 2},
        {"candidates": 3},
        {"candidates": 4},
        {"candidates": 4, "drift": 0.05},
        {"candidates": 2, "tails": "heavy"},
        {"candidates": 4, "tails": "heavy"},
        {"candidates": 4, "autocorrelation": 0.5},
    ],
    ids=str,
)
def test_among_equals_none_is_called_better(fields: dict[str, Any]) -> None:
    found = summary("equal", runs=200, **fields)
    assert found.false_decisive_rate <= FALSE_DECISIVE
    # None is wrong among equals; a decision is one for the incumbent, or for as good a one.
    assert found.wrong_rate == 0


def test_equals_are_settled_where_it_is_quiet() -> None:
    found = summary("equal", runs=200, candidates=4, sd=0.01)
    assert found.correct_rate >= 0.95
    assert found.launches_share < 0.8


@pytest.mark.parametrize("fields", [{"drift": 0.05}, {"tails": "heavy"}, {"autocorrelation": 0.5}])
def test_broken_assumptions_cost_little(fields: dict[str, Any]) -> None:
    found = summary("gap", runs=200, **fields)
    assert found.correct_rate >= 0.97
    assert found.wrong_rate <= 0.01


@pytest.mark.parametrize("wild", [-0.3, 0.3])
def test_a_wild_launch_doesnt_make_the_wrong_one_win(wild: float) -> None:
    assert summary("gap", runs=300, wild=wild).wrong_rate <= 0.005


def test_not_even_where_it_costs_the_best_its_first_round() -> None:
    harmed = {"wild": -0.3, "wild_hits": "best"}
    assert summary("gap", runs=200, **harmed).wrong_rate <= 0.005
    far_ahead = summary("gap", runs=200, gap=0.2, **harmed)
    assert far_ahead.wrong_rate == 0
    assert far_ahead.correct_rate >= 0.95


def test_a_drop_after_one_round_alone_claims_nothing_and_costs_more() -> None:
    # One shared round beats nobody: whoever was dropped after it has to come back.
    asked = scenario(gap=0.2, wild=-0.3, wild_hits="best", rule=Rule(drop_after=1))
    found = simulate(asked, runs=100, seed=11)
    assert found.wrong_rate == 0
    later = simulate(scenario(gap=0.2, wild=-0.3, wild_hits="best"), runs=100, seed=11)
    assert later.mean_launches < found.mean_launches
    assert later.correct_rate >= found.correct_rate


def test_a_failing_candidate_doesnt_change_the_winner() -> None:
    found = summary("gap", runs=300, failing=1)
    assert found.correct_rate >= 0.985
    assert found.wrong_rate <= 0.005
    assert found.mean_launches < summary("gap").mean_launches


def test_where_all_others_fail_the_best_is_left() -> None:
    asked = Scenario(failing=3)
    for seed in range(20):
        assert simulate_sweep(asked, random.Random(seed)).outcome == "decisive"
