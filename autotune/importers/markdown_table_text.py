"""The pipe tables of a Markdown text, with their lines and what is written above them.

What is a table is said by GitHub's dialect: a header, a line of dashes, rows. This module knows
nothing of benchmarks; `markdown_table_layout` reads the tables that it finds. What GitHub doesn't
show, HTML comments, isn't there.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autotune.importers.csv_file import quoted
from autotune.importers.source_file import SourceText

_DASHES = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?\s*")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*)$")
_BOLD_LINE = re.compile(r"\s*(\*\*|__)([^*_](?:(?!\1).)*)\1:?\s*$")
_HTML_TABLE = re.compile(r"<\s*/?\s*(table|thead|tbody|tr|td|th)\b", re.IGNORECASE)
# A rule of a table drawn with lines; a tree of folders has names behind its branches.
_DRAWN = re.compile(r"\s*(\+[-=+:]{2,}\+|[\u250c-\u251c\u2552-\u2560][\u2500-\u257f]+)\s*$")
_UNDERLINE = re.compile(r"\s{0,3}(=+|-+)\s*$")
_DETAILS = re.compile(r"<\s*(/?)\s*details\b[^<>]*>", re.IGNORECASE)
_SUMMARY = re.compile(r"<\s*summary\b[^<>]*>(.*?)<\s*/\s*summary\s*>", re.IGNORECASE)
_PRINTED = re.compile(r"\W*={3,} (?:Serving|Multi)[- ]Benchmark (?:Result|Summary).*={3,}\W*$")
_QUOTE = re.compile(r"^(\s{0,3}>\s?)+")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_BREAK = re.compile(r"<\s*br\s*/?\s*>", re.IGNORECASE)
_TAG = re.compile(r"</?(b|i|em|strong|code|span|center|kbd)\b[^<>]*>", re.IGNORECASE)
# A footnote's number must not become a digit of the figure that it stands behind.
_RAISED = re.compile(r"<\s*su[pb]\b[^<>]*>(.*?)<\s*/\s*su[pb]\s*>", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_SPACE = re.compile(r"[ \t\r\n\f\v]+")
_STARS = re.compile(r"(?<!\\)(\*{1,3})(?=\S)(.+?)(?<=\S)(?<!\\)\1")
_LINES = re.compile(r"(?<![\w\\])(_{1,3})(?=\S)(.+?)(?<=\S)(?<!\\)\1(?!\w)")
_NESTED_MARKS = 2
# Spaces inside a number, as some write thousands; for Python they don't print.
_FIXED_SPACES = str.maketrans(dict.fromkeys("\u00a0\u2007\u2009\u202f", " "))
_BOLD_LEVEL, _SUMMARY_LEVEL = 7, 8
_LONGEST_CELL = 500
_LONGEST_CAPTION = 200
_LONGEST_HEADING = 2000
# Medals, ticks and the like, also as GitHub's short names of them.
_PICTURES = re.compile(
    r"[\u2600-\u27bf\U0001f300-\U0001faff\ufe0f\u2b50\u2705]|(?<!\w):[a-z][a-z0-9_+-]{2,30}:"
)
_IN_CODE = (
    "a table in a code block that has no line of dashes (|---|---|) below its header: not read"
)
_PRINTED_SUMMARY = (
    "what a benchmark printed: not read; import the file that it wrote (--output-file of SGLang's "
    "bench_serving, --save-result of vllm bench serve), or write the figures as a table"
)


@dataclass(frozen=True, kw_only=True)
class Caption:
    """A heading above a table, or the line right above it, as plain text."""

    line: int
    text: str
    heading: bool


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


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Something in the text that holds figures and isn't read, with the reason."""

    line: int
    what: str


def has_table(text: str) -> bool:
    """Whether a text holds anything that is a table or was meant as one: a cheap look."""
    lines = [_QUOTE.sub("", line) for line in text.splitlines()]
    piped = sum(line.lstrip().startswith("|") for line in lines)
    return piped > 1 or any(
        _HTML_TABLE.search(line)
        or _DRAWN.fullmatch(line)
        or _is_dashes(line)
        or _PRINTED.match(line[:_LONGEST_HEADING])
        for line in lines
    )


def find_tables(source: SourceText) -> tuple[list[PipeTable], list[Unread]]:
    """Return the tables of a text in their order, and what else in it holds figures.

    Raises:
        InputError: a row has other cells than the header, a header has no rows, rows have no
            header, or outside code a table is in HTML or drawn with lines; the line is named.
    """
    lines = _shown_lines(source.text)
    tables: list[PipeTable] = []
    unread: list[Unread] = []
    headings = _Headings()
    fence = ""
    number = 0
    while number < len(lines):
        line = lines[number]
        marks = _FENCE.match(line)
        if marks and (not fence or _closes(marks[1], line, fence=fence)):
            fence = "" if fence else marks[1]
        elif number + 1 < len(lines) and "|" in line and _is_dashes(lines[number + 1]):
            captions = _captions(lines, number, headings=headings.above(), fenced=bool(fence))
            table = _table(source, lines, number, captions=captions)
            tables.append(table)
            number += 2 + len(table.rows)
            continue
        elif _PRINTED.match(line[:_LONGEST_HEADING]):
            unread.append(Unread(line=number + 1, what=_PRINTED_SUMMARY))
        elif fence:
            # Once for each: such a table has many lines, and so has what nvidia-smi prints.
            if _is_other(line) and not (number and _is_other(lines[number - 1])):
                unread.append(Unread(line=number + 1, what=_IN_CODE))
        else:
            headings.note(lines, number)
            _refuse_others(source, line, number)
        number += 1
    return tables, unread


def plain(text: str) -> str:
    """Return a cell or a line without its marks: bold, code, links, tags, escapes."""
    text = _RAISED.sub(r"^\1", _BREAK.sub(" / ", text))
    text = _TAG.sub("", _LINK.sub(r"\1", text))
    text = re.sub(r"`+", "", text)
    for _ in range(_NESTED_MARKS):
        text = _STARS.sub(r"\2", _LINES.sub(r"\2", text))
    text = html.unescape(_ESCAPED.sub(r"\1", text))
    return _SPACE.sub(" ", text).strip()


def without_pictures(text: str) -> str:
    """Return a text without medals, ticks and the like."""
    return _SPACE.sub(" ", _PICTURES.sub(" ", text)).strip()


def _shown_lines(text: str) -> list[str]:
    """The lines of a text, without marks of quotes, and empty where a comment hides them."""
    lines, fence, hidden = [], "", False
    for line in text.split("\n"):
        line = _QUOTE.sub("", line.rstrip("\r"))
        marks = _FENCE.match(line)
        if marks and not hidden and (not fence or _closes(marks[1], line, fence=fence)):
            fence = "" if fence else marks[1]
        elif not fence:
            line, hidden = _without_comment(line, hidden=hidden)
        lines.append(line)
    return lines


def _without_comment(line: str, *, hidden: bool) -> tuple[str, bool]:
    """A line without comments, and whether one goes on behind it."""
    shown = ""
    while line:
        before, mark, line = line.partition("-->" if hidden else "<!--")
        shown += "" if hidden else before
        hidden = hidden != bool(mark)
    return shown, hidden


def _closes(marks: str, line: str, *, fence: str) -> bool:
    """Whether a line of marks closes a block of code: as many of the same, and nothing else."""
    return marks.startswith(fence) and not line.strip().strip(fence[0])


def _is_other(line: str) -> bool:
    return bool(_DRAWN.fullmatch(line)) or line.lstrip().startswith(("|", "\u2502", "\u2503"))


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


@dataclass(kw_only=True)
class _Headings:
    """The headings that the next line is below, by their level; a details block has its own."""

    known: dict[int, Caption] = field(default_factory=dict)
    outside: list[dict[int, Caption]] = field(default_factory=list)

    def above(self) -> list[Caption]:
        """The headings, innermost first."""
        return [self.known[level] for level in sorted(self.known, reverse=True)]

    def note(self, lines: Sequence[str], number: int) -> None:
        """Note the heading that a line is, if it's one."""
        # No heading is longer, and some patterns look ahead for their end.
        line = lines[number][:_LONGEST_HEADING]
        for mark in _DETAILS.finditer(line):
            if not mark[1]:
                self.outside.append(dict(self.known))
            elif self.outside:
                self.known = self.outside.pop()
        found = _heading(line, above=lines[number - 1][:_LONGEST_HEADING] if number else "")
        if found is None:
            return
        level, text, above = found
        self.known = {known: each for known, each in self.known.items() if known < level}
        shown = plain(text[:_LONGEST_CAPTION])
        self.known[level] = Caption(line=number + 1 - above, text=shown, heading=True)


def _heading(line: str, *, above: str) -> tuple[int, str, int] | None:
    """A heading's level, its text, and by how many lines it stands above this one."""
    if match := _HEADING.match(line):
        return len(match[1]), match[2].rstrip().rstrip("#").rstrip(), 0
    if match := _BOLD_LINE.fullmatch(line):
        return _BOLD_LEVEL, match[2], 0
    if match := _SUMMARY.search(line):
        return _SUMMARY_LEVEL, match[1], 0
    match = _UNDERLINE.fullmatch(line)
    if match and above.strip() and "|" not in above and not _HEADING.match(above):
        return (1 if match[1].startswith("=") else 2), above.strip(), 1
    return None


def _captions(
    lines: Sequence[str], first: int, *, headings: Sequence[Caption], fenced: bool
) -> tuple[Caption, ...]:
    """The line above a table and the headings that it is below, innermost first."""
    found = list(headings)
    above = first - 1
    while above >= 0 and not lines[above].strip():
        above -= 1
    text = lines[above].strip() if above >= 0 and not fenced else ""
    known = any(caption.line == above + 1 for caption in found)
    prose = not _FENCE.match(text) and not _DETAILS.search(text) and not _UNDERLINE.match(text)
    if text and not known and "|" not in text and prose:
        shown = plain(text[:_LONGEST_CAPTION])
        found.insert(0, Caption(line=above + 1, text=shown, heading=False))
    return tuple(found)


def _refuse_others(source: SourceText, line: str, number: int) -> None:
    """Tables of another kind would be lost silently, so that nothing beside them is taken."""
    if _HTML_TABLE.search(line):
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
