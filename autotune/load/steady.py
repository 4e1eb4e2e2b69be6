"""The measuring window: where it begins and ends, and whether the server was steady in it.

Pure. ``docs/metrics.md`` explains the rule and cites it (MSER-5: White 1997).
"""

from collections.abc import Sequence
from itertools import accumulate
from math import sqrt
from statistics import fmean, variance
from typing import Literal

import msgspec

from autotune.records.schema import RequestRecord

BIN_S = 1.0
BATCH = 5
MIN_WINDOW_S = 30.0
MATERIAL = 0.05
STANDARD_ERRORS = 3.0

Steadiness = Literal["steady", "not_steady", "unknown"]


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a point that its figures are about, in seconds since the first dispatch.

    ``start_s`` is above zero where a ramp-up was cut off. ``steadiness`` is ``unknown`` where
    the window is too short to judge.
    """

    start_s: float
    end_s: float
    steadiness: Steadiness
    observed: str

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s

    def share(self, request: RequestRecord) -> float:
        """Return which share of a request's time, sending to last token, lies inside (0 to 1)."""
        if not request.chunk_at_s:
            return 0.0
        latency_s = request.chunk_at_s[-1] - request.sent_at_s
        if latency_s <= 0:
            return float(self.start_s <= request.sent_at_s <= self.end_s)
        begin = max(request.sent_at_s, self.start_s)
        return max(0.0, min(request.chunk_at_s[-1], self.end_s) - begin) / latency_s


def measuring_window(requests: Sequence[RequestRecord]) -> Window:
    """Return the window of a measured run: first to last dispatch, without a clear ramp-up.

    Where every request was sent at once nothing is left between first and last dispatch; then
    the window is the whole run.
    """
    first_s = min(request.sent_at_s for request in requests)
    end_s = max(request.sent_at_s for request in requests)
    last_s = max(request.ended_at_s for request in requests)
    if end_s - first_s < 0.01 * (last_s - first_s):
        end_s = last_s
    if end_s - first_s < MIN_WINDOW_S:
        observed = f"{end_s - first_s:.1f} s"
        return Window(start_s=first_s, end_s=end_s, steadiness="unknown", observed=observed)
    rates = tokens_per_bin(requests, start_s=first_s, end_s=end_s)
    means = [fmean(batch) for batch in _batches(rates)]
    wave = _wave_tokens(requests, run_s=last_s - first_s)
    cut = mser(means)
    start_s, observed = first_s, f"{end_s - first_s:.1f} s"
    steadiness: Steadiness = "steady"
    if 2 * cut > len(means):
        half = len(means) // 2
        if _differ(means[:half], means[-half:], wave=wave):
            steadiness = "not_steady"
            observed = (
                f"{fmean(means[:half]):.1f} tokens/s in the first half of {observed}, "
                f"{fmean(means[-half:]):.1f} in the second"
            )
    elif cut and _differ(means[:cut], means[cut:], wave=wave):
        start_s = first_s + cut * BATCH * BIN_S
        observed = (
            f"first {cut * BATCH * BIN_S:g} s of {observed} at {fmean(means[:cut]):.1f} tokens/s, "
            f"the rest at {fmean(means[cut:]):.1f}"
        )
    return Window(start_s=start_s, end_s=end_s, steadiness=steadiness, observed=observed)


def mser(values: Sequence[float]) -> int:
    """Return how many leading values to cut so that the rest's mean is known best.

    The marginal standard error rule: the d that minimises sum((x - mean)^2) / (n - d)^2 over the
    values after d. At least two values are kept.
    """
    best, cut = float("inf"), 0
    # Sums from the end, so that each d costs one step.
    sums = list(accumulate(reversed(values)))[::-1]
    squares = list(accumulate(value * value for value in reversed(values)))[::-1]
    for d in range(len(values) - 1):
        kept = len(values) - d
        spread = max(0.0, squares[d] - sums[d] ** 2 / kept) / kept**2
        # Rounding must not make a cut out of values that are all alike.
        if spread < best - 1e-12 * squares[0]:
            best, cut = spread, d
    return cut


def tokens_per_bin(
    requests: Sequence[RequestRecord], *, start_s: float, end_s: float
) -> list[float]:
    """Return output tokens per second in the whole bins of one second from ``start_s``."""
    bins = [0.0] * int((end_s - start_s) / BIN_S)
    for request in requests:
        if request.outcome == "ok" and request.chunk_at_s:
            each = (request.output_tokens or 0) / len(request.chunk_at_s)
            for at_s in request.chunk_at_s:
                index = int((at_s - start_s) / BIN_S)
                if 0 <= index < len(bins):
                    bins[index] += each / BIN_S
    return bins


def _batches(values: Sequence[float]) -> list[Sequence[float]]:
    return [values[i : i + BATCH] for i in range(0, len(values) - BATCH + 1, BATCH)]


def _differ(early: Sequence[float], late: Sequence[float], *, wave: float) -> bool:
    """Whether two stretches have different rates: by over 5%, over chance and over one wave.

    MSER alone cuts steady noise, often past the half. And where all requests begin and end
    together, the edge of a batch falls into a wave; that shifts up to one wave of tokens.
    """
    gap = abs(fmean(early) - fmean(late))
    spread = [variance(part) for part in (early, late) if len(part) > 1]
    error = sqrt(max(spread) * (1 / len(early) + 1 / len(late)))
    shifted = gap * min(len(early), len(late)) * BATCH * BIN_S
    return (
        gap > MATERIAL * max(fmean(early), fmean(late))
        and gap > STANDARD_ERRORS * error
        and shifted > wave
    )


def _wave_tokens(requests: Sequence[RequestRecord], *, run_s: float) -> float:
    """Output tokens of as many requests as are in progress on average."""
    good = [r for r in requests if r.outcome == "ok" and r.chunk_at_s]
    if not good or run_s <= 0:
        return 0.0
    in_progress = sum(r.chunk_at_s[-1] - r.sent_at_s for r in good) / run_s
    return in_progress * fmean(r.output_tokens or 0 for r in good)
