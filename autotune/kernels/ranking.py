"""What a layer sweep's records mean: latencies with intervals, ranks, and a verdict per backend.

Pure: the same records give the same result. The statistics are `autotune.decide.statistics`'.
"""

import math
import statistics
from collections.abc import Sequence

import msgspec

from autotune.decide.statistics import geometric_mean, ratio_estimate, t_quantile
from autotune.kernels.schema import (
    BackendSummary,
    KernelPoint,
    KernelRun,
    Ranked,
    Screen,
)

CONFIDENCE = 0.95


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """A call's latency: the geometric mean of the rounds' medians, with Student's t interval.

    The median within a block keeps what interrupts one call out; the rounds, spread over the whole
    measurement, are what the interval is made of. ``low_s`` and ``high_s`` are ``None`` for n = 1.
    """

    latency_s: float
    low_s: float | None
    high_s: float | None
    n: int


def round_medians(point: KernelPoint) -> dict[int, float]:
    """Return each round's median time of a call, in seconds."""
    return {
        block.round: max(statistics.median(block.times_s), 1e-12)
        for block in point.blocks
        if block.times_s
    }


def latency(point: KernelPoint) -> Latency | None:
    """Return a point's latency, ``None`` where nothing was timed."""
    medians = list(round_medians(point).values())
    if not medians:
        return None
    logs = [math.log(value) for value in medians]
    center = math.fsum(logs) / len(logs)
    if len(logs) == 1:
        return Latency(latency_s=medians[0], low_s=None, high_s=None, n=1)
    half = t_quantile((1 + CONFIDENCE) / 2, len(logs) - 1) * statistics.stdev(logs)
    half /= math.sqrt(len(logs))
    return Latency(
        latency_s=geometric_mean(medians),
        low_s=math.exp(center - half),
        high_s=math.exp(center + half),
        n=len(logs),
    )


def rank(points: Sequence[KernelPoint]) -> tuple[Ranked, ...]:
    """Return the right backends of one batch, fastest first; emulated ones have no rank."""
    found = [
        (point, measured)
        for point in points
        if point.status == "ok" and not point.emulated and (measured := latency(point)) is not None
    ]
    found.sort(key=lambda pair: (pair[1].latency_s, pair[0].backend))
    return tuple(_ranked(point, measured, *found[0]) for point, measured in found)


def _ranked(
    point: KernelPoint, measured: Latency, fastest: KernelPoint, best_measured: Latency
) -> Ranked:
    mine, best = round_medians(point), round_medians(fastest)
    shared = sorted(mine.keys() & best.keys())
    ratio, low, high = measured.latency_s / best_measured.latency_s, None, None
    if point is not fastest and shared:
        estimate = ratio_estimate(
            [mine[r] for r in shared], [best[r] for r in shared], confidence=CONFIDENCE
        )
        ratio = estimate.ratio
        if estimate.interval is not None:
            low, high = estimate.interval.low, estimate.interval.high
    return Ranked(
        backend=point.backend,
        latency_s=measured.latency_s,
        low_s=measured.low_s,
        high_s=measured.high_s,
        n=measured.n,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
    )


def screen(run: KernelRun, points: Sequence[KernelPoint]) -> Screen:
    """Return what a sweep of servers may take from these records."""
    batches = {t: [p for p in points if p.tokens == t] for t in sorted(run.config.tokens)}
    ranks = {tokens: rank(there) for tokens, there in batches.items()}
    return Screen(
        geometry=run.config.layer.geometry,
        architecture=run.config.architecture,
        scheme=run.config.scheme,
        arch=run.device.arch,
        device_name=run.device.name,
        backends=tuple(
            _summary(name, [p for p in points if p.backend == name], ranks)
            for name in run.config.backends
        ),
        ranks=ranks,
    )


def _summary(
    name: str, points: Sequence[KernelPoint], ranks: dict[int, tuple[Ranked, ...]]
) -> BackendSummary:
    points = sorted(points, key=lambda point: point.tokens)
    wrong = [point for point in points if point.status == "wrong"]
    right = [point for point in points if point.status == "ok"]
    ratios = [one.ratio for there in ranks.values() for one in there if one.backend == name]
    first = next((point for point in [*wrong, *points] if point.reason), None)
    return BackendSummary(
        backend=name,
        stands_for=points[0].stands_for if points else (),
        verdict="wrong" if wrong else "right" if right else "unknown",
        ratio=geometric_mean(ratios) if ratios and len(ratios) == len(ranks) else None,
        reason=first.reason if first is not None else "",
    )
