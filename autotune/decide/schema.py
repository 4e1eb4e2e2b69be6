"""What a judged run says, as types: who may win, who leads, how sure that is.

Computed by `autotune.decide.rule` from records alone; shown by `autotune.report`, frozen into a
decision file by `autotune.decide.entry`.
"""

from typing import Literal

import msgspec

from autotune.decisions.schema import ConcurrencyWinner, Interval, Outcome, Verdict


class RatioEstimate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A throughput ratio from ``n`` paired rounds; no interval where ``n`` < 2."""

    ratio: float
    n: int
    interval: Interval | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One candidate's place in a judged run.

    ``admissible`` candidates may win; otherwise ``reason`` says in one sentence why not.
    ``to_baseline`` compares with the baseline over all concurrencies (weighted geometric mean),
    ``to_baseline_at`` at one concurrency each. ``behind`` is the leader's throughput over this
    candidate's, with the interval that the outcome was read from.
    """

    candidate: str
    backend: str
    verdict: Verdict
    admissible: bool
    rounds: int
    reason: str | None = None
    to_baseline: RatioEstimate | None = None
    to_baseline_at: dict[int, RatioEstimate] = {}
    behind: RatioEstimate | None = None


class Judgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the rule says of a run.

    ``choice`` is the candidate to use, ``None`` where nobody can be chosen. ``summary`` is the
    one line for a terminal; ``notes`` are the facts a reader must know beside it (a concurrency
    at which another is ahead, no interval from one round, a floor nobody reached, ...), one
    sentence each. ``blockers`` are the reasons why no decision may be written without somebody
    accepting them; empty when the decision stands by itself.
    """

    outcome: Outcome
    choice: str | None
    summary: str
    rounds: int
    baseline: str | None
    baseline_role: Literal["incumbent", "reference"] | None
    standings: tuple[Standing, ...]
    winners: tuple[ConcurrencyWinner, ...] = ()
    notes: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
