"""From paths to one run's records: each file by its own format, then all of them together."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from autotune.decisions import one_line
from autotune.errors import InputError, UsageError
from autotune.importers import markdown_table
from autotune.importers.assemble import assemble
from autotune.importers.formats import Format, detect, named
from autotune.importers.littles_law import told_by_littles_law
from autotune.importers.reading import Readings
from autotune.importers.schema import Imported, ImportOptions
from autotune.importers.tidy_csv import import_tidy
from autotune.records.folder import impossible_figure


def import_files(
    paths: Sequence[Path],
    options: ImportOptions,
    *,
    created_at: str,
    format_name: str | None = None,
) -> Imported:
    """Read files or folders into the records of one run; nothing is written.

    Args:
        paths: what to read, at least one.
        options: what the files don't say.
        created_at: the time of the import, ISO 8601 in UTC, for the run record.
        format_name: the format of all of them; told by their content if not given.

    Raises:
        InputError: a file can't be read, or all of them don't make one run.
        UsageError: an unknown format, a file given twice, or options that contradict the files.
    """
    resolved = [path.resolve() for path in paths]
    for index, path in enumerate(resolved):
        if path in resolved[:index]:
            raise UsageError(f"{one_line(str(paths[index]))}: is given twice")
    formats = [named(format_name) if format_name else detect(path) for path in paths]
    tidy = [path for path, each in zip(paths, formats, strict=True) if each.read is None]
    if tidy:
        if len(paths) > 1:
            raise UsageError(
                f"{one_line(str(tidy[0]))}: a tidy table is a run of its own: import it alone, or "
                "put all rows into one table"
            )
        _refuse_tool_options(options)
        return _complete(import_tidy(paths[0], options, created_at=created_at))
    if options.metric is not None and not any(each.name == markdown_table.NAME for each in formats):
        raise UsageError("--metric: only tables in Markdown leave their metric open: leave it out")
    sources = [
        (path, _read(path, each, metric=options.metric))
        for path, each in zip(paths, formats, strict=True)
    ]
    return _complete(assemble(sources, options, created_at=created_at))


def _complete(imported: Imported) -> Imported:
    """Put into the record what whoever reads it later must know of the files.

    Raises:
        InputError: a figure that no measurement gives, which no reader of the records would take.
    """
    for point in imported.run.points:
        impossible = impossible_figure(point)
        if impossible is not None:
            wheres = ", ".join(one_line(str(source.path)) for source in imported.sources[:3])
            raise InputError(
                f"{wheres}: {point.candidate} at concurrency {point.concurrency}: {impossible} "
                "can't be measured: correct the file or leave this point out"
            )
    hashes = {source.name: source.sha256 for source in imported.sources}
    tokens = imported.run.run.workload.output_tokens
    points = tuple(told_by_littles_law(each, output_tokens=tokens) for each in imported.run.points)
    run = msgspec.structs.replace(
        imported.run.run, source_sha256=hashes, import_notes=_import_notes(imported)
    )
    return replace(imported, run=msgspec.structs.replace(imported.run, run=run, points=points))


def _import_notes(imported: Imported) -> tuple[str, ...]:
    """What was left out or said otherwise, without the folders of whoever imported it."""
    told = [*(f"not imported: {reason}" for reason in imported.skipped), *imported.notes]
    places = sorted({one_line(str(source.path)) for source in imported.sources}, key=len)
    for place in reversed(places):
        told = [sentence.replace(place, Path(place).name) for sentence in told]
    return tuple(told)


def _read(path: Path, of_format: Format, *, metric: str | None) -> Readings:
    if of_format.read is None:
        raise ValueError(of_format.name)
    if of_format.name == markdown_table.NAME:
        return markdown_table.read(path, metric=metric)
    return of_format.read(path)


def _refuse_tool_options(options: ImportOptions) -> None:
    """A flag that would do nothing is a mistake about what the table is."""
    for flag, given in (
        ("--backend", options.backend or options.file_backends),
        ("--repeats", options.repeats),
        ("--metric", options.metric),
    ):
        if given:
            raise UsageError(f"{flag}: a tidy table says that itself: leave it out")
