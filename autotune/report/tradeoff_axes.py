"""One panel: throughput per GPU against the speed for one user, a label at each mean."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from autotune.report.axes import PlotData, finish_panel
from autotune.report.label_places import Box, place_labels
from autotune.report.palette import BACKGROUND, FAINT_INK, INK
from autotune.report.quantities import TRADEOFF
from autotune.report.scales import scale_values
from autotune.report.text import count, plot_label
from autotune.report.tradeoff import SpeedFrom, Tradeoff

# Of the rings and the line of the front: it stands out from the ground, and is no candidate's.
FRONT_COLOUR = "#808080"
_LABEL_SIZE = 7.5
_CHARACTER = 0.64 * _LABEL_SIZE
_MARK_SIZE = 6.0
_RING_SIZE = _MARK_SIZE + 6.0
_FRONT_WIDTH = 1.1
_POINTS_AN_INCH = 72.0
# A label this near its mark needs no line to it.
_NEAR = 12.0
_SPEEDS: dict[SpeedFrom, str] = {
    "tpot_s_p50": "Speed for one user (tokens/s/user): 1 / median time per output token",
    "tpot_s_mean": "Speed for one user (tokens/s/user): 1 / mean time per output token",
    "output_tokens_per_s": "Speed for one user (tokens/s/user): output tokens/s / concurrency",
}
_SHORT_SPEEDS: dict[SpeedFrom, str] = {
    "tpot_s_p50": "Tokens/s/user: 1 / median TPOT",
    "tpot_s_mean": "Tokens/s/user: 1 / mean TPOT",
    "output_tokens_per_s": "Tokens/s/user: output tokens/s / c",
}


@dataclass(frozen=True)
class TradeoffExtent:
    """What the panels of several runs span."""

    per_user: tuple[float, ...]
    per_gpu: tuple[float, ...]

    @classmethod
    def of(cls, tradeoffs: Sequence[Tradeoff]) -> "TradeoffExtent":
        tables = [table for one in tradeoffs for table in (one.means, one.rounds)]
        return cls(
            tuple(float(value) for table in tables for value in table["per_user"].dropna()),
            tuple(float(value) for table in tables for value in table["per_gpu"].dropna()),
        )


def draw_tradeoff(
    axes: Axes,
    data: PlotData,
    tradeoff: Tradeoff,
    *,
    extent: TradeoffExtent,
    names: frozenset[str] = frozenset({"x", "y"}),
    why_no_gpus: str = "",
    short: bool = False,
) -> None:
    """Draw every candidate's means, its rounds faintly, and the front.

    Args:
        axes: an empty panel, its place in the figure settled.
        data: how candidates look.
        tradeoff: the figures.
        extent: what the axes span.
        names: which axes are named.
        why_no_gpus: why throughput is the whole server's, where it is.
        short: whether the panel is too narrow for whole names.
    """
    scale_values(axes, "x", extent.per_user, from_zero=False)
    scale_values(axes, "y", extent.per_gpu, from_zero=False)
    _draw_front(axes, tradeoff.means)
    for name in data.looks:
        _draw_candidate(axes, data, tradeoff, name)
    if "x" in names:
        axes.set_xlabel((_SHORT_SPEEDS if short else _SPEEDS)[tradeoff.speed_from])
    if "y" in names:
        axes.set_ylabel(_throughput_label(tradeoff, why_no_gpus, short=short))
    finish_panel(axes, TRADEOFF)
    if short:
        axes.set_title("", loc="right")


def front_mark() -> Line2D:
    """Return the mark of the front for a legend."""
    return Line2D(
        [],
        [],
        color=FRONT_COLOUR,
        linewidth=_FRONT_WIDTH,
        marker="o",
        markersize=_RING_SIZE,
        markerfacecolor=BACKGROUND,
        label="front: no admissible point is as good in both and better in one",
    )


def label_points(axes: Axes, means: pd.DataFrame) -> int:
    """Write the concurrency at each mean, and return how many have no room for it.

    The figure's layout must be settled: places are worked out for where the points are now.
    """
    if not len(means):
        return 0
    figure = axes.get_figure(root=True)
    scale = _POINTS_AN_INCH / (figure.dpi if figure is not None else _POINTS_AN_INCH)
    corner = axes.get_window_extent()
    marks = means[["per_user", "per_gpu"]].to_numpy(dtype=float)
    dots = axes.transData.transform(marks)
    anchors = [((x - corner.x0) * scale, (y - corner.y0) * scale) for x, y in dots]
    texts = [str(int(c)) for c in means["concurrency"]]
    within = Box(0, 0, corner.width * scale, corner.height * scale)
    sizes = [(_CHARACTER * len(text) + 1.0, _LABEL_SIZE) for text in texts]
    boxes = place_labels(anchors, sizes, mark=_MARK_SIZE / 2 + 0.5, within=within)
    for mark, text, anchor, box in zip(marks, texts, anchors, boxes, strict=True):
        if box is not None:
            _write(axes, text, (mark[0], mark[1]), anchor, box)
    left_out = sum(box is None for box in boxes)
    if left_out:
        told = (
            f"{axes.get_title(loc='right')}; {count(left_out, 'label')} left out for lack of room"
        )
        axes.set_title(told.removeprefix("; "), loc="right", fontsize=8, color=FAINT_INK)
    return left_out


def _write(
    axes: Axes,
    text: str,
    mark: tuple[float, float],
    anchor: tuple[float, float],
    box: Box,
) -> None:
    distance = max(
        box.left - anchor[0], anchor[0] - box.right, box.bottom - anchor[1], anchor[1] - box.top
    )
    line = {"arrowstyle": "-", "color": FAINT_INK, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
    note = axes.annotate(
        text,
        xy=mark,
        xytext=(box.centre[0] - anchor[0], box.centre[1] - anchor[1]),
        textcoords="offset points",
        ha="center",
        va="center_baseline",
        fontsize=_LABEL_SIZE,
        color=INK,
        arrowprops=line if distance > _NEAR else None,
        gid=f"concurrency-{text}",
        zorder=6,
    )
    note.set_path_effects([withStroke(linewidth=1.6, foreground=BACKGROUND)])
    note.set_in_layout(False)


def _draw_front(axes: Axes, means: pd.DataFrame) -> None:
    front = means[means["front"]].sort_values(["per_user", "per_gpu"])
    # In steps: what lies between two measured points isn't known, only that both can be had.
    axes.plot(
        front["per_user"],
        front["per_gpu"],
        color=FRONT_COLOUR,
        linewidth=_FRONT_WIDTH,
        drawstyle="steps-pre",
        marker="o",
        markersize=_RING_SIZE,
        markerfacecolor=BACKGROUND,
        gid="front",
        zorder=1.5,
    )


def _draw_candidate(axes: Axes, data: PlotData, tradeoff: Tradeoff, name: str) -> None:
    look, rounds, means = data.looks[name], tradeoff.rounds, tradeoff.means
    rounds = rounds[rounds["candidate"] == name]
    means = means[means["candidate"] == name].sort_values("concurrency")
    if bool((tradeoff.means["rounds"] > 1).any()):
        axes.plot(
            rounds["per_user"],
            rounds["per_gpu"],
            linestyle="none",
            marker=look.marker,
            markersize=2.6,
            color=look.colour,
            markeredgewidth=0,
            alpha=0.45,
            gid=f"per_gpu-rounds-{plot_label(name)}",
        )
    axes.plot(
        means["per_user"],
        means["per_gpu"],
        linestyle=look.line,
        linewidth=1.1,
        color=look.colour,
        marker=look.marker,
        markersize=_MARK_SIZE,
        markerfacecolor=look.fill,
        gid=f"per_gpu-mean-{plot_label(name)}",
        zorder=3,
    )


def _throughput_label(tradeoff: Tradeoff, why_no_gpus: str, *, short: bool) -> str:
    if tradeoff.gpus is not None:
        return "Output tokens/s per GPU" if short else "Throughput per GPU (output tokens/s/GPU)"
    if short:
        return "Output tokens/s per server"
    return f"Throughput per server (output tokens/s)\n{why_no_gpus}".rstrip()
