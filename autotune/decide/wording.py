"""How a judgement is put into words: one sentence each, with its numbers and no more certainty."""

from collections.abc import Mapping, Sequence

from autotune.decide.schema import RatioEstimate, Standing
from autotune.decide.statistics import Bounds, ratio
from autotune.decisions.schema import ConcurrencyWinner, Interval, Outcome
from autotune.probe.schema import CandidateVerdict
from autotune.records.rule import Rule
from autotune.records.schema import PointRecord

# How a blocker begins that --accept-inconclusive accepts.
INCONCLUSIVE = "correctness is inconclusive"
# What --accept-inconclusive comes to.
LET_IN = "candidates compete whose answers couldn't be judged"


def percent(ratio: float) -> str:
    """Return a ratio as a difference: 1.014 -> ``1.4%``."""
    return f"{abs(ratio - 1):.1%}"


def summary(
    *,
    outcome: Outcome,
    choice: str,
    leader: str,
    incumbent: str | None,
    standings: Sequence[Standing],
    rule: Rule,
    rounds: int,
    twins: int,
) -> str:
    """Return the one line that says what was decided and how sure it is."""
    over = f"{rounds} round{'s' if rounds != 1 else ''}"
    rival = _nearest_rival(standings)
    alone = "the only admissible candidate" if not twins else "the only backend left"
    if outcome == "decisive":
        if rival is None:
            return f"decisive: {choice}, {alone} over {over}"
        return (
            f"decisive: {choice} is ahead of {rival[0]}, the next best, by "
            f"{_with_interval(rival[1])} over {over}"
        )
    if outcome == "within_delta":
        behind = next(s.behind for s in standings if s.candidate == choice)
        if behind is not None:
            return (
                f"within_delta: {choice} stays over {over}: it is the incumbent; {leader} leads by "
                f"{_with_interval(behind)}, which isn't a clear gain"
            )
        who = f"{choice}, the incumbent, stays" if choice == incumbent else choice
        return (
            f"within_delta: {who}: nothing is better by more than {rule.delta:.1%} "
            f"({1 - rule.alpha:.0%} confidence, {over})"
        )
    if rival is None:
        return f"open: {choice}, {alone} over {over}"
    return f"open: {choice} leads {rival[0]} by {_with_interval(rival[1])} over {over}"


def blockers(doubt: str | None, verdict: CandidateVerdict) -> tuple[str, ...]:
    """Return what somebody must accept before the decision may be written."""
    found = [] if doubt is None else [f"the outcome is open: {doubt}"]
    if verdict.verdict != "pass":
        reason = verdict.reason
        if not reason.startswith("no correctness evidence"):
            reason = f"{INCONCLUSIVE}: {reason}"
        found.append(reason)
    return tuple(found)


def not_separated(bounds: Mapping[str, Bounds], rule: Rule) -> str:
    """Say which rival the leader couldn't be told from."""
    name, bound = min(bounds.items(), key=lambda pair: pair[1].low or 0.0)
    lead = _with_interval(ratio_of(bound, confidence=1 - rule.alpha, rounds=0))
    return f"{name} may still be better by more than {rule.delta:.1%}: the lead over it is {lead}"


def ratio_of(bound: Bounds, *, confidence: float, rounds: int) -> RatioEstimate:
    """Return a difference of scores as a ratio, with its interval."""
    interval = None
    if bound.low is not None and bound.high is not None:
        interval = Interval(ratio(bound.low), ratio(bound.high), confidence)
    return RatioEstimate(ratio=ratio(bound.difference), n=rounds, interval=interval)


def ahead(winners: Sequence[ConcurrencyWinner], *, choice: str) -> list[str]:
    """Name each concurrency at which another candidate is ahead of the choice."""
    return [
        f"at concurrency {winner.concurrency} {winner.candidate} is ahead by "
        f"{percent(winner.ratio_to_choice)}{_interval(winner.interval)}"
        for winner in winners
        if winner.candidate != choice
    ]


def unnamed(choice: str, told: Sequence[str | None]) -> str:
    """Say why a decision for ``auto`` can't be written."""
    names = [name or "nothing" for name in told]
    why = "the engine doesn't say which backend it runs there"
    if len(names) > 1:
        why = f"its launches differ in which backend it runs ({', '.join(names)})"
    return (
        f"{choice} is the choice, and {why}: no decision can name it, so that auto stays as it is"
    )


def ran_the_same(leader: str, twin: str, *, backend: str, ratio: float) -> str:
    """Say that two candidates are one, and that what they differ by is chance."""
    return (
        f"{leader} and {twin} both ran {backend}: the {percent(ratio)} between them is how far "
        "launches of the same are apart"
    )


def below_floor(worst: float, floor: float) -> str:
    """Say that a candidate may be compared, but not chosen."""
    return f"reaches {worst:.0%} of the best at one concurrency, below the floor of {floor:.0%}"


def no_one_reaches_floor(choice: str, worst: float, floor: float) -> str:
    """Say that the floor had to be waived, and for whom."""
    return (
        f"no candidate reaches {floor:.0%} of the best at every concurrency: {choice} comes "
        f"nearest with {worst:.0%}"
    )


def rounds_left_out(
    points: Sequence[PointRecord], rounds: Mapping[str, Sequence[int]]
) -> list[str]:
    """Say which contender isn't compared in a round in which it was measured, and why.

    ``rounds`` holds each contender's complete rounds.
    """
    problems: dict[tuple[int, str], str] = {}
    for point in points:
        place = (point.round, point.candidate)
        if point.status != "ok" and point.round not in rounds.get(point.candidate, (point.round,)):
            problems.setdefault(place, f"{point.status} at concurrency {point.concurrency}")
    return [
        f"{name} isn't compared in round {round_number}: {problem}"
        for (round_number, name), problem in sorted(problems.items())
    ]


def _nearest_rival(standings: Sequence[Standing]) -> tuple[str, RatioEstimate] | None:
    behind = [(s.candidate, s.behind) for s in standings if s.behind is not None]
    return min(behind, key=lambda pair: pair[1].ratio, default=None)


def _with_interval(estimate: RatioEstimate) -> str:
    return f"{estimate.ratio - 1:.1%}{_interval(estimate.interval)}"


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    sure = f"{100 * interval.confidence:.3g}%"
    return f" ({sure} interval {interval.low - 1:+.1%} to {interval.high - 1:+.1%})"
