"""One panel: a quantity against concurrency, a line a candidate, a small mark a round."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from autotune.report.numbers import time_unit
from autotune.report.palette import GRID, Look
from autotune.report.quantities import Quantity, statistic
from autotune.report.text import plot_label

# Ratios lie near one another on level lines, so candidates are set apart sideways over this share
# of the distance between two concurrencies. Steep curves aren't: a shift would look like a gain.
SPREAD = 0.5
WIDEST_SPREAD = 0.7
LOG_FROM = 8.0
WIDTH_INCHES = 8.0


@dataclass(frozen=True)
class PlotData:
    """What all panels of a run draw from: its tables and how each candidate looks."""

    points: pd.DataFrame
    summary: pd.DataFrame
    looks: Mapping[str, Look]
    baseline: str | None = None
    baseline_role: str = "baseline"

    def drawn(self, column: str) -> list[str]:
        """Return the candidates with a figure in ``column``, in the run's order."""
        with_figure = self.points.loc[self.points[column].notna(), "candidate"]
        return [name for name in self.looks if bool((with_figure == name).any())]


def draw_panel(axes: Axes, data: PlotData, *, quantity: Quantity, column: str) -> None:
    """Draw ``column`` of every candidate on ``axes``, with units and exact concurrencies."""
    names = data.drawn(column)
    present = data.points[data.points[column].notna()]
    concurrencies = sorted({int(value) for value in present["concurrency"]})
    values = [float(value) for value in present[column]]
    unit = time_unit(values) if quantity.kind == "time" else None
    panel = _Panel(axes, data, column=column, factor=unit.factor if unit else 1.0)
    if quantity.kind == "ratio":
        _draw_ratios(panel, names, spread=_spread(concurrencies))
        _scale_ratio(axes)
    else:
        for name in names:
            panel.draw_mean(name)
            panel.draw_rounds(name)
        _scale_y(axes, [value * panel.factor for value in values])
    axes.set_ylabel(_axis_label(quantity, data, column=column, unit=unit.name if unit else None))
    axes.set_xlabel("Concurrency (requests in flight)")
    _scale_x(axes, concurrencies)
    axes.set_title(quantity.better, loc="right", fontsize=8, color="#555555")
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _axis_label(quantity: Quantity, data: PlotData, *, column: str, unit: str | None) -> str:
    if quantity.kind == "ratio":
        return f"{quantity.name} to {data.baseline_role}"
    if quantity.kind == "rate":
        return f"{quantity.name} (output tokens/s)"
    return f"{quantity.name}, {statistic(column)} ({unit})"


@dataclass(frozen=True)
class _Panel:
    """Where one column is drawn; ``shift`` below is sideways, in octaves."""

    axes: Axes
    data: PlotData
    _: KW_ONLY
    column: str
    factor: float

    def part_id(self, part: str, name: str) -> str:
        return f"{self.column}-{part}-{plot_label(name)}"

    def draw_rounds(self, name: str, *, shift: float = 0.0) -> None:
        look, points = self.data.looks[name], self.data.points
        points = points[(points["candidate"] == name) & points[self.column].notna()]
        valid = points["status"] == "ok"
        single = bool((self.data.summary["rounds"] <= 1).all())
        for shown, marker in ((points[valid], look.marker), (points[~valid], "x")):
            self.axes.plot(
                [c * 2**shift for c in shown["concurrency"]],
                [v * self.factor for v in shown[self.column]],
                linestyle="none",
                marker=marker,
                markersize=5.5 if single else 4.0,
                markerfacecolor=look.fill,
                markeredgecolor=look.colour,
                markeredgewidth=0.9,
                gid=self.part_id("rounds" if marker == look.marker else "not-valid", name),
            )

    def draw_mean(self, name: str, *, shift: float = 0.0) -> None:
        look, summary = self.data.looks[name], self.data.summary
        means = summary[(summary["candidate"] == name) & summary[self.column].notna()]
        means = means.sort_values("concurrency")
        self.axes.plot(
            [c * 2**shift for c in means["concurrency"]],
            [v * self.factor for v in means[self.column]],
            linestyle=look.line,
            linewidth=1.4,
            color=look.colour,
            gid=self.part_id("mean", name),
        )

    def draw_interval(self, name: str, *, shift: float) -> None:
        look, summary = self.data.looks[name], self.data.summary
        rows = summary[(summary["candidate"] == name) & summary["ratio_low"].notna()]
        centre = rows["ratio_to_baseline"]
        bars = self.axes.errorbar(
            [c * 2**shift for c in rows["concurrency"]],
            centre,
            yerr=[list(centre - rows["ratio_low"]), list(rows["ratio_high"] - centre)],
            fmt="none",
            ecolor=look.colour,
            elinewidth=1.2,
            capsize=3.0,
        )
        for part in bars.lines[2]:
            part.set_gid(self.part_id("interval", name))


def _draw_ratios(panel: _Panel, names: Sequence[str], *, spread: float) -> None:
    baseline = panel.data.baseline
    if baseline is not None and baseline in panel.data.looks:
        colour = panel.data.looks[baseline].colour
        panel.axes.axhline(1.0, color=colour, linewidth=1.4, gid=panel.part_id("mean", baseline))
    compared = [name for name in names if name != baseline]
    for place, name in enumerate(compared):
        shift = spread / len(compared) * (place - (len(compared) - 1) / 2)
        panel.draw_interval(name, shift=shift)
        panel.draw_mean(name, shift=shift)
        panel.draw_rounds(name, shift=shift)


def _spread(concurrencies: Sequence[int]) -> float:
    """Octaves that all candidates at one concurrency take up."""
    gaps = [math.log2(b / a) for a, b in pairwise(concurrencies)]
    return min(WIDEST_SPREAD, SPREAD * min(gaps, default=1.0))


def _scale_x(axes: Axes, concurrencies: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    low, high = concurrencies[0], concurrencies[-1]
    # Room each side, for what stands beside the outermost concurrencies.
    margin = 2.0 if low == high else 2 ** max(0.4, 0.05 * math.log2(high / low))
    axes.set_xlim(low / margin, high * margin)
    octaves = math.log2(high / low * margin**2)
    inches = axes.get_position().width * WIDTH_INCHES
    axes.xaxis.set_major_locator(FixedLocator(concurrencies))
    shown = _labelled(concurrencies, octaves_per_inch=octaves / inches)
    labels = FuncFormatter(lambda value, _: f"{value:.0f}" if round(value) in shown else "")
    axes.xaxis.set_major_formatter(labels)
    axes.xaxis.set_minor_locator(NullLocator())


def _labelled(concurrencies: Sequence[int], *, octaves_per_inch: float) -> frozenset[int]:
    """Return those whose label has room beside the next; the highest always has."""
    shown: list[int] = []
    for concurrency in reversed(concurrencies):
        inches = 0.04 + 0.04 * len(f"{concurrency}{shown[-1] if shown else ''}")
        if not shown or math.log2(shown[-1] / concurrency) >= inches * octaves_per_inch:
            shown.append(concurrency)
    return frozenset(shown)


def _scale_ratio(axes: Axes) -> None:
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.98), max(high, 1.02))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}"))


def _scale_y(axes: Axes, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    plain = FuncFormatter(lambda value, _: f"{value:,.6g}")
    if low > 0 and high / low >= LOG_FROM:
        # Equal ratios get equal distances: at a low concurrency a linear scale shows nothing.
        axes.set_yscale("log")
        decades = math.log10(high / low)
        steps = (1, 2, 5) if decades < 2.5 else (1, 3) if decades < 4 else (1,)
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=steps))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(low / 1.15, high * 1.15)
    else:
        axes.set_ylim(0, high * 1.08 if high > 0 else 1)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(plain)
