"""A published table in tidy form (one figure a row) as a run's records.

``docs/importing.md`` describes the columns, the metrics with their units, and what is refused.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from autotune.decisions.schema import check_name
from autotune.errors import InputError, UsageError
from autotune.importers import context
from autotune.importers.csv_file import Table, quoted, read_table
from autotune.importers.figures import check_figures
from autotune.importers.labels import names_no_backend
from autotune.importers.schema import SOURCE_TABLE, Imported, ImportOptions, SourceFile
from autotune.importers.selection import UsedRow, select_rows
from autotune.importers.source_file import head
from autotune.records.folder import LoadedRun
from autotune.records.rule import Rule
from autotune.records.schema import (
    Candidate,
    MeasurementWarning,
    PointFigures,
    PointRecord,
    RunRecord,
)

COLUMNS = (*context.COLUMNS, "backend", "concurrency", "metric", "unit", "value")

_Place = tuple[str, int, int]
# Fewer of its columns than this are another table's by chance.
_TELLING_COLUMNS = 5


def looks_like(path: Path) -> bool:
    """Whether the file's first line names columns of a tidy table, some of which may be missing."""
    # Also with other separators and in capitals: the reader says what is wrong.
    first = re.split(r"[\r\n]", head(path).lstrip(), maxsplit=1)[0].lower()
    names = {name.strip().strip('"') for name in re.split(r"[,;\t]", first)}
    return len(names & set(COLUMNS)) >= _TELLING_COLUMNS and {"metric", "value"} <= names


def import_tidy(path: Path, options: ImportOptions, *, created_at: str) -> Imported:
    """Read a tidy table into records; nothing is written.

    A figure that the table doesn't hold is ``None`` in the records, and so are request counts,
    windows, launches and answers, which no table holds.

    Args:
        path: the CSV file.
        options: what the table doesn't say.
        created_at: the time of the import, ISO 8601 in UTC, for the run record.

    Raises:
        InputError: the file can't be read as one run; file, line and remedy are named.
        UsageError: the options contradict the table.
    """
    table = read_table(path, columns=COLUMNS)
    used, skipped = select_rows(table)
    shared = context.read_context(table, [each.row for each in used], options=options)
    backends = _backends(table, used, rename=options.rename)
    places = _places(table, used, backends=backends, concurrency=options.concurrency)
    run = RunRecord(
        kind="import",
        name=_run_name(path, table, given=options.name),
        created_at=created_at,
        key=shared.key,
        scope=shared.scope,
        candidates=tuple(
            Candidate(name=backend, engine=shared.scope.engine, backend=backend)
            for backend in backends.values()
        ),
        concurrencies=tuple(sorted({concurrency for _, _, concurrency in places})),
        # The table is judged once, as it is.
        rule=Rule(min_rounds=3, max_rounds=3),
        workload=shared.workload,
        reference=_candidate(table, "reference", options.reference, backends=backends),
        incumbent=_candidate(table, "incumbent", options.incumbent, backends=backends),
        source=shared.source,
    )
    points = [_point(table, place, rows) for place, rows in sorted(places.items(), key=_by_round)]
    columns = tuple(f"column {quoted(name)}: not one of the tidy form's" for name in table.extra)
    return Imported(
        run=LoadedRun(run=run, launches=(), points=tuple(points), probes=()),
        skipped=(*skipped, *shared.notes, *columns),
        rows=len(table.rows),
        used_rows=len(used),
        sources=(SourceFile(name=SOURCE_TABLE, path=path, sha256=table.sha256),),
    )


def _run_name(path: Path, table: Table, *, given: str | None) -> str:
    try:
        return check_name("name", given if given is not None else path.stem)
    except UsageError:
        raise InputError(f"{table.where}: its name can't be a run's name: give --name") from None


def _backends(
    table: Table, used: Sequence[UsedRow], *, rename: Mapping[str, str]
) -> dict[str, str]:
    """Map each label of the used rows to its backend's name, in the table's order."""
    labels = {row.cells["backend"] for row in table.rows}
    for old in rename:
        if old not in labels:
            known = ", ".join(quoted(label) for label in sorted(labels)[:8])
            raise InputError(
                f"{table.where}: no backend {quoted(old)} to rename: the table has {known}"
            )
    backends: dict[str, str] = {}
    taken: dict[str, str] = {}
    for each in used:
        label = each.row.cells["backend"]
        if label in backends:
            continue
        name = rename.get(label, label)
        if label not in rename and names_no_backend(label):
            raise table.error(
                each.row.line,
                f"{quoted(label)} names no backend: say which one it was with --rename "
                f"{quoted(label + '=NAME')}, in the engine's word, or remove its rows",
            )
        _check_backend(table, each.row.line, label=label, name=name)
        other = taken.setdefault(name, label)
        if other != label:
            raise table.error(
                each.row.line,
                f"{quoted(label)} and {quoted(other)} would both be {name}: give them "
                "different names with --rename",
            )
        backends[label] = name
    return backends


def _check_backend(table: Table, line: int, *, label: str, name: str) -> None:
    try:
        check_name("backend", name)
    except UsageError:
        if not label:
            raise table.error(line, "no backend: write the engine's name of it") from None
        raise table.error(
            line,
            f"backend {quoted(label)} isn't an engine's name of a backend: give that with "
            f"--rename {_argument(label)}",
        ) from None


def _argument(label: str) -> str:
    """An example for ``--rename``: the label with the name that it may begin with."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else " " for c in label)
    example = (plain.split() or ["NAME"])[0].lstrip("_-") or "NAME"
    return quoted(f"{label}={example}")


def _places(
    table: Table,
    used: Sequence[UsedRow],
    *,
    backends: Mapping[str, str],
    concurrency: int | None,
) -> dict[_Place, list[UsedRow]]:
    """Sort the rows into points: by backend, round and concurrency."""
    places: dict[_Place, list[UsedRow]] = {}
    lines: dict[tuple[_Place, str, str | None], int] = {}
    if concurrency is not None and all(each.row.cells["concurrency"] for each in used):
        raise InputError(f"{table.where}: each row says its concurrency: leave --concurrency out")
    for each in used:
        figure = each.figure
        users = _concurrency(table, each, given=concurrency)
        place = (backends[each.row.cells["backend"]], figure.repeat or 1, users)
        line = lines.setdefault((place, figure.field, figure.part), each.row.line)
        if line != each.row.line:
            raise table.error(
                each.row.line,
                f"{each.row.cells['metric']} of {place[0]} at concurrency {users} is in line "
                f"{line} already: keep one, or name repetitions _rep1, _rep2, ...",
            )
        places.setdefault(place, []).append(each)
    return places


def _concurrency(table: Table, used: UsedRow, *, given: int | None) -> int:
    cell = used.row.cells["concurrency"]
    if not cell and given is not None:
        return given
    number = context.whole_number(cell)
    if number is None:
        problem = (
            f"concurrency {quoted(cell)} isn't a whole number of at least 1: correct it"
            if cell
            else "no concurrency: give --concurrency, which is for all rows without one"
        )
        raise table.error(used.row.line, problem)
    return number


def _candidate(
    table: Table, role: str, name: str | None, *, backends: Mapping[str, str]
) -> str | None:
    if name is not None and name not in backends.values():
        raise InputError(
            f"{table.where}: the {role} {name} isn't in the table, which has "
            f"{', '.join(backends.values())}"
        )
    return name


def _by_round(item: tuple[_Place, list[UsedRow]]) -> tuple[int, str, int]:
    (candidate, number, concurrency), _ = item
    return number, candidate, concurrency


def _point(table: Table, place: _Place, rows: Sequence[UsedRow]) -> PointRecord:
    candidate, number, concurrency = place
    figures: dict[str, Any] = {}
    for each in rows:
        field, part = each.figure.field, each.figure.part
        if part is None:
            figures[field] = each.value
        else:
            figures.setdefault(field, {})[part] = each.value
    said = msgspec.convert(figures, PointFigures)
    check_figures(f"{table.where}, line {rows[0].row.line}", said)
    return PointRecord(
        candidate=candidate,
        round=number,
        concurrency=concurrency,
        status="ok",
        figures=said,
        warnings=_warnings(rows),
    )


def _warnings(rows: Sequence[UsedRow]) -> tuple[MeasurementWarning, ...]:
    inferred = [each.row.cells for each in rows if each.figure.inferred]
    if not inferred:
        return ()
    return (
        MeasurementWarning(
            code="unit_inferred",
            observed="; ".join(f"{cells['metric']} in {cells['unit']}" for cells in inferred),
            threshold="a published unit",
            remedy="look up the unit where the table was published",
        ),
    )
