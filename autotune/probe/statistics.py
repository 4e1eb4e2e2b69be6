"""The arithmetic of correctness: bounds of rates and shares, and how easily a defect is missed.

Pure, and exact where it can be: counts of wrong tokens and wrong answers are small, and normal
approximations are worst just there. Counts may have fractions where they are means over runs;
bounds then lie between those of the whole numbers beside them.

Sources: Wilson's interval: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209-212. Exact bounds of
a share: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404-413. Exact bounds of a Poisson
rate: F. Garwood, Biometrika 28 (1936) 437-442. The conditional test of two Poisson rates:
J. Przyborowski and H. Wilenski, Biometrika 31 (1940) 313-323. The difference of paired shares:
T. Tango, Statistics in Medicine 17 (1998) 891-908. Its power: R. J. Connor, Biometrics 43 (1987)
207-211.
"""

import math
from collections.abc import Sequence

from scipy.special import (
    betainc,
    betaincinv,
    gammainccinv,
    gammaincinv,
    ndtr,
    ndtri,
    stdtrit,
)

# Halving [-1, 1] this often leaves less than a float can tell.
_HALVINGS = 64
_LARGEST_NUMBER_OF_ITEMS = 10**9


def wilson(successes: float, n: float, *, confidence: float) -> tuple[float, float]:
    """Return the bounds of a share, by Wilson's score interval.

    Args:
        successes: at most ``n``; may have a fraction.
        n: of how many; with none, nothing is known: (0, 1).
        confidence: of the two-sided interval, e.g. 0.95.

    Raises:
        ValueError: ``successes`` isn't between 0 and ``n``, or ``confidence`` not between 0 and 1.
    """
    z = _normal_quantile(confidence)
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} of {n} is no share")
    if n == 0:
        return 0.0, 1.0
    share = successes / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    # Rounding must not make the bounds of 0 and of n leave the share itself out.
    return min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half))


def paired_difference(
    gained: float, lost: float, n: int, *, confidence: float
) -> tuple[float, float]:
    """Return the bounds of a difference of two shares that were measured on the same items.

    Tango's score interval: all differences that a score test doesn't reject. It has a width
    even where nothing differs: about z2 / (n + z2) to each side.

    Args:
        gained: items that only the candidate got right; may have a fraction.
        lost: items that only the reference got right.
        n: all items; without any, nothing is known: (-1, 1).
        confidence: of the two-sided interval, e.g. 0.95.

    Raises:
        ValueError: a count below 0, or more items differ than there are.
    """
    z = _normal_quantile(confidence)
    if not (gained >= 0 and lost >= 0 and gained + lost <= n * (1 + 1e-9)):
        raise ValueError(f"of {n} items, {gained} gained and {lost} lost can't be")
    if n == 0:
        return -1.0, 1.0
    return _tango_low(gained, lost, n, z), -_tango_low(lost, gained, n, z)


def _tango_low(gained: float, lost: float, n: int, z: float) -> float:
    """The smallest difference that isn't rejected: where the score, which falls, reaches z."""
    low, high = -1.0, (gained - lost) / n
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        spread = z * math.sqrt(n * _tango_variance(gained, lost, n, middle))
        if gained - lost - n * middle > spread:
            low = middle
        else:
            high = middle
    return low


def _tango_variance(gained: float, lost: float, n: int, difference: float) -> float:
    """Tango's equation (7): the variance at ``difference``, with q the most likely share lost."""
    b = (2 * n - gained + lost) * difference - gained - lost
    c = -lost * difference * (1 - difference)
    root = math.sqrt(max(0.0, b * b - 8 * n * c))
    # The same root of 2n q2 + b q + c = 0, written so that nothing cancels out.
    q = -2 * c / (b + root) if b > 0 else (root - b) / (4 * n)
    return max(0.0, 2 * q + difference * (1 - difference))


def rate_bounds(events: float, exposure: float, *, alpha: float) -> tuple[float, float]:
    """Return the exact (Garwood's) bounds of a Poisson rate, each one-sided.

    Args:
        events: how many were seen; may have a fraction.
        exposure: over how much (tokens, ...): the rate is per unit of it.
        alpha: the chance that the rate lies below the lower bound, and the same above the upper.

    Raises:
        ValueError: a number below 0, events without exposure, or ``alpha`` not in (0, 0.5].
    """
    _check_alpha(alpha)
    _check_events(events, exposure)
    if exposure == 0:
        return 0.0, math.inf
    # Of fewer the bound is under 1e-300, and of the smallest floats it comes out as a NaN.
    low = float(gammaincinv(events, alpha)) if events > 1e-3 else 0.0
    return low / exposure, float(gammainccinv(events + 1, alpha)) / exposure


def share_bounds(hits: int, n: int, *, alpha: float) -> tuple[float, float]:
    """Return the exact (Clopper and Pearson's) bounds of a share, each one-sided.

    Args:
        hits: at most ``n``.
        n: of how many; with none, nothing is known: (0, 1).
        alpha: the chance that the share lies below the lower bound, and the same above the upper.

    Raises:
        ValueError: ``hits`` isn't between 0 and ``n``, or ``alpha`` not in (0, 0.5].
    """
    _check_alpha(alpha)
    _check_hits(hits, n)
    low = float(betaincinv(hits, n - hits + 1, alpha)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - alpha)) if hits < n else 1.0
    return low, high


def more_often(events: float, exposure: float, other_events: float, other_exposure: float) -> float:
    """Return the p-value of "the first Poisson rate isn't higher than the other".

    Given how many events there were in all, each falls to the first with the chance of its share
    of the exposure: P(X >= events) of a binomial, as an incomplete beta function, which also
    takes fractions.

    Args:
        events: seen by the first; may have a fraction.
        exposure: its exposure.
        other_events: seen by the other.
        other_exposure: in the same unit.

    Raises:
        ValueError: a number below 0, or events without exposure.
    """
    _check_events(events, exposure)
    _check_events(other_events, other_exposure)
    if events == 0 or other_exposure == 0:
        return 1.0
    return float(betainc(events, other_events + 1, exposure / (exposure + other_exposure)))


def larger_share(hits: int, n: int, other_hits: int, other_n: int) -> float:
    """Return the p-value of "the first share isn't larger than the other": Fisher's exact test.

    Args:
        hits: of the first.
        n: of how many.
        other_hits: of the other.
        other_n: of how many.

    Raises:
        ValueError: hits that aren't between 0 and their n.
    """
    _check_hits(hits, n)
    _check_hits(other_hits, other_n)
    total = hits + other_hits
    of_all = _log_choose(n + other_n, total)
    terms = (
        math.exp(_log_choose(n, k) + _log_choose(other_n, total - k) - of_all)
        for k in range(max(hits, total - other_n), min(n, total) + 1)
    )
    return min(1.0, math.fsum(terms))


def mean_bounds(values: Sequence[float], *, alpha: float) -> tuple[float, float, float]:
    """Return a mean with its bounds, each one-sided, by Student's t.

    They hold for independent values of about a bell's shape; of one value nothing is known, so
    its bounds are infinite.

    Args:
        values: at least one, in any unit.
        alpha: the chance that the mean lies below the lower bound, and the same above the upper.

    Raises:
        ValueError: no value, one that is no number, or ``alpha`` not in (0, 0.5].
    """
    _check_alpha(alpha)
    if not values or not all(map(math.isfinite, values)):
        raise ValueError("a mean needs values, all of them finite")
    n = len(values)
    # In units of the largest, so that no sum or square overflows.
    scale = max(map(abs, values)) or 1.0
    mean = math.fsum(value / scale for value in values) / n
    if n < 2:
        return mean * scale, -math.inf, math.inf
    squares = math.fsum((value / scale - mean) ** 2 for value in values)
    half = float(stdtrit(n - 1, 1 - alpha)) * math.sqrt(squares / (n - 1) / n)
    return mean * scale, (mean - half) * scale, (mean + half) * scale


def miss_probability(share: float, answers: int) -> float:
    """Return how likely it is that none of ``answers`` shows a defect of a ``share`` of answers.

    Args:
        share: of answers that the defect spoils, each independently of the others.
        answers: how many were looked at.

    Raises:
        ValueError: ``share`` isn't between 0 and 1, or ``answers`` is below 0.
    """
    if not (0 <= share <= 1 and answers >= 0):
        raise ValueError(f"no odds for a share of {share} in {answers} answers")
    return float((1 - share) ** answers)


def detectable_share(answers: int, *, miss: float = 0.05) -> float:
    """Return the smallest share of spoilt answers that is missed with a chance of ``miss`` at most.

    Args:
        answers: how many were looked at; with none, not even a share of 1 is seen: 1.
        miss: the chance that is accepted.

    Raises:
        ValueError: ``answers`` is below 0, or ``miss`` isn't between 0 and 1.
    """
    if not (answers >= 0 and 0 < miss < 1):
        raise ValueError(f"no share for {answers} answers and a chance of {miss}")
    return 1 - miss ** (1 / answers) if answers else 1.0


def items_needed(
    discordant_share: float, margin: float, *, confidence: float, power: float = 0.8
) -> int:
    """Return how many paired items tell a loss of ``margin``, or show that there is none.

    ``((z sqrt(s) + y sqrt(s - m2)) / m)2`` for the discordant share s and the margin m, with the
    normal quantiles z of the confidence and y of the power (Connor's, for McNemar's test). A
    loss of ``margin`` makes at least that share of items differ, so no smaller one is counted on.

    Args:
        discordant_share: of items that only one of the two gets right.
        margin: the loss of accuracy to tell, above 0.
        confidence: of the two-sided interval.
        power: the chance to tell it.

    Raises:
        ValueError: a share that isn't between 0 and 1, or a margin that isn't above 0.
    """
    share = _discordant(discordant_share, margin)
    spread = _normal_quantile(confidence) * math.sqrt(share)
    spread += float(ndtri(power)) * math.sqrt(share - margin**2)
    needed = (spread / margin) ** 2
    return math.ceil(needed) if needed < _LARGEST_NUMBER_OF_ITEMS else _LARGEST_NUMBER_OF_ITEMS


def loss_missed(items: int, discordant_share: float, margin: float, *, confidence: float) -> float:
    """Return how likely a loss of ``margin`` can't be told from none, with so many paired items.

    `items_needed` solved for the power: 0.2 for as many items as that one asks for with a power
    of 0.8. Without items it is 1.

    Args:
        items: paired items, at least 0.
        discordant_share: of items that only one of the two gets right.
        margin: the loss of accuracy, above 0.
        confidence: of the two-sided interval.

    Raises:
        ValueError: as `items_needed`, or ``items`` is below 0.
    """
    share = _discordant(discordant_share, margin)
    if items < 0:
        raise ValueError(f"{items} items can't be")
    if items == 0:
        return 1.0
    gap = _normal_quantile(confidence) * math.sqrt(share) - margin * math.sqrt(items)
    left = math.sqrt(share - margin**2)
    return float(ndtr(gap / left)) if left > 0 else float(gap > 0)


def _discordant(share: float, margin: float) -> float:
    if not (0 <= share <= 1 and 0 < margin <= 1):
        raise ValueError(f"a share of {share} and a margin of {margin} can't be")
    return max(share, margin)


def _normal_quantile(confidence: float) -> float:
    """The quantile that leaves half of what isn't trusted above it."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence of {confidence} must lie between 0 and 1")
    return float(ndtri(0.5 + confidence / 2))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha <= 0.5:
        raise ValueError(f"alpha: {alpha} must be above 0 and at most 0.5")


def _check_events(events: float, exposure: float) -> None:
    if not (0 <= events < math.inf and 0 <= exposure < math.inf) or (events and not exposure):
        raise ValueError(f"{events} events over {exposure} can't be")


def _check_hits(hits: int, n: int) -> None:
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} of {n} is no share")
