"""A benchmark table's cells as figures, each with its backend, concurrency, metric and unit.

What a figure is of comes from its row, its column, the table's corner, and what is written above,
in this order; two that disagree are refused. What none of them says stays open, or is given by
``--metric``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from autotune.importers.csv_file import quoted
from autotune.importers.figures import Figure, read_figure
from autotune.importers.markdown_table_axes import FACT_ROLES, Axes
from autotune.importers.markdown_table_captions import caption_facts
from autotune.importers.markdown_table_cells import Cell, read_cell
from autotune.importers.markdown_table_text import PipeTable, TableRow, plain
from autotune.importers.markdown_table_words import Label, concurrency_in, read_label, whole
from autotune.importers.source_file import SourceText

_Value = TypeVar("_Value", str, int)

# A last row over all those above it.
_SUMMARY = re.compile(
    r"(?:geo(?:metric)?[ -]?)?(?:avg\.?|average|mean|total|overall|all|sum|median)", re.IGNORECASE
)
_NO_LABEL = Label(text="")
_ISL_OSL = ("isl", "osl")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One cell: what it is of, its value in the record's unit, and the line that it is in."""

    line: int
    backend: str | None
    concurrency: int | None
    repeat: int | None
    metric: str
    unit: str
    figure: Figure
    value: float
    averaged: bool


@dataclass(kw_only=True)
class Found:
    """What a table came to: its figures, its facts by line, and what isn't taken."""

    entries: list[Entry] = field(default_factory=list)
    places: set[tuple[str | None, int | None, int | None]] = field(default_factory=set)
    facts: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    units: dict[str, tuple[str, int]] = field(default_factory=dict)
    left_out: dict[str, list[int]] = field(default_factory=dict)
    used_metrics: set[str] = field(default_factory=set)
    open_metrics: bool = False

    def note_unit(self, source: SourceText, line: int, metric: str, unit: str) -> None:
        """Note a metric's unit.

        Raises:
            InputError: it's another one than in a line before.
        """
        other, at = self.units.setdefault(metric, (unit, line))
        if other != unit:
            here, there = (quoted(each) if each else "no unit" for each in (unit, other))
            raise source.error(
                line, f"{metric} is in {here} here, but in {there} in line {at}: give it one unit"
            )

    def figure(self, source: SourceText, line: int, metric: str, unit: str) -> Figure | None:
        """Return the record's figure of a metric; one that has none is noted as left out."""
        self.note_unit(source, line, metric, unit)
        found = read_figure(metric, unit)
        if isinstance(found, str):
            # What is wrong with a unit that is said isn't open.
            leaves_open = not unit or not found.startswith("the unit")
            told = f"{metric.replace('_', ' ')}: {found}"
            self.leave(f"{told} (--metric can say it)" if leaves_open else told, line)
            self.open_metrics = self.open_metrics or leaves_open
            return None
        return found

    def leave(self, what: str, line: int) -> None:
        """Note what isn't taken, and where."""
        self.left_out.setdefault(what, []).append(line)


def read_entries(
    source: SourceText, table: PipeTable, axes: Axes, *, metrics: Mapping[str, str]
) -> Found:
    """Read the cells of a table whose axes are known.

    Args:
        source: the text, for messages.
        table: the table.
        axes: which way round it is.
        metrics: names and units of figures whose metric isn't said, in the tidy form's words.

    Raises:
        InputError: a cell holds no single number, or it can't be said what it is of.
    """
    found = Found()
    for index, reason in axes.left_out.items():
        found.leave(
            f"column {quoted(plain(table.header.cells[index]))}: {reason}", table.header.line
        )
    found.facts.append((table.header.line, caption_facts(table.captions)))
    devices = axes.column("gpu")
    if devices is not None and any(whole(row.cells[devices]) for row in table.rows):
        shown = quoted(plain(table.header.cells[devices]))
        found.leave(f"column {shown}: says no GPU's name: give --device-count", table.header.line)
    for row in table.rows:
        unmeasured = _not_measured(axes, row)
        if unmeasured is not None:
            found.leave(unmeasured, row.line)
            continue
        keys = _Keys.read(source, axes, row)
        found.facts.append((row.line, keys.facts))
        if keys.metric.no_place or keys.metric.name:
            reason = keys.metric.no_place or "not a metric that has a place in the records"
            found.leave(f"row {quoted(keys.metric.text)}: {reason}", row.line)
            continue
        for index in axes.figures:
            _add(found, source, axes, row, index, keys=keys, given=metrics)
    return found


def _not_measured(axes: Axes, row: TableRow) -> str | None:
    """Why a whole row is no measurement: it sums others up, or compares them."""
    for role, of in (("concurrency", "concurrencies"), ("backend", "backends")):
        index = axes.column(role)
        if index is None:
            continue
        name = plain(row.cells[index])
        if _SUMMARY.fullmatch(name):
            return f"row {quoted(name)}: of several {of}"
        if role == "backend" and (label := read_label(name)).compares:
            return f"row {quoted(name)}: {label.no_place}"
    return None


@dataclass(frozen=True, kw_only=True)
class _Keys:
    """What the key columns of a row say."""

    backend: str | None
    concurrency: int | None
    repeat: int | None
    metric: Label
    facts: dict[str, str]

    @classmethod
    def read(cls, source: SourceText, axes: Axes, row: TableRow) -> "_Keys":
        def cell(role: str) -> str | None:
            index = axes.column(role)
            return row.cells[index] if index is not None else None

        concurrency, repeat = cell("concurrency"), cell("repeat")
        backend, rate = cell("backend"), cell("rate")
        if rate is not None and plain(rate).lower() not in ("inf", "infinite", "\u221e", "-", ""):
            raise source.error(
                row.line,
                f"a request rate of {quoted(plain(rate))}: if it was asked for, it's an open loop, "
                "in which no number of requests is held in flight: remove these rows; if it was "
                "measured, call the column Request throughput (req/s)",
            )
        named = cell("metric")
        label = read_label(named) if named is not None else Label(text="")
        if (unit := cell("unit")) is not None:
            label = read_label(f"{named} ({unit})")
        return cls(
            backend=_name(source, row, backend) if backend is not None else None,
            concurrency=_number(source, row, concurrency, what="concurrency"),
            repeat=_number(source, row, repeat, what="repetition"),
            metric=label,
            facts=_facts(axes, row),
        )


def _name(source: SourceText, row: TableRow, cell: str) -> str:
    label = read_label(cell)
    text = label.name if label.name is not None and not label.says_metric else plain(cell)
    if not text:
        raise source.error(row.line, "no backend: a cell that goes on for several rows can't be "
                           "read; write it in each row")  # fmt: skip
    return text


def _number(source: SourceText, row: TableRow, cell: str | None, *, what: str) -> int | None:
    if cell is None:
        return None
    number = whole(cell) or (concurrency_in(plain(cell)) if what == "concurrency" else None)
    if number is None:
        reached = re.fullmatch(r"[0-9]+\.[0-9]*[1-9][0-9]*", plain(cell))
        remedy = ": write how many were asked for, not how many were reached" if reached else ""
        raise source.error(
            row.line,
            f"the {what} is {quoted(plain(cell))}, not a whole number of at least 1{remedy}",
        )
    return number


def _facts(axes: Axes, row: TableRow) -> dict[str, str]:
    found: dict[str, str] = {}
    for role in FACT_ROLES:
        index = axes.column(role)
        text = plain(row.cells[index]) if index is not None else ""
        parts = [part.strip() for part in text.replace("|", "/").split("/")]
        if role == "isl osl":
            found |= dict(zip(_ISL_OSL, parts, strict=True)) if len(parts) == 2 else {}
        elif role == "gpu" and whole(text):
            # A number of GPUs of which no name is said.
            found["workload"] = f"{whole(text)} GPUs"
        elif text:
            found[role] = text
    return found


def _add(
    found: Found,
    source: SourceText,
    axes: Axes,
    row: TableRow,
    index: int,
    *,
    keys: _Keys,
    given: Mapping[str, str],
) -> None:
    """Read one cell and add what it is."""
    column = axes.labels[index]
    labels = (keys.metric, column, axes.corner)
    above = _above(axes, labels)
    if isinstance(above, str):
        found.leave(above, row.line)
        return
    said = [keys.concurrency, keys.metric.concurrency, column.concurrency]
    concurrency = _only(source, row, said, "concurrency")
    if concurrency is None:
        concurrency = next((c.concurrency for c in axes.captions if c.concurrency), None)
    backend = _only(source, row, [keys.backend, column.name], "backend")
    if backend is None:
        backend = next((c.name for c in axes.captions if c.flagged), None)
    cell = read_cell(row.cells[index])
    if isinstance(cell, str):
        raise source.error(row.line, f"column {quoted(column.text)}: {cell}")
    found.places.add((backend, concurrency, keys.repeat))
    if cell is None:
        shown = plain(row.cells[index]) or "nothing"
        found.leave(f"{quoted(shown)} in column {quoted(column.text)}: no figure", row.line)
        return
    name, unit, averaged = _metric(source, row, cell, (*labels, above))
    averaged = averaged or any(caption.averaged for caption in axes.captions)
    fitting = _fitting(name, unit, given)
    if fitting is not None:
        found.used_metrics.add(fitting)
        name, unit = fitting, _given_unit(source, row, unit, (fitting, given[fitting]))
    if name is None:
        raise source.error(
            row.line,
            f"column {quoted(column.text)}: which metric is this, in which unit? Give --metric "
            "output_throughput:tok/s, mean_ttft:ms or the like, or write it above the table",
        )
    figure = found.figure(source, row.line, name, unit or "")
    if figure is None:
        return
    if cell.spread:
        what = f"what follows \u00b1 in column {quoted(column.text)}"
        found.leave(f"{what}: of which kind it is isn't said", row.line)
    found.entries.append(
        Entry(
            line=row.line,
            backend=backend,
            concurrency=concurrency,
            repeat=keys.repeat,
            metric=name,
            unit=unit or "",
            figure=figure,
            value=cell.number * figure.factor,
            averaged=averaged,
        )
    )


def _above(axes: Axes, labels: Sequence[Label]) -> Label | str:
    """What is written above of the metric, or why a table of that metric has no place."""
    saying = (c for c in axes.captions if c.says_metric or c.says_other_metric or c.says_other_kind)
    found = next(saying, _NO_LABEL)
    if found.no_place and all(label.family in (None, "throughput") for label in labels):
        return f"{quoted(found.text)}: {found.no_place}"
    return _NO_LABEL if found.no_place else found


def _metric(
    source: SourceText, row: TableRow, cell: Cell, labels: Sequence[Label]
) -> tuple[str | None, str | None, bool]:
    """The metric's name and unit, as far as they are said, and whether it's a mean of rates.

    The last of ``labels`` is what is written above: it says only what the others leave open.
    """
    *here, above = labels
    family = _only(source, row, [label.family for label in here], "metric")
    statistic = _only(source, row, [label.statistic for label in here], "statistic")
    unit = _only(source, row, [cell.unit, *(label.unit for label in here)], "unit")
    vague = family == "throughput" and "throughput" in (above.family or "")
    if vague or family in (None, above.family) or above.family is None:
        # What is written above is of this metric, not of another column's.
        family = above.family if vague else family or above.family
        statistic, unit = statistic or above.statistic, unit or above.unit
    if family is None:
        return None, unit, False
    rate = family.endswith("throughput")
    name = family if rate or statistic is None else f"{statistic}_{family}"
    return name, unit, (rate and statistic is not None) or any(label.averaged for label in here)


def _fitting(name: str | None, unit: str | None, given: Mapping[str, str]) -> str | None:
    """Which metric of ``--metric`` says more of this one than the table does, if only one does."""
    fitting = [
        each
        for each, of in given.items()
        if (name is None and (len(given) == 1 or unit == of))
        or (name == each and unit is None)
        or (name is not None and name != each and each.endswith(f"_{name}"))
    ]
    return fitting[0] if len(fitting) == 1 else None


def _given_unit(source: SourceText, row: TableRow, unit: str | None, given: tuple[str, str]) -> str:
    if unit is not None and unit != given[1]:
        raise source.error(
            row.line, f"--metric says {quoted(given[1])}, but the unit here is {quoted(unit)}"
        )
    return given[1]


def _only(
    source: SourceText, row: TableRow, values: Sequence[_Value | None], what: str
) -> _Value | None:
    """The one value that is said, if any."""
    said: Iterator[_Value] = (value for value in values if value is not None)
    first = next(said, None)
    for other in said:
        if other != first:
            raise source.error(
                row.line,
                f"the {what} is {quoted(str(first))} and {quoted(str(other))} at once: keep one",
            )
    return first
