"""The arithmetic against hand-computed values, scipy's own, and what must not matter to it."""

import math
from collections.abc import Mapping, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from autotune.decide.statistics import (
    BlockFit,
    Bounds,
    connected,
    difference_bounds,
    fit_blocks,
    ratio_estimate,
    t_quantile,
)

throughputs = st.floats(min_value=0.1, max_value=1e6)
scores = st.floats(min_value=-10, max_value=10)
close = pytest.approx


@st.composite
def pairs(draw: st.DrawFn, fewest: int = 2) -> tuple[list[float], list[float]]:
    n = draw(st.integers(fewest, 6))
    rounds = st.lists(throughputs, min_size=n, max_size=n)
    return draw(rounds), draw(rounds)


@st.composite
def blocks(draw: st.DrawFn) -> dict[str, list[float]]:
    n, m = draw(st.integers(2, 6)), draw(st.integers(2, 5))
    row = st.lists(scores, min_size=n, max_size=n)
    return {f"c{index}": draw(row) for index in range(m)}


def by_round(rows: Mapping[str, Sequence[float | None]]) -> dict[str, dict[int, float]]:
    """Scores by round, counted from 1; ``None`` stands for a round that a candidate lacks."""
    return {
        name: {number: value for number, value in enumerate(row, start=1) if value is not None}
        for name, row in rows.items()
    }


def fit_rows(rows: Mapping[str, Sequence[float | None]]) -> BlockFit:
    return fit_blocks(by_round(rows))


def bounds(blocks: dict[str, list[float]], leader: str = "c0", other: str = "c1") -> Bounds:
    return difference_bounds(fit_rows(blocks), leader, other, level=0.01)


@pytest.mark.parametrize(("probability", "degrees"), [(0.975, 2), (0.95, 1), (0.9833, 6)])
def test_quantile_is_students(probability: float, degrees: int) -> None:
    assert t_quantile(probability, degrees) == close(stats.t.ppf(probability, degrees))


def test_ratio_by_hand() -> None:
    # Logs of the ratios are 0, ln 2, ln 4: mean ln 2, deviation ln 2; t(0.975, 2) = 4.302653.
    estimate = ratio_estimate([10, 40, 160], [10, 20, 40], confidence=0.95)
    assert estimate.ratio == close(2.0)
    assert estimate.n == 3
    assert estimate.interval is not None
    half = 4.302652729749462 * math.log(2) / math.sqrt(3)
    assert estimate.interval.low == close(2 * math.exp(-half))
    assert estimate.interval.high == close(2 * math.exp(half))
    assert estimate.interval.confidence == 0.95


@given(pairs())
def test_interval_is_scipys_paired_one(pair: tuple[list[float], list[float]]) -> None:
    logs = [math.log(a / b) for a, b in zip(*pair, strict=True)]
    estimate = ratio_estimate(*pair, confidence=0.9)
    assert estimate.interval is not None
    error = stats.sem(logs)
    if error < 1e-9:  # scipy returns NaN for a scale of zero
        assert estimate.interval.low == close(estimate.ratio, rel=1e-6)
        return
    low, high = stats.t.interval(0.9, len(logs) - 1, loc=math.fsum(logs) / len(logs), scale=error)
    assert math.log(estimate.interval.low) == close(low, abs=1e-9)
    assert math.log(estimate.interval.high) == close(high, abs=1e-9)


def test_one_round_has_a_ratio_and_no_interval() -> None:
    estimate = ratio_estimate([201.5], [198.7], confidence=0.95)
    assert estimate.ratio == close(201.5 / 198.7)
    assert (estimate.n, estimate.interval) == (1, None)


def test_equal_rounds_have_an_interval_of_no_width() -> None:
    estimate = ratio_estimate([20, 20, 20], [10, 10, 10], confidence=0.95)
    assert estimate.interval is not None
    assert estimate.interval.low == close(2) == estimate.interval.high


@pytest.mark.parametrize(("candidate", "baseline"), [([], []), ([1.0, 2.0], [1.0])])
def test_ratio_needs_the_same_rounds(candidate: list[float], baseline: list[float]) -> None:
    with pytest.raises(ValueError):
        ratio_estimate(candidate, baseline, confidence=0.95)


@given(pairs(), st.floats(0.01, 100))
def test_the_unit_of_throughput_leaves_ratios(
    pair: tuple[list[float], list[float]], unit: float
) -> None:
    plain = ratio_estimate(*pair, confidence=0.95)
    scaled = ratio_estimate(*([unit * v for v in side] for side in pair), confidence=0.95)
    assert scaled.ratio == close(plain.ratio, rel=1e-9)
    assert plain.interval is not None and scaled.interval is not None
    assert math.log(scaled.interval.low) == close(math.log(plain.interval.low), abs=1e-6)


@given(pairs())
def test_the_other_way_round_is_the_inverse(pair: tuple[list[float], list[float]]) -> None:
    ours, theirs = pair
    there = ratio_estimate(ours, theirs, confidence=0.95)
    back = ratio_estimate(theirs, ours, confidence=0.95)
    assert there.ratio * back.ratio == close(1)
    assert there.interval is not None and back.interval is not None
    assert math.log(there.interval.low) == close(-math.log(back.interval.high), abs=1e-6)


def test_blocks_by_hand() -> None:
    # Means 2, 4, 9; grand mean 5; round effects -1, 0, 1; residuals 0, 0, 0 / 1, -2, 1 / -1, 2, -1.
    fit = fit_rows({"a": [1, 2, 3], "b": [4, 2, 6], "c": [7, 11, 9]})
    assert fit.effects == close({"a": 0, "b": 2, "c": 7})
    assert fit.degrees == 4
    assert fit.variance == close(12 / 4)
    found = difference_bounds(fit, "c", "a", level=0.05 / 4)
    half = stats.t.ppf(1 - 0.05 / (2 * 2), 4) * math.sqrt(2 * 3 / 3)
    assert found.difference == close(7)
    assert found.low == close(7 - half)
    assert found.high == close(7 + half)


def test_two_candidates_are_a_paired_t_test() -> None:
    """With m = 2 the residual mean square is half the variance of the differences."""
    ours, theirs = [1.0, 1.4, 1.1, 1.3], [0.9, 1.1, 1.2, 1.0]
    found = difference_bounds(fit_rows({"a": ours, "b": theirs}), "a", "b", level=0.025)
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    low, high = stats.t.interval(
        0.95, 3, loc=math.fsum(differences) / 4, scale=stats.sem(differences)
    )
    assert found.low == close(low)
    assert found.high == close(high)


@pytest.mark.parametrize("scores", [{"a": [1.0], "b": [2.0]}])
def test_no_bounds_without_degrees_of_freedom(scores: dict[str, list[float]]) -> None:
    fit = fit_rows(scores)
    assert (fit.variance, fit.degrees) == (None, 0)
    found = difference_bounds(fit, "a", [*scores][-1], level=0.025)
    assert found.low is None and found.high is None


@pytest.mark.parametrize(
    "rows", [{}, {"a": []}, {"a": [1.0], "b": []}, {"a": [1.0, None], "b": [None, 1.0]}]
)
def test_a_fit_needs_shared_rounds(rows: dict[str, list[float | None]]) -> None:
    with pytest.raises(ValueError):
        fit_rows(rows)


def test_groups_that_share_no_round_are_told_apart() -> None:
    rows = {"a": [1, 1, None], "b": [None, 1, None], "c": [None, None, 1], "d": [1, None, None]}
    assert connected(by_round(rows)) == (frozenset("abd"), frozenset("c"))
    assert connected({}) == ()


def test_a_missing_round_by_hand() -> None:
    """b lacks round 3. Round effects drop out of b - a = (3 + 5)/2; c - a and c - b follow."""
    fit = fit_rows({"a": [0, 0, 0], "b": [3, 5, None]})
    assert fit.effects == close({"a": 0, "b": 4})
    assert (fit.degrees, fit.variance) == (1, close(1.0))
    assert fit.spread["a", "b"] == close(2 / 2)


@given(blocks(), st.randoms(use_true_random=False))
def test_missing_rounds_are_fitted_by_least_squares(
    given_blocks: dict[str, list[float]], draw: Random
) -> None:
    """Against the plain model of candidates and rounds as columns, solved by numpy."""
    rows: dict[str, list[float | None]] = {
        name: [value if name == "c0" or draw.random() < 0.7 else None for value in row]
        for name, row in given_blocks.items()
    }
    rows = {name: row for name, row in rows.items() if any(value is not None for value in row)}
    assume(len(rows) > 1)
    names, cells = list(rows), by_round(rows)
    fit = fit_blocks(cells)
    listed = [(name, number) for name in names for number in cells[name]]
    numbers = sorted({number for _, number in listed})
    design = np.array(
        [[float(n == name) for n in names[1:]] + [float(r == number) for r in numbers]
         for name, number in listed]
    )  # fmt: skip
    values = np.array([cells[name][number] for name, number in listed])
    solved = np.linalg.lstsq(design, values, rcond=None)[0]
    assert list(fit.effects.values())[1:] == close(list(solved[: len(names) - 1]), abs=1e-6)
    residual = values - design @ solved
    assert fit.degrees == len(listed) - len(names) - len(numbers) + 1
    if fit.degrees:
        assert fit.variance == close(float(residual @ residual) / fit.degrees, abs=1e-6)
    covariance = np.linalg.pinv(design.T @ design)
    for place, name in enumerate(names[1:]):
        assert fit.spread["c0", name] == close(float(covariance[place, place]), rel=1e-6)


@given(blocks())
def test_a_round_of_one_changes_nothing(given_blocks: dict[str, list[float]]) -> None:
    alone = {"c0": [*given_blocks["c0"], 5.0]} | {
        name: [*row, None] for name, row in given_blocks.items() if name != "c0"
    }
    assert fit_rows(alone) == fit_rows(given_blocks)


@given(blocks())
def test_equal_candidates_have_equal_effects(given_blocks: dict[str, list[float]]) -> None:
    fit = fit_rows({name: given_blocks["c0"] for name in given_blocks})
    assert set(fit.effects.values()) == {0.0}


@given(blocks(), st.lists(scores, min_size=6, max_size=6))
def test_what_all_share_in_a_round_cancels_out(
    given_blocks: dict[str, list[float]], moods: list[float]
) -> None:
    shifted = {
        name: [value + mood for value, mood in zip(row, moods, strict=False)]
        for name, row in given_blocks.items()
    }
    plain, moved = bounds(given_blocks), bounds(shifted)
    assert moved.difference == close(plain.difference, abs=1e-9)
    variances = fit_rows(given_blocks).variance, fit_rows(shifted).variance
    assert variances[0] == close(variances[1], abs=1e-9)


@given(blocks(), scores)
def test_a_faster_candidate_leaves_the_spread(
    given_blocks: dict[str, list[float]], gain: float
) -> None:
    faster = given_blocks | {"c0": [value + gain for value in given_blocks["c0"]]}
    assert fit_rows(faster).variance == close(fit_rows(given_blocks).variance, abs=1e-9)
    assert bounds(faster).difference == close(bounds(given_blocks).difference + gain, abs=1e-9)


@given(blocks(), st.randoms(use_true_random=False))
def test_the_order_of_candidates_and_rounds_doesnt_matter(
    given_blocks: dict[str, list[float]], draw: Random
) -> None:
    names = list(given_blocks)
    draw.shuffle(names)
    reordered = {name: given_blocks[name][::-1] for name in names}
    plain, other = bounds(given_blocks), bounds(reordered)
    assert other.difference == close(plain.difference, abs=1e-9)
    assert other.low is not None and plain.low is not None
    assert other.low == close(plain.low, abs=1e-6)


@given(blocks())
def test_a_leader_is_as_far_ahead_as_the_other_is_behind(
    given_blocks: dict[str, list[float]],
) -> None:
    there, back = bounds(given_blocks), bounds(given_blocks, "c1", "c0")
    assert there.low is not None and back.high is not None
    assert there.low == close(-back.high, abs=1e-9)


@given(blocks(), st.floats(1e-6, 0.2))
def test_a_surer_claim_has_wider_bounds(given_blocks: dict[str, list[float]], level: float) -> None:
    fit = fit_rows(given_blocks)
    few = difference_bounds(fit, "c0", "c1", level=level)
    more = difference_bounds(fit, "c0", "c1", level=level / 2)
    assert few.low is not None and more.low is not None
    assert more.low <= few.low


def test_a_ratio_beyond_what_a_float_holds_is_held_at_its_edge() -> None:
    found = ratio_estimate([1.0, 1e30], [1e30, 1.0], confidence=0.95)
    assert found.interval is not None and math.isfinite(found.interval.high)
