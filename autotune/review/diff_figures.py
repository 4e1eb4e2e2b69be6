"""Figures side by side, and whether rounds that differ explain the change. Pure.

Two runs are other launches at other times: nothing pairs their rounds. So each figure's rounds on
both sides are compared by Welch's t interval of their logarithms (Biometrika 34, 1947), whose
degrees of freedom are rounded down; the change that the interval surrounds is that of the rounds'
geometric means. The chance that any of one figure's changes is called
``beyond`` without cause is held at 5% in all (Bonferroni's inequality).

A decision's evidence rows hold no medians: those are compared where the records of a run are at
hand, as means over the same rounds.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, variance

import msgspec

from autotune.decide.statistics import geometric_mean, ratio, t_quantile
from autotune.decisions.schema import EvidenceRow, Interval
from autotune.records.folder import LoadedRun
from autotune.records.schema import PointFigures
from autotune.review.diff_leaves import paired
from autotune.review.diff_schema import FigureChange

THROUGHPUT = "output_tokens_per_s"
MEDIANS = ("ttft_p50_s", "latency_p50_s")
TIMES = (
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p99_s",
    "latency_mean_s",
    "latency_p50_s",
    "latency_p99_s",
)
FIGURES = (THROUGHPUT, *TIMES)
FALSE_ALARM = 0.05
_OF_A_DECISION = tuple(name for name in FIGURES if name not in MEDIANS)

# Each valid round's figure, by (candidate, concurrency, figure).
Rounds = Mapping[tuple[str, int, str], Sequence[float]]


def rounds_of(run: LoadedRun) -> Rounds:
    """Return what each valid point showed: the figures of evidence rows, and the medians."""
    found: dict[tuple[str, int, str], list[float]] = {}
    for point in run.points:
        if point.status != "ok" or point.figures is None:
            continue
        for figure in FIGURES:
            value = _figure(point.figures, figure)
            if value is not None:
                place = (point.candidate, point.concurrency, figure)
                found.setdefault(place, []).append(value)
    return found


def figure_changes(
    old: Sequence[EvidenceRow],
    new: Sequence[EvidenceRow],
    *,
    old_rounds: Rounds | None,
    new_rounds: Rounds | None,
) -> tuple[FigureChange, ...]:
    """Return every figure that differs, by candidate and concurrency.

    Args:
        old: the rows of the old side's evidence.
        new: those of the new side.
        old_rounds: the old side's rounds, ``None`` where only their means are at hand.
        new_rounds: those of the new side.
    """
    pairs = [
        _Pair(old=before, new=after, old_rounds=old_rounds, new_rounds=new_rounds)
        for _, before, after in paired(old, new, by=lambda row: (row.candidate, row.concurrency))
    ]
    # A median on one side only, since the other is a decision, is no news.
    shown = FIGURES if old_rounds is not None and new_rounds is not None else _OF_A_DECISION
    plain = [
        _plain_change(pair, figure)
        for figure in shown
        for pair in pairs
        if pair.values(figure)[0] != pair.values(figure)[1]
    ]
    if old_rounds is None or new_rounds is None:
        return tuple(plain)
    return tuple(
        _with_spread(change, old_rounds, new_rounds, claims=_claims(pairs, change.figure))
        for change in plain
    )


class _Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One row of both sides, ``None`` where a side hasn't it, and all rounds of each side."""

    old: EvidenceRow | None
    new: EvidenceRow | None
    old_rounds: Rounds | None
    new_rounds: Rounds | None

    def values(self, figure: str) -> tuple[float | None, float | None]:
        """Return a figure of the old and of the new side, mean over the rounds."""
        return (
            _value(self.old, figure, self.old_rounds),
            _value(self.new, figure, self.new_rounds),
        )


def _claims(pairs: Sequence[_Pair], figure: str) -> int:
    """How many changes of one figure could be called one without cause."""
    return max(1, sum(None not in pair.values(figure) for pair in pairs))


def _plain_change(pair: _Pair, figure: str) -> FigureChange:
    old, new = pair.old, pair.new
    row = new or old
    assert row is not None
    before, after = pair.values(figure)
    return FigureChange(
        candidate=row.candidate,
        backend=row.backend,
        concurrency=row.concurrency,
        figure=figure,
        unit="tokens/s" if figure == THROUGHPUT else "s",
        old=before,
        new=after,
        old_rounds=None if old is None else old.rounds,
        new_rounds=None if new is None else new.rounds,
        change=_share(before, after),
    )


def _with_spread(
    change: FigureChange, old_rounds: Rounds, new_rounds: Rounds, *, claims: int
) -> FigureChange:
    if change.old is None or change.new is None:
        return change
    place = (change.candidate, change.concurrency, change.figure)
    interval = _welch(
        old_rounds.get(place, ()), new_rounds.get(place, ()), confidence=1 - FALSE_ALARM / claims
    )
    if interval is None:
        return change
    within = interval.low <= 1 <= interval.high
    before, after = (geometric_mean(rounds[place]) for rounds in (old_rounds, new_rounds))
    return msgspec.structs.replace(
        change,
        change=_share(before, after),
        spread="within" if within else "beyond",
        ratio=interval,
    )


def _welch(old: Sequence[float], new: Sequence[float], *, confidence: float) -> Interval | None:
    """The interval of new over old; ``None`` with fewer than two rounds a side, or no spread."""
    if min(len(old), len(new)) < 2 or min(*old, *new) <= 0:
        return None
    logs = [[math.log(value) for value in values] for values in (old, new)]
    shares = [variance(values) / len(values) for values in logs]
    total = math.fsum(shares)
    if not total > 0:
        # Equal to the last digit in every round: whoever rounded them hid their spread.
        return None
    degrees = total**2 / math.fsum(
        share**2 / (len(values) - 1) for share, values in zip(shares, logs, strict=True)
    )
    difference = fmean(logs[1]) - fmean(logs[0])
    quantile = t_quantile(1 - (1 - confidence) / 2, max(1, math.floor(degrees)))
    half = quantile * math.sqrt(total)
    return Interval(ratio(difference - half), ratio(difference + half), confidence)


def _share(old: float | None, new: float | None) -> float | None:
    if old is None or new is None or old <= 0:
        return None
    share = new / old - 1
    return share if math.isfinite(share) else None


def _value(row: EvidenceRow | None, figure: str, rounds: Rounds | None) -> float | None:
    if row is None:
        return None
    if figure not in MEDIANS:
        value = getattr(row, figure)
        return None if value is None else float(value)
    # As for evidence rows: a mean only where each round has the figure.
    known = (rounds or {}).get((row.candidate, row.concurrency, figure), ())
    return fmean(known) if known and len(known) == row.rounds else None


def _figure(figures: PointFigures, name: str) -> float | None:
    if name == THROUGHPUT:
        return figures.output_tokens_per_s
    distribution, _, rest = name.partition("_")
    value: float | None = getattr(getattr(figures, f"{distribution}_s"), rest.removesuffix("_s"))
    return value
