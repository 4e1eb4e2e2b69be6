"""A CSV file as rows that know their line, whatever bytes it holds."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.decisions import one_line
from autotune.errors import InputError
from autotune.importers.source_file import read_text

LARGEST_FILE = 16 * 2**20
_LONGEST_CELL = 500
_LONGEST_QUOTE = 60


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: the line it begins on, and its cells by column, without spaces around them."""

    line: int
    cells: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A whole file. ``where`` is its name for messages; ``extra`` are columns nobody asked for."""

    where: str
    rows: tuple[Row, ...]
    extra: tuple[str, ...]
    sha256: str

    def error(self, line: int, problem: str) -> InputError:
        """Return the error that says what is wrong in ``line`` and what to do."""
        return InputError(f"{self.where}, line {line}: {problem}")


def quoted(text: str) -> str:
    """Return hostile text for a message: quoted, printable, cut where it is long."""
    return repr(one_line(text, limit=_LONGEST_QUOTE))


def read_table(path: Path, *, columns: Sequence[str]) -> Table:
    """Read a CSV file whose header holds each of ``columns``, in any order.

    A byte order mark, any line ends and empty lines are fine.

    Raises:
        InputError: missing, not a file, over 16 MiB, not UTF-8, not CSV, without a row, another
            header, a row of another length, or a cell of ``columns`` that is over 500 characters or
            holds one that doesn't print.
    """
    where = one_line(str(path))
    source = read_text(path, where=where, largest=LARGEST_FILE)
    records = _records(source.text, where=where)
    header_line, header = next(records, (1, []))
    names = [name.strip() for name in header]
    _check_header(names, columns, where=f"{where}, line {header_line}")
    rows = []
    for line, cells in records:
        if len(cells) != len(names):
            raise InputError(
                f"{where}, line {line}: {len(cells)} cells, but the header has {len(names)}: "
                "quote a cell that holds a comma, and leave unknown cells empty"
            )
        row = dict(zip(names, (cell.strip() for cell in cells), strict=True))
        _check_cells(row, columns, where=f"{where}, line {line}")
        rows.append(Row(line=line, cells=row))
    if not rows:
        raise InputError(f"{where}: a header and no row: nothing to import")
    return Table(
        where=where,
        rows=tuple(rows),
        extra=tuple(name for name in names if name not in columns),
        sha256=source.sha256,
    )


def _records(text: str, *, where: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{where}, line {line}: not CSV ({error}): a quote that isn't closed, or another "
            "kind of file?"
        ) from None


def _check_header(names: Sequence[str], columns: Sequence[str], *, where: str) -> None:
    counts = Counter(names)
    _check_separator(names, columns, where=where)
    missing = [name for name in columns if name not in counts]
    if len(missing) == len(columns):
        raise InputError(
            f"{where}: not a tidy table: its first line is {quoted(','.join(names))}, not a "
            f"header with the columns {','.join(columns)}"
        )
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{where}: two columns are named {quoted(twice)}: remove one")
    if missing:
        raise InputError(
            f"{where}: no column {', '.join(missing)}: a tidy table has the columns "
            f"{','.join(columns)}; leave a cell empty where the value isn't known"
        )


def _check_separator(names: Sequence[str], columns: Sequence[str], *, where: str) -> None:
    """Name what spreadsheets do to a header: another separator, capitals."""
    for separator, shown in ((";", "semicolons"), ("\t", "tabs")):
        found = {name.strip() for name in ",".join(names).split(separator)}
        if len(found & set(columns)) > len(set(names) & set(columns)):
            raise InputError(f"{where}: cells with {shown} between them: write it with commas")
    capitals = [name for name in names if name.lower() in columns and name.lower() not in names]
    if capitals:
        raise InputError(
            f"{where}: {quoted(capitals[0])}: columns are named in small letters, as "
            f"{capitals[0].lower()}"
        )


def _check_cells(cells: dict[str, str], columns: Sequence[str], *, where: str) -> None:
    for column in columns:
        cell = cells[column]
        if len(cell) > _LONGEST_CELL:
            raise InputError(
                f"{where}: {column} holds {len(cell)} characters, over {_LONGEST_CELL}: "
                "a quote that isn't closed?"
            )
        if not cell.isprintable():
            raise InputError(
                f"{where}: {column} holds a character that doesn't print: {quoted(cell)}; remove it"
            )
