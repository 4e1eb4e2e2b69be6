"""The settings that a run is judged by, as types; they are frozen with the run.

What they mean is told in ``docs/decisions.md`` and ``docs/correctness.md``; nothing is judged here.
"""

from typing import Literal

import msgspec

from autotune.decisions.schema import Count

LimitedFigure = Literal[
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p95_s",
    "ttft_p99_s",
    "latency_mean_s",
    "latency_p50_s",
    "latency_p90_s",
    "latency_p95_s",
    "latency_p99_s",
    "tpot_mean_s",
    "tpot_p50_s",
    "tpot_p90_s",
    "tpot_p95_s",
    "tpot_p99_s",
    "error_rate",
]
# How many values a percentile needs: with fewer, no upper bound of it that is free of assumptions
# reaches 95% confidence.
VALUES_NEEDED = {"p90": 29, "p95": 59, "p99": 299}

# Smaller ones can't be told from a typing error, nor be reached by any number of launches.
_SMALLEST = 1e-6


class CorrectnessRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How wrong answers may be, frozen with the run; ``docs/correctness.md`` explains each.

    Rates are per token: how often the candidate would write another token than the reference
    did. ``tolerated_rate`` is what rounding may do to an honest backend whose reference never
    disagrees with itself, ``rejected_rate`` what no rounding does. ``tolerated_drop`` and
    ``rejected_drop`` are the same for the mean loss of log-probability per token (nats).
    ``false_alarm`` is the chance, for each kind of evidence, that what a copy of the reference does
    by chance is taken for more. ``task_margin`` is
    the loss of accuracy that would still be accepted (0.02 = two points).
    """

    tolerated_rate: float = 0.05
    rejected_rate: float = 0.15
    tolerated_drop: float = 0.02
    rejected_drop: float = 0.2
    false_alarm: float = 0.01
    task_margin: float = 0.02

    def check(self) -> None:
        """Check ranges.

        Raises:
            ValueError: a setting out of its range.
        """
        for low, high in (
            ("tolerated_rate", "rejected_rate"),
            ("tolerated_drop", "rejected_drop"),
        ):
            if not 0 < getattr(self, low) < getattr(self, high):
                raise ValueError(f"{low}: must lie between 0 and {high}")
        if not self.rejected_rate <= 1:
            raise ValueError(f"rejected_rate: {self.rejected_rate} must be at most 1")
        if not 0 < self.false_alarm < 0.5:
            raise ValueError(f"false_alarm: {self.false_alarm} must lie between 0 and 0.5")
        if not 0 < self.task_margin < 1:
            raise ValueError(f"task_margin: {self.task_margin} must lie between 0 and 1")


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a candidate must keep to, whatever its throughput.

    ``figure`` is a column of the summary (seconds), or ``error_rate``, the share of a point's
    requests that failed; ``concurrency`` says where it holds, everywhere if it is empty.
    """

    figure: LimitedFigure
    at_most: float
    concurrency: tuple[Count, ...] = ()


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision rule's settings, frozen with the run; ``docs/decisions.md`` explains each.

    ``min_rounds`` is how many rounds a claim needs at least, ``max_rounds`` how many are measured
    at most; after each of them the figures are looked at. ``delta`` is the smallest difference
    worth a change (0.02 = 2%), ``alpha`` the chance of a false claim over the whole run, ``floor``
    the share of the best throughput that the choice must reach at each concurrency. ``weights``
    are per concurrency and sum to 1. A candidate that is behind by more than ``drop_behind`` in
    each of the first ``drop_after`` rounds isn't launched again.
    """

    min_rounds: Count = 3
    max_rounds: Count = 8
    delta: float = 0.02
    alpha: float = 0.05
    floor: float = 0.9
    drop_behind: float = 0.15
    drop_after: Count = 2
    weights: dict[int, float] = {}
    limits: tuple[Limit, ...] = ()
    correctness: CorrectnessRule = CorrectnessRule()

    @property
    def needed_rounds(self) -> int:
        """How many rounds a claim needs: fewer than three carry none, whatever a config says."""
        return max(self.min_rounds, 3)

    @property
    def looks(self) -> int:
        """How often the figures are looked at: after each round from ``needed_rounds`` on."""
        return max(1, self.max_rounds - self.needed_rounds + 1)

    def check(self, concurrencies: tuple[int, ...]) -> None:
        """Check what types can't say.

        Raises:
            ValueError: a setting out of its range, or weights that don't fit the concurrencies.
        """
        for name, value in (("delta", self.delta), ("alpha", self.alpha)):
            if not _SMALLEST <= value < 0.5:
                raise ValueError(f"{name}: {value} must lie between {_SMALLEST:g} and 0.5")
        if self.max_rounds < self.min_rounds:
            raise ValueError(f"max_rounds: {self.max_rounds} is less than min_rounds")
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor: {self.floor} must lie between 0 and 1")
        if not 0 < self.drop_behind < 1:
            raise ValueError(f"drop_behind: {self.drop_behind} must lie between 0 and 1")
        for limit in self.limits:
            if not limit.at_most >= 0:
                raise ValueError(f"limits: {limit.figure} can't be at most {limit.at_most}")
            unknown = sorted(set(limit.concurrency) - set(concurrencies))
            if unknown:
                raise ValueError(f"limits: concurrency {unknown[0]} isn't measured")
        self.correctness.check()
        if self.weights:
            total = sum(self.weights.values())
            if set(self.weights) != set(concurrencies):
                raise ValueError("weights: give one for each concurrency")
            if not (min(self.weights.values()) >= 0 and abs(total - 1) <= 1e-6):
                raise ValueError(f"weights: they sum to {total:g}: use shares that sum to 1")
