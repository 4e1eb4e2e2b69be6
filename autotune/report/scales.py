"""The axes of a plot: where a concurrency stands, and which ticks have room for a label."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

LOG_FROM = 8.0
# Of a label: its width for each character, the room to the next one, and its height.
_CHARACTER_INCHES = 0.075
_SPACE_INCHES = 0.08
_LABEL_INCHES = 0.3
# Beside a panel: the y axis's name and labels, and padding.
_BESIDE_INCHES = 0.85
_ROWS = 2


def scale_log_concurrency(axes: Axes, concurrencies: Sequence[int]) -> None:
    """Set the x axis to the measured concurrencies, by equal ratios."""
    axes.set_xscale("log", base=2)
    low, high = concurrencies[0], concurrencies[-1]
    margin = 2.0 if low == high else (high / low) ** 0.06
    axes.set_xlim(low / margin, high * margin)
    inches = width_inches(axes) / math.log2(high / low * margin**2)
    _label_concurrencies(axes, {c: math.log2(c) * inches for c in concurrencies}, concurrencies)


def scale_even_concurrency(axes: Axes, concurrencies: Sequence[int]) -> None:
    """Set the x axis to the places 0, 1, 2, ... of the concurrencies, whatever lies between."""
    axes.set_xlim(-0.6, len(concurrencies) - 0.4)
    inches = width_inches(axes) / (len(concurrencies) + 0.2)
    places = {c: place * inches for place, c in enumerate(concurrencies)}
    _label_concurrencies(axes, places, range(len(concurrencies)))


def scale_values(
    axes: Axes, which: Literal["x", "y"], values: Sequence[float], *, from_zero: bool
) -> None:
    """Scale an axis to positive ``values``: by equal ratios where they span ``LOG_FROM`` or more.

    Otherwise evenly, from zero or from near the lowest of them.
    """
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    limits = axes.set_xlim if which == "x" else axes.set_ylim
    inches = width_inches(axes) if which == "x" else height_inches(axes)
    longest = max(len(f"{value:,.4g}") for value in (*values, 1.0))
    label = _SPACE_INCHES + longest * _CHARACTER_INCHES if which == "x" else _LABEL_INCHES
    most = max(2, int(inches / label))
    low, high = min(values), max(values)
    if low > 0 and high / low >= LOG_FROM:
        # Equal ratios get equal distances: at a low concurrency a linear scale shows nothing.
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        axis.set_major_locator(LogLocator(base=10, subs=_steps(low, high, most=most), numticks=50))
        axis.set_minor_locator(NullLocator())
        margin = max(1.15, (high / low) ** 0.05)
        limits(low / margin, high * margin)
    else:
        # A difference of a percent shouldn't fill a plot.
        margin = 0.08 * high if from_zero else max(0.12 * (high - low), 0.06 * high)
        limits(0 if from_zero else max(0.0, low - margin), high + margin if high > 0 else 1)
        axis.set_major_locator(MaxNLocator(nbins=min(6, most), steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def scale_ratio(axes: Axes, values: Sequence[float], bounds: Sequence[float]) -> None:
    """Scale the y axis to all ``values`` and 1; intervals' ``bounds`` may stretch it, not fill it.

    An interval from two rounds can reach tenfold, and would press all else into a line.
    """
    axes.set_ylim(*ratio_limits(values, bounds))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    low, high, _ = _ratio_reach(values, bounds)
    digits = 3 if high - low < 0.06 else 2
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.{digits}f}"))


def ratio_limits(values: Sequence[float], bounds: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the y axis that `scale_ratio` sets; a bound beyond them is cut off."""
    low, high, span = _ratio_reach(values, bounds)
    return max(0.0, low - 0.06 * span), high + 0.06 * span


def _ratio_reach(values: Sequence[float], bounds: Sequence[float]) -> tuple[float, float, float]:
    """What is shown for sure, from where to where, and how far the values alone are apart."""
    low, high = min(*values, 0.98), max(*values, 1.02)
    span = max(high - low, 0.05)
    low = max(low - span, min(low, *bounds, low))
    high = min(high + span, max(high, *bounds, high))
    return low, high, span


def width_inches(axes: Axes) -> float:
    """Return about how wide ``axes`` will be, once the figure is laid out."""
    place = axes.get_subplotspec()
    whole = _figure(axes).get_figwidth()
    if place is None:
        return float(axes.get_position().width * whole)
    return whole * len(place.colspan) / place.get_gridspec().ncols - _BESIDE_INCHES


def height_inches(axes: Axes) -> float:
    """Return about how high ``axes`` will be, once the figure is laid out."""
    return float(axes.get_position().height * _figure(axes).get_figheight())


def labelled(places: Mapping[int, float]) -> dict[int, int]:
    """Return which numbers have room for a label beside the others, and in which row, from 0.

    Args:
        places: where each number stands, in inches, in rising order. The highest always has room.
    """
    rows: dict[int, int] = {}
    free = [math.inf] * _ROWS
    for number in sorted(places, reverse=True):
        half = len(str(number)) * _CHARACTER_INCHES / 2
        for row in range(_ROWS):
            if places[number] + half + _SPACE_INCHES <= free[row]:
                rows[number] = row
                free[row] = places[number] - half
                break
    return rows


def _label_concurrencies(
    axes: Axes, places: Mapping[int, float], ticks: Sequence[int] | range
) -> None:
    rows = labelled(places)
    texts = {
        tick: "\n" * rows[c] + str(c) if c in rows else ""
        for tick, c in zip(ticks, places, strict=True)
    }
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: texts.get(round(value), "")))
    axes.xaxis.set_minor_locator(NullLocator())


def _steps(low: float, high: float, *, most: int) -> tuple[int, ...]:
    """Return the digits at which a decade has ticks: as many as there is room for."""
    for steps in ((1, 2, 5), (1, 3)):
        ticks = [
            digit * 10.0**power
            for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for digit in steps
        ]
        if sum(low / 1.15 <= tick <= high * 1.15 for tick in ticks) <= most:
            return steps
    return (1,)


def _figure(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("these axes belong to no figure")
    return figure
