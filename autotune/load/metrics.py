"""From requests to a point's figures. Pure; ``docs/metrics.md`` defines each figure.

Only requests that ended ``ok`` count. A figure that needs token counts is ``None`` as soon as
one of them came without ``usage``: nothing is invented from chunk counts.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise
from math import floor
from statistics import fmean

from autotune.load.steady import Window, measuring_window
from autotune.records.rule import VALUES_NEEDED
from autotune.records.schema import Distribution, PointFigures, RequestRecord


def figures(
    requests: Sequence[RequestRecord], *, concurrency: int, window: Window | None = None
) -> PointFigures | None:
    """Return the figures of one measured run.

    Args:
        requests: every request of the run; stamps in seconds since the first dispatch. Those whose
            role isn't ``measured`` are left out.
        concurrency: requests that were to be in flight.
        window: where it was computed already; by default `measuring_window`.

    Returns:
        The figures, or ``None`` if no request ended well. Rates are over the window; times per
        request are over the requests dispatched in it, whenever they ended.
    """
    requests = [request for request in requests if request.role == "measured"]
    good = [request for request in requests if request.outcome == "ok" and request.chunk_at_s]
    if not good:
        return None
    window = window or measuring_window(requests)
    sent_inside = [r for r in good if window.start_s <= r.sent_at_s <= window.end_s]
    output_rate = _per_second(_tokens_inside(good, window), window.length_s)
    input_rate = _per_second(
        _total(good, lambda r: _times(r.input_tokens, window.share(r))), window.length_s
    )
    in_progress_s = sum(window.share(r) * latency_s(r) for r in good)
    run_s = max(r.ended_at_s for r in requests) - min(r.sent_at_s for r in requests)
    return PointFigures(
        output_tokens_per_s=output_rate,
        total_tokens_per_s=None
        if output_rate is None or input_rate is None
        else output_rate + input_rate,
        requests_per_s=_per_second(sum(map(window.share, good)), window.length_s),
        whole_run_output_tokens_per_s=_per_second(_total(good, lambda r: r.output_tokens), run_s),
        achieved_concurrency=_per_second(in_progress_s / concurrency, window.length_s),
        peak_streaming=peak_streaming(good),
        window_s=window.length_s,
        input_tokens_mean=_mean(r.input_tokens for r in good),
        output_tokens_mean=_mean(r.output_tokens for r in good),
        cached_tokens_mean=_mean(r.cached_tokens for r in good),
        ttft_s=distribution([ttft_s(r) for r in sent_inside]),
        latency_s=distribution([latency_s(r) for r in sent_inside]),
        tpot_s=distribution([t for r in sent_inside if (t := tpot_s(r)) is not None]),
        itl_s=distribution([gap for r in sent_inside for gap in itl_s(r)]),
    )


def ttft_s(request: RequestRecord) -> float:
    """Seconds from dispatch to the first token of any channel."""
    return request.chunk_at_s[0] - request.sent_at_s


def latency_s(request: RequestRecord) -> float:
    """Seconds from dispatch to the last token."""
    return request.chunk_at_s[-1] - request.sent_at_s


def tpot_s(request: RequestRecord) -> float | None:
    """Seconds per output token after the first; ``None`` below two tokens or without usage."""
    if request.output_tokens is None or request.output_tokens < 2:
        return None
    return (latency_s(request) - ttft_s(request)) / (request.output_tokens - 1)


def itl_s(request: RequestRecord) -> list[float]:
    """Seconds between tokens: each gap between arrivals, shared out over the tokens it brought.

    Chunks of one arrival are one chunk here. Without usage there is no token count, so the list
    is empty.
    """
    if request.output_tokens is None:
        return []
    each = request.output_tokens / len(request.chunk_at_s)
    arrivals = [(at_s, sum(1 for _ in same) * each) for at_s, same in groupby(request.chunk_at_s)]
    gaps: list[float] = []
    for (before_s, _), (at_s, tokens) in pairwise(arrivals):
        gaps += [(at_s - before_s) / tokens] * max(1, round(tokens))
    return gaps


def peak_streaming(requests: Iterable[RequestRecord]) -> int:
    """Return the most requests that were between their first and last token at one instant."""
    changes: list[tuple[float, int]] = []
    for request in requests:
        changes.append((request.chunk_at_s[0], -1))
        changes.append((request.chunk_at_s[-1], 1))
    # At one instant beginnings (-1) sort before ends, so that touching requests overlap.
    now = peak = 0
    for _, change in sorted(changes):
        now -= change
        peak = max(peak, now)
    return peak


def distribution(values: Sequence[float]) -> Distribution:
    """Return mean and percentiles (linear interpolation); those that n can't carry are ``None``."""
    if not values:
        return Distribution(n=0)
    ordered = sorted(values)
    n = len(ordered)
    return Distribution(
        n=n,
        mean=fmean(ordered),
        p50=percentile(ordered, 0.5),
        p90=percentile(ordered, 0.90) if n >= VALUES_NEEDED["p90"] else None,
        p95=percentile(ordered, 0.95) if n >= VALUES_NEEDED["p95"] else None,
        p99=percentile(ordered, 0.99) if n >= VALUES_NEEDED["p99"] else None,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of sorted values, linear between neighbours (NumPy's default)."""
    position = share * (len(ordered) - 1)
    below = floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _tokens_inside(requests: Sequence[RequestRecord], window: Window) -> float | None:
    """Output tokens that arrived in the window, each request's spread evenly over its chunks."""

    def inside(request: RequestRecord) -> float | None:
        chunks = request.chunk_at_s
        arrived = sum(1 for at_s in chunks if window.start_s <= at_s <= window.end_s)
        return _times(request.output_tokens, arrived / len(chunks))

    return _total(requests, inside)


def _total(
    requests: Sequence[RequestRecord], value: Callable[[RequestRecord], float | None]
) -> float | None:
    values = [value(request) for request in requests]
    known = [v for v in values if v is not None]
    return sum(known) if len(known) == len(values) else None


def _mean(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _times(count: int | None, share: float) -> float | None:
    return None if count is None else count * share


def _per_second(amount: float | None, length_s: float) -> float | None:
    return None if amount is None or length_s <= 0 else amount / length_s
