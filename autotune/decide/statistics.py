"""The arithmetic of a decision: ratios from paired rounds, and bounds from blocks. Pure.

A round (block) measures candidates close in time; what all share in a round (the machine's mood)
cancels out in differences within it. Everything is done in logarithms, where a ratio is a
difference; ``exp`` turns the results back.

Sources: the additive block model and its residual mean square are those of the randomised
complete block design (Fisher, The Design of Experiments, 1935); where a candidate lacks rounds,
the same model is fitted by least squares, which is the intra-block analysis of incomplete blocks
(Yates, Annals of Eugenics 7, 1936). With nothing missing both are the same.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec
from scipy.special import stdtrit

from autotune.decide.schema import RatioEstimate
from autotune.decisions.schema import Interval

# Beyond this, exp() overflows.
_LARGEST_LOG = 700.0

# Scores by candidate and round.
Scores = Mapping[str, Mapping[int, float]]


class BlockFit(msgspec.Struct, frozen=True, kw_only=True):
    """The fit of ``score = candidate + round`` by least squares.

    ``effects`` are the candidates' scores, up to a constant that all share. ``variance`` is the
    residual mean square s2 with ``degrees`` degrees of freedom: (n-1)(m-1) for n rounds and m
    candidates with nothing missing; ``None`` where there are none left. ``spread`` times s2 is
    the variance of the difference between two candidates, by name.
    """

    effects: dict[str, float]
    variance: float | None
    degrees: int
    spread: dict[tuple[str, str], float]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """A difference of two candidates' scores, between its bounds; ``None`` without any."""

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


def connected(scores: Scores) -> tuple[frozenset[str], ...]:
    """Return the groups of candidates that shared rounds link, those with most rounds first.

    Between two groups nothing can be said: whatever they differ by may be their rounds.
    """
    groups: list[set[str]] = []
    for round_number in sorted({r for values in scores.values() for r in values}):
        here = {name for name, values in scores.items() if round_number in values}
        touched = [group for group in groups if group & here]
        groups = [group for group in groups if not group & here]
        groups.append(here.union(*touched))
    groups.sort(key=lambda group: (len(group) == 1, -sum(len(scores[name]) for name in group)))
    return tuple(frozenset(group) for group in groups)


def fit_blocks(scores: Scores) -> BlockFit:
    """Fit candidate and round effects.

    Args:
        scores: each candidate's score by round; some may lack rounds.

    Raises:
        ValueError: no candidate, one without any round, or candidates that no rounds link.
    """
    names = tuple(scores)
    if not names or len(connected(scores)) != 1 or not all(scores.values()):
        raise ValueError("a fit needs candidates that shared rounds link")
    blocks = _blocks(scores)
    inverse, spread = _design(names, tuple(tuple(row) for row in blocks))
    # The first candidate's effect is the origin; the others solve the reduced normal equations.
    sums = [
        math.fsum(row[name] - fmean(row.values()) for row in blocks if name in row)
        for name in names[1:]
    ]
    solved = [math.fsum(a * b for a, b in zip(row, sums, strict=True)) for row in inverse]
    # Rounded, so that equal figures have equal effects: what is left is the arithmetic's own noise.
    effects = dict(zip(names, [0.0, *(round(one, 12) for one in solved)], strict=True))
    squares = []
    for row in blocks:
        origin = fmean(value - effects[name] for name, value in row.items())
        squares += [(value - effects[name] - origin) ** 2 for name, value in row.items()]
    degrees = len(squares) - len(blocks) - len(names) + 1
    return BlockFit(
        effects=effects,
        variance=math.fsum(squares) / degrees if degrees else None,
        degrees=degrees,
        spread=spread,
    )


def difference_bounds(fit: BlockFit, leader: str, other: str, *, level: float) -> Bounds:
    """Return how far ``leader``'s score lies above ``other``'s, with its bounds.

    ``D -+ t(1 - level, degrees) * sqrt(s2 * spread)``; with nothing missing, spread is 2/n.

    Args:
        fit: of blocks that link both.
        leader: the candidate that others are held against.
        other: the candidate to compare.
        level: chance that the true difference lies below the lower bound.
    """
    difference = fit.effects[leader] - fit.effects[other]
    if fit.variance is None:
        return Bounds(difference=difference, low=None, high=None)
    half = t_quantile(1 - level, fit.degrees) * math.sqrt(fit.variance * fit.spread[leader, other])
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


def _blocks(scores: Scores) -> list[dict[str, float]]:
    """The rounds' scores by candidate; a round of one says nothing of differences."""
    rounds = sorted({round_number for values in scores.values() for round_number in values})
    rows = [{n: values[r] for n, values in scores.items() if r in values} for r in rounds]
    return [row for row in rows if len(row) > 1 or len(scores) == 1]


# The same few designs are fitted again and again: at each concurrency, and after each round.
@functools.lru_cache(maxsize=256)
def _design(
    names: tuple[str, ...], blocks: tuple[tuple[str, ...], ...]
) -> tuple[list[list[float]], dict[tuple[str, str], float]]:
    """What follows from who has which round alone: the inverse, and the spread of differences."""
    inverse = _inverse(_normal_equations(names, blocks))
    return inverse, _spreads(names, inverse)


def _normal_equations(names: Sequence[str], blocks: Sequence[Sequence[str]]) -> list[list[float]]:
    """The candidates' normal equations with the rounds' effects eliminated, less the first's."""
    place = {name: number for number, name in enumerate(names)}
    matrix = [[0.0] * len(names) for _ in names]
    for row in blocks:
        for one in row:
            matrix[place[one]][place[one]] += 1
            for other in row:
                matrix[place[one]][place[other]] -= 1 / len(row)
    return [row[1:] for row in matrix[1:]]


def _inverse(matrix: list[list[float]]) -> list[list[float]]:
    """Invert a positive definite matrix by Gauss-Jordan elimination.

    In plain floats and in a fixed order, so that every machine gets the same bits; the matrix is
    as small as the list of candidates.
    """
    size = len(matrix)
    rows = [[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for i in range(size):
        pivot = rows[i][i]
        rows[i] = [value / pivot for value in rows[i]]
        for j in range(size):
            if j != i and rows[j][i]:
                factor = rows[j][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[size:] for row in rows]


def _spreads(
    names: Sequence[str], inverse: Sequence[Sequence[float]]
) -> dict[tuple[str, str], float]:
    def covariance(i: int, j: int) -> float:
        return inverse[i - 1][j - 1] if i and j else 0.0

    return {
        (one, other): covariance(i, i) + covariance(j, j) - 2 * covariance(i, j)
        for i, one in enumerate(names)
        for j, other in enumerate(names)
        if i != j
    }
