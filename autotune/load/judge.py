"""What a point's requests and figures say about the point: its status, reason and warnings.

Pure. Each threshold is here once; ``docs/metrics.md`` lists them with what to do.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from autotune.load.metrics import distribution, ttft_s
from autotune.load.steady import MIN_WINDOW_S, Window, measuring_window
from autotune.records.schema import MeasurementWarning, PointFigures, PointStatus, RequestRecord

LENGTH_TOLERANCE = 0.03
REACHED, REACHED_BARELY, OVERSHOT = 0.95, 0.90, 1.02
STREAMING_SHARE = 0.9
CACHED_SHARE = 0.01
TAIL_RATIO, TAIL_S = 5.0, 0.1


class PointVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """``status`` is ``ok`` or the named failure, then with the evidence in ``reason``."""

    status: PointStatus
    reason: str | None = None
    warnings: tuple[MeasurementWarning, ...] = ()


def judge_point(
    requests: Sequence[RequestRecord],
    figures: PointFigures | None,
    *,
    concurrency: int,
    asked_input_tokens: int | None = None,
    asked_output_tokens: int | None = None,
    max_error_rate: float = 0.01,
    not_sent: int = 0,
    window: Window | None = None,
) -> PointVerdict:
    """Judge one measured run.

    Args:
        requests: every request that was sent; failures count whatever their role, anything else
            is judged by the measured ones.
        figures: theirs, from `autotune.load.metrics.figures`.
        concurrency: requests that were to be in flight.
        asked_input_tokens: length that every prompt was made to have; ``None`` isn't checked.
        asked_output_tokens: length that every answer was to have; ``None`` isn't checked.
        max_error_rate: share of failed requests up to which a point stands, with a warning.
        not_sent: prompts that were left when the run was ended early.
        window: where it was computed already.

    Returns:
        The first failure in this order: ``crashed``, ``stalled``, ``request_errors``,
        ``length_mismatch``, ``not_steady``, ``concurrency_not_reached``; else ``ok``.
    """
    measured = [request for request in requests if request.role == "measured"]
    # An early end is told by the last requests, of any role; a share by the measured ones first.
    failure = None if not_sent else _failed_requests(measured, max_error_rate=max_error_rate)
    failure = failure or _failed_requests(
        requests, max_error_rate=max_error_rate, not_sent=not_sent
    )
    if failure is not None or figures is None:
        return failure or PointVerdict(status="request_errors", reason="no request was sent")
    window = window or measuring_window(measured)
    good = [request for request in measured if request.outcome == "ok"]
    warnings = [
        *_warn_of_failures(requests, max_error_rate),
        *_warn_of_window(window),
        *_warn_of_concurrency(good, figures, concurrency),
        *_warn_of_cache(figures),
        *_warn_of_tail(good, concurrency),
    ]
    status, reason = _worst(
        good, figures, window, concurrency, (asked_input_tokens, asked_output_tokens)
    )
    return PointVerdict(status=status, reason=reason, warnings=tuple(warnings))


def _failed_requests(
    requests: Sequence[RequestRecord], *, max_error_rate: float, not_sent: int = 0
) -> PointVerdict | None:
    bad = [request for request in requests if request.outcome != "ok"]
    if not bad and not not_sent:
        return None
    if len(bad) <= max_error_rate * len(requests) and not not_sent:
        return None
    reason = _describe(requests, bad, not_sent)
    in_order = sorted(requests, key=lambda request: request.sent_at_s)
    tail = [request.outcome for request in in_order[-3:]]
    if tail and (not_sent or len(tail) == 3) and set(tail) == {"connection"}:
        return PointVerdict(status="crashed", reason=reason)
    if bad and all(request.outcome == "timeout" for request in bad):
        return PointVerdict(status="stalled", reason=reason)
    return PointVerdict(status="request_errors", reason=reason)


def _describe(requests: Sequence[RequestRecord], bad: Sequence[RequestRecord], left: int) -> str:
    counts = ", ".join(f"{n} {outcome}" for outcome, n in Counter(r.outcome for r in bad).items())
    text = f"{len(bad)} of {len(requests)} requests failed ({counts or 'none'})"
    if left:
        text += f", {left} more were not sent"
    return f"{text}; first: {bad[0].error}" if bad else text


def _worst(
    good: Sequence[RequestRecord],
    figures: PointFigures,
    window: Window,
    concurrency: int,
    asked: tuple[int | None, int | None],
) -> tuple[PointStatus, str | None]:
    uncounted = sum(r.output_tokens is None or r.input_tokens is None for r in good)
    if uncounted:
        return "length_mismatch", (
            f"{uncounted} of {len(good)} answers came without token counts: the server must send "
            "usage (stream_options.include_usage)"
        )
    means = (figures.input_tokens_mean, figures.output_tokens_mean)
    for what, mean, wanted in zip(("input", "output"), means, asked, strict=True):
        if wanted and mean is not None and abs(mean - wanted) > LENGTH_TOLERANCE * wanted:
            return "length_mismatch", f"{what} tokens: {mean:.1f} on average, asked were {wanted}"
    if window.steadiness == "not_steady":
        return "not_steady", window.observed
    achieved = figures.achieved_concurrency
    if achieved is not None and achieved < REACHED_BARELY:
        return "concurrency_not_reached", (
            f"{achieved * concurrency:.1f} of {concurrency} requests in progress on average"
        )
    return "ok", None


def _warn_of_failures(
    requests: Sequence[RequestRecord], max_error_rate: float
) -> list[MeasurementWarning]:
    bad = [request for request in requests if request.outcome != "ok"]
    if not bad:
        return []
    return [
        MeasurementWarning(
            code="request_failures",
            observed=_describe(requests, bad, 0),
            threshold=f"0 failed; up to {max_error_rate:.0%} the point stands",
            remedy="read the server's log around these requests",
        )
    ]


def _warn_of_window(window: Window) -> list[MeasurementWarning]:
    if window.steadiness == "unknown":
        return [
            MeasurementWarning(
                code="window_short",
                observed=window.observed,
                threshold=f"{MIN_WINDOW_S:g} s",
                remedy="ask for more requests per point: too short to tell whether it was steady",
            )
        ]
    if window.start_s > 0:
        return [
            MeasurementWarning(
                code="ramp_cut",
                observed=window.observed,
                threshold="MSER-5 cut that changes the rate by over 5%",
                remedy="nothing: the figures leave that part out; a longer warm-up avoids it",
            )
        ]
    return []


def _warn_of_concurrency(
    good: Sequence[RequestRecord], figures: PointFigures, concurrency: int
) -> list[MeasurementWarning]:
    found = []
    share = figures.achieved_concurrency or 0.0
    if not REACHED <= share <= OVERSHOT:
        found.append(
            MeasurementWarning(
                code="concurrency_low" if share < REACHED else "concurrency_high",
                observed=f"{share * concurrency:.1f} of {concurrency} in progress on average",
                threshold=f"{REACHED:.2f} to {OVERSHOT:.2f} of what was asked",
                remedy="use more requests per point; see whether the client or failures idle slots",
            )
        )
    # An answer that comes in a few pieces isn't visibly "streaming" in between.
    chunks = sum(len(set(request.chunk_at_s)) for request in good) / len(good)
    peak = figures.peak_streaming
    if peak is not None and chunks >= 4 and peak < STREAMING_SHARE * concurrency:
        found.append(
            MeasurementWarning(
                code="server_queues",
                observed=f"at most {peak} of {concurrency} answers streamed at the same time",
                threshold=f"{STREAMING_SHARE:.0%} of the concurrency",
                remedy="raise the server's cap on running requests (max-running-requests, "
                "max-num-seqs, cache size), or read it as a server busy with prompts",
            )
        )
    return found


def _warn_of_cache(figures: PointFigures) -> list[MeasurementWarning]:
    cached, total = figures.cached_tokens_mean, figures.input_tokens_mean
    if not cached or not total or cached <= CACHED_SHARE * total:
        return []
    return [
        MeasurementWarning(
            code="prefix_cache_hit",
            observed=f"{cached:.1f} of {total:.1f} input tokens came from the server's cache",
            threshold=f"{CACHED_SHARE:.0%} of the input",
            remedy="flush the prefix cache before each point, or use prompts of a new seed",
        )
    ]


def _warn_of_tail(good: Sequence[RequestRecord], concurrency: int) -> list[MeasurementWarning]:
    """Look for a first token that came far too late, as when a kernel is compiled on demand.

    The first wave is left out: it arrives all at once, so its last one waits for all others.
    """
    in_order = sorted(good, key=lambda request: request.sent_at_s)
    times = [ttft_s(request) for request in in_order[concurrency:]]
    if not times:
        return []
    spread = distribution(times)
    name, tail = ("p99", spread.p99) if spread.p99 is not None else ("max", max(times))
    median = spread.p50 or 0.0
    if tail <= TAIL_RATIO * median or tail - median <= TAIL_S:
        return []
    return [
        MeasurementWarning(
            code="ttft_tail",
            observed=f"TTFT {name} {tail:.3f} s, median {median:.3f} s",
            threshold=f"{TAIL_RATIO:g} x median and {TAIL_S:g} s above it",
            remedy="look for kernel compilation in the server's log; warm up longer and repeat",
        )
    ]
