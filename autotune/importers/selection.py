"""Which rows of a tidy table go into the records, and why the others don't."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.errors import InputError
from autotune.importers.csv_file import Row, Table, quoted
from autotune.importers.figures import Figure, place_of, published_unit, read_figure

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MOST_LISTED = 8

NEEDED = (
    "output_throughput or total_throughput in tok/s, request_throughput in req/s, or "
    "mean/median/p50/p90/p95/p99 with _ttft, _tpot, _itl or _e2e in s, ms or us"
)


@dataclass(frozen=True, kw_only=True)
class UsedRow:
    """A row with its place in the record; ``value`` is in the record's unit."""

    row: Row
    figure: Figure
    value: float


def select_rows(table: Table) -> tuple[tuple[UsedRow, ...], tuple[str, ...]]:
    """Split a table's rows into those that have a place and sentences about the others.

    Raises:
        InputError: no row has a place, one metric is given in two units, or a value that has a
            place isn't a number above zero.
    """
    _check_units(table)
    placed: list[tuple[Row, Figure]] = []
    left_out: dict[tuple[str, str, str], list[int]] = {}
    for row in table.rows:
        metric, unit = row.cells["metric"], row.cells["unit"]
        figure = read_figure(metric, unit)
        if isinstance(figure, Figure) and not row.cells["value"]:
            figure = "no value was published"
        if isinstance(figure, str):
            left_out.setdefault((metric, unit, figure), []).append(row.line)
        else:
            placed.append((row, figure))
    # Beside repetitions a figure without one may be their mean: it belongs to no round.
    if any(figure.repeat is not None for _, figure in placed):
        for row, figure in placed:
            if figure.repeat is None:
                place = (row.cells["metric"], row.cells["unit"], "no _repN, which others have")
                left_out.setdefault(place, []).append(row.line)
        placed = [(row, figure) for row, figure in placed if figure.repeat is not None]
    skipped = [
        f"{_shown(metric, unit)} in {_lines(lines)}: {reason}"
        for (metric, unit, reason), lines in left_out.items()
    ]
    if not placed:
        raise InputError(
            f"{table.where}: nothing in it has a place in the records. It holds "
            f"{'; '.join(_listed(skipped))}. Needed: {NEEDED} (docs/importing.md)"
        )
    return tuple(_used(table, row, figure) for row, figure in placed), tuple(skipped)


def _check_units(table: Table) -> None:
    first: dict[tuple[str, str | None], tuple[str, int]] = {}
    for row in table.rows:
        metric, unit = row.cells["metric"], published_unit(row.cells["unit"])
        # One figure has several names: median and p50, and one for each repetition.
        place = place_of(metric)
        if place is None:
            continue
        other, line = first.setdefault(place, (unit, row.line))
        if other != unit:
            raise table.error(
                row.line,
                f"{metric} is in {quoted(unit)} here but in {quoted(other)} in line {line}: "
                "give one metric in one unit",
            )


def _used(table: Table, row: Row, figure: Figure) -> UsedRow:
    text = row.cells["value"]
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    value = number * figure.factor
    if not (math.isfinite(value) and value > 0):
        raise table.error(
            row.line,
            f"{row.cells['metric']} is {quoted(text)}, not a number above zero: write it like "
            "1646.0, or leave the cell empty where nothing was published",
        )
    return UsedRow(row=row, figure=replace(figure, repeat=figure.repeat or 1), value=value)


def _shown(metric: str, unit: str) -> str:
    name = metric if re.fullmatch(r"\w{1,60}", metric, re.ASCII) else quoted(metric)
    return f"{name} [{unit if len(unit) <= 40 else quoted(unit)}]" if unit else name


def _lines(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"{len(lines)} rows from line {lines[0]} on"


def _listed(texts: Sequence[str]) -> list[str]:
    more = len(texts) - _MOST_LISTED
    return [*texts[:_MOST_LISTED], *([f"and {more} more metrics"] if more > 0 else [])]
