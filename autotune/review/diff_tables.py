"""The tables of a difference: values as a reader wants them, old beside new. Pure."""

import shlex
from collections.abc import Sequence
from typing import Any

from autotune.report.content import Column, Table
from autotune.report.numbers import UNKNOWN, time_unit
from autotune.report.text import LONGEST
from autotune.review.diff_schema import Change, FigureChange
from autotune.review.show_words import NOT_RECORDED, signed_percent, value_words

_SPREAD = {"beyond": "beyond", "within": "within", "not_recorded": "no spread recorded"}
_NAMES = {
    "ttft_mean_s": "TTFT mean",
    "ttft_p50_s": "TTFT p50",
    "ttft_p99_s": "TTFT p99",
    "latency_mean_s": "latency mean",
    "latency_p50_s": "latency p50",
    "latency_p99_s": "latency p99",
}
_HASH_LENGTH = 64
# Ratios, shares: one digit more than other figures have.
_SMALL = 10
_SHORT_HASH = 12
# A long text is cut where it is shown; of two, the part that differs must be in what is left.
_LEAD = 60


def change_table(
    changes: Sequence[Change],
    *,
    only: str | None = None,
    extra: tuple[str, Sequence[str]] | None = None,
) -> Table:
    """Return a row for each change.

    Args:
        changes: what differs.
        only: ``old`` or ``new`` where the other side doesn't have the whole thing: one column of
            values then.
        extra: title and texts of one more column.
    """
    columns = [Column("what", code=True)]
    columns += [Column("value")] if only else [Column("old"), Column("new")]
    rows = []
    for change in changes:
        old, new = pair_words(change.old, change.new)
        rows.append([change.what, *([new if only == "new" else old] if only else [old, new])])
    if extra is not None:
        columns.append(Column(extra[0]))
        rows = [[*row, text] for row, text in zip(rows, extra[1], strict=True)]
    return Table(tuple(columns), tuple(tuple(row) for row in rows))


def throughput_table(figures: Sequence[FigureChange], *, only: str | None = None) -> Table:
    """Return a row for each throughput that differs; ``only`` as for `change_table`."""
    named = any(one.backend != one.candidate for one in figures)
    columns = [Column("candidate", code=True)]
    columns += [Column("backend", code=True)] if named else []
    columns.append(Column("concurrency", numeric=True))
    columns += _value_columns("tokens/s", only)
    columns += (
        [Column("n", numeric=True)]
        if only
        else [Column("n old", numeric=True), Column("n new", numeric=True)]
    )
    rows = []
    for one in figures:
        row = [one.candidate, *([one.backend] if named else []), str(one.concurrency)]
        row += _value_cells(one, one.old, one.new, only)
        counts = [UNKNOWN if n is None else str(n) for n in (one.old_rounds, one.new_rounds)]
        rows.append((*row, *(_one_of(counts, only) if only else counts)))
    return Table(tuple(columns), tuple(rows))


def times_table(figures: Sequence[FigureChange], *, only: str | None = None) -> Table:
    """Return a row for each time that differs, all in one unit."""
    unit = time_unit(value for one in figures for value in (one.old, one.new))
    columns = (
        Column("candidate", code=True),
        Column("concurrency", numeric=True),
        Column("time"),
        *_value_columns(unit.name, only),
    )
    rows = []
    for one in figures:
        old, new = (None if s is None else s * unit.factor for s in (one.old, one.new))
        name = _NAMES[one.figure]
        cells = _value_cells(one, old, new, only)
        rows.append((one.candidate, str(one.concurrency), name, *cells))
    return Table(columns, tuple(rows))


def _value_columns(unit: str, only: str | None) -> list[Column]:
    if only:
        return [Column(unit, numeric=True)]
    return [
        Column(f"old ({unit})", numeric=True),
        Column(f"new ({unit})", numeric=True),
        Column("change", numeric=True),
        Column("against the rounds' spread"),
    ]


def _value_cells(
    one: FigureChange, old: float | None, new: float | None, only: str | None
) -> list[str]:
    texts = pair_words(old, new, absent=UNKNOWN)
    return _one_of(texts, only) if only else [*texts, _change(one), _spread(one)]


def _one_of(texts: Sequence[str], only: str) -> list[str]:
    return [texts[0] if only == "old" else texts[1]]


def pair_words(old: Any, new: Any, *, absent: str = NOT_RECORDED) -> tuple[str, str]:
    """Return two different values as two different texts."""
    texts = [absent if value is None else _words(value) for value in (old, new)]
    if texts[0] == texts[1] and old != new:
        texts = [repr(value) for value in (old, new)]
    if all(_is_hash(text) for text in texts) and texts[0][:_SHORT_HASH] != texts[1][:_SHORT_HASH]:
        texts = [text[:_SHORT_HASH] + "…" for text in texts]
    elif old is not None and new is not None and max(map(len, texts)) > LONGEST:
        texts = _around_the_difference(*texts)
    return texts[0], texts[1]


def _words(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        spaced = any(" " in item for item in value)
        joined = "; ".join(value) if spaced else shlex.join(value)
        return joined or "none"
    if isinstance(value, float) and abs(value) < _SMALL:
        return f"{value:.4g}"
    return value_words(value)


def _is_hash(text: str) -> bool:
    return len(text) == _HASH_LENGTH and not set(text) - set("0123456789abcdef")


def _around_the_difference(old: str, new: str) -> list[str]:
    same = next(
        (place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    if same <= _LEAD:
        return [old, new]
    return ["…" + text[same - _LEAD :] for text in (old, new)]


def _change(one: FigureChange) -> str:
    text = signed_percent(one.change)
    if one.ratio is None:
        return text
    return f"{text} [{_bound(one.ratio.low)}, {_bound(one.ratio.high)}]"


def _bound(ratio: float) -> str:
    # Two noisy rounds bound nothing: how many millions of percent they allow is no news.
    return ">+999%" if ratio > 11 else signed_percent(ratio - 1)


def _spread(one: FigureChange) -> str:
    if one.old is None or one.new is None:
        return "on one side only"
    return _SPREAD[one.spread]
