"""The comparison itself: who competes, on which rounds, who leads, and how sure that is. Pure."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from autotune.decide import wording
from autotune.decide.admission import Admission
from autotune.decide.limits import unknown_limit
from autotune.decide.statistics import (
    BlockFit,
    Bounds,
    Scores,
    connected,
    difference_bounds,
    fit_blocks,
)
from autotune.decisions.schema import Outcome
from autotune.records.rule import Rule
from autotune.records.schema import RunRecord


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The contenders on their complete rounds, and the one that the rule takes.

    ``scores`` holds each contender's score in its complete rounds; some may lack rounds that
    others have.
    ``fit_at`` is the fit at each concurrency alone. ``below_floor`` holds those that lead on
    average, but that the floor keeps from being chosen; ``twins`` those that ran the very same as
    the leader under another name; ``bounds`` the leader's distance to each of its rivals;
    ``doubt`` says why an outcome is ``open``, ``None`` where it isn't.
    """

    scores: dict[str, dict[int, float]]
    fit: BlockFit
    fit_at: dict[int, BlockFit]
    worst_ratio: dict[str, float]
    below_floor: frozenset[str]
    twins: frozenset[str]
    bounds: dict[str, Bounds]
    leader: str
    choice: str
    outcome: Outcome
    doubt: str | None

    @property
    def contenders(self) -> tuple[str, ...]:
        """Who is compared, in the run's order."""
        return tuple(self.scores)

    @property
    def rounds(self) -> dict[str, tuple[int, ...]]:
        """Each contender's complete rounds."""
        return {name: tuple(scores) for name, scores in self.scores.items()}

    def gaps(self, name: str) -> list[float]:
        """How far a contender's score lies below the leader's in each round that both completed."""
        own, leading = self.scores[name], self.scores[self.leader]
        return [leading[number] - own[number] for number in leading if number in own]


def eligible(
    admissions: Collection[Admission], *, accept_inconclusive: bool = False
) -> list[Admission]:
    """Those that passed; where nobody did, or somebody accepts it, the inconclusive ones too."""
    able = [admission for admission in admissions if admission.refusal is None]
    if accept_inconclusive:
        return able
    passed = [admission for admission in able if admission.verdict.verdict == "pass"]
    return passed or able


def comparable(able: Sequence[Admission], run: RunRecord) -> list[Admission]:
    """Return those that can be compared: complete in some round, and linked by shared ones.

    Whether they keep to the limits must be known, too.
    Nobody where several were measured, and no two of them in the same round.
    """
    complete = {
        admission.candidate: dict.fromkeys(admission.complete_rounds(run.concurrencies), 0.0)
        for admission in able
        if unknown_limit(admission.limits) is None
    }
    groups = connected({name: rounds for name, rounds in complete.items() if rounds})
    if len(groups) > 1 and len(groups[0]) == 1:
        return []
    return [admission for admission in able if groups and admission.candidate in groups[0]]


def claim_level(run: RunRecord) -> float:
    """Return the chance of error that each lower bound may take, at each look."""
    return error_share(run.rule, candidates=len(run.candidates))


def error_share(rule: Rule, *, candidates: int) -> float:
    """Return the same for a race of so many candidates.

    ``alpha`` is split (Bonferroni's inequality) over the looks and over the candidates that could
    be claimed falsely: any but the best one, or either of two that are equal.
    """
    return rule.alpha / (max(2, candidates - 1) * rule.looks)


def compare(
    contenders: Sequence[Admission], run: RunRecord, *, unmeasured: Sequence[Admission]
) -> Comparison:
    """Compare contenders that shared rounds link (`comparable`).

    ``unmeasured`` are those that might have won, but can't be compared.
    """
    rule = run.rule
    scores = {contender.candidate: _scores(contender, run) for contender in contenders}
    fit = fit_blocks(scores)
    fit_at = {
        concurrency: fit_blocks(
            {c.candidate: _logs(c, scores[c.candidate], concurrency) for c in contenders}
        )
        for concurrency in run.concurrencies
    }
    worst = _worst_ratios(fit_at)
    leader = _leader(fit, worst, rule)
    twins = _twins((*contenders, *unmeasured), leader, run)
    below_floor = frozenset(
        name
        for name in scores
        if worst[name] < rule.floor <= worst[leader]
        and fit.effects[name] > fit.effects[leader]
        and name not in twins
    )
    bounds = {
        name: _bounds(fit, leader, name, scores=scores, level=claim_level(run))
        for name in scores
        if name != leader and name not in below_floor and name not in twins
    }
    measured_twins = twins & scores.keys()
    doubt = _doubt(
        [admission for admission in unmeasured if admission.candidate not in twins],
        bounds,
        run,
        rounds=_rounds_behind(leader, bounds, scores),
        twins=len(twins),
    )
    outcome = _outcome(bounds, rule) if doubt is None else "open"
    return Comparison(
        scores=scores,
        fit=fit,
        fit_at=fit_at,
        worst_ratio=worst,
        below_floor=below_floor,
        twins=measured_twins,
        bounds=bounds,
        leader=leader,
        # The leader under its other name: nothing changes for those who have it already.
        choice=run.incumbent
        if run.incumbent is not None and run.incumbent in measured_twins
        else _choice(leader, outcome, bounds, run, worst=worst),
        outcome=outcome,
        doubt=doubt or (wording.not_separated(bounds, rule) if outcome == "open" else None),
    )


def _bounds(fit: BlockFit, leader: str, name: str, *, scores: Scores, level: float) -> Bounds:
    """The leader's distance to a rival; none where one round is all that they share.

    The others' rounds would lend it an interval. But one launch may have gone wrong, and no other
    is there to show it.
    """
    bounds = difference_bounds(fit, leader, name, level=level)
    if len(scores[leader].keys() & scores[name].keys()) < 2:
        return Bounds(difference=bounds.difference, low=None, high=None)
    return bounds


def is_beaten(bound: Bounds) -> bool:
    """Whether the leader is ahead of this rival beyond doubt."""
    return bound.low is not None and bound.low > 0


def score(throughputs: Mapping[int, float], run: RunRecord) -> float:
    """The weighted mean of ln(throughput): the log of a weighted geometric mean."""
    even = 1 / len(run.concurrencies)
    weights = run.rule.weights
    return math.fsum(
        (weights[concurrency] if weights else even) * math.log(throughputs[concurrency])
        for concurrency in run.concurrencies
    )


def _scores(admission: Admission, run: RunRecord) -> dict[int, float]:
    rounds = sorted(admission.complete_rounds(run.concurrencies))
    return {number: score(admission.throughputs[number], run) for number in rounds}


def _logs(admission: Admission, rounds: Iterable[int], concurrency: int) -> dict[int, float]:
    return {number: math.log(admission.throughputs[number][concurrency]) for number in rounds}


def _worst_ratios(fit_at: Mapping[int, BlockFit]) -> dict[str, float]:
    """Each contender's lowest share, over the concurrencies, of the best throughput there."""
    worst: dict[str, float] = {}
    for fit in fit_at.values():
        best = max(fit.effects.values())
        for name, effect in fit.effects.items():
            worst[name] = min(worst.get(name, 1.0), math.exp(effect - best))
    return worst


def _leader(fit: BlockFit, worst: Mapping[str, float], rule: Rule) -> str:
    reaching = [name for name in fit.effects if worst[name] >= rule.floor]
    if not reaching:
        return max(worst, key=lambda name: (worst[name], fit.effects[name]))
    return max(reaching, key=lambda name: fit.effects[name])


def _twins(contenders: Sequence[Admission], leader: str, run: RunRecord) -> frozenset[str]:
    """Those that ran the very same as the leader, as far as a run's records can tell."""
    if run.kind == "import":
        return frozenset()  # A table doesn't say what its rows were launched with.
    same = next(c.launched_as for c in contenders if c.candidate == leader)
    return frozenset(
        c.candidate for c in contenders if c.launched_as == same and c.candidate != leader
    )


def _rounds_behind(leader: str, bounds: Mapping[str, Bounds], scores: Scores) -> int:
    """How many rounds a claim would rest on: those of the leader and each unbeaten rival."""
    shared = [
        len(scores[leader].keys() & scores[name].keys())
        for name, bound in bounds.items()
        if not is_beaten(bound)
    ]
    return min([len(scores[leader]), *shared])


def _doubt(
    unmeasured: Sequence[Admission],
    bounds: Mapping[str, Bounds],
    run: RunRecord,
    *,
    rounds: int,
    twins: int,
) -> str | None:
    """Why nothing can be concluded yet, whatever the figures say."""
    needed = run.rule.needed_rounds
    if rounds == 1:
        return f"one round gives no interval; the rule asks for {needed}"
    if rounds < needed:
        return f"{rounds} complete rounds of the {needed} that the rule asks for"
    if unmeasured:
        missing = unmeasured[0]
        why = missing.unmeasured or "it shares no complete round with the others"
        return f"{missing.candidate} wasn't beaten, only not measured: {why}"
    if not bounds and len(run.candidates) == 1 + twins:
        one = "backend" if twins else "candidate"
        return f"one {one} was entered: there is nothing to compare it with"
    return None


def _outcome(bounds: Mapping[str, Bounds], rule: Rule) -> Outcome:
    lows = [bound.low for bound in bounds.values()]
    if all(low is not None and low > 0 for low in lows):
        return "decisive"
    if all(low is not None and low >= -math.log1p(rule.delta) for low in lows):
        return "within_delta"
    return "open"


def _choice(
    leader: str,
    outcome: Outcome,
    bounds: Mapping[str, Bounds],
    run: RunRecord,
    *,
    worst: Mapping[str, float],
) -> str:
    """The leader, or the incumbent where it's among the equals: a change needs a gain."""
    incumbent = run.incumbent
    if outcome != "within_delta" or incumbent is None or incumbent not in bounds:
        return leader
    behind, delta = bounds[incumbent], math.log1p(run.rule.delta)
    if behind.low is None or behind.high is None or behind.low > 0:
        return leader
    # The leader is shown to be within delta of the best; the incumbent has to be near it, too.
    near = behind.difference <= delta and behind.high <= 2 * delta
    return incumbent if near and worst[incumbent] >= run.rule.floor else leader
