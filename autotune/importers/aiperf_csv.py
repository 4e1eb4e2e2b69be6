"""``aiperf profile``'s CSV export of a run: its metrics with two decimals, and nothing else.

It says neither concurrency nor model, so that those must be given. The JSON export beside it
says both and isn't rounded: import that one if it's there. Sections with other columns (of GPUs)
follow the metrics and aren't read.
"""

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autotune.importers.aiperf_figures import Export, figures_of
from autotune.importers.csv_file import quoted
from autotune.importers.json_file import Fields
from autotune.importers.reading import Reading, Readings
from autotune.importers.source_file import SourceText, head, read_text

NAME = "aiperf_csv"
# The table's names of the metrics that are read.
_METRICS = {
    "Output Token Throughput": "output_token_throughput",
    "Total Token Throughput": "total_token_throughput",
    "Request Throughput": "request_throughput",
    "Benchmark Duration": "benchmark_duration",
    "Effective Concurrency": "effective_concurrency",
    "Input Sequence Length": "input_sequence_length",
    "Output Sequence Length": "output_sequence_length",
    "Usage Prompt Cache Read Tokens": "usage_prompt_cache_read_tokens",
    "Time to First Token": "time_to_first_token",
    "Request Latency": "request_latency",
    "Inter Token Latency": "inter_token_latency",
    "Request Count": "request_count",
    "Error Request Count": "error_request_count",
}
_COUNTS = ("request_count", "error_request_count")
_NAME = re.compile(r"(?P<name>.*?)(?: \((?P<unit>[^()]+)\))?")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_STATISTICS = ("Metric", "avg", "min", "max", "sum")
_TOTALS = ("Metric", "Value")
# Two decimals of less than this are off by more than one in a hundred.
_COARSE = 0.5


def looks_like(path: Path) -> bool:
    """Whether the file's first line is the header of the table of metrics, or of totals."""
    first = tuple(head(path).lstrip().partition("\n")[0].strip().split(","))
    return first[: len(_STATISTICS)] == _STATISTICS or first == _TOTALS


def read(path: Path) -> Readings:
    """Read a table.

    Raises:
        InputError: it's cut, isn't CSV, names a metric twice, holds what is no number, or no
            metric that is read; file and line are named.
    """
    source = read_text(path)
    skipped: list[str] = []
    statistics: dict[str, tuple[str | None, Fields]] = {}
    for line, name, unit, values in _rows(source):
        if name in statistics:
            raise source.error(line, f"{quoted(name)} a second time: keep one")
        content, coarse = _numbers(source, line, values, whole=name in _COUNTS)
        if coarse:
            skipped.append(
                f"{source.where}, line {line}: {', '.join(coarse)} of {name}: two decimals are too "
                "coarse for it"
            )
        where = f"{source.where}, line {line}"
        statistics[name] = (unit, Fields(where=where, content=content))
    export = Export(where=source.where, statistics=statistics)
    good, errors = export.whole("request_count"), export.whole("error_request_count") or 0
    if good is None and not errors:
        raise source.error(None, "no Request Count: not a whole export of aiperf")
    figures, left_out = figures_of(export, good=good or 0)
    reading = Reading(
        where=source.where,
        backend=None,
        concurrency=None,
        repeat=None,
        figures=figures,
        requests_sent=(good or 0) + errors,
        requests_ok=good or 0,
        in_progress=export.average("effective_concurrency") if good else None,
    )
    return Readings(
        format=NAME,
        where=source.where,
        readings=(reading,),
        facts=export.lengths(),
        skipped=(*skipped, *left_out),
        files={path.name: source.sha256},
        rows=1,
    )


def _rows(source: SourceText) -> Iterator[tuple[int, str, str | None, dict[str, str]]]:
    """Each metric that is read: its line, our name of it, its unit and its cells by statistic."""
    header: Sequence[str] | None = None
    for line, cells in _records(source):
        if cells[0] == "Metric":
            header = cells
        elif header is not None and len(cells) != len(header):
            # Another section, or a row that was cut.
            if cells[0] in ("Endpoint", ""):
                return
            raise source.error(line, f"{len(cells)} cells, but its header has {len(header)}")
        elif header is not None:
            match = _NAME.fullmatch(cells[0])
            name = _METRICS.get(match["name"]) if match else None
            if match and name is not None:
                yield line, name, match["unit"], _by_statistic(header, cells)


def _by_statistic(header: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    named = dict(zip(header[1:], cells[1:], strict=True))
    return {"avg": named["Value"]} if "Value" in named else named


def _records(source: SourceText) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(source.text, newline=""), strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, [cell.strip() for cell in cells]
            line = reader.line_num + 1
    except csv.Error as error:
        raise source.error(line, f"not CSV ({error}): is it another file?") from None


def _numbers(
    source: SourceText, line: int, cells: dict[str, str], *, whole: bool
) -> tuple[dict[str, Any], list[str]]:
    """The numbers of a row, and which of its statistics are left out as rounded too much."""
    found: dict[str, Any] = {}
    coarse = []
    for statistic, cell in cells.items():
        if not cell:
            continue
        value = float(cell) if _NUMBER.fullmatch(cell) else math.nan
        if not math.isfinite(value):
            raise source.error(line, f"{quoted(statistic)} is {quoted(cell)}, not a number")
        if 0 < value < _COARSE and not whole and statistic not in ("min", "max"):
            coarse.append(statistic)
        else:
            found[statistic] = value
    return found, [each for each in coarse if each in ("avg", "p50", "p90", "p95", "p99")]
