"""The JSON that ``vllm bench serve`` saves, one object a file or, appended, one a line.

Read with vLLM 0.32.0's own source beside it; ``docs/importing.md`` has the table of fields.
"""

from collections.abc import Sequence
from pathlib import Path

from autotune.importers.csv_file import quoted
from autotune.importers.json_file import Fields, has_keys, parse_lines, parse_object
from autotune.importers.reading import Reading, Readings
from autotune.importers.serving_json import collect, serving_figures
from autotune.importers.source_file import SourceText, head, read_text
from autotune.records.schema import MeasurementWarning, PointFigures

NAME = "vllm_bench_serve"
_TIMES = {"ttft_s": "ttft", "latency_s": "e2el", "tpot_s": "tpot", "itl_s": "itl"}
# Texts that the tool itself writes; any other is the user's, of ``--metadata``.
_OWN_TEXTS = frozenset(
    {"date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "request_rate"}
)
_MOST_LISTED = 8


def looks_like(path: Path) -> bool:
    """Whether the file begins like one of these objects, which may be cut."""
    text = head(path).lstrip()
    return text.startswith("{") and has_keys(text, "model_id", "tokenizer_id", "num_prompts")


def read(path: Path) -> Readings:
    """Read such a file, all of its results or none.

    Raises:
        InputError: a result is cut, broken or contradicts itself, results are of different models
            or workloads, or none can be taken; file and line are named.
    """
    source = read_text(path)
    return collect(objects_in(source), _take, name=NAME, path=path, source=source)


def _take(fields: Fields) -> tuple[Reading, dict[str, str], Sequence[str]]:
    reading, left_out = reading_of(fields)
    return reading, facts_of(fields), (*left_out, *_metadata(fields))


def objects_in(source: SourceText) -> list[Fields]:
    """Return the results of a file: one object over any lines, or one in each line."""
    lines = [line.strip() for line in source.text.split("\n") if line.strip()]
    if len(lines) > 1 and lines[0] != "{":
        return parse_lines(source)
    return [parse_object(source)]


def reading_of(fields: Fields) -> tuple[Reading, tuple[str, ...]]:
    """Return one result's point, and a sentence about each part that has no place.

    Raises:
        InputError: it isn't a result of generating text, or it contradicts itself.
    """
    completed = fields.count("completed")
    if completed is None:
        raise fields.error("completed", "isn't there: not a result of vllm bench serve")
    if "output_throughput" not in fields.content:
        raise fields.error(
            "output_throughput", "isn't there: a benchmark of embeddings, which generates nothing"
        )
    figures, left_out = PointFigures(), tuple[str, ...]()
    if completed:
        figures, left_out = serving_figures(
            fields, names=_TIMES, total_rate="total_token_throughput", completed=completed
        )
    failed = fields.count("failed")
    reading = Reading(
        where=fields.where,
        backend=fields.text("label"),
        concurrency=fields.count("max_concurrency", least=1),
        repeat=None,
        figures=figures,
        requests_sent=None if failed is None else completed + failed,
        requests_ok=completed,
        warnings=_warnings(fields, completed=completed, failed=failed),
        in_progress=_in_progress(figures),
    )
    return reading, left_out


def facts_of(fields: Fields) -> dict[str, str]:
    """Return what a result says of all of them; lengths only with ``--save-detailed``."""
    facts = {"model": fields.text("model_id") or ""}
    for fact, key in (("isl", "input_lens"), ("osl", "output_lens")):
        lengths = fields.items(key)
        if lengths and all(type(each) is int and each == lengths[0] > 0 for each in lengths):
            facts[fact] = str(lengths[0])
    return facts


def _in_progress(figures: PointFigures) -> float | None:
    """Little's law, as in our own points: what the tool doesn't say itself follows from it."""
    rate, latency_s = figures.requests_per_s, figures.latency_s.mean
    return None if rate is None or latency_s is None else rate * latency_s


def _warnings(
    fields: Fields, *, completed: int, failed: int | None
) -> tuple[MeasurementWarning, ...]:
    """Older releases don't count failures, but what was asked for shows that some are missing."""
    asked = fields.count("num_prompts")
    if failed is not None or asked is None or completed >= asked:
        return ()
    return (
        MeasurementWarning(
            code="requests_missing",
            observed=f"{completed} of {asked} requests that were asked for were completed",
            threshold="all of them",
            remedy="look whether the data set was shorter, or requests failed",
        ),
    )


def _metadata(fields: Fields) -> list[str]:
    keys = [
        quoted(key)
        for key, value in fields.content.items()
        if isinstance(value, str) and key not in _OWN_TEXTS
    ]
    if not keys:
        return []
    more = ", ..." if len(keys) > _MOST_LISTED else ""
    return [f"{fields.where}: {', '.join(keys[:_MOST_LISTED])}{more}: metadata, not the tool's"]
