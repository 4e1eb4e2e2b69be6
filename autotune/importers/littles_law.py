"""Whether an imported point's throughput, latency and concurrency can be of one closed loop. Pure.

Tools round, cut off warm-ups and count ramps in, so that only a contradiction that no such thing
explains is told: another unit, or figures of another load.
"""

import msgspec

from autotune.records.schema import MeasurementWarning, PointRecord

_FACTOR = 4.0


def told_by_littles_law(point: PointRecord, *, output_tokens: int | None) -> PointRecord:
    """Return the point, with a warning where its figures contradict one another.

    By Little's law (L = lambda W; Little, 1961) requests in progress are the rate at which they
    come times the time that they stay: output tokens/s / output tokens x latency.

    Args:
        point: an imported point.
        output_tokens: of each answer as the workload says, for points that don't.
    """
    figures = point.figures
    if figures is None:
        return point
    tokens = figures.output_tokens_mean or output_tokens
    latency_s = figures.latency_s.mean or figures.latency_s.p50
    rate = figures.output_tokens_per_s
    if not tokens or not latency_s or not rate:
        return point
    in_progress = rate / tokens * latency_s
    if point.concurrency / _FACTOR <= in_progress <= point.concurrency * _FACTOR:
        return point
    warning = MeasurementWarning(
        code="figures_disagree",
        observed=f"{rate:g} output tokens/s, {tokens:g} a request and a latency of {latency_s:g} s "
        f"make {in_progress:.3g} requests in progress",
        threshold=f"the concurrency, {point.concurrency}, within a factor of {_FACTOR:g}",
        remedy="look up the units where the figures were published: one of them is another",
    )
    return msgspec.structs.replace(point, warnings=(*point.warnings, warning))
