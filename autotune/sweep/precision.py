"""How many rounds a sweep will need, from how much earlier launches differed. Pure.

The number of rounds is that of selecting the best of K normal means with an indifference zone (R.
E. Bechhofer, *Annals of Mathematical Statistics* 25(1), 1954, pp. 16-39): so many that the best is
ahead in the means with a given probability, if it is better than all others by at least the
indifference zone. His multivariate quantile is replaced by Bonferroni's inequality, which asks for
slightly more. The noise is taken as known, and nothing is said of proof: the race's own bounds
(`autotune.decide.compare`) are wider.
"""

import math
from statistics import NormalDist

import msgspec

from autotune.decide.admission import throughputs_of
from autotune.decide.compare import error_share, score
from autotune.decide.statistics import connected, fit_blocks, ratio, t_quantile
from autotune.records.folder import LoadedRun
from autotune.records.rule import Rule


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """How much launches of one candidate differ beyond what a round's launches share.

    ``deviation`` is the residual standard deviation of the score: of ln(throughput), so that 0.03
    is about 3%. It is estimated with ``degrees`` degrees of freedom.
    """

    deviation: float
    degrees: int
    rounds: int
    candidates: int


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    """What rounds can do against noise; gaps are shares of throughput (0.02 = 2%).

    ``rounds_needed`` rounds make it likely (``1 - alpha``) that a candidate that is better than
    all others by ``delta`` leads. In ``max_rounds`` rounds the same holds for a gap of
    ``gap_told``, and a lead of ``gap_proven`` would be a claim by the rule's bounds.
    """

    rounds_needed: int
    gap_told: float
    gap_proven: float


def noise_of(run: LoadedRun) -> Noise | None:
    """Return a run's noise, ``None`` where it hasn't two rounds that two candidates share."""
    concurrencies = run.run.concurrencies
    scores = {}
    for candidate in run.run.candidates:
        throughputs = throughputs_of(run, candidate.name)
        rounds = {
            number: score(values, run.run)
            for number, values in throughputs.items()
            if all(concurrency in values for concurrency in concurrencies)
        }
        if rounds:
            scores[candidate.name] = rounds
    groups = connected(scores)
    if not groups:
        return None
    linked = {name: scores[name] for name in scores if name in groups[0]}
    fit = fit_blocks(linked)
    if fit.variance is None:
        return None
    return Noise(
        deviation=math.sqrt(fit.variance),
        degrees=fit.degrees,
        rounds=len({number for rounds in linked.values() for number in rounds}),
        candidates=len(linked),
    )


def precision_of(noise: Noise, rule: Rule, *, candidates: int) -> Precision:
    """Return what a race of ``candidates`` (two or more) can settle in this noise."""
    return Precision(
        rounds_needed=rounds_needed(
            noise.deviation, rule.delta, confidence=1 - rule.alpha, candidates=candidates
        ),
        gap_told=gap_told(
            noise.deviation, rule.max_rounds, confidence=1 - rule.alpha, candidates=candidates
        ),
        gap_proven=gap_proven(noise.deviation, rule, candidates=candidates),
    )


def rounds_needed(deviation: float, gap: float, *, confidence: float, candidates: int) -> int:
    """Return ``ceil(2 (z(1 - (1 - confidence) / (candidates - 1)) * deviation / ln(1 + gap))^2)``.

    Args:
        deviation: standard deviation of a score within a round, of ln(throughput).
        gap: how much better the best is than all others, e.g. 0.02 for 2%.
        confidence: chance that the best then has the highest mean.
        candidates: how many there are, two or more.
    """
    quantile = _quantile(confidence, candidates)
    return max(1, math.ceil(2 * (quantile * deviation / math.log1p(gap)) ** 2))


def gap_told(deviation: float, rounds: int, *, confidence: float, candidates: int) -> float:
    """Return the gap for which `rounds_needed` gives ``rounds``."""
    return ratio(_quantile(confidence, candidates) * deviation * math.sqrt(2 / rounds)) - 1


def gap_proven(deviation: float, rule: Rule, *, candidates: int) -> float:
    """Return the lead that the rule's bounds leave no doubt of after ``max_rounds`` rounds.

    ``t(1 - level, (n - 1)(candidates - 1)) * deviation * sqrt(2 / n)``, as a share; infinite after
    one round, which gives no interval.
    """
    rounds = rule.max_rounds
    degrees = (rounds - 1) * (candidates - 1)
    if not degrees:
        return math.inf
    quantile = t_quantile(1 - error_share(rule, candidates=candidates), degrees)
    return ratio(quantile * deviation * math.sqrt(2 / rounds)) - 1


def _quantile(confidence: float, candidates: int) -> float:
    return NormalDist().inv_cdf(1 - (1 - confidence) / (candidates - 1))
