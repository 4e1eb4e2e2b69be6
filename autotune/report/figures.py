"""The plots of a run, as the bytes of SVG and PNG files; equal records give equal bytes.

One file a quantity, and ``overview`` with all of them. A quantity that wasn't measured has no
plot. Figures are made through matplotlib's objects: no window system, no state left behind.
"""

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.lines import Line2D

from autotune.decide.schema import Judgement
from autotune.records.folder import LoadedRun
from autotune.report.axes import WIDTH_INCHES, PlotData, draw_panel
from autotune.report.numbers import percent
from autotune.report.palette import BACKGROUND, INK, Look, looks
from autotune.report.quantities import QUANTITIES, RATIO, Quantity
from autotune.report.text import count, plot_label

PNG_DPI = 200
OVERVIEW = "overview"
LINE_CHARACTERS = 105
STEMS = (*(quantity.stem for quantity in QUANTITIES), OVERVIEW)

_Panel = tuple[Quantity, str]

_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "autotune",
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.parse_math": False,
}


def draw_figures(
    run: LoadedRun, judgement: Judgement, *, points: pd.DataFrame, summary: pd.DataFrame
) -> dict[str, bytes]:
    """Return the plots by file name (``throughput.svg``, ``throughput.png``, ...).

    Args:
        run: for the title and the order of the candidates.
        judgement: says who is chosen, the baseline, and rejected.
        points: `autotune.report.tables.points_table` of the run.
        summary: `autotune.report.tables.summary_table` of the run.
    """
    names = [candidate.name for candidate in run.run.candidates]
    rejected = frozenset(s.candidate for s in judgement.standings if not s.admissible)
    data = PlotData(
        points=_with_ratios(points, baseline=judgement.baseline),
        summary=summary,
        looks=looks(names, rejected=rejected),
        baseline=judgement.baseline,
        baseline_role=judgement.baseline_role or "baseline",
    )
    panels = [(q, column) for q in QUANTITIES if (column := _column(q, data)) is not None]
    files: dict[str, bytes] = {}
    with _plain_settings():
        for panel in panels:
            figure = _draw(run, data, panels=[panel], judgement=judgement)
            files |= _rendered(figure, panel[0].stem)
        if len(panels) > 1:
            files |= _rendered(_draw(run, data, panels=panels, judgement=judgement), OVERVIEW)
    return files


def _with_ratios(points: pd.DataFrame, *, baseline: str | None) -> pd.DataFrame:
    """Add each valid point's throughput over the baseline's of its round and concurrency."""
    place = ["round", "concurrency"]
    valid = points[points["status"] == "ok"]
    base = valid.loc[valid["candidate"] == baseline, [*place, "output_tokens_per_s"]]
    base = base.rename(columns={"output_tokens_per_s": "baseline_tokens_per_s"})
    paired = points.merge(base, on=place, how="left", validate="many_to_one")
    ratio = paired["output_tokens_per_s"] / paired["baseline_tokens_per_s"]
    return paired.assign(ratio_to_baseline=ratio.where(paired["status"] == "ok"))


def _column(quantity: Quantity, data: PlotData) -> str | None:
    """The column to draw: from the valid points, else from whatever was measured."""
    if quantity is RATIO:
        compared = [name for name in data.drawn("ratio_to_baseline") if name != data.baseline]
        return "ratio_to_baseline" if compared else None
    return quantity.shown(data.summary) or quantity.shown(data.points)


def _draw(
    run: LoadedRun, data: PlotData, *, panels: Sequence[_Panel], judgement: Judgement
) -> Figure:
    drawn = frozenset(name for _, column in panels for name in data.drawn(column))
    labels = {name: _label(name, judgement, drawn=drawn) for name in data.looks}
    columns = _legend_columns(labels)
    height = (4.2 if len(panels) <= 2 else 7.0) + 0.2 * -(-len(labels) // columns)
    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained", facecolor=BACKGROUND)
    FigureCanvasAgg(figure)
    # Throughput decides, so it gets the full width; with three panels the times share a row.
    for (quantity, column), place in zip(panels, _places(figure, len(panels)), strict=True):
        axes = figure.add_subplot(place, facecolor=BACKGROUND)
        draw_panel(axes, data, quantity=quantity, column=column)
    figure.suptitle(_heading(run, data, panels), x=0.01, ha="left", fontsize=9.5)
    figure.legend(
        [_handle(look, visible=name in drawn) for name, look in data.looks.items()],
        list(labels.values()),
        loc="outside lower left",
        ncols=columns,
        frameon=False,
        fontsize=9,
        handlelength=3.0,
    )
    return figure


def _places(figure: Figure, panels: int) -> list[SubplotSpec]:
    """Two panels a row; the first, or the only one of a row, gets the full width."""
    grid = figure.add_gridspec(nrows=-(-panels // 2), ncols=2)
    if panels % 2:
        rest = [grid[1 + place // 2, place % 2] for place in range(panels - 1)]
        return [grid[0, :], *rest]
    return [grid[place // 2, place % 2] for place in range(panels)]


def _heading(run: LoadedRun, data: PlotData, panels: Sequence[_Panel]) -> str:
    key, scope, workload = run.run.key, run.run.scope, run.run.workload
    device = plot_label(scope.device_name or "device not recorded", longest=90)
    if scope.device_count is not None and scope.device_count > 1:
        device = f"{scope.device_count} x {device}"
    setting = plot_label(f"{scope.engine} {scope.engine_version or ''}".strip())
    if workload.input_tokens is not None and workload.output_tokens is not None:
        setting += f", {workload.input_tokens} tokens in, {workload.output_tokens} out"
    about = [f"{device}, {setting}"]
    if len(about[0]) > LINE_CHARACTERS:
        about = [device, setting]
    title = ", ".join(plot_label(part) for part in (key.model, key.quantization, key.arch))
    return "\n".join([*textwrap.wrap(title, LINE_CHARACTERS), *about, *_rounds(data, panels)])


def _rounds(data: PlotData, panels: Sequence[_Panel]) -> list[str]:
    """What the marks stand for, and n."""
    rounds = sorted({int(n) for n in data.summary["rounds"] if n > 0})
    if not rounds:
        return ["n = 0 valid rounds; x: measured but not valid"]
    n = count(rounds[0], "round") if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]} rounds"
    text = f"n = {n}: each mark is one round"
    if rounds[-1] > 1:
        text += ", lines join their means"
    if any(data.points.loc[data.points["status"] != "ok", c].notna().any() for _, c in panels):
        text += "; x: not valid, left out"
    levels = sorted({percent(c) for c in data.summary["ratio_confidence"].dropna()})
    if levels and any(quantity is RATIO for quantity, _ in panels):
        text += f"; bars: {'/'.join(levels)} interval"
    return [text]


def _label(name: str, judgement: Judgement, *, drawn: frozenset[str]) -> str:
    roles = []
    if name == judgement.choice:
        roles.append("proposed" if judgement.blockers else "chosen")
    if name == judgement.baseline:
        roles.append(judgement.baseline_role or "baseline")
    if any(s.candidate == name and not s.admissible for s in judgement.standings):
        roles.append("rejected")
    if name not in drawn:
        roles.append("no figures")
    label = plot_label(name) + (f" ({', '.join(roles)})" if roles else "")
    # matplotlib leaves out labels that start with an underscore.
    return f" {label}" if label.startswith("_") else label


def _legend_columns(labels: Mapping[str, str]) -> int:
    longest = max((len(label) for label in labels.values()), default=0)
    return max(1, min(len(labels), int(WIDTH_INCHES / (0.07 * longest + 0.65))))


def _handle(look: Look, *, visible: bool) -> Line2D:
    if not visible:
        return Line2D([], [], linestyle="none")
    return Line2D(
        [],
        [],
        color=look.colour,
        linestyle=look.line,
        linewidth=1.4,
        marker=look.marker,
        markersize=5.0,
        markerfacecolor=look.fill,
    )


def _rendered(figure: Figure, stem: str) -> dict[str, bytes]:
    svg, png = io.BytesIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "autotune"})
    figure.savefig(png, format="png", dpi=PNG_DPI, metadata={"Software": "autotune"})
    return {f"{stem}.svg": svg.getvalue(), f"{stem}.png": png.getvalue()}


@contextmanager
def _plain_settings() -> Iterator[None]:
    """Draw with our settings whatever a user's matplotlibrc says, and leave theirs as it was."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield
