"""The JSON lines that SGLang's ``bench_serving`` appends to its output file, one a run.

Read with SGLang 0.5.23's own source beside it; ``docs/importing.md`` has the table of fields.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from autotune.importers.json_file import Fields, has_keys, parse_lines
from autotune.importers.reading import Reading, Readings
from autotune.importers.serving_json import collect, serving_figures
from autotune.importers.sglang_server_info import ServerFacts, read_server_info
from autotune.importers.source_file import head, read_text
from autotune.records.schema import PointFigures

NAME = "sglang_bench_serving"
_TIMES = {"ttft_s": "ttft", "latency_s": "e2e_latency", "tpot_s": "tpot", "itl_s": "itl"}
_EVERY_LENGTH = 1.0


def looks_like(path: Path) -> bool:
    """Whether the file begins like one of these lines, which may be cut."""
    text = head(path).lstrip()
    return text.startswith("{") and (
        has_keys(text, "dataset_name", "request_rate", "random_range_ratio")
        or has_keys(text, "output_throughput", "mean_e2e_latency_ms", "accept_length")
    )


def read(path: Path) -> Readings:
    """Read a file of such lines, all of them or none.

    Raises:
        InputError: a line is cut, broken or contradicts itself, lines are of different servers
            or workloads, or none can be taken; file and line are named.
    """
    source = read_text(path)
    return collect(parse_lines(source), _take, name=NAME, path=path, source=source)


def _take(fields: Fields) -> tuple[Reading, dict[str, str], Sequence[str]]:
    server = read_server_info(fields)
    reading, left_out = _reading(fields, server)
    return reading, server.facts | _workload(fields), (*server.left_out, *left_out)


def _reading(fields: Fields, server: ServerFacts) -> tuple[Reading, tuple[str, ...]]:
    completed = fields.count("completed")
    if completed is None:
        raise fields.error("completed", "isn't there: not a result of bench_serving")
    figures, left_out = PointFigures(), tuple[str, ...]()
    in_progress = None
    if completed:
        figures, left_out = serving_figures(
            fields, names=_TIMES, total_rate="total_throughput", completed=completed
        )
        figures = msgspec.structs.replace(figures, cached_tokens_mean=_cached(fields, completed))
        in_progress = fields.figure("concurrency")
    tag = fields.text("tag")
    if tag is not None and server.backend is not None:
        left_out += (f"{fields.where}: tag {tag}: the server says its backend itself",)
    return Reading(
        where=fields.where,
        backend=server.backend if server.backend is not None else tag,
        concurrency=fields.count("max_concurrency", least=1),
        repeat=None,
        figures=figures,
        requests_sent=_sent(fields, completed),
        requests_ok=completed,
        in_progress=in_progress,
    ), left_out


def _cached(fields: Fields, completed: int) -> float | None:
    report = fields.fields("cache_report")
    cached = report.count("total_cached_tokens") if report is not None else None
    return cached / completed if cached is not None else None


def _sent(fields: Fields, completed: int) -> int | None:
    """Only ``--output-details`` tells of each request, failed ones too."""
    errors = fields.items("errors")
    if errors is None:
        return None
    if len(errors) < completed:
        raise fields.error("errors", f"of {len(errors)} requests, but {completed} were completed")
    return len(errors)


def _workload(fields: Fields) -> dict[str, str]:
    """What a line says of its requests; exact lengths only where all of them have the same."""
    dataset = fields.text("dataset_name") or ""
    said = [dataset] if dataset else []
    facts: dict[str, str] = {}
    keys: tuple[str, ...] = ("sharegpt_output_len",) if dataset == "sharegpt" else ()
    if dataset.startswith("random"):
        lengths = fields.count("random_input_len"), fields.count("random_output_len")
        ratio = fields.number("random_range_ratio")
        if ratio == _EVERY_LENGTH and None not in lengths:
            facts = {"isl": str(lengths[0]), "osl": str(lengths[1])}
        else:
            keys = ("random_input_len", "random_output_len", "random_range_ratio")
    said += [f"{key}={fields.number(key):g}" for key in keys if fields.number(key) is not None]
    return facts | {"workload": ", ".join(said)}
