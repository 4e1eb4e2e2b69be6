"""Figures as a reader wants them: few digits, a unit, and ``n/a`` for what isn't known."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from autotune.decide.schema import RatioEstimate

UNKNOWN = "n/a"


def known(value: float | None) -> bool:
    """Whether there is a figure at all: tables hold ``None`` or NaN where there is none."""
    return value is not None and math.isfinite(value)


def figure(value: float | None) -> str:
    """Return at least three significant digits, with thousands separators.

    >>> [figure(v) for v in (9716.7, 142.9, 12.345, 0.01234, None)]
    ['9,717', '142.9', '12.35', '0.0123', 'n/a']
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 10 else f"{value:.3g}"


@dataclass(frozen=True)
class TimeUnit:
    """A unit for a column of times: ``factor`` units to a second."""

    name: str
    factor: float

    def show(self, seconds: float | None) -> str:
        return figure(seconds * self.factor) if seconds is not None else UNKNOWN


MILLISECONDS = TimeUnit("ms", 1e3)
SECONDS = TimeUnit("s", 1.0)


def time_unit(seconds: Iterable[float | None]) -> TimeUnit:
    """Choose one unit for all of ``seconds``: ms if all are under 10 s, so that they compare."""
    longest = max((s for s in seconds if s is not None and math.isfinite(s)), default=0.0)
    return MILLISECONDS if longest < 10 else SECONDS


def ratio(estimate: RatioEstimate | None, *, told_n: int | None = None) -> str:
    """Return ``1.045 [1.031, 1.060], n = 3``; without an interval only the ratio and n.

    ``told_n`` is the n that stands beside it anyway, which isn't repeated.
    """
    if estimate is None or not math.isfinite(estimate.ratio):
        return UNKNOWN
    text = f"{estimate.ratio:.3f}"
    if estimate.interval is not None:
        text += f" [{estimate.interval.low:.3f}, {estimate.interval.high:.3f}]"
    return text if estimate.n == told_n else f"{text}, n = {estimate.n}"


def percent(share: float) -> str:
    """Return ``95%`` for 0.95, ``98.75%`` for 0.9875."""
    return f"{share * 100:.4g}%"
