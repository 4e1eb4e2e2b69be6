"""What every figure has: our settings, a heading, a legend, and its bytes as SVG and PNG.

Figures are made through matplotlib's objects: no window system, no state left behind.
"""

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from autotune.report.palette import BACKGROUND, INK, Look

WIDTH_INCHES = 8.0
PNG_DPI = 200
LINE_CHARACTERS = 105
_LINE_INCHES = 0.17
_LEGEND_INCHES = 0.2

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


@contextmanager
def plain_settings() -> Iterator[None]:
    """Draw with our settings whatever a user's matplotlibrc says, and leave theirs as it was."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def new_figure(height: float, *, heading: Sequence[str], legend: Sequence[str]) -> Figure:
    """Return an empty figure of the common width.

    Args:
        height: that of the panels, in inches.
        heading: the lines above them; long ones are wrapped.
        legend: the texts that `add_legend` will add.
    """
    lines = [part for line in heading for part in textwrap.wrap(line, LINE_CHARACTERS)]
    height += _LINE_INCHES * len(lines) + _LEGEND_INCHES * _legend_rows(legend)
    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained", facecolor=BACKGROUND)
    FigureCanvasAgg(figure)
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=9.5)
    return figure


def add_legend(
    figure: Figure,
    labels: Sequence[tuple[str, Look | None]],
    *,
    extra: Iterable[Line2D | Patch] = (),
) -> None:
    """Add a legend below the panels: a text for each look; one without a look has no mark.

    ``extra`` are marks that are no candidate's, with labels of their own.
    """
    handles: list[Line2D | Patch] = [_handle(look) for _, look in labels]
    texts = [text for text, _ in labels]
    for mark in extra:
        handles.append(mark)
        texts.append(str(mark.get_label()))
    figure.legend(
        handles,
        # matplotlib leaves out labels that start with an underscore.
        [f" {text}" if text.startswith("_") else text for text in texts],
        loc="outside lower left",
        ncols=_legend_columns(texts),
        frameon=False,
        fontsize=9,
        handlelength=3.0,
    )


def _legend_rows(labels: Sequence[str]) -> int:
    return -(-len(labels) // _legend_columns(labels))


def _legend_columns(labels: Sequence[str]) -> int:
    longest = max((len(label) for label in labels), default=0)
    return max(1, min(len(labels), int(WIDTH_INCHES / (0.07 * longest + 0.65))))


def rendered(figure: Figure, stem: str) -> dict[str, bytes]:
    """Return the figure's files by name."""
    svg, png = io.BytesIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "autotune"})
    figure.savefig(png, format="png", dpi=PNG_DPI, metadata={"Software": "autotune"})
    return {f"{stem}.svg": svg.getvalue(), f"{stem}.png": png.getvalue()}


def is_ours(data: bytes) -> bool:
    """Whether the beginning of a picture's file says that `rendered` made it."""
    return b"Software\0autotune" in data or b"<dc:title>autotune" in data


def _handle(look: Look | None) -> Line2D:
    if look is None:
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
