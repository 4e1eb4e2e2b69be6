"""Benchmark tables in Markdown, as pull requests show them: pasted into a file and read as points.

All tables of a file belong to one run: throughput in one and TTFT in another are joined by backend
and concurrency. Tables about something else are left alone, which is told. Nothing is guessed: a
metric, a statistic or a unit that isn't written in the file is asked for, or left out.
``docs/importing.md`` has the shapes and words that are read.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from autotune.decisions import one_line
from autotune.errors import InputError, UsageError
from autotune.importers.csv_file import quoted
from autotune.importers.figures import check_figures, read_figure
from autotune.importers.markdown_table_axes import read_axes
from autotune.importers.markdown_table_captions import check_alike
from autotune.importers.markdown_table_layout import Entry, Found, read_entries
from autotune.importers.markdown_table_text import PipeTable, find_tables, has_table
from autotune.importers.reading import Reading, Readings, shared_facts
from autotune.importers.source_file import SourceText, head, read_text
from autotune.records.schema import MeasurementWarning, PointFigures

NAME = "markdown_table"
# A pull request's text, not a log.
_LARGEST_FILE = 4 * 2**20
_MOST_LINES_SHOWN = 4
_MOST_TOLD = 6
_HINT = (
    "where the tables leave a metric open, say which with --metric output_throughput:tok/s, "
    "mean_ttft:ms or the like, several with a comma between them"
)

_Place = tuple[str | None, int | None, int | None]


def looks_like(path: Path) -> bool:
    """Whether a text holds a table, in Markdown or meant as one."""
    text = head(path).lstrip()
    return not text.startswith(("{", "[{", "[\n")) and has_table(text)


def read(path: Path, *, metric: str | None = None) -> Readings:
    """Read the tables of a text.

    Args:
        path: the file.
        metric: the metric and unit of figures for which the file doesn't say them, as
            ``output_throughput:tok/s``, in the words of the tidy form; several with a comma.

    Raises:
        InputError: a table can't be read in one way alone, or none can be taken; file and line
            are named.
        UsageError: ``metric`` is none, or says nothing that the file doesn't.
    """
    given = _given(metric)
    source = read_text(path, largest=_LARGEST_FILE)
    tables, unread = find_tables(source)
    skipped = [f"{source.where}, line {each.line}: {each.what}" for each in unread]
    taken: list[PipeTable] = []
    found: list[Found] = []
    for table in tables:
        axes = read_axes(source, table)
        if isinstance(axes, str):
            skipped.append(f"{source.where}, line {table.header.line}: a table: {axes}")
        else:
            taken.append(table)
            found.append(read_entries(source, table, axes, metrics=given))
    entries = [entry for each in found for entry in each.entries]
    skipped += [
        f"{source.where}, {_lines(lines)}: {what}"
        for each in found
        for what, lines in each.left_out.items()
    ]
    if not entries:
        raise _nothing(source, skipped, leaves_open=any(each.open_metrics for each in found))
    for name in given:
        if not any(name in each.used_metrics for each in found):
            raise UsageError(f"--metric {name}: the tables leave no such metric open: leave it out")
    _check_units(source, found)
    facts = _facts(source, found)
    readings = _join(source, entries)
    check_alike(source, [(t, _metrics(each)) for t, each in zip(taken, found, strict=True)])
    places: set[_Place] = set().union(*(each.places for each in found))
    return Readings(
        format=NAME,
        where=source.where,
        readings=readings,
        facts=facts,
        skipped=tuple(skipped),
        files={path.name: source.sha256},
        rows=len(places),
    )


def _nothing(source: SourceText, skipped: Sequence[str], *, leaves_open: bool) -> InputError:
    """The error of a text whose tables hold nothing to import."""
    told = [each.removeprefix(f"{source.where}, ") for each in skipped[:_MOST_TOLD]]
    more = f"; and {len(skipped) - len(told)} more" if len(skipped) > len(told) else ""
    hint = f". {_HINT[0].upper()}{_HINT[1:]}" if leaves_open else ""
    return InputError(
        f"{source.where}: no figure in a table that has a place in the records"
        f"{': ' if told else ''}{'; '.join(told)}{more}{hint}"
    )


def _metrics(found: Found) -> frozenset[str]:
    return frozenset(entry.metric for entry in found.entries)


def _given(metric: str | None) -> dict[str, str]:
    """Split ``--metric``, each of which must name a figure of the records."""
    given: dict[str, str] = {}
    for each in (part.strip() for part in metric.split(",")) if metric is not None else ():
        name, colon, unit = each.partition(":")
        problem = read_figure(name, unit) if colon else "write it as NAME:UNIT"
        if name in given:
            problem = "it's given twice"
        if isinstance(problem, str):
            raise UsageError(
                f"--metric {quoted(each)}: {problem}, e.g. output_throughput:tok/s or mean_ttft:ms"
            )
        given[name] = unit
    return given


def _check_units(source: SourceText, found: Sequence[Found]) -> None:
    """Refuse one metric in two units: one of them is probably wrong."""
    first: dict[str, tuple[str, int]] = {}
    for table in found:
        for metric, (unit, line) in table.units.items():
            other, at = first.setdefault(metric, (unit, line)) if unit else (unit, line)
            if unit != other:
                raise source.error(
                    line,
                    f"{metric} is in {unit} here, but in {other} in line {at}: give it one unit",
                )


def _facts(source: SourceText, found: Sequence[Found]) -> dict[str, str]:
    """What columns say of all rows: a model, a GPU, lengths."""
    return shared_facts(
        (f"{source.where}, line {line}", {key: one_line(text) for key, text in facts.items()})
        for each in found
        for line, facts in each.facts
        if facts
    )


def _join(source: SourceText, entries: Sequence[Entry]) -> tuple[Reading, ...]:
    """Bring the figures of each point together, in the order in which points come up."""
    points: dict[_Place, dict[tuple[str, str | None], Entry]] = {}
    for entry in entries:
        place = (entry.backend, entry.concurrency, entry.repeat)
        figure = (entry.figure.field, entry.figure.part)
        other = points.setdefault(place, {}).setdefault(figure, entry)
        if other is not entry:
            raise source.error(entry.line, _twice(entry, other))
    _check_repeats(source, entries)
    return tuple(_reading(source, place, figures) for place, figures in points.items())


def _check_repeats(source: SourceText, entries: Sequence[Entry]) -> None:
    """Figures of numbered repetitions, and of none, aren't of the same measurement."""
    first = entries[0]
    for entry in entries:
        if (entry.repeat is None) != (first.repeat is None):
            raise source.error(
                entry.line,
                f"repetitions are numbered here or in line {first.line}, but not in both: number "
                "all of them, or import the tables apart",
            )


def _twice(entry: Entry, other: Entry) -> str:
    of = f" of {quoted(entry.backend)}" if entry.backend is not None else ""
    at = f" at concurrency {entry.concurrency}" if entry.concurrency is not None else ""
    remedy = (
        "keep one; repetitions need a column Run"
        if entry.backend is not None
        else "add a column Backend, or put each backend's table into a file of its own"
    )
    return f"{entry.metric}{of}{at} is in line {other.line} already: {remedy}"


def _reading(
    source: SourceText, place: _Place, entries: Mapping[tuple[str, str | None], Entry]
) -> Reading:
    figures: dict[str, Any] = {}
    for (name, part), entry in entries.items():
        if part is None:
            figures[name] = entry.value
        else:
            figures.setdefault(name, {})[part] = entry.value
    backend, concurrency, repeat = place
    line = min(entry.line for entry in entries.values())
    where = f"{source.where}, line {line}"
    said = msgspec.convert(figures, PointFigures)
    check_figures(where, said)
    return Reading(
        where=where,
        backend=None if backend is None else one_line(backend),
        concurrency=concurrency,
        repeat=repeat,
        figures=said,
        warnings=_averaged(list(entries.values())),
    )


def _averaged(entries: Sequence[Entry]) -> tuple[MeasurementWarning, ...]:
    """A mean of throughputs is of several runs, which the table doesn't show."""
    names = sorted({entry.metric for entry in entries if entry.averaged})
    if not names:
        return ()
    return (
        MeasurementWarning(
            code="published_average",
            observed=f"{', '.join(names)} was published as a mean or median of several runs",
            threshold="one figure a run",
            remedy="look up the single runs where the table was published: their spread is lost",
        ),
    )


def _lines(lines: Sequence[int]) -> str:
    shown = [str(line) for line in dict.fromkeys(lines)]
    if len(shown) == 1:
        return f"line {shown[0]}"
    more = ", ..." if len(shown) > _MOST_LINES_SHOWN else ""
    return f"lines {', '.join(shown[:_MOST_LINES_SHOWN])}{more}"
