"""The comparison itself: who competes, on which rounds, who leads, and how sure that is. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

import msgspec

from autotune.decide import wording
from autotune.decide.admission import Admission
from autotune.decide.statistics import BlockFit, Bounds, difference_bounds, fit_blocks
from autotune.decisions.schema import Outcome
from autotune.records.schema import Rule, RunRecord

# Fewer rounds carry no claim, whatever a config says.
MINIMUM_ROUNDS = 3


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The contenders on their complete blocks, and the one that the rule takes.

    ``below_floor`` holds those that lead on average, but that the floor keeps from being chosen;
    ``twins`` those that ran the very same as the leader under another name; ``bounds`` the
    leader's distance to each of its rivals; ``doubt`` says why an outcome is ``open``, ``None``
    where it isn't.
    """

    contenders: tuple[str, ...]
    rounds: tuple[int, ...]
    fit: BlockFit
    worst_ratio: dict[str, float]
    below_floor: frozenset[str]
    twins: frozenset[str]
    bounds: dict[str, Bounds]
    leader: str
    choice: str
    outcome: Outcome
    doubt: str | None


def eligible(
    admissions: Collection[Admission], *, accept_inconclusive: bool = False
) -> list[Admission]:
    """Those that passed; where nobody did, or somebody accepts it, the inconclusive ones too."""
    able = [admission for admission in admissions if admission.refusal is None]
    if accept_inconclusive:
        return able
    passed = [admission for admission in able if admission.verdict.verdict == "pass"]
    return passed or able


def shared_rounds(contenders: Sequence[Admission], run: RunRecord) -> tuple[int, ...]:
    """Rounds in which every contender is complete."""
    if not contenders:
        return ()
    complete = [contender.complete_rounds(run.concurrencies) for contender in contenders]
    return tuple(sorted(set.intersection(*complete)))


def compare(
    contenders: Sequence[Admission],
    run: RunRecord,
    *,
    rounds: tuple[int, ...],
    unmeasured: Sequence[Admission],
) -> Comparison:
    """Compare the contenders on ``rounds``, in all of which each of them is complete.

    ``unmeasured`` are those that might have won, but have no figures.
    """
    rule = run.rule
    scores = {
        contender.candidate: [score(contender.throughputs[r], run) for r in rounds]
        for contender in contenders
    }
    fit = fit_blocks(scores)
    worst = _worst_ratios(contenders, rounds, run)
    leader = _leader(fit, worst, rule)
    twins = _twins((*contenders, *unmeasured), leader, run)
    below_floor = frozenset(
        name
        for name in scores
        if worst[name] < rule.floor <= worst[leader]
        and fit.means[name] > fit.means[leader]
        and name not in twins
    )
    bounds = {
        name: difference_bounds(
            fit, leader, name, alpha=rule.alpha, comparisons=len(run.candidates) - 1
        )
        for name in scores
        if name != leader and name not in below_floor and name not in twins
    }
    missing = [admission for admission in unmeasured if admission.candidate not in twins]
    measured_twins = twins & scores.keys()
    doubt = _doubt(missing, bounds, run, rounds=len(rounds), twins=len(twins))
    outcome = _outcome(bounds, rule) if doubt is None else "open"
    return Comparison(
        contenders=tuple(scores),
        rounds=rounds,
        fit=fit,
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


def score(throughputs: Mapping[int, float], run: RunRecord) -> float:
    """The weighted mean of ln(throughput): the log of a weighted geometric mean."""
    even = 1 / len(run.concurrencies)
    weights = run.rule.weights
    return math.fsum(
        (weights[concurrency] if weights else even) * math.log(throughputs[concurrency])
        for concurrency in run.concurrencies
    )


def _worst_ratios(
    contenders: Sequence[Admission], rounds: Sequence[int], run: RunRecord
) -> dict[str, float]:
    """Each contender's lowest share, over the concurrencies, of the best throughput there."""
    worst = {contender.candidate: 1.0 for contender in contenders}
    for concurrency in run.concurrencies:
        logs = {
            contender.candidate: fmean(
                math.log(contender.throughputs[r][concurrency]) for r in rounds
            )
            for contender in contenders
        }
        best = max(logs.values())
        for name, value in logs.items():
            worst[name] = min(worst[name], math.exp(value - best))
    return worst


def _leader(fit: BlockFit, worst: Mapping[str, float], rule: Rule) -> str:
    reaching = [name for name in fit.means if worst[name] >= rule.floor]
    if not reaching:
        return max(worst, key=lambda name: (worst[name], fit.means[name]))
    return max(reaching, key=lambda name: fit.means[name])


def _twins(contenders: Sequence[Admission], leader: str, run: RunRecord) -> frozenset[str]:
    """Those that ran the very same as the leader, as far as a run's records can tell."""
    if run.kind == "import":
        return frozenset()  # A table doesn't say what its rows were launched with.
    same = next(c.launched_as for c in contenders if c.candidate == leader)
    return frozenset(
        c.candidate for c in contenders if c.launched_as == same and c.candidate != leader
    )


def _doubt(
    unmeasured: Sequence[Admission],
    bounds: Mapping[str, Bounds],
    run: RunRecord,
    *,
    rounds: int,
    twins: int,
) -> str | None:
    """Why nothing can be concluded yet, whatever the figures say."""
    needed = max(run.rule.rounds, MINIMUM_ROUNDS)
    if rounds == 1:
        return f"one round gives no interval; the rule asks for {needed}"
    if rounds < needed:
        return f"{rounds} complete rounds of the {needed} that the rule asks for"
    if unmeasured:
        missing = unmeasured[0]
        return f"{missing.candidate} wasn't beaten, only not measured: {missing.unmeasured}"
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
    behind = bounds[incumbent]
    equal = behind.low is not None and behind.low <= 0
    near = behind.difference <= math.log1p(run.rule.delta)
    return incumbent if equal and near and worst[incumbent] >= run.rule.floor else leader
