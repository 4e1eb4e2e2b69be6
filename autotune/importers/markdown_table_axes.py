"""Which way round a benchmark table is: what its columns hold, and what its first column names.

Backends may be columns, rows, or the words of a column; so may concurrencies and metrics. Each
column gets a role from its header, the first one also from its cells. A table that isn't about
serving is told apart here, and one whose axes could mean two things is refused.
"""

import re
from dataclasses import dataclass

from autotune.importers.csv_file import quoted
from autotune.importers.markdown_table_captions import without_lengths
from autotune.importers.markdown_table_cells import holds_figure
from autotune.importers.markdown_table_text import PipeTable, plain
from autotune.importers.markdown_table_words import (
    Label,
    concurrency_in,
    mentions_concurrency,
    other_axis_in,
    read_label,
    role_of,
    whole,
)
from autotune.importers.source_file import SourceText

# Roles of columns that name what a row is of; the others hold figures or nothing of use.
KEYS = ("concurrency", "backend", "metric", "unit", "repeat")
FACT_ROLES = ("isl", "osl", "isl osl", "model", "gpu", "quant", "tp", "ep", "dp", "engine")
_TOLD_ROLES = {
    "other axis": "no concurrency, and no figure that is kept",
    "number": "it numbers the rows",
}
_CORNER = re.compile(r"\s*(?:\\|/|\u2192|\u2193|\bvs\.?\s|\bby\b)\s*", re.IGNORECASE)
_MOST_SHOWN = 4
# Two sizes, not a figure: 4x4, 1k/1k.
_SIZES = re.compile(r"[0-9]+k?\s*[x\u00d7/:+]\s*[0-9]+k?", re.IGNORECASE)
_AXES = ("concurrency", "backend", "metric")
_NO_LABEL = Label(text="")


@dataclass(frozen=True, kw_only=True)
class Axes:
    """A table's columns: the role of each, or ``None`` for figures, and what its header says.

    ``corner`` is what the first header says besides its role, e.g. the metric of a whole grid.
    ``caption`` is what's written above: a metric, a unit, a concurrency. ``left_out`` are columns
    that hold nothing to import, by their index with the reason.
    """

    roles: tuple[str | None, ...]
    labels: tuple[Label, ...]
    corner: Label
    captions: tuple[Label, ...]
    left_out: dict[int, str]

    def column(self, role: str) -> int | None:
        """Return the index of the column with a role, ``None`` where there is none."""
        return self.roles.index(role) if role in self.roles else None

    @property
    def figures(self) -> list[int]:
        """The columns that hold figures."""
        return [i for i, role in enumerate(self.roles) if role is None and i not in self.left_out]


def read_axes(source: SourceText, table: PipeTable) -> Axes | str:
    """Find out which way round a table is.

    Returns:
        Its axes, or the reason why the table is left alone, as the end of a sentence.

    Raises:
        InputError: it's about serving, but its axes can't be told or contradict each other.
    """
    headers = table.header.cells
    captions = _captions(table)
    roles = [role_of(header) for header in headers]
    labels = [read_label(header) for header in headers]
    said = " ".join(caption.text for caption in table.captions)
    _refuse_merged(source, table)
    corner = _corner(source, table, roles, labels, said=said)
    _number_headers(source, table, roles, labels, said=f"{said} {headers[0]}")
    _refuse_doubles(source, table, roles)
    left_out = _left_out(table, roles, labels)
    _refuse_setups(source, table, roles, labels=labels, left_out=left_out)
    axes = Axes(
        roles=tuple(None if role in _TOLD_ROLES else role for role in roles),
        labels=tuple(labels),
        corner=corner,
        captions=captions,
        left_out=left_out,
    )
    reason = _not_about_serving(table, axes, roles)
    if reason is not None:
        return reason
    _check_names(source, table, axes)
    return axes


def _captions(table: PipeTable) -> tuple[Label, ...]:
    """What is written above; that a table isn't about speed is believed only of a heading."""
    found = []
    for caption in table.captions:
        label = read_label(without_lengths(caption.text))
        prose = label.says_other_kind and not caption.heading
        found.append(Label(text=label.text) if prose else label)
    return tuple(found)


def _refuse_merged(source: SourceText, table: PipeTable) -> None:
    """Refuse a header over several columns, whose own names are then in the first row."""
    nameless = any(not plain(header) for header in table.header.cells[1:])
    below = [cell for cell in table.rows[0].cells if read_label(cell).says_metric]
    if nameless and len(below) > 1:
        raise source.error(
            table.header.line,
            "a merged header can't be read: its columns are named in the row below; write one "
            "header, e.g. with 'triton output tok/s' and 'triton mean TTFT (ms)'",
        )


def _corner(
    source: SourceText,
    table: PipeTable,
    roles: list[str | None],
    labels: list[Label],
    *,
    said: str,
) -> Label:
    """Give the first column its role, by its header and its cells; return what else it says."""
    parts = [role_of(part) for part in _CORNER.split(plain(table.header.cells[0]))]
    cells = [row.cells[0] for row in table.rows]
    numbers = all(whole(cell) for cell in cells)
    named = all(concurrency_in(cell) for cell in cells)
    across = len(roles) > 1 and all(
        whole(header) or concurrency_in(header) or labels[1 + index].no_place
        for index, header in enumerate(table.header.cells[1:])
    )
    if len(parts) == 2 and parts[0] != parts[1] and all(part in _AXES for part in parts):
        down = [part for part in parts if part != "concurrency"]
        roles[0] = down[0] if across or "concurrency" not in parts else "concurrency"
        if roles[0] == "concurrency" and not (numbers or named):
            raise source.error(
                table.header.line,
                f"{quoted(table.header.cells[0])}: neither the rows nor the columns are "
                "concurrencies: name the columns c=1, c=16, ...",
            )
        return _NO_LABEL
    if roles[0] == "concurrency" and across and not (numbers or named):
        roles[0] = _names_of(cells)
        return _NO_LABEL
    if roles[0] is not None:
        return _NO_LABEL
    corner = labels[0]
    if plain(table.header.cells[0]) and not (corner.says_metric and corner.name is None):
        return _NO_LABEL
    if named or (numbers and _are_concurrencies(said)):
        roles[0] = "concurrency"
    elif any(concurrency_in(cell) and not other_axis_in(cell) for cell in cells) or (
        not numbers and not any(other_axis_in(cell) for cell in cells)
    ):
        roles[0] = _names_of(cells)
    return corner


def _are_concurrencies(said: str) -> bool:
    """Whether bare numbers are, by what is written above; not if it says one of its own."""
    return mentions_concurrency(said) and concurrency_in(said) is None


def _names_of(cells: list[str]) -> str:
    """Whether a first column without a header of use names metrics, or else backends."""
    labels = [read_label(cell) for cell in cells]
    return "metric" if any(each.family and not each.name for each in labels) else "backend"


def _number_headers(
    source: SourceText,
    table: PipeTable,
    roles: list[str | None],
    labels: list[Label],
    *,
    said: str,
) -> None:
    """Read columns that are called 1, 16, 64 as concurrencies, if something says that they are."""
    numbers = {
        index: number
        for index, header in enumerate(table.header.cells)
        if index and roles[index] is None and (number := whole(header)) is not None
    }
    if not numbers or roles[0] == "concurrency":
        return
    if not _are_concurrencies(said):
        shown = ", ".join(str(number) for number in list(numbers.values())[:4])
        raise source.error(
            table.header.line,
            f"columns are called {shown}: if these are requests in flight, call them "
            f"c={next(iter(numbers.values()))} and so on; a batch size isn't a concurrency",
        )
    for index, number in numbers.items():
        labels[index] = Label(text=labels[index].text, concurrency=number)


def _refuse_doubles(source: SourceText, table: PipeTable, roles: list[str | None]) -> None:
    for role in KEYS:
        places = [index for index, each in enumerate(roles) if each == role]
        if role == "concurrency" and len(places) > 1:
            asked = [i for i in places if plain(table.header.cells[i]).lower().startswith("max")]
            if len(asked) == 1:  # The others say what was reached.
                for index in set(places) - set(asked):
                    roles[index] = "other axis"
                continue
        if len(places) > 1:
            names = " and ".join(quoted(plain(table.header.cells[index])) for index in places[:2])
            raise source.error(table.header.line, f"{names} both name the {role}: remove one")


def _left_out(table: PipeTable, roles: list[str | None], labels: list[Label]) -> dict[int, str]:
    """The columns that hold nothing to import, with the reason."""
    found = {}
    for index, (role, label) in enumerate(zip(roles, labels, strict=True)):
        if role in _TOLD_ROLES:
            found[index] = _TOLD_ROLES[role]
        elif role is None and label.no_place:
            found[index] = label.no_place
        elif role is None and "backend" in roles and label.name is not None:
            found[index] = "not a metric that has a place in the records"
        elif role is None and index and _is_remark(table, index, label):
            found[index] = "it holds no figures"
    return found


def _refuse_setups(
    source: SourceText,
    table: PipeTable,
    roles: list[str | None],
    *,
    labels: list[Label],
    left_out: dict[int, str],
) -> None:
    """Refuse a column in words that tells rows of one backend apart: setups that aren't one run."""
    if "backend" not in roles:
        return
    backends = roles.index("backend")
    for index in left_out:
        if roles[index] is not None or labels[index].no_place:
            continue
        if all(holds_figure(c) and not _SIZES.fullmatch(c) for c in _cells(table, index)):
            continue
        first: dict[str, tuple[str, int]] = {}
        for row in table.rows:
            cell = plain(row.cells[index])
            other, line = first.setdefault(plain(row.cells[backends]), (cell, row.line))
            if cell != other:
                raise source.error(
                    row.line,
                    f"{quoted(labels[index].text)} is {quoted(cell)} here, but {quoted(other)} of "
                    f"the same backend in line {line}: a run is about one; import them apart, or "
                    "remove the column if it only remarks",
                )


def _cells(table: PipeTable, index: int) -> list[str]:
    return [plain(row.cells[index]) for row in table.rows]


def _is_remark(table: PipeTable, index: int, label: Label) -> bool:
    """Whether a column says in words how each row went, as 'Result' with PASS does."""
    nameless = label.name is None and not label.says_metric and bool(label.text)
    return nameless and not any(holds_figure(row.cells[index]) for row in table.rows)


def _not_about_serving(table: PipeTable, axes: Axes, roles: list[str | None]) -> str | None:
    """Why a table is left alone, ``None`` if it isn't."""
    rows = [row.cells[0] for row in table.rows]
    named = [read_label(cell) for cell in rows]
    labels = [*axes.labels, axes.corner, *named]
    concurrent = axes.column("concurrency") is not None or any(
        label.concurrency for label in (*axes.labels, *axes.captions, *named)
    )
    measured = any(label.family and not label.no_place for label in labels)
    if not concurrent and ("other axis" in roles or any(other_axis_in(cell) for cell in rows)):
        return "its rows are batches, tokens or prompts, not requests in flight"
    if not concurrent and not measured:
        return "it holds neither concurrencies nor a metric that is known"
    if not axes.figures:
        told = "; ".join(
            f"{quoted(plain(table.header.cells[index]))}: {reason}"
            for index, reason in list(axes.left_out.items())[:_MOST_SHOWN]
        )
        return f"none of its columns holds figures that are kept{f' ({told})' if told else ''}"
    if not any(_holds_figures(table, index) for index in axes.figures):
        return "none of its columns holds figures"
    if axes.column("concurrency") is None and not measured and axes.roles[0] not in KEYS:
        return "its first column names neither backends, nor concurrencies, nor metrics"
    return None


def _holds_figures(table: PipeTable, index: int) -> bool:
    return any(holds_figure(row.cells[index]) for row in table.rows)


def _check_names(source: SourceText, table: PipeTable, axes: Axes) -> None:
    """Refuse columns without a name, rows of unknown kinds, and columns of two kinds."""
    for index, header in enumerate(table.header.cells):
        if index and not plain(header):
            raise source.error(
                table.header.line,
                f"column {index + 1} has no name: a merged header can't be read; give each column "
                "a name of its own",
            )
    if axes.roles[0] is None and 0 not in axes.left_out and axes.column("concurrency") is None:
        raise source.error(
            table.header.line,
            f"what does the first column, {quoted(plain(table.header.cells[0]))}, name? Call it "
            "Backend, Concurrency or Metric",
        )
    for index in axes.figures:
        if axes.labels[index].text and not _holds_figures(table, index):
            shown = quoted(plain(table.header.cells[index]))
            raise source.error(
                table.header.line,
                f"column {shown} holds no figures: call it Backend if it names the backends, "
                "else remove it, after making sure that it doesn't tell the rows apart",
            )
    if axes.column("backend") is not None:
        return
    named = [index for index in axes.figures if axes.labels[index].name]
    bare = [index for index in axes.figures if not axes.labels[index].name]
    if named and bare:
        names = [quoted(plain(table.header.cells[each[0]])) for each in (named, bare)]
        raise source.error(
            table.header.line,
            f"is {names[0]} a backend? {names[1]} names none: add a column Backend, or remove one "
            "of the two",
        )
