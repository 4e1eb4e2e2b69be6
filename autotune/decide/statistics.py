"""The arithmetic of a decision: ratios from paired rounds, and bounds from complete blocks. Pure.

A round (block) measures every candidate once, close in time; what all share in a round (the
machine's mood) cancels out in differences within it. Everything is done in logarithms, where a
ratio is a difference; ``exp`` turns the results back.

Sources: the additive block model and its residual mean square are those of the randomised
complete block design (Fisher, The Design of Experiments, 1935); comparing each candidate with
the leader at ``alpha / comparisons`` is Bonferroni's inequality. The bounds are two-sided: the
leader is picked from the same data, so that either of two equal candidates may come out in front.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec
from scipy.special import stdtrit

from autotune.decide.schema import RatioEstimate
from autotune.decisions.schema import Interval

# Beyond this, exp() overflows.
_LARGEST_LOG = 700.0


class BlockFit(msgspec.Struct, frozen=True, kw_only=True):
    """The fit of ``score = candidate + round`` on complete blocks.

    ``variance`` is the residual mean square s2 with ``degrees`` = (n-1)(m-1) degrees of freedom,
    for n rounds and m candidates; ``None`` where there are none left.
    """

    means: dict[str, float]
    rounds: int
    variance: float | None
    degrees: int


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """A difference of two candidates' mean scores, between its bounds; ``None`` without any."""

    difference: float
    low: float | None
    high: float | None


def ratio_estimate(
    candidate: Sequence[float], baseline: Sequence[float], *, confidence: float
) -> RatioEstimate:
    """Return the ratio of two positive figures that were measured in the same rounds.

    The geometric mean of the rounds' ratios, with Student's t interval on their logarithms.

    Args:
        candidate: one value a round, above zero.
        baseline: the other's values of the same rounds.
        confidence: of the two-sided interval, e.g. 0.95.

    Raises:
        ValueError: the lengths differ or there is no round.
    """
    if not candidate:
        raise ValueError("a ratio needs at least one round")
    logs = [math.log(a / b) for a, b in zip(candidate, baseline, strict=True)]
    n = len(logs)
    mean = fmean(logs)
    if n < 2:
        return RatioEstimate(ratio=ratio(mean), n=n)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (n - 1))
    half = t_quantile(1 - (1 - confidence) / 2, n - 1) * deviation / math.sqrt(n)
    interval = Interval(ratio(mean - half), ratio(mean + half), confidence)
    return RatioEstimate(ratio=ratio(mean), n=n, interval=interval)


def fit_blocks(scores: Mapping[str, Sequence[float]]) -> BlockFit:
    """Fit candidate and round effects to complete blocks.

    Args:
        scores: each candidate's scores, one a round, rounds in the same order for all.

    Raises:
        ValueError: no candidate, no round, or a candidate that lacks a round.
    """
    rows = list(scores.values())
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("complete blocks need every candidate in every round")
    n, m = len(rows[0]), len(rows)
    means = {name: fmean(row) for name, row in scores.items()}
    grand = fmean(means.values())
    round_effects = [fmean(column) - grand for column in zip(*rows, strict=True)]
    degrees = (n - 1) * (m - 1)
    if degrees == 0:
        return BlockFit(means=means, rounds=n, variance=None, degrees=0)
    squares = math.fsum(
        (value - means[name] - effect) ** 2
        for name, row in scores.items()
        for value, effect in zip(row, round_effects, strict=True)
    )
    return BlockFit(means=means, rounds=n, variance=squares / degrees, degrees=degrees)


def difference_bounds(
    fit: BlockFit, leader: str, other: str, *, alpha: float, comparisons: int
) -> Bounds:
    """Return how far ``leader``'s mean score lies above ``other``'s, with its bounds.

    ``D -+ t(1 - alpha / (2 comparisons), degrees) * sqrt(2 s2 / n)``. All of them
    together hold with a confidence of at least ``1 - alpha``.

    Args:
        fit: of blocks that hold both.
        leader: the candidate that others are held against.
        other: the candidate to compare.
        alpha: chance of any false bound over all comparisons.
        comparisons: how many are made in the whole run: (candidates - 1) times looks.
    """
    difference = fit.means[leader] - fit.means[other]
    if fit.variance is None:
        return Bounds(difference=difference, low=None, high=None)
    quantile = t_quantile(1 - alpha / (2 * max(1, comparisons)), fit.degrees)
    half = quantile * math.sqrt(2 * fit.variance / fit.rounds)
    return Bounds(difference=difference, low=difference - half, high=difference + half)


def t_quantile(probability: float, degrees: int) -> float:
    """Return Student's t quantile for ``degrees`` degrees of freedom."""
    return float(stdtrit(degrees, probability))


def ratio(log: float) -> float:
    """Return ``exp(log)``, held within what a float can say."""
    return math.exp(max(-_LARGEST_LOG, min(log, _LARGEST_LOG)))


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean; equal values give exactly that value.

    Raises:
        ValueError: there is no value.
    """
    if not values:
        raise ValueError("the mean of no values")
    if min(values) == max(values):
        return values[0]
    return math.exp(fmean(math.log(value) for value in values))
