"""The plot of a layer sweep: latency, achieved TFLOP/s and GB/s against tokens, and the roofline.

One figure of three panels, as SVG and PNG; equal records give equal bytes.
"""

from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec
from matplotlib.lines import Line2D

from autotune.kernels.report.words import (
    RateUnit,
    flops_unit,
    layer_words,
    roof_words,
    timing_words,
)
from autotune.kernels.schema import KernelRun
from autotune.report.drawing import add_legend, new_figure, plain_settings, rendered
from autotune.report.palette import FAINT_INK, GRID, Look, assign
from autotune.report.scales import scale_log_concurrency, scale_values
from autotune.report.text import distinct_labels, plot_label

_PANEL_INCHES = (3.3, 2.7)
_ROOF = Line2D([], [], color=FAINT_INK, linestyle=":", linewidth=1.6, label="roofline")


@dataclass(frozen=True)
class _Quantity:
    """One panel: a column of the table, how it is told, and its roofline's column."""

    column: str
    roof: str
    name: str
    factor: float
    better: str
    bounds: tuple[str, str] | None = None


_LATENCY = _Quantity(
    column="latency_s",
    roof="roofline_latency_s",
    name="Latency of a call (µs)",
    factor=1e6,
    better="lower is better",
    bounds=("latency_s_low", "latency_s_high"),
)


def _computed(unit: RateUnit) -> _Quantity:
    return _Quantity(
        column="flops_per_s",
        roof="roof_flops_per_s",
        name=f"Achieved {unit.name}",
        factor=unit.factor,
        better="higher is better",
    )


_MOVED = _Quantity(
    column="bytes_per_s",
    roof="roof_bytes_per_s",
    name="Achieved GB/s",
    factor=1e-9,
    better="higher is better",
)


def draw_kernels(run: KernelRun, table: pd.DataFrame, *, stem: str) -> dict[str, bytes]:
    """Return the plot's files by name; none if nothing was timed.

    Args:
        run: for the heading.
        table: `autotune.kernels.report.table.kernels_table` of the run.
        stem: the files' name, without suffix.
    """
    timed = table[table["latency_s"].notna()]
    if not len(timed):
        return {}
    rates = timed.assign(
        roof_flops_per_s=timed["flops"] / timed["roofline_latency_s"],
        roof_bytes_per_s=timed["bytes"] / timed["roofline_latency_s"],
    )
    with plain_settings():
        return rendered(_draw(run, rates), stem)


def _draw(run: KernelRun, timed: pd.DataFrame) -> Figure:
    names = [name for name in run.config.backends if (timed["backend"] == name).any()]
    palette = assign(names)
    looks = {name: replace(palette[name], hollow=_is_hollow(timed, name)) for name in names}
    labels = distinct_labels(names)
    legend = [(labels[name] + _role(timed, name), look) for name, look in looks.items()]
    has_roof = bool(timed["roofline_latency_s"].notna().any())
    heading = [*map(plot_label_long, layer_words(run)), timing_words(run, timed)]
    if run.roof is not None:
        heading.append(roof_words(run.roof, flops_unit(timed["flops_per_s"])))
    quantities = [_LATENCY]
    computed = _computed(flops_unit(timed["flops_per_s"]))
    quantities += [q for q in (computed, _MOVED) if timed[q.column].notna().any()]
    rows = _PANEL_INCHES[: 1 + (len(quantities) > 1)]
    figure = new_figure(sum(rows), heading=heading, legend=[text for text, _ in legend])
    grid = figure.add_gridspec(nrows=len(rows), ncols=2, height_ratios=rows)
    for place, quantity in zip(_places(grid, len(quantities)), quantities, strict=True):
        _draw_panel(figure.add_subplot(place), timed, looks, quantity)
    add_legend(figure, legend, extra=[_ROOF] if has_roof else [])
    return figure


def _places(grid: GridSpec, panels: int) -> list[SubplotSpec]:
    return [grid[0, :], *(grid[1, column] for column in range(panels - 1))]


def _is_hollow(timed: pd.DataFrame, name: str) -> bool:
    mine = timed[timed["backend"] == name]
    return bool(mine["emulated"].any() or (mine["status"] != "ok").any())


def _role(timed: pd.DataFrame, name: str) -> str:
    mine = timed[timed["backend"] == name]
    roles = ["wrong"] if (mine["status"] == "wrong").any() else []
    roles += ["emulated"] if mine["emulated"].any() else []
    return f" ({', '.join(roles)})" if roles else ""


def _draw_panel(
    axes: Axes, timed: pd.DataFrame, looks: dict[str, Look], quantity: _Quantity
) -> None:
    shown = timed[timed[quantity.column].notna()]
    tokens = sorted({int(value) for value in timed["tokens"]})
    roof = shown[shown[quantity.roof].notna()].drop_duplicates("tokens").sort_values("tokens")
    values = [float(v) * quantity.factor for v in (*shown[quantity.column], *roof[quantity.roof])]
    scale_log_concurrency(axes, tokens)
    scale_values(axes, "y", values, from_zero=True)
    if len(roof):
        axes.plot(
            roof["tokens"].astype(float),
            roof[quantity.roof] * quantity.factor,
            color=_ROOF.get_color(),
            linestyle=_ROOF.get_linestyle(),
            linewidth=_ROOF.get_linewidth(),
            marker="_",
            markersize=9.0,
            gid=f"{quantity.column}-roofline",
        )
    for name, look in looks.items():
        rows = shown[shown["backend"] == name].sort_values("tokens")
        if len(rows):
            _draw_backend(axes, rows, look, quantity)
    axes.set_ylabel(quantity.name)
    axes.set_xlabel("Tokens in the batch")
    axes.set_title(quantity.better, loc="right", fontsize=8, color=FAINT_INK)
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_backend(axes: Axes, rows: pd.DataFrame, look: Look, quantity: _Quantity) -> None:
    name = str(rows["backend"].iloc[0])
    tokens, values = list(rows["tokens"].astype(float)), list(rows[quantity.column])
    axes.plot(
        tokens,
        [value * quantity.factor for value in values],
        color=look.colour,
        linestyle=look.line,
        linewidth=1.4,
        marker=look.marker,
        markersize=5.0,
        markerfacecolor=look.fill,
        gid=f"{quantity.column}-{plot_label(name)}",
    )
    if quantity.bounds is None:
        return
    bounded = rows[rows[quantity.bounds[0]].notna()]
    low, high = (bounded[bound] for bound in quantity.bounds)
    centre = bounded[quantity.column]
    axes.errorbar(
        list(bounded["tokens"].astype(float)),
        list(centre * quantity.factor),
        yerr=[
            list((centre - low) * quantity.factor),
            list((high - centre) * quantity.factor),
        ],
        fmt="none",
        ecolor=look.colour,
        elinewidth=1.2,
        capsize=3.0,
    )


def plot_label_long(text: str) -> str:
    """Return a heading's line for a plot: printable ASCII, whole."""
    return plot_label(text, longest=300)
