"""The plots of one run, as the bytes of SVG and PNG files; equal records give equal bytes.

One file a quantity, and ``overview`` with those against concurrency. A quantity that wasn't
measured has no plot.
"""

from collections.abc import Iterable, Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec

from autotune.decide.schema import Judgement
from autotune.records.folder import LoadedRun
from autotune.records.schema import RunRecord
from autotune.report.axes import Extent, PlotData, draw_panel, is_cut
from autotune.report.drawing import (
    LINE_CHARACTERS,
    add_legend,
    new_figure,
    plain_settings,
    rendered,
)
from autotune.report.numbers import percent
from autotune.report.palette import BACKGROUND, Look, assign, look_keys, looks
from autotune.report.quantities import QUANTITIES, RATIO, TRADEOFF, Quantity
from autotune.report.text import count, distinct_labels, plot_label
from autotune.report.tradeoff import Tradeoff, gpus_of, speed_from, tradeoff_of
from autotune.report.tradeoff_axes import (
    TradeoffExtent,
    draw_tradeoff,
    front_mark,
    label_points,
)

OVERVIEW = "overview"
_MANY_LABELS = 40
STEMS = (*(quantity.stem for quantity in QUANTITIES), OVERVIEW)

_Panel = tuple[Quantity, str]


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
    (keys,) = look_keys([run.run])
    tradeoff = tradeoff_of(points, summary, gpus=gpus_of(run.run), column=speed_from([points]))
    data = plot_data(
        judgement,
        points=points,
        summary=summary,
        looks=looks(keys, rejected=rejected_of(judgement), palette=assign(keys.values())),
        tradeoff=tradeoff,
    )
    panels = [
        (q, column)
        for q in QUANTITIES
        if q is not TRADEOFF and (column := column_of(q, [data])) is not None
    ]
    files: dict[str, bytes] = {}
    with plain_settings():
        for panel in panels:
            figure = _draw(run, data, panels=[panel], judgement=judgement)
            files |= rendered(figure, panel[0].stem)
        if len(panels) > 1:
            files |= rendered(_draw(run, data, panels=panels, judgement=judgement), OVERVIEW)
        if len(tradeoff.means):
            files |= rendered(_draw_tradeoff(run, data, tradeoff, judgement), TRADEOFF.stem)
    return files


def plot_data(
    judgement: Judgement,
    *,
    points: pd.DataFrame,
    summary: pd.DataFrame,
    looks: dict[str, Look],
    tradeoff: Tradeoff,
) -> PlotData:
    """Return what panels draw, with each round's ratios added."""
    return PlotData(
        points=_with_ratios(points, baseline=judgement.baseline),
        summary=summary,
        looks=looks,
        baseline=judgement.baseline,
        baseline_role=judgement.baseline_role or "baseline",
        tradeoff=tradeoff,
    )


def rejected_of(judgement: Judgement) -> frozenset[str]:
    """Return the candidates that can't win."""
    return frozenset(s.candidate for s in judgement.standings if not s.admissible)


def column_of(quantity: Quantity, runs: Sequence[PlotData]) -> str | None:
    """Return the column to draw of all ``runs``: from valid points, else whatever was measured."""
    if quantity is RATIO:
        compared = any(
            name != data.baseline for data in runs for name in data.drawn("ratio_to_baseline")
        )
        return "ratio_to_baseline" if compared else None
    return quantity.shown(_joined(data.summary for data in runs)) or quantity.shown(
        _joined(data.points for data in runs)
    )


def rounds_words(summary: pd.DataFrame) -> str:
    """Return ``n = 5 rounds``, or from how few to how many."""
    rounds = sorted({int(n) for n in summary["rounds"] if n > 0})
    if not rounds:
        return "n = 0 valid rounds"
    if len(rounds) == 1:
        return f"n = {count(rounds[0], 'round')}"
    return f"n = {rounds[0]} to {rounds[-1]} rounds"


def marks_words(runs: Sequence[PlotData], panels: Sequence[_Panel]) -> str:
    """Return what the marks of ``panels`` stand for."""
    several = any(bool((data.summary["rounds"] > 1).any()) for data in runs)
    text = "each mark is one round"
    if several:
        text += ", lines join their means"
    if any(
        bool(data.points.loc[data.points["status"] != "ok", column].notna().any())
        for data in runs
        for _, column in panels
    ):
        text += "; x: not valid, left out"
    levels = {percent(c) for data in runs for c in data.summary["ratio_confidence"].dropna()}
    if levels and any(quantity is RATIO for quantity, _ in panels):
        text += f"; bars: {'/'.join(sorted(levels))} interval"
        extents = [Extent.of(runs, quantity=q, column=column) for q, column in panels if q is RATIO]
        if any(is_cut(data, extent) for data in runs for extent in extents):
            text += ", an arrow: cut off"
    return text


def tradeoff_words(tradeoffs: Sequence[Tradeoff]) -> str:
    """Return what the marks of the plot of throughput per GPU stand for."""
    if any(bool((one.means["rounds"] > 1).any()) for one in tradeoffs):
        return "large marks are means, each with its concurrency; small ones are rounds"
    return "each mark is one round, with its concurrency"


def workload_words(run: RunRecord) -> str:
    """Return the workload as ``128 tokens in, 64 out``; empty where it isn't known."""
    workload = run.workload
    if workload.input_tokens is None or workload.output_tokens is None:
        return ""
    return f"{workload.input_tokens} tokens in, {workload.output_tokens} out"


def device_words(run: RunRecord) -> str:
    """Return the device with its number, as ``4 x NVIDIA H200``."""
    scope = run.scope
    device = plot_label(scope.device_name or "device not recorded", longest=90)
    if scope.device_count is not None and scope.device_count > 1:
        return f"{scope.device_count} x {device}"
    return device


def engine_words(run: RunRecord) -> str:
    """Return the engine with its version, if that is known."""
    return plot_label(f"{run.scope.engine} {run.scope.engine_version or ''}".strip())


def why_no_gpus(run: RunRecord) -> str:
    """Return why throughput is given for a whole server."""
    if run.key.arch.startswith("cpu"):
        return f"no GPU: {plot_label(run.key.arch)}"
    return "number of GPUs not recorded"


def role_words(name: str, judgement: Judgement) -> list[str]:
    """Return what a candidate is in its run: chosen, the baseline, rejected."""
    roles = []
    if name == judgement.choice:
        roles.append("proposed" if judgement.blockers else "chosen")
    if name == judgement.baseline:
        roles.append(judgement.baseline_role or "baseline")
    if name in rejected_of(judgement):
        roles.append("rejected")
    return roles


def _joined(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    filled = [table for table in tables]
    return filled[0] if len(filled) == 1 else pd.concat(filled, ignore_index=True)


def _with_ratios(points: pd.DataFrame, *, baseline: str | None) -> pd.DataFrame:
    """Add each valid point's throughput over the baseline's of its round and concurrency."""
    place = ["round", "concurrency"]
    valid = points[points["status"] == "ok"]
    base = valid.loc[valid["candidate"] == baseline, [*place, "output_tokens_per_s"]]
    base = base.rename(columns={"output_tokens_per_s": "baseline_tokens_per_s"})
    paired = points.merge(base, on=place, how="left", validate="many_to_one")
    ratio = paired["output_tokens_per_s"] / paired["baseline_tokens_per_s"]
    return paired.assign(ratio_to_baseline=ratio.where(paired["status"] == "ok"))


def _draw(
    run: LoadedRun, data: PlotData, *, panels: Sequence[_Panel], judgement: Judgement
) -> Figure:
    drawn = frozenset(name for _, column in panels for name in data.drawn(column))
    labels = _labels(data, judgement, drawn=drawn)
    height = 3.5 if len(panels) <= 2 else 6.3
    marks = f"{rounds_words(data.summary)}: {marks_words([data], panels)}"
    figure = new_figure(height, heading=[*_about(run.run), marks], legend=[t for t, _ in labels])
    # Throughput decides, so it gets the full width; with three panels the times share a row.
    for (quantity, column), place in zip(panels, _places(figure, len(panels)), strict=True):
        axes = figure.add_subplot(place, facecolor=BACKGROUND)
        extent = Extent.of([data], quantity=quantity, column=column)
        draw_panel(axes, data, quantity=quantity, column=column, extent=extent)
    add_legend(figure, labels)
    return figure


def _draw_tradeoff(
    run: LoadedRun, data: PlotData, tradeoff: Tradeoff, judgement: Judgement
) -> Figure:
    labels = _labels(data, judgement, drawn=frozenset(tradeoff.means["candidate"]))
    extra = [front_mark()] if bool(tradeoff.means["front"].any()) else []
    marks = f"{rounds_words(data.summary)}: {tradeoff_words([tradeoff])}"
    legend = [*(text for text, _ in labels), *(str(mark.get_label()) for mark in extra)]
    # Each mean has a label beside it.
    height = 4.1 if len(tradeoff.means) <= _MANY_LABELS else 5.6
    figure = new_figure(height, heading=[*_about(run.run), marks], legend=legend)
    axes = figure.add_subplot(facecolor=BACKGROUND)
    draw_tradeoff(
        axes,
        data,
        tradeoff,
        extent=TradeoffExtent.of([tradeoff]),
        why_no_gpus=why_no_gpus(run.run),
    )
    add_legend(figure, labels, extra=extra)
    figure.draw_without_rendering()
    label_points(axes, tradeoff.means)
    return figure


def _labels(
    data: PlotData, judgement: Judgement, *, drawn: frozenset[str]
) -> list[tuple[str, Look | None]]:
    labels: list[tuple[str, Look | None]] = []
    names = distinct_labels(list(data.looks))
    for name, look in data.looks.items():
        roles = role_words(name, judgement) + ([] if name in drawn else ["no figures"])
        text = names[name] + (f" ({', '.join(roles)})" if roles else "")
        labels.append((text, look if name in drawn else None))
    return labels


def _places(figure: Figure, panels: int) -> list[SubplotSpec]:
    """Two panels a row; the first, or the only one of a row, gets the full width."""
    grid = figure.add_gridspec(nrows=-(-panels // 2), ncols=2)
    if panels % 2:
        rest = [grid[1 + place // 2, place % 2] for place in range(panels - 1)]
        return [grid[0, :], *rest]
    return [grid[place // 2, place % 2] for place in range(panels)]


def _about(run: RunRecord) -> list[str]:
    setting = ", ".join(word for word in (engine_words(run), workload_words(run)) if word)
    about = [f"{device_words(run)}, {setting}"]
    if len(about[0]) > LINE_CHARACTERS:
        about = [device_words(run), setting]
    key = run.key
    return [", ".join(plot_label(part) for part in (key.model, key.quantization, key.arch)), *about]
