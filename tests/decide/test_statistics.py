"""The arithmetic against hand-computed values, scipy's own, and what must not matter to it."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from autotune.decide.statistics import (
    Bounds,
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


def bounds(blocks: dict[str, list[float]], leader: str = "c0", other: str = "c1") -> Bounds:
    return difference_bounds(fit_blocks(blocks), leader, other, alpha=0.05, comparisons=3)


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
    fit = fit_blocks({"a": [1, 2, 3], "b": [4, 2, 6], "c": [7, 11, 9]})
    assert fit.means == {"a": 2, "b": 4, "c": 9}
    assert (fit.rounds, fit.degrees) == (3, 4)
    assert fit.variance == close(12 / 4)
    found = difference_bounds(fit, "c", "a", alpha=0.05, comparisons=2)
    half = stats.t.ppf(1 - 0.05 / (2 * 2), 4) * math.sqrt(2 * 3 / 3)
    assert found.difference == 7
    assert found.low == close(7 - half)
    assert found.high == close(7 + half)


def test_two_candidates_are_a_paired_t_test() -> None:
    """With m = 2 the residual mean square is half the variance of the differences."""
    ours, theirs = [1.0, 1.4, 1.1, 1.3], [0.9, 1.1, 1.2, 1.0]
    found = difference_bounds(
        fit_blocks({"a": ours, "b": theirs}), "a", "b", alpha=0.05, comparisons=1
    )
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    low, high = stats.t.interval(
        0.95, 3, loc=math.fsum(differences) / 4, scale=stats.sem(differences)
    )
    assert found.low == close(low)
    assert found.high == close(high)


@pytest.mark.parametrize("scores", [{"a": [1.0], "b": [2.0]}, {"a": [1.0, 2.0, 3.0]}])
def test_no_bounds_without_degrees_of_freedom(scores: dict[str, list[float]]) -> None:
    fit = fit_blocks(scores)
    assert (fit.variance, fit.degrees) == (None, 0)
    found = difference_bounds(fit, "a", [*scores][-1], alpha=0.05, comparisons=1)
    assert found.low is None and found.high is None


@pytest.mark.parametrize("scores", [{}, {"a": []}, {"a": [1.0, 2.0], "b": [1.0]}])
def test_blocks_must_be_complete(scores: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError):
        fit_blocks(scores)


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
    variances = fit_blocks(given_blocks).variance, fit_blocks(shifted).variance
    assert variances[0] == close(variances[1], abs=1e-9)


@given(blocks(), scores)
def test_a_faster_candidate_leaves_the_spread(
    given_blocks: dict[str, list[float]], gain: float
) -> None:
    faster = given_blocks | {"c0": [value + gain for value in given_blocks["c0"]]}
    assert fit_blocks(faster).variance == close(fit_blocks(given_blocks).variance, abs=1e-9)
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


@given(blocks(), st.integers(1, 20))
def test_more_comparisons_widen_the_bounds(
    given_blocks: dict[str, list[float]], comparisons: int
) -> None:
    fit = fit_blocks(given_blocks)
    few = difference_bounds(fit, "c0", "c1", alpha=0.05, comparisons=comparisons)
    more = difference_bounds(fit, "c0", "c1", alpha=0.05, comparisons=comparisons + 1)
    assert few.low is not None and more.low is not None
    assert more.low <= few.low


def test_a_ratio_beyond_what_a_float_holds_is_held_at_its_edge() -> None:
    found = ratio_estimate([1.0, 1e30], [1e30, 1.0], confidence=0.95)
    assert found.interval is not None and math.isfinite(found.interval.high)
