"""What the results of SGLang's and vLLM's serving benchmarks have in common.

Both descend from one script: the same names, times in milliseconds, rates over the whole run
with its ramp-up and drain. What only one of them writes is in its own module.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autotune.errors import InputError
from autotune.importers.json_file import Fields
from autotune.importers.reading import Reading, Readings, shared_facts
from autotune.importers.source_file import SourceText
from autotune.records.schema import Distribution, PointFigures

_MS = 1e-3
_PARTS = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
# Both tools compute one from the other, so that a larger difference is an edited file, or
# another unit.
_ROUNDING = 0.01
# Gaps between single tokens are, on average, a request's time a token; requests of unequal lengths
# shift that a little. Longer ones are gaps between chunks of several tokens.
_SINGLE_TOKENS = 1.2


def collect(
    results: Sequence[Fields],
    take: Callable[[Fields], tuple[Reading, dict[str, str], Sequence[str]]],
    *,
    name: str,
    path: Path,
    source: SourceText,
) -> Readings:
    """Return what a file's results say together; open loops among them are left out.

    Args:
        results: the file's results, in its order.
        take: makes a point of one, its facts, and a sentence about each part that has no place.
        name: the format's name.
        path: the file.
        source: its text.

    Raises:
        InputError: none can be taken, one is broken, or they are of different servers or
            workloads.
    """
    readings: list[Reading] = []
    facts: list[tuple[str, dict[str, str]]] = []
    skipped: list[str] = []
    for fields in results:
        open_loop = closed_loop(fields)
        if open_loop is not None:
            skipped.append(f"{fields.where}: {open_loop}")
            continue
        reading, said, left_out = take(fields)
        readings.append(reading)
        facts.append((fields.where, said))
        skipped += left_out
    if not readings:
        raise InputError(f"{source.where}: nothing to import: {'; '.join(skipped[:4])}")
    return Readings(
        format=name,
        where=source.where,
        readings=tuple(readings),
        facts=shared_facts(facts),
        skipped=tuple(skipped),
        files={path.name: source.sha256},
        rows=len(results),
    )


def serving_figures(
    fields: Fields, *, names: Mapping[str, str], total_rate: str, completed: int
) -> tuple[PointFigures, tuple[str, ...]]:
    """Return a run's figures, and a sentence about each part that has no place.

    Args:
        fields: one result of the tool.
        names: what the tool calls ``ttft_s``, ``latency_s``, ``tpot_s``, ``itl_s``.
        total_rate: what it calls its rate of input and output tokens.
        completed: requests that were answered, at least one.

    Raises:
        InputError: a figure isn't a number above zero, or two of them contradict each other.
    """
    duration = fields.figure("duration")
    output_rate = fields.figure("output_throughput", zero_is_none=True)
    request_rate = fields.figure("request_throughput")
    tokens_in = fields.count("total_input_tokens")
    tokens_out = fields.count("total_output_tokens")
    _check_rate(fields, "request_throughput", request_rate, count=completed, duration=duration)
    _check_rate(fields, "output_throughput", output_rate, count=tokens_out, duration=duration)
    left_out: list[str] = []
    # A benchmark of several turns counts no input.
    totals = fields.figure(total_rate, zero_is_none=True)
    if totals is not None and tokens_in == 0:
        left_out.append(f"{fields.where}: {total_rate}: no input tokens were counted")
        totals = None
    elif tokens_in is not None and tokens_out is not None:
        both = tokens_in + tokens_out
        _check_rate(fields, total_rate, totals, count=both, duration=duration)
    times = _times(fields, names, completed)
    several = tokens_out is not None and tokens_out > completed
    if several and times["ttft_s"].mean is not None and _same(times["ttft_s"], times["latency_s"]):
        left_out.append(
            f"{fields.where}: {names['ttft_s']} is the whole latency: answers weren't streamed"
        )
        for name in ("ttft_s", "tpot_s", "itl_s"):
            times[name] = Distribution()
    _check_order(fields, names, times)
    gap, tpot = times["itl_s"].mean, times["tpot_s"].mean
    if gap is not None and tpot is not None and gap > _SINGLE_TOKENS * tpot:
        left_out.append(
            f"{fields.where}: {names['itl_s']} is {gap / tpot:.1f} times {names['tpot_s']}: "
            "between chunks, which weren't one token each"
        )
        times["itl_s"] = Distribution()
    return PointFigures(
        output_tokens_per_s=output_rate,
        whole_run_output_tokens_per_s=output_rate,
        total_tokens_per_s=totals,
        requests_per_s=request_rate,
        window_s=duration,
        input_tokens_mean=tokens_in / completed if tokens_in else None,
        output_tokens_mean=tokens_out / completed if tokens_out else None,
        ttft_s=times["ttft_s"],
        latency_s=times["latency_s"],
        tpot_s=times["tpot_s"],
        itl_s=times["itl_s"],
    ), tuple(left_out)


def closed_loop(fields: Fields) -> str | None:
    """Return why a run's requests in flight don't follow from it, ``None`` where they do.

    Raises:
        InputError: ``request_rate`` is nothing that the tools write.
    """
    if fields.content.get("ramp_up_strategy") is not None:
        return "its request rate rises: an open loop, which can't be compared with these points"
    value = fields.content.get("request_rate")
    if value == "trace":
        return "it replays a trace: an open loop, which can't be compared with these points"
    rate = math.inf if value in ("inf", None) else fields.number("request_rate")
    if rate is None or math.isnan(rate) or rate <= 0:
        raise fields.error("request_rate", "neither a number above zero nor infinite")
    if math.isinf(rate):
        return None
    return (
        f"it sends {rate:g} requests/s: an open loop, in which the number in flight follows from "
        "the server's speed, so that it can't be compared at a concurrency"
    )


def _times(fields: Fields, names: Mapping[str, str], completed: int) -> dict[str, Distribution]:
    found = {}
    for name, theirs in names.items():
        parts = {
            part: fields.figure(f"{prefix}_{theirs}_ms", factor=_MS, zero_is_none=True)
            for part, prefix in _PARTS.items()
        }
        # Every answer has a first token and an end, not every one has a second token.
        counted = name in ("ttft_s", "latency_s") and any(v is not None for v in parts.values())
        found[name] = Distribution(n=completed if counted else None, **parts)
    return found


def _same(one: Distribution, other: Distribution) -> bool:
    return one.mean == other.mean and one.p50 == other.p50


def _check_rate(
    fields: Fields, key: str, rate: float | None, *, count: int | None, duration: float | None
) -> None:
    if rate is None or count is None or duration is None:
        return
    if abs(rate * duration - count) > _ROUNDING * count:
        raise fields.error(
            key,
            f"{rate:g}, but {count} in {duration:g} s are {count / duration:g} per second: the "
            "file was edited, or is in another unit",
        )


def _check_order(
    fields: Fields, names: Mapping[str, str], times: Mapping[str, Distribution]
) -> None:
    """A first token can't come after the last, nor a percentile fall below a smaller one."""
    for part, prefix in _PARTS.items():
        first, last = getattr(times["ttft_s"], part), getattr(times["latency_s"], part)
        if first is not None and last is not None and first > last:
            raise fields.error(
                f"{prefix}_{names['ttft_s']}_ms",
                f"above {prefix}_{names['latency_s']}_ms: one of them is in another unit",
            )
    for name, distribution in times.items():
        ranked = [(part, getattr(distribution, part)) for part in ("p50", "p90", "p95", "p99")]
        known = [(part, value) for part, value in ranked if value is not None]
        for (low, low_value), (high, high_value) in itertools.pairwise(known):
            if low_value > high_value:
                raise fields.error(
                    f"{_PARTS[high]}_{names[name]}_ms",
                    f"below {_PARTS[low]}_{names[name]}_ms: the file was edited, or is in "
                    "another unit",
                )
