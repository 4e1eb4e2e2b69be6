"""One panel: a quantity against concurrency, a line a candidate, a small mark a round."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import pandas as pd
from matplotlib.axes import Axes

from autotune.report.numbers import TimeUnit, time_unit
from autotune.report.palette import FAINT_INK, GRID, Look
from autotune.report.quantities import RATIO, Quantity, statistic
from autotune.report.scales import (
    ratio_limits,
    scale_even_concurrency,
    scale_log_concurrency,
    scale_ratio,
    scale_values,
)
from autotune.report.text import plot_label
from autotune.report.tradeoff import Tradeoff

# Ratios lie near one another on level lines, so candidates are set apart sideways over this share
# of the distance between two concurrencies. Steep curves aren't: a shift would look like a gain.
SPREAD = 0.66
_BOUNDS = ("ratio_low", "ratio_high")


@dataclass(frozen=True)
class PlotData:
    """What all panels of a run draw from: its tables and how each candidate looks."""

    points: pd.DataFrame
    summary: pd.DataFrame
    looks: Mapping[str, Look]
    baseline: str | None = None
    baseline_role: str = "baseline"
    tradeoff: Tradeoff | None = None

    def drawn(self, column: str) -> list[str]:
        """Return the candidates with a figure in ``column``, in the run's order."""
        with_figure = self.points.loc[self.points[column].notna(), "candidate"]
        return [name for name in self.looks if bool((with_figure == name).any())]


@dataclass(frozen=True)
class Extent:
    """What the panels of one quantity span, so that those of several runs share their axes.

    ``values`` are in the tables' unit; ``bounds`` those of intervals.
    """

    concurrencies: tuple[int, ...]
    values: tuple[float, ...]
    bounds: tuple[float, ...] = ()

    @classmethod
    def of(cls, runs: Iterable[PlotData], *, quantity: Quantity, column: str) -> "Extent":
        """Return what ``column`` of all ``runs`` spans."""
        concurrencies: set[int] = set()
        values: list[float] = []
        bounds: list[float] = []
        for data in runs:
            present = data.points[data.points[column].notna()]
            concurrencies |= {int(value) for value in present["concurrency"]}
            values += [float(value) for value in present[column]]
            if quantity.kind == "ratio":
                values += [float(value) for value in data.summary[column].dropna()]
                bounds += [float(v) for bound in _BOUNDS for v in data.summary[bound].dropna()]
        return cls(tuple(sorted(concurrencies)), tuple(values), tuple(bounds))


def is_cut(data: PlotData, extent: Extent) -> bool:
    """Whether an interval of ``data`` goes on beyond the panel of its ratios, by an arrow there."""
    low, high = ratio_limits(extent.values, extent.bounds)
    rows = data.summary[data.summary["candidate"].isin(_compared(data))]
    return bool((rows["ratio_low"] < low).any() or (rows["ratio_high"] > high).any())


def draw_panel(
    axes: Axes,
    data: PlotData,
    *,
    quantity: Quantity,
    column: str,
    extent: Extent,
    names: frozenset[str] = frozenset({"x", "y"}),
) -> None:
    """Draw ``column`` of every candidate on ``axes``, with units and exact concurrencies.

    Args:
        axes: an empty panel, its place in the figure settled.
        data: the run.
        quantity: what is drawn.
        column: which of its figures.
        extent: what the axes span, at least this run's figures.
        names: which axes are named ("x", "y"); in a row of panels the first is enough.
    """
    unit = time_unit(extent.values) if quantity.kind == "time" else None
    drawn = data.drawn(column)
    factor = unit.factor if unit else 1.0
    # Side by side, candidates need even room; and at one concurrency nothing else tells them apart.
    even = quantity.kind == "ratio" or len(extent.concurrencies) == 1
    places = {c: float(place if even else c) for place, c in enumerate(extent.concurrencies)}
    panel = _Panel(axes, data, column=column, factor=factor, places=places)
    (scale_even_concurrency if even else scale_log_concurrency)(axes, extent.concurrencies)
    if quantity.kind == "ratio":
        scale_ratio(axes, extent.values, extent.bounds)
        _draw_ratios(panel)
    else:
        scale_values(axes, "y", [value * factor for value in extent.values], from_zero=True)
        for name, shift in (_shifts(drawn) if even else dict.fromkeys(drawn, 0.0)).items():
            panel.draw_mean(name, shift=shift)
            panel.draw_rounds(name, shift=shift)
    if "y" in names:
        axes.set_ylabel(_axis_label(quantity, data, column=column, unit=unit))
    if "x" in names:
        axes.set_xlabel("Concurrency (requests in flight)")
    finish_panel(axes, quantity)


def finish_panel(axes: Axes, quantity: Quantity) -> None:
    """Add the grid, and which direction is better."""
    axes.set_title(quantity.better, loc="right", fontsize=8, color=FAINT_INK)
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _axis_label(quantity: Quantity, data: PlotData, *, column: str, unit: TimeUnit | None) -> str:
    if quantity.kind == "ratio":
        return f"{quantity.name} to {data.baseline_role}"
    if quantity.kind == "rate":
        return f"{quantity.name} (output tokens/s)"
    return f"{quantity.name}, {statistic(column)} ({unit.name if unit else 's'})"


@dataclass(frozen=True)
class _Panel:
    """Where one column is drawn: ``places`` along the x axis by concurrency; shifts are added."""

    axes: Axes
    data: PlotData
    _: KW_ONLY
    column: str
    factor: float
    places: Mapping[int, float]

    def part_id(self, part: str, name: str) -> str:
        return f"{self.column}-{part}-{plot_label(name)}"

    def at(self, concurrencies: pd.Series, shift: float) -> list[float]:
        return [self.places[int(c)] + shift for c in concurrencies]

    def draw_rounds(self, name: str, *, shift: float = 0.0) -> None:
        look, points = self.data.looks[name], self.data.points
        points = points[(points["candidate"] == name) & points[self.column].notna()]
        valid = points["status"] == "ok"
        single = bool((self.data.summary["rounds"] <= 1).all())
        for shown, marker in ((points[valid], look.marker), (points[~valid], "x")):
            self.axes.plot(
                self.at(shown["concurrency"], shift),
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
            self.at(means["concurrency"], shift),
            [v * self.factor for v in means[self.column]],
            linestyle=look.line,
            linewidth=1.4,
            color=look.colour,
            # A single mean has no line.
            marker="_" if len(means) == 1 and bool((means["rounds"] > 1).any()) else "",
            markersize=16.0,
            gid=self.part_id("mean", name),
        )

    def draw_interval(self, name: str, *, shift: float) -> None:
        look, summary = self.data.looks[name], self.data.summary
        rows = summary[(summary["candidate"] == name) & summary["ratio_low"].notna()]
        centre = rows["ratio_to_baseline"]
        bars = self.axes.errorbar(
            self.at(rows["concurrency"], shift),
            centre,
            yerr=[list(centre - rows["ratio_low"]), list(rows["ratio_high"] - centre)],
            fmt="none",
            ecolor=look.colour,
            elinewidth=1.2,
            capsize=3.0,
        )
        for part in bars.lines[2]:
            part.set_gid(self.part_id("interval", name))
        self._mark_cut(rows, look, shift=shift)

    def _mark_cut(self, rows: pd.DataFrame, look: Look, *, shift: float) -> None:
        """An arrow where a bar goes on beyond the panel."""
        low, high = self.axes.get_ylim()
        ends = (("ratio_high", "^", high, 1), ("ratio_low", "v", low, -1))
        for bound, arrow, edge, direction in ends:
            cut = rows[(rows[bound] - edge) * direction > 0]
            if not len(cut):
                continue
            (marks,) = self.axes.plot(
                self.at(cut["concurrency"], shift),
                [edge] * len(cut),
                linestyle="none",
                marker=arrow,
                markersize=4.5,
                color=look.colour,
                clip_on=False,
            )
            marks.set_in_layout(False)


def _draw_ratios(panel: _Panel) -> None:
    baseline = panel.data.baseline
    if baseline is not None and baseline in panel.data.looks:
        colour = panel.data.looks[baseline].colour
        panel.axes.axhline(1.0, color=colour, linewidth=1.4, gid=panel.part_id("mean", baseline))
    for name, shift in _shifts(_compared(panel.data)).items():
        panel.draw_interval(name, shift=shift)
        panel.draw_mean(name, shift=shift)
        panel.draw_rounds(name, shift=shift)


def _compared(data: PlotData) -> list[str]:
    """The candidates whose ratios are drawn, in the run's order."""
    return [name for name in data.drawn(RATIO.columns[0]) if name != data.baseline]


def _shifts(names: Sequence[str]) -> dict[str, float]:
    """How far each candidate is set aside, in distances between two concurrencies."""
    middle = (len(names) - 1) / 2
    return {name: SPREAD / len(names) * (place - middle) for place, name in enumerate(names)}
