"""How a judgement is put into words: one sentence each, with its numbers and no more certainty."""

from collections.abc import Mapping, Sequence

from autotune.decide.schema import RatioEstimate, Standing
from autotune.decisions.schema import ConcurrencyWinner, Interval, Outcome
from autotune.probe.verdict import CandidateVerdict
from autotune.records.schema import Rule


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
) -> str:
    """Return the one line that says what was decided and how sure it is."""
    over = f"{rounds} round{'s' if rounds != 1 else ''}"
    rival = _nearest_rival(standings)
    if outcome == "decisive":
        if rival is None:
            return f"decisive: {choice}, the only admissible candidate over {over}"
        return (
            f"decisive: {choice} is ahead of {rival[0]}, the next best, by "
            f"{_with_interval(rival[1])} over {over}"
        )
    if outcome == "within_delta":
        if choice == incumbent:
            why = "it is the incumbent, and no other is clearly better"
            if leader != choice:
                behind = next(s.behind for s in standings if s.candidate == choice)
                lead = _with_interval(behind) if behind else "nothing"
                why = f"it is the incumbent; {leader} leads by {lead}, which isn't a clear gain"
            return f"within_delta: {choice} stays over {over}: {why}"
        return (
            f"within_delta: {choice}: nothing is better by more than {rule.delta:.1%} "
            f"({1 - rule.alpha:.0%} confidence, {over})"
        )
    if rival is None:
        return f"open: {choice} is the only admissible candidate, over {over}"
    return f"open: {choice} leads {rival[0]} by {_with_interval(rival[1])} over {over}"


def blockers(
    *,
    outcome: Outcome,
    verdict: CandidateVerdict,
    rounds: int,
    rule: Rule,
    standings: Sequence[Standing],
) -> tuple[str, ...]:
    """Return what somebody must accept before the decision may be written."""
    found = []
    if outcome == "open":
        found.append(f"the outcome is open: {_why_open(rounds, rule, standings)}")
    if verdict.verdict != "pass":
        reason = verdict.reason
        if not reason.startswith("no correctness evidence"):
            reason = f"correctness is {verdict.verdict}: {reason}"
        found.append(reason)
    return tuple(found)


def ahead(winners: Sequence[ConcurrencyWinner], *, choice: str) -> list[str]:
    """Name each concurrency at which another candidate is ahead of the choice."""
    return [
        f"at concurrency {winner.concurrency} {winner.candidate} is ahead by "
        f"{percent(winner.ratio_to_choice)}{_interval(winner.interval)}"
        for winner in winners
        if winner.candidate != choice
    ]


def below_floor(worst: float, floor: float) -> str:
    """Say that a candidate may be compared, but not chosen."""
    return f"reaches {worst:.0%} of the best at one concurrency, below the floor of {floor:.0%}"


def no_one_reaches_floor(choice: str, worst: float, floor: float) -> str:
    """Say that the floor had to be waived, and for whom."""
    return (
        f"no candidate reaches {floor:.0%} of the best at every concurrency: {choice} comes "
        f"nearest with {worst:.0%}"
    )


def rounds_left_out(rounds: Sequence[int], complete: Mapping[str, set[int]]) -> list[str]:
    """Say which rounds weren't compared, and for want of whom."""
    notes = []
    for round_number in rounds:
        lacking = [name for name, has in complete.items() if round_number not in has]
        if lacking:
            notes.append(
                f"round {round_number} is left out: {', '.join(lacking)} lacks a valid point"
            )
    return notes


def _why_open(rounds: int, rule: Rule, standings: Sequence[Standing]) -> str:
    if rounds == 1:
        return f"one round gives no interval; the rule asks for {rule.rounds}"
    if rounds < rule.rounds:
        return f"{rounds} complete rounds of the {rule.rounds} that the rule asks for"
    rival = _nearest_rival(standings)
    if rival is None:
        return "there is nothing to compare with"
    return f"after {rounds} rounds the lead over {rival[0]} is still {_with_interval(rival[1])}"


def _nearest_rival(standings: Sequence[Standing]) -> tuple[str, RatioEstimate] | None:
    behind = [(s.candidate, s.behind) for s in standings if s.behind is not None]
    return min(behind, key=lambda pair: pair[1].ratio, default=None)


def _with_interval(estimate: RatioEstimate) -> str:
    return f"{estimate.ratio - 1:.1%}{_interval(estimate.interval)}"


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return (
        f" ({interval.confidence:.3g} bounds {interval.low - 1:+.1%} to {interval.high - 1:+.1%})"
    )
