"""The plots of several runs: a panel for each, on axes and with looks that all of them share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from autotune.report.axes import Extent, PlotData, draw_panel
from autotune.report.drawing import (
    add_legend,
    new_figure,
    plain_settings,
    rendered,
)
from autotune.report.figures import (
    column_of,
    device_words,
    engine_words,
    marks_words,
    plot_data,
    rejected_of,
    rounds_words,
    tradeoff_words,
    why_no_gpus,
    workload_words,
)
from autotune.report.palette import BACKGROUND, FAINT_INK, INK, Look, assign, look_keys, looks
from autotune.report.quantities import QUANTITIES, TRADEOFF, Quantity
from autotune.report.several import RunShown
from autotune.report.text import distinct_labels, plot_label, short_label
from autotune.report.tradeoff import gpus_of, speed_from, tradeoff_of
from autotune.report.tradeoff_axes import (
    TradeoffExtent,
    draw_tradeoff,
    front_mark,
    label_points,
)

_PANEL_INCHES = 2.8
_TRADEOFF_INCHES = 3.2
# Of two or three panels in a row: what fits above one.
_TITLE_CHARACTERS = {2: 56, 3: 36}


def draw_several(runs: Sequence[RunShown]) -> dict[str, bytes]:
    """Return the plots by file name; a quantity that no run measured has none.

    A backend looks the same in every panel; only whether its mark is hollow (it can't win) depends
    on the run.
    """
    datas = _datas(runs)
    files: dict[str, bytes] = {}
    with plain_settings():
        for quantity in QUANTITIES:
            if quantity is TRADEOFF:
                continue
            column = column_of(quantity, datas)
            if column is not None:
                figure = _draw(runs, datas, quantity=quantity, column=column)
                files |= rendered(figure, quantity.stem)
        if any(data.tradeoff is not None and len(data.tradeoff.means) for data in datas):
            files |= rendered(_draw_tradeoffs(runs, datas), TRADEOFF.stem)
    return files


def _datas(runs: Sequence[RunShown]) -> list[PlotData]:
    keys = look_keys([run.run for run in runs])
    palette = assign(key for one in keys for key in one.values())
    column = speed_from([run.subject.points for run in runs])
    gpus = [gpus_of(run.run) for run in runs]
    roles = {run.subject.judgement.baseline_role for run in runs} - {None}
    role = (roles.pop() if len(roles) == 1 else None) or "baseline"
    found = []
    for run, one, number in zip(runs, keys, gpus, strict=True):
        subject = run.subject
        data = plot_data(
            subject.judgement,
            points=subject.points,
            summary=subject.summary,
            looks=looks(one, rejected=rejected_of(subject.judgement), palette=palette),
            tradeoff=tradeoff_of(
                subject.points,
                subject.summary,
                # Only all or none: a server's throughput doesn't belong beside that of a GPU.
                gpus=number if None not in gpus else None,
                column=column,
            ),
        )
        found.append(replace(data, baseline_role=role))
    return found


def _draw(
    runs: Sequence[RunShown], datas: Sequence[PlotData], *, quantity: Quantity, column: str
) -> Figure:
    extent = Extent.of(datas, quantity=quantity, column=column)
    marks = f"{quantity.better}; {marks_words(datas, [(quantity, column)])}"
    drawn = [frozenset(data.drawn(column)) for data in datas]
    labels = _labels(datas, drawn)
    legend = [text for text, _ in labels]
    figure, panels = _new_panels(
        runs, _PANEL_INCHES, marks=_with_hollow(marks, datas), legend=legend
    )
    for place, (run, data) in enumerate(zip(runs, datas, strict=True)):
        axes, names = panels.axes[place], panels.names(place)
        if data.drawn(column):
            draw_panel(axes, data, quantity=quantity, column=column, extent=extent, names=names)
        else:
            _say_nothing_measured(axes)
        panels.entitle(place, run, data)
    add_legend(figure, labels)
    return figure


def _draw_tradeoffs(runs: Sequence[RunShown], datas: Sequence[PlotData]) -> Figure:
    tradeoffs = [data.tradeoff for data in datas if data.tradeoff is not None]
    extent = TradeoffExtent.of(tradeoffs)
    marks = f"{TRADEOFF.better}; {tradeoff_words(tradeoffs)}"
    labels = _labels(datas, [frozenset(one.means["candidate"]) for one in tradeoffs])
    extra = [front_mark()] if any(bool(one.means["front"].any()) for one in tradeoffs) else []
    if any(one.gpus is None for one in tradeoffs):
        reasons = dict.fromkeys(why_no_gpus(run.run) for run in runs if gpus_of(run.run) is None)
        marks += f"; per server ({'; '.join(reasons)})"
    legend = [*(text for text, _ in labels), *(str(mark.get_label()) for mark in extra)]
    figure, panels = _new_panels(
        runs, _TRADEOFF_INCHES, marks=_with_hollow(marks, datas), legend=legend
    )
    labelled = []
    for place, (run, data) in enumerate(zip(runs, datas, strict=True)):
        axes, names = panels.axes[place], panels.names(place)
        if data.tradeoff is None or not len(data.tradeoff.means):
            _say_nothing_measured(axes)
        else:
            draw_tradeoff(
                axes,
                data,
                data.tradeoff,
                extent=extent,
                names=names,
                short=True,
            )
            labelled.append((axes, data.tradeoff))
        panels.entitle(place, run, data)
    add_legend(figure, labels, extra=extra)
    figure.draw_without_rendering()
    for axes, tradeoff in labelled:
        label_points(axes, tradeoff.means)
    return figure


@dataclass(frozen=True)
class _Panels:
    """One panel a run, row by row; ``names`` says which of a panel's axes are named."""

    columns: int
    axes: tuple[Axes, ...]

    @classmethod
    def of(cls, figure: Figure, number: int) -> Self:
        columns = _columns(number)
        grid = figure.add_gridspec(nrows=-(-number // columns), ncols=columns)
        places = [divmod(place, columns) for place in range(number)]
        return cls(
            columns,
            tuple(figure.add_subplot(grid[at], facecolor=BACKGROUND) for at in places),
        )

    def names(self, place: int) -> frozenset[str]:
        last = place + self.columns >= len(self.axes)
        first = place % self.columns == 0
        return frozenset(name for name, named in (("x", last), ("y", first)) if named)

    def entitle(self, place: int, run: RunShown, data: PlotData) -> None:
        longest = _TITLE_CHARACTERS[self.columns]
        lines = [
            short_label(run.label, longest=longest),
            plot_label(f"{device_words(run.run)}, {engine_words(run.run)}", longest=longest),
            rounds_words(data.summary),
        ]
        self.axes[place].set_title("")
        self.axes[place].set_title("", loc="right")
        self.axes[place].set_title("\n".join(lines), loc="left", fontsize=8, color=INK)


def _columns(number: int) -> int:
    return 2 if number <= 4 else 3


def _new_panels(
    runs: Sequence[RunShown], height: float, *, marks: str, legend: Sequence[str]
) -> tuple[Figure, _Panels]:
    """Return a figure with an empty panel for each run; ``height`` is that of one, in inches."""
    run = runs[0].run
    about = [plot_label(run.key.model), plot_label(run.key.quantization)]
    about += sorted({words for one in runs if (words := workload_words(one.run))})
    rows = -(-len(runs) // _columns(len(runs)))
    figure = new_figure(
        rows * height, heading=[", ".join(about), marks[:1].upper() + marks[1:]], legend=legend
    )
    return figure, _Panels.of(figure, len(runs))


def _say_nothing_measured(axes: Axes) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, "not measured", ha="center", va="center", color=FAINT_INK)


def _labels(
    datas: Sequence[PlotData], drawn: Sequence[frozenset[str]]
) -> list[tuple[str, Look | None]]:
    """A text for each look: the candidates that have it, wherever they were measured."""
    names: dict[tuple[str, str], dict[str, None]] = {}
    for data, measured in zip(datas, drawn, strict=True):
        for name, look in data.looks.items():
            if name in measured:
                names.setdefault((look.colour, look.marker), {})[name] = None
    labels = distinct_labels([name for ones in names.values() for name in ones])
    return [
        (" / ".join(labels[name] for name in ones), Look(colour=colour, marker=marker))
        for (colour, marker), ones in names.items()
    ]


def _with_hollow(marks: str, datas: Sequence[PlotData]) -> str:
    hollow = any(look.hollow for data in datas for look in data.looks.values())
    return f"{marks}; hollow and dashed: rejected in that run" if hollow else marks
