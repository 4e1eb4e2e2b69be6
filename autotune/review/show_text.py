"""A report's content as plain text, for a terminal or a pipe.

A terminal gets sentences that are wrapped and tables that fit its width; a pipe gets each sentence
and each row whole, on one line.
"""

import io
import textwrap
from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from autotune.report.content import (
    Block,
    Bullets,
    Code,
    Column,
    Paragraph,
    Picture,
    Report,
    Section,
    Table,
)
from autotune.report.text import one_line

# No line is longer; nothing is wrapped at it, and nothing padded up to it.
_WIDE = 100_000
_LONGEST = 20_000
# Between two columns.
_GAP = 2

# Rows of cells, each of several lines.
Grid = Sequence[Sequence[Sequence[str]]]


def render_text(report: Report, *, width: int | None) -> str:
    """Return ``report`` as text, without a newline at the end.

    Args:
        report: its texts are made printable here.
        width: of the terminal in columns; ``None`` for a pipe, where nothing is wrapped or cut.
    """
    parts = [wrapped(report.title, width=width)]
    parts += [_section(section, width) for section in report.sections if section.blocks]
    return "\n\n".join(parts)


def render_table(table: Table, *, width: int | None) -> str:
    """Return a table in columns, without a newline at the end.

    On a terminal, cells are wrapped between words; where that isn't enough, each row is told as a
    sentence. In a pipe each row is one line.
    """
    rows = [[(text,) for text in row] for row in table.rows]
    if width is None or fits(table.columns, rows, width=width):
        return render_grid(table.columns, rows, width=width)
    titles = [column.title for column in table.columns]
    told = [
        "; ".join(f"{title}: {text}" for title, text in zip(titles, row, strict=True) if text)
        for row in table.rows
    ]
    return "\n".join(wrapped(f"- {text}", width=width, indent="  ") for text in told)


def fits(columns: Sequence[Column], rows: Grid, *, width: int) -> bool:
    """Whether a table has room on a terminal without a word being broken."""
    return _widths(columns, rows, width) is not None


def render_grid(columns: Sequence[Column], rows: Grid, *, width: int | None) -> str:
    """Do as `render_table` with cells of several lines each, whether they fit or not."""
    grid = RichTable(
        box=None if width is None else box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 2, 0, 0) if width is None else (0, 1, 0, 0),
        header_style="",
    )
    widths = None if width is None else _widths(columns, rows, width)
    sizes: Sequence[int | None] = widths or [None] * len(columns)
    for column, size in zip(columns, sizes, strict=True):
        grid.add_column(
            _cell([column.title]),
            justify="right" if column.numeric else "left",
            overflow="fold",
            no_wrap=width is None,
            width=size,
        )
    for row in rows:
        grid.add_row(*(_cell(lines) for lines in row))
    page = Console(
        file=io.StringIO(),
        width=width or _WIDE,
        color_system=None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    with page.capture() as captured:
        page.print(grid)
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))


def _widths(columns: Sequence[Column], rows: Grid, width: int) -> list[int] | None:
    """How wide each column is on a terminal, with no word broken.

    Each column starts at its longest word; what is left goes to the narrowest that want more.
    ``None`` where the longest words alone are too much.
    """
    cells = [
        [_cell([column.title]), *(_cell(row[place]) for row in rows)]
        for place, column in enumerate(columns)
    ]
    wanted = [max(_longest(cell.plain.split("\n")) for cell in column) for column in cells]
    widths = [max(_longest(cell.plain.split()) for cell in column) for column in cells]
    left = width - _GAP * (len(columns) - 1) - sum(widths)
    if left < 0:
        return None
    growing = [place for place in range(len(columns)) if widths[place] < wanted[place]]
    while left > 0 and growing:
        place = min(growing, key=lambda place: widths[place])
        widths[place] += 1
        left -= 1
        growing = [place for place in growing if widths[place] < wanted[place]]
    return widths


def _longest(texts: Sequence[str]) -> int:
    return max((cell_len(text) for text in texts), default=1)


def wrapped(text: str, *, width: int | None, indent: str = "") -> str:
    """Return a sentence on as many lines as it takes; the second and later ones are indented."""
    text = one_line(text, longest=_LONGEST)
    if width is None:
        return text
    lines = textwrap.wrap(text, max(width, 20), subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines)


def _cell(lines: Sequence[str]) -> Text:
    return Text("\n".join(one_line(line, longest=_LONGEST) for line in lines))


def _section(section: Section, width: int | None) -> str:
    title = one_line(section.title)
    return "\n".join([title.upper() if len(title) < 40 else title, *_blocks(section.blocks, width)])


def _blocks(blocks: Sequence[Block], width: int | None) -> Iterator[str]:
    for block in blocks:
        match block:
            case Table():
                yield render_table(block, width=width)
            case Paragraph():
                yield wrapped(block.text, width=width)
            case Bullets():
                for item in block.items:
                    yield wrapped(f"- {item}", width=width, indent="  ")
            case Code():
                yield from (f"  {one_line(line, longest=_LONGEST)}" for line in block.lines)
            case Picture():
                yield wrapped(f"{block.file}: {block.description}", width=width)
            case _:
                continue
