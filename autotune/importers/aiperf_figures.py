"""The figures of one run of aiperf, from whichever export: what is which, in which unit.

aiperf says each metric's unit, and a unit that isn't known is refused. Its rates count the whole
run with its ramp-up and drain.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.errors import InputError
from autotune.importers.contradictions import check_order, check_ranks, check_rate
from autotune.importers.csv_file import quoted
from autotune.importers.json_file import Fields
from autotune.records.schema import Distribution, PointFigures

# How much longer than `benchmark_duration` a phase may be: a share of it, and seconds.
_IDLE = 0.02
_IDLE_S = 0.1
_PARTS = {"mean": "avg", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0, "s": 1.0}
_TOKENS_PER_S = {"tokens/sec": 1.0}
_REQUESTS_PER_S = {"requests/sec": 1.0}
_TOKENS = {"tokens": 1.0}
_REQUESTS = {"requests": 1.0, "count": 1.0}
_UNITS = {
    "output_token_throughput": _TOKENS_PER_S,
    "total_token_throughput": _TOKENS_PER_S,
    "request_throughput": _REQUESTS_PER_S,
    "benchmark_duration": _SECONDS,
    "effective_concurrency": _REQUESTS,
    "input_sequence_length": _TOKENS,
    "output_sequence_length": _TOKENS,
    "usage_prompt_cache_read_tokens": _TOKENS,
    "time_to_first_token": _SECONDS,
    "request_latency": _SECONDS,
    "inter_token_latency": _SECONDS,
    "inter_chunk_latency": _SECONDS,
    "request_count": _REQUESTS,
    "error_request_count": _REQUESTS,
    "usage_discrepancy_count": _REQUESTS,
    "total_osl": _TOKENS,
}


@dataclass(frozen=True, kw_only=True)
class Export:
    """A run's metrics by aiperf's name, each with its unit and its statistics.

    A unit is ``None`` where an export leaves it out, as the table does for counts.
    """

    where: str
    statistics: Mapping[str, tuple[str | None, Fields]]

    def factor(self, name: str) -> float:
        """Return what makes the record's unit of a metric's.

        Raises:
            InputError: its unit is none that is known for it.
        """
        unit, fields = self.statistics[name]
        known = _UNITS[name]
        if unit is None and known is _REQUESTS:
            return 1.0
        if unit not in known:
            raise InputError(
                f"{fields.where}: the unit {quoted(str(unit))} isn't one of {', '.join(known)}"
            )
        return known[unit]

    def average(self, name: str) -> float | None:
        """Return a metric's average in the record's unit; ``None`` where it has none, or 0."""
        if name not in self.statistics:
            return None
        return self.statistics[name][1].figure("avg", factor=self.factor(name), zero_is_none=True)

    def whole(self, name: str) -> int | None:
        """Return a count, ``None`` where it isn't there."""
        if name not in self.statistics:
            return None
        self.factor(name)
        return self.statistics[name][1].count("avg")

    def distribution(self, name: str, *, count: int | None) -> Distribution:
        """Return a metric of requests in seconds; ``count`` is used where it names none."""
        if name not in self.statistics:
            return Distribution()
        fields, factor = self.statistics[name][1], self.factor(name)
        parts = {
            part: fields.figure(theirs, factor=factor, zero_is_none=True)
            for part, theirs in _PARTS.items()
        }
        if all(value is None for value in parts.values()):
            return Distribution()
        told = fields.count("count")
        found = Distribution(n=count if told is None else told, **parts)
        check_ranks(self.where, name, found)
        return found

    def lengths(self) -> dict[str, str]:
        """Return the tokens of a request, in and out, where all requests have as many."""
        found = {}
        for fact, name in (("isl", "input_sequence_length"), ("osl", "output_sequence_length")):
            if name in self.statistics:
                fields = self.statistics[name][1]
                low, high = fields.number("min"), fields.number("max")
                if low is not None and low == high and low >= 1 and low.is_integer():
                    found[fact] = f"{low:.0f}"
        return found


def figures_of(export: Export, *, good: int) -> tuple[PointFigures, tuple[str, ...]]:
    """Return a run's figures, and a sentence about each metric that has no place.

    Args:
        export: what the run says.
        good: requests that succeeded; without any there are no figures.

    Raises:
        InputError: a unit isn't known, a figure isn't a number above zero, or two of them
            contradict each other.
    """
    if not good:
        return PointFigures(), ()
    where = export.where
    window, tokens = export.average("benchmark_duration"), export.average("output_sequence_length")
    output_rate = export.average("output_token_throughput")
    request_rate = export.average("request_throughput")
    _check_rates(where, output_rate, request_rate, tokens=tokens, good=good, window=window)
    ttft = export.distribution("time_to_first_token", count=good)
    latency = export.distribution("request_latency", count=good)
    check_order(where, ttft, latency, names="time_to_first_token and request_latency")
    itl, left_out = _gaps(export, good=good)
    figures = PointFigures(
        output_tokens_per_s=output_rate,
        whole_run_output_tokens_per_s=output_rate,
        total_tokens_per_s=export.average("total_token_throughput"),
        requests_per_s=request_rate,
        window_s=window,
        input_tokens_mean=export.average("input_sequence_length"),
        output_tokens_mean=tokens,
        cached_tokens_mean=export.average("usage_prompt_cache_read_tokens"),
        ttft_s=ttft,
        latency_s=latency,
        # A time a token of each answer, as ours: only the name is another.
        tpot_s=export.distribution("inter_token_latency", count=None),
        itl_s=itl,
    )
    return figures, left_out


def _check_rates(
    where: str,
    output_rate: float | None,
    request_rate: float | None,
    *,
    tokens: float | None,
    good: int,
    window: float | None,
) -> None:
    """Hold the rates against each other, and against a time that isn't quite theirs.

    They are per second of the phase, which begins before its first request (``_IDLE``).
    """
    if window is not None:
        slack = _IDLE * good + _IDLE_S * good / window
        check_rate(
            where, "request_throughput", request_rate, count=good, seconds=window, edges=slack
        )
    name = "output_token_throughput"
    if output_rate is not None and request_rate is not None:
        check_rate(where, name, output_rate, count=tokens, seconds=1 / request_rate)


def _gaps(export: Export, *, good: int) -> tuple[Distribution, tuple[str, ...]]:
    """The gaps between chunks are those between tokens only where each chunk was one token."""
    found = export.distribution("inter_chunk_latency", count=None)
    tokens = export.whole("total_osl")
    if found == Distribution():
        return found, ()
    if found.n is not None and tokens is not None and found.n == tokens - good:
        return found, ()
    return Distribution(), (
        f"{export.where}: inter_chunk_latency: between chunks, which weren't one token each",
    )
