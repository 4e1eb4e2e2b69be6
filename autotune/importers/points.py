"""One reading, or several of one server, as a point record: its status, figures and warnings.

What the percentiles need is `VALUES_NEEDED`, the same as for a sweep's own points; what failed
requests do to a point is the same too (`autotune.load.judge`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from autotune.importers.reading import Reading
from autotune.load.judge import CACHED_SHARE, OVERSHOT, REACHED_BARELY
from autotune.records.rule import VALUES_NEEDED
from autotune.records.schema import (
    Distribution,
    MeasurementWarning,
    PointFigures,
    PointRecord,
    PointStatus,
)

# The sweep's default: up to this share of failed requests a point stands, with a warning.
MAX_ERROR_RATE = 0.01
_DISTRIBUTIONS = ("ttft_s", "latency_s", "tpot_s", "itl_s")
_SUMS = ("window_s",)


def point_of(
    reading: Reading, *, candidate: str, round_number: int, concurrency: int
) -> PointRecord:
    """Make the record of a reading whose percentiles were looked at (`carried`)."""
    status, reason, failures = _judge_failures(reading)
    figures = reading.figures
    if reading.in_progress is not None and math.isfinite(reading.in_progress):
        achieved = reading.in_progress / concurrency
        figures = msgspec.structs.replace(figures, achieved_concurrency=achieved)
    return PointRecord(
        candidate=candidate,
        round=round_number,
        concurrency=concurrency,
        status=status,
        reason=reason,
        started_at=reading.started_at,
        requests_sent=reading.requests_sent,
        requests_ok=reading.requests_ok,
        figures=None if figures == PointFigures() else figures,
        warnings=(*reading.warnings, *failures, *_warn(figures, concurrency)),
    )


def carried(reading: Reading) -> tuple[Reading, tuple[tuple[str, str], ...]]:
    """Leave out percentiles that too few values stand behind, as a sweep does.

    Returns:
        The reading without them, and which were left out, as ``("p99", "ttft_s")``. Where a file
        doesn't say how many values there were, the number of its requests is the most there can
        be, for gaps between tokens the number of its tokens.
    """
    figures, requests = reading.figures, reading.requests_ok
    changes: dict[str, Distribution] = {}
    dropped: list[tuple[str, str]] = []
    for name in _DISTRIBUTIONS:
        distribution: Distribution = getattr(figures, name)
        most = distribution.n if distribution.n is not None else requests
        if name == "itl_s" and distribution.n is None and requests is not None:
            tokens = figures.output_tokens_mean
            most = None if tokens is None else math.ceil(requests * tokens)
        if most is None:
            continue
        weak = [
            part
            for part, needed in VALUES_NEEDED.items()
            if most < needed and getattr(distribution, part) is not None
        ]
        if weak:
            changes[name] = msgspec.structs.replace(distribution, **dict.fromkeys(weak))
            dropped += [(part, name) for part in weak]
    if not changes:
        return reading, ()
    return replace(reading, figures=msgspec.structs.replace(figures, **changes)), tuple(dropped)


def averaged(readings: Sequence[Reading]) -> Reading:
    """Make one reading of repetitions on one server, which are one sample of it.

    A figure is the arithmetic mean of the repetitions', ``None`` where one of them lacks it;
    counts of requests and values, and the windows' lengths, are summed up. A warning says so.
    """
    first = readings[0]
    if len(readings) == 1:
        return replace(first, repeat=None)
    wheres = ", ".join(each.where for each in readings[:4]) + (", ..." if len(readings) > 4 else "")
    note = MeasurementWarning(
        code="repeats_averaged",
        observed=f"{len(readings)} repetitions on one server, averaged: {wheres}",
        threshold="one measurement a launch",
        remedy="nothing, if the server was started once; launches are what counts as repetitions",
    )
    warnings = dict.fromkeys(warning for each in readings for warning in each.warnings)
    return Reading(
        where=first.where,
        backend=first.backend,
        concurrency=first.concurrency,
        repeat=None,
        figures=_mean_figures([each.figures for each in readings]),
        requests_sent=_total([each.requests_sent for each in readings]),
        requests_ok=_total([each.requests_ok for each in readings]),
        started_at=first.started_at,
        warnings=(*warnings, note),
        in_progress=_mean([each.in_progress for each in readings]),
    )


def _mean_figures(all_figures: Sequence[PointFigures]) -> PointFigures:
    found: dict[str, Any] = {}
    for name in PointFigures.__struct_fields__:
        values = [getattr(figures, name) for figures in all_figures]
        if name in _DISTRIBUTIONS:
            found[name] = _mean_distribution(values)
        elif name in _SUMS:
            found[name] = _total(values)
        elif name == "peak_streaming":
            found[name] = None if None in values else max(values)
        else:
            found[name] = _mean(values)
    return PointFigures(**found)


def _mean_distribution(distributions: Sequence[Distribution]) -> Distribution:
    parts = [name for name in Distribution.__struct_fields__ if name != "n"]
    means = {part: _mean([getattr(each, part) for each in distributions]) for part in parts}
    return Distribution(n=_total([each.n for each in distributions]), **means)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    try:
        return math.fsum(known) / len(known)
    except OverflowError:
        return math.inf  # Which no record may hold.


def _total(values: Sequence[Any]) -> Any:
    return None if None in values else sum(values)


def _judge_failures(
    reading: Reading,
) -> tuple[PointStatus, str | None, tuple[MeasurementWarning, ...]]:
    sent, good = reading.requests_sent, reading.requests_ok
    if good == 0:
        return "request_errors", f"{reading.where}: no request was answered in full", ()
    if sent is None or good is None or sent <= good:
        return "ok", None, ()
    text = f"{sent - good} of {sent} requests failed"
    if sent - good > MAX_ERROR_RATE * sent:
        return "request_errors", text, ()
    warning = MeasurementWarning(
        code="request_failures",
        observed=text,
        threshold=f"0 failed; up to {MAX_ERROR_RATE:.0%} the point stands",
        remedy="read the server's log around these requests",
    )
    return "ok", None, (warning,)


def _warn(figures: PointFigures, concurrency: int) -> list[MeasurementWarning]:
    found = []
    achieved = figures.achieved_concurrency
    if achieved is not None and achieved < REACHED_BARELY:
        found.append(
            MeasurementWarning(
                code="concurrency_low",
                observed=f"{achieved * concurrency:.1f} of {concurrency} in progress on average",
                threshold=f"{REACHED_BARELY:.2f} of what was asked",
                remedy="nothing, if it is the ramp-up and drain of a short run, which this tool "
                "counts in; else see whether the server queues or the client is slow",
            )
        )
    if achieved is not None and achieved > OVERSHOT:
        found.append(
            MeasurementWarning(
                code="concurrency_high",
                observed=f"{achieved * concurrency:.1f} of {concurrency} in progress on average",
                threshold=f"{OVERSHOT:.2f} of what was asked",
                remedy="can't be in a closed loop: check the concurrency, and the unit of the "
                "latency",
            )
        )
    cached, total = figures.cached_tokens_mean, figures.input_tokens_mean
    if cached and total and cached > CACHED_SHARE * total:
        found.append(
            MeasurementWarning(
                code="prefix_cache_hit",
                observed=f"{cached:.1f} of {total:.1f} input tokens came from the server's cache",
                threshold=f"{CACHED_SHARE:.0%} of the input",
                remedy="flush the prefix cache before each point, or use prompts of a new seed",
            )
        )
    return found
