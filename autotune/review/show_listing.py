"""How ``autotune list`` looks: a row an item, or on a narrow terminal some lines. Pure."""

from collections.abc import Sequence

from autotune.report.content import Column, Table
from autotune.report.text import one_line
from autotune.review.in_step import OUT_OF_STEP
from autotune.review.listing import Item
from autotune.review.show_text import fits, render_grid, render_table, wrapped
from autotune.review.show_words import (
    accepted_words,
    age_words,
    key_words,
    ratio_words,
    scope_words,
)

_UNKNOWN = "-"
_COLUMNS = (
    Column("kind"),
    Column("key"),
    Column("scope"),
    Column("choice"),
    Column("outcome"),
    Column("ratio to the baseline"),
    Column("measured"),
    Column("path"),
    Column("state"),
)

# In a terminal, several facts share a column.
_STACKED = (
    Column("kind"),
    Column("key, scope"),
    Column("choice, outcome, ratio to the baseline"),
    Column("measured"),
    Column("path, state"),
)


def listing_text(items: Sequence[Item], *, width: int | None) -> str:
    """Return the items as text, without a newline at the end.

    Args:
        items: at least one.
        width: of the terminal in columns; ``None`` for a pipe: one whole line an item.
    """
    if width is not None:
        stacked = [_stacked(item, items) for item in items]
        if fits(_STACKED, stacked, width=width):
            return render_grid(_STACKED, stacked, width=width)
        return "\n\n".join(_block(item, items, width) for item in items)
    rows = tuple(tuple(_cells(item, items)) for item in items)
    return render_table(Table(_COLUMNS, rows), width=width)


def _cells(item: Item, items: Sequence[Item]) -> list[str]:
    key = _UNKNOWN if item.key is None else key_words(item.key)
    if item.problem is not None:
        return [item.kind, key, *[_UNKNOWN] * 5, item.path, _state(item)]
    return [
        item.kind,
        key,
        _scope(item, items),
        item.choice or "nobody",
        _outcome(item) or _UNKNOWN,
        _ratio(item) or _UNKNOWN,
        _measured(item),
        item.path,
        _state(item),
    ]


def _stacked(item: Item, items: Sequence[Item]) -> list[list[str]]:
    kind, key, scope, choice, outcome, ratio, measured, path, state = _cells(item, items)
    stacks = [[kind], [key, scope], [choice, outcome, ratio], [measured], [path, state]]
    return [[text for text in stack if text != _UNKNOWN] for stack in stacks]


def _block(item: Item, items: Sequence[Item], width: int) -> str:
    """One item on a narrow terminal: what it is, then what it says, indented."""
    key = "" if item.key is None else f"  {key_words(item.key)}"
    lines = [f"{item.kind}{key}"]
    if item.problem is None:
        ratio = _ratio(item)
        lines.append(
            ", ".join(
                part
                for part in (item.choice or "nobody", _outcome(item), ratio, _measured(item))
                if part
            )
        )
        lines.append(_scope(item, items))
    lines += [item.path, _state(item)]
    texts = [wrapped(line, width=width - 2, indent="  ") for line in lines if line != _UNKNOWN]
    return texts[0] + "".join("\n  " + text.replace("\n", "\n  ") for text in texts[1:])


def _scope(item: Item, items: Sequence[Item]) -> str:
    """The scope, with what tells it from the other entries of its file."""
    if item.scope is None:
        return _UNKNOWN
    others = [
        one.scope
        for one in items
        if one is not item and one.path == item.path and one.scope is not None
    ]
    return scope_words(item.scope, among=others)


def _accepted(item: Item) -> str:
    return accepted_words(item.accepted, inconclusive_let_in=item.inconclusive_let_in)


def _outcome(item: Item) -> str | None:
    return f"{item.outcome}, accepted by hand" if item.outcome and _accepted(item) else item.outcome


def _ratio(item: Item) -> str:
    text = ratio_words(item.ratio, item.interval)
    return f"{text} x {item.baseline}" if text and item.baseline is not None else text


def _measured(item: Item) -> str:
    age = age_words(item.age_days)
    day = one_line(item.measured_at or _UNKNOWN, longest=40)
    imported = "imported " if item.imported else ""
    return f"{imported}{day} ({age})" if age else f"{imported}{day}"


def _state(item: Item) -> str:
    if item.problem is not None:
        return f"BROKEN: {item.problem}"
    if item.shadowed_by is not None:
        return f"not used: {item.shadowed_by} is found first"
    accepted = _accepted(item)
    if item.progress is None:
        return accepted or _UNKNOWN
    decided = "decision written" if item.decided else "no decision"
    if accepted:
        decided += f", {accepted}"
    if not item.in_step:
        decided += f"; {OUT_OF_STEP}"
    if item.progress.imported:
        return f"imported, {decided}"
    word = "finished" if item.progress.finished else "unfinished"
    made = f"{item.progress.launches} launch{'' if item.progress.launches == 1 else 'es'} made"
    return f"{word}: {item.progress.sentence}; {made}; {decided}"
