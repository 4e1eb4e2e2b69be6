"""What was measured as a whole: key, scope and workload, from what files say and from options."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from autotune.decisions.schema import DecisionKey, Scope, check_name
from autotune.errors import InputError, UsageError
from autotune.importers.csv_file import Row, Table, quoted
from autotune.importers.schema import ImportOptions
from autotune.records.schema import Workload

_Value = TypeVar("_Value", str, int)

# One run is about one value of each of these.
COLUMNS = ("source", "engine", "model", "quant", "arch", "gpu", "tp", "ep", "isl", "osl")

_WHOLE = re.compile(r"([0-9]{1,9})(?:\.0*)?")
_DEVICES = re.compile(r"([0-9]{1,4})\s*[x\u00d7]\s*(.+)")
# How copyists say that it wasn't published: "(not in stored chunk)", "SM90 (card not named)".
_UNSAID = re.compile(r"|-|\?|n/?a|unknown|\(.*\)|.*\([^()]*\bnot\b[^()]*\).*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Context:
    """The run's key, scope, workload and source; ``notes`` says which cells aren't in them."""

    key: DecisionKey
    scope: Scope
    workload: Workload
    source: str | None
    notes: tuple[str, ...]


def read_context(table: Table, rows: Sequence[Row], *, options: ImportOptions) -> Context:
    """Read the context that ``rows``, at least one, share.

    Raises:
        InputError: two rows differ in a column of `COLUMNS` (both lines are named), or a value
            that's needed is neither in the table nor in the options (the flags are named).
        UsageError: an arch of ``also_arch`` can't borrow from the table's.
    """
    _check_shared(table, rows)
    first = rows[0]
    return context_of(
        # A table's other columns are left out, whatever they are called.
        {column: first.cells[column] for column in COLUMNS},
        where=table.where,
        error=lambda problem: table.error(first.line, problem),
        options=options,
    )


def context_of(
    cells: Mapping[str, str],
    *,
    where: str,
    error: Callable[[str], InputError],
    options: ImportOptions,
) -> Context:
    """Make the context of what a file says, by the keys of `autotune.importers.reading.FACTS`.

    Args:
        cells: what it says; a key that isn't there, and an empty text, say nothing.
        where: its name for messages.
        error: makes the error about one of ``cells``.
        options: what the user says.

    Raises:
        InputError: as `read_context`.
        UsageError: as `read_context`.
    """
    reader = _Reader(cells=cells, error=error)
    engine = reader.name("engine", options.engine, flag="--engine")
    quantization = reader.name("quant", options.quantization, flag="--quantization")
    arch = reader.name("arch", options.arch, flag="--arch")
    if reader.missing:
        raise InputError(
            f"{where}: doesn't say {_listed(list(reader.missing))}: give "
            f"{_listed(list(reader.missing.values()))}"
        )
    options.check_also_arch(arch)
    device_name, device_count = reader.device(options)
    scope = Scope(
        engine=engine,
        geometry=options.geometry,
        engine_version=reader.text("engine_version", options.engine_version),
        tp=reader.count("tp", options.tp, flag="--tp"),
        ep=reader.count("ep", options.ep, flag="--ep"),
        dp=reader.count("dp", options.dp, flag="--dp"),
        attention_dp=reader.count("attention_dp", None, flag="the right number in the file"),
        a2a_backend=reader.text("a2a", options.a2a_backend),
        engine_settings=json.loads(cells.get("engine_settings") or "{}"),
        device_name=device_name,
        device_count=device_count,
        also_arch=tuple(dict.fromkeys(options.also_arch)),
        also_arch_reason=options.also_arch_reason,
    )
    workload = Workload(input_tokens=reader.tokens("isl"), output_tokens=reader.tokens("osl"))
    return Context(
        key=DecisionKey(options.model, quantization, arch),
        scope=scope,
        workload=workload,
        source=reader.text("source", options.source),
        notes=tuple(reader.notes),
    )


def whole_number(text: str) -> int | None:
    """Return a cell's whole number of at least 1 (``16`` or ``16.0``), ``None`` if it's none."""
    match = _WHOLE.fullmatch(text)
    return int(match[1]) or None if match else None


def _check_shared(table: Table, rows: Sequence[Row]) -> None:
    first = rows[0]
    for row in rows:
        for column in COLUMNS:
            here, there = row.cells[column], first.cells[column]
            if here != there:
                raise table.error(
                    row.line,
                    f"{column} is {quoted(here)} here but {quoted(there)} in line {first.line}: "
                    f"a run is about one {column}; split the file, one for each",
                )


@dataclass(kw_only=True)
class _Reader:
    """Reads one file's cells, collecting what is missing and what isn't taken as it stands."""

    cells: Mapping[str, str]
    error: Callable[[str], InputError]
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def said(self, column: str) -> str | None:
        cell = self.cells.get(column, "")
        return None if _UNSAID.fullmatch(cell) else cell

    def text(self, column: str, given: str | None) -> str | None:
        cell = self.said(column)
        return self._given(column, given, cell) if given is not None else cell

    def name(self, column: str, given: str | None, *, flag: str) -> str:
        cell = self.said(column)
        if given is not None:
            return self._given(column, given, cell)
        if cell is None:
            self.missing[column] = flag
            return ""
        try:
            return check_name(column, cell)
        except UsageError:
            raise self.error(f"{column} {quoted(cell)} isn't one name: give {flag}") from None

    def count(self, column: str, given: int | None, *, flag: str) -> int | None:
        cell = self.said(column)
        number = whole_number(cell) if cell is not None else None
        if given is not None:
            return self._given(column, given, number if number is not None else cell)
        if cell is not None and number is None:
            raise self.error(f"{column} {quoted(cell)} isn't a whole number: give {flag}")
        return number

    def tokens(self, column: str) -> int | None:
        cell = self.said(column)
        number = whole_number(cell) if cell is not None else None
        if cell is not None and number is None:
            self.notes.append(f"{column} {quoted(cell)}: not a whole number of tokens")
        return number

    def device(self, options: ImportOptions) -> tuple[str | None, int | None]:
        """The GPU's name and how many, from ``4xGB200``, ``GB200`` or the options."""
        cell = self.cells.get("gpu", "")
        name = self.said("gpu")
        count = None
        if name is None and cell and options.device_name is None:
            self.notes.append(f"gpu {quoted(cell)}: names no device")
        match = _DEVICES.fullmatch(name) if name is not None else None
        if match:
            count, name = int(match[1]) or None, match[2]
        if options.device_name is not None:
            name = self._given("gpu", options.device_name, name)
        if options.device_count is not None:
            count = self._given("number of gpus", options.device_count, count)
        return name, count

    def _given(self, column: str, given: _Value, told: str | int | None) -> _Value:
        if told is not None and told != given:
            self.notes.append(f"{column} {quoted(str(told))}: replaced by {given}, as asked")
        return given


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
