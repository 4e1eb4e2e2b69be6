"""The pipe tables of a Markdown text, with their lines and what is written above them.

What is a table is said by GitHub's dialect: a header, a line of dashes, rows. This module knows
nothing of benchmarks; `markdown_table_layout` reads the tables that it finds.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.importers.csv_file import quoted
from autotune.importers.source_file import SourceText

_DASHES = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?\s*")
_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_BOLD_LINE = re.compile(r"\s*(\*\*|__)([^*_].*?)\1:?\s*$")
_HTML_TABLE = re.compile(r"<\s*/?\s*(table|thead|tbody|tr|td|th)\b", re.IGNORECASE)
_DRAWN = re.compile(r"\s*(\+[-=+]{3,}\+|[\u250c\u251c\u2514\u2554\u2560\u255a].*)\s*$")
_QUOTE = re.compile(r"^(\s{0,3}>\s?)+")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_BREAK = re.compile(r"<\s*br\s*/?\s*>", re.IGNORECASE)
_TAG = re.compile(r"</?(b|i|em|strong|code|sub|sup|span|center|kbd)\b[^<>]*>", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_SPACE = re.compile(r"[ \t\r\n\f\v]+")
_STARS = re.compile(r"(?<!\\)(\*{1,3})(?=\S)(.+?)(?<=\S)(?<!\\)\1")
_LINES = re.compile(r"(?<![\w\\])(_{1,3})(?=\S)(.+?)(?<=\S)(?<!\\)\1(?!\w)")
_NESTED_MARKS = 2
# Spaces inside a number, as some write thousands; for Python they don't print.
_FIXED_SPACES = str.maketrans(dict.fromkeys("\u00a0\u2007\u2009\u202f", " "))
_BOLD_LEVEL = 7
_LONGEST_CELL = 500
_LONGEST_CAPTION = 200


@dataclass(frozen=True, kw_only=True)
class Caption:
    """A heading above a table, or the line right above it, as plain text."""

    line: int
    text: str


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row: its line, and its cells as they stand, without spaces around them."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PipeTable:
    """A table; each row has as many cells as the header. Captions come innermost first."""

    header: TableRow
    rows: tuple[TableRow, ...]
    captions: tuple[Caption, ...]


def has_table(text: str) -> bool:
    """Whether a text holds anything that is a table or was meant as one: a cheap look."""
    lines = [_QUOTE.sub("", line) for line in text.splitlines()]
    piped = sum(line.lstrip().startswith("|") for line in lines)
    return piped > 1 or any(
        _HTML_TABLE.search(line) or _DRAWN.fullmatch(line) or _is_dashes(line) for line in lines
    )


def find_tables(source: SourceText) -> list[PipeTable]:
    """Return the tables of a text in their order.

    Raises:
        InputError: a row has other cells than the header, a header has no rows, rows have no
            header, or a table is in HTML or drawn with lines; the line is named.
    """
    lines = [_QUOTE.sub("", line) for line in source.text.split("\n")]
    tables: list[PipeTable] = []
    headings: dict[int, Caption] = {}
    fenced = False
    number = 0
    while number < len(lines):
        line = lines[number].rstrip("\r")
        if _FENCE.match(line):
            fenced = not fenced
        elif number + 1 < len(lines) and "|" in line and _is_dashes(lines[number + 1]):
            captions = _captions(lines, number, headings=headings, fenced=fenced)
            table = _table(source, lines, number, captions=captions)
            tables.append(table)
            number += 2 + len(table.rows)
            continue
        elif not fenced:
            _note_heading(headings, line, number)
        _refuse_others(source, line, number, fenced=fenced)
        number += 1
    return tables


def plain(text: str) -> str:
    """Return a cell or a line without its marks: bold, code, links, tags, escapes."""
    text = _BREAK.sub(" / ", text)
    text = _TAG.sub("", _LINK.sub(r"\1", text))
    text = re.sub(r"`+", "", text)
    for _ in range(_NESTED_MARKS):
        text = _STARS.sub(r"\2", _LINES.sub(r"\2", text))
    text = html.unescape(_ESCAPED.sub(r"\1", text))
    return _SPACE.sub(" ", text).strip()


def _is_dashes(line: str) -> bool:
    return "|" in line and "-" in line and len(line) < 10_000 and bool(_DASHES.fullmatch(line))


def _split(line: str) -> tuple[str, ...]:
    """Split a row at its pipes, but not at escaped ones."""
    text = line.strip()
    cells = re.split(r"(?<!\\)\|", text)
    if text.startswith("|"):
        cells = cells[1:]
    if text.endswith("|") and not text.endswith("\\|") and cells:
        cells = cells[:-1]
    return tuple(cell.replace("\\|", "|").strip() for cell in cells)


def _table(
    source: SourceText, lines: Sequence[str], first: int, *, captions: tuple[Caption, ...]
) -> PipeTable:
    header = TableRow(line=first + 1, cells=_split(lines[first]))
    dashes = _split(lines[first + 1])
    if len(dashes) != len(header.cells):
        raise source.error(
            first + 2,
            f"{len(dashes)} columns of dashes, but {len(header.cells)} in the header above: "
            "a merged header can't be read; give each column a name of its own",
        )
    rows = []
    for row in _rows(lines, first + 2):
        if len(row.cells) != len(header.cells):
            raise source.error(
                row.line,
                f"{len(row.cells)} cells, but the header in line {header.line} has "
                f"{len(header.cells)}: write a | inside a cell as \\|, and leave unknown cells "
                "empty",
            )
        _check_cells(source, row)
        rows.append(row)
    _check_cells(source, header)
    if not rows:
        raise source.error(header.line, "a header without a row: the table was cut")
    return PipeTable(header=header, rows=tuple(rows), captions=captions)


def _rows(lines: Sequence[str], first: int) -> Iterator[TableRow]:
    for number in range(first, len(lines)):
        line = lines[number]
        if "|" not in line or _FENCE.match(line):
            return
        yield TableRow(line=number + 1, cells=_split(line))


def _check_cells(source: SourceText, row: TableRow) -> None:
    for cell in row.cells:
        if len(cell) > _LONGEST_CELL:
            raise source.error(row.line, f"a cell of {len(cell)} characters, over {_LONGEST_CELL}")
        if _HTML_TABLE.search(cell):
            raise source.error(row.line, "HTML inside a table: write it with | alone")
        if not plain(cell).translate(_FIXED_SPACES).isprintable():
            raise source.error(
                row.line, f"a character that doesn't print in {quoted(cell)}: remove it"
            )


def _note_heading(headings: dict[int, Caption], line: str, number: int) -> None:
    """Keep the headings that the next lines are below, by their level."""
    match, bold = _HEADING.match(line), _BOLD_LINE.fullmatch(line)
    if match:
        level, text = len(match[1]), match[2]
    elif bold:
        level, text = _BOLD_LEVEL, bold[2]
    else:
        return
    for deeper in [known for known in headings if known >= level]:
        del headings[deeper]
    headings[level] = Caption(line=number + 1, text=plain(text[:_LONGEST_CAPTION]))


def _captions(
    lines: Sequence[str], first: int, *, headings: dict[int, Caption], fenced: bool
) -> tuple[Caption, ...]:
    """The line above a table and the headings that it is below, innermost first."""
    found = [headings[level] for level in sorted(headings, reverse=True)]
    above = first - 1
    while above >= 0 and not lines[above].strip():
        above -= 1
    text = lines[above].strip() if above >= 0 and not fenced else ""
    known = any(caption.line == above + 1 for caption in found)
    if text and not known and "|" not in text and not _FENCE.match(text):
        found.insert(0, Caption(line=above + 1, text=plain(text[:_LONGEST_CAPTION])))
    return tuple(found)


def _refuse_others(source: SourceText, line: str, number: int, *, fenced: bool) -> None:
    """Tables of another kind would be lost silently, so that nothing beside them is taken."""
    if fenced and not line.lstrip().startswith("|"):
        drawn = _DRAWN.fullmatch(line) and line.lstrip().startswith("+")
        if not drawn:
            return
    if not fenced and _HTML_TABLE.search(line):
        raise source.error(
            number + 1,
            "a table in HTML, whose cells may be merged: write it with | and a line of dashes, "
            "or remove it",
        )
    if _DRAWN.fullmatch(line):
        raise source.error(
            number + 1,
            "a table drawn with lines: write it with | and one line of dashes below the header, "
            "or remove it",
        )
    if line.lstrip().startswith("|"):
        raise source.error(
            number + 1,
            "a row of a table that has no header with a line of dashes (|---|---|) above it: "
            "restore them, or remove the row",
        )
