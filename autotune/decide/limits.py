"""What a candidate must keep to, whatever its throughput: latencies, and failed requests. Pure.

A figure differs from launch to launch, so that one round over a limit proves nothing: what is
judged is the mean over a candidate's rounds.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from autotune.records.rule import Limit, Rule
from autotune.records.schema import PointRecord, RunRecord


class LimitCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A limit at one concurrency, and what a candidate showed there.

    ``observed`` is the mean over ``rounds`` valid points (seconds), or the share of all their
    requests that failed (``error_rate``). ``kept`` is ``None`` where the figure isn't known, as a
    percentile of too few requests; ``every_round_over`` says that each of these points was over.
    """

    limit: Limit
    concurrency: int
    observed: float | None
    rounds: int
    kept: bool | None
    every_round_over: bool = False

    def is_lasting(self, rule: Rule) -> bool:
        """Whether it was broken so often that no further launch is worth its time."""
        if self.kept is not False:
            return False
        return self.rounds >= rule.needed_rounds or (
            self.every_round_over and self.rounds >= rule.drop_after
        )


def check_limits(points: Iterable[PointRecord], run: RunRecord) -> tuple[LimitCheck, ...]:
    """Hold one candidate's valid points of the race against each limit, at each concurrency."""
    valid = [point for point in points if point.status == "ok" and point.round > run.search_rounds]
    return tuple(
        _check(limit, concurrency, [one for one in valid if one.concurrency == concurrency])
        for limit in run.rule.limits
        for concurrency in limit.concurrency or run.concurrencies
    )


def over_limit(checks: Sequence[LimitCheck]) -> str | None:
    """Say which limit a candidate is over, the first of several; ``None`` if it's over none."""
    broken = [check for check in checks if check.kept is False and check.observed is not None]
    return _broken(broken[0]) if broken else None


def unknown_limit(checks: Sequence[LimitCheck]) -> str | None:
    """Say which limit can't be checked although points are valid; ``None`` if all can."""
    for check in checks:
        if check.kept is None:
            return f"{name_of(check)} isn't known, so that its limit can't be checked"
    return None


def name_of(check: LimitCheck) -> str:
    """Return what is limited where, e.g. ``latency_p99_s at concurrency 64``."""
    return f"{check.limit.figure} at concurrency {check.concurrency}"


def value_of(limit: Limit, value: float, *, digits: int = 3) -> str:
    """Return a limited figure with its unit: ``2.31 s``, or ``1.5%`` for a share."""
    if limit.figure == "error_rate":
        return f"{100 * value:.{digits}g}%"
    return f"{value:.{digits}g} s"


def _check(limit: Limit, concurrency: int, points: Sequence[PointRecord]) -> LimitCheck:
    each = [value for point in points if (value := limited_figure(limit, point)) is not None]
    observed = _observed(limit, points, each)
    return LimitCheck(
        limit=limit,
        concurrency=concurrency,
        observed=observed,
        rounds=len(each),
        kept=None if observed is None else observed <= limit.at_most,
        every_round_over=bool(each) and all(value > limit.at_most for value in each),
    )


def _observed(limit: Limit, points: Sequence[PointRecord], each: Sequence[float]) -> float | None:
    if not each:
        return None
    if limit.figure != "error_rate":
        return fmean(each)
    counted = [point for point in points if limited_figure(limit, point) is not None]
    sent = sum(point.requests_sent or 0 for point in counted)
    return (sent - sum(point.requests_ok or 0 for point in counted)) / sent


def _broken(check: LimitCheck) -> str:
    observed, at_most = check.observed or 0.0, check.limit.at_most
    # As many digits as it takes to see that one is above the other.
    texts = [
        (value_of(check.limit, observed, digits=n), value_of(check.limit, at_most, digits=n))
        for n in range(3, 18)
    ]
    seen, allowed = next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
    return (
        f"{name_of(check)} is {seen}, above the limit of {allowed} (mean of {check.rounds} "
        f"round{'s' if check.rounds != 1 else ''})"
    )


def over_limits(point: PointRecord, rule: Rule) -> dict[str, float | None]:
    """Return how far a point is above each limit that holds at its concurrency.

    The keys read ``ttft_p99_s at concurrency 16``. Zero or less keeps to the limit, in its unit
    (seconds, or a share for ``error_rate``); ``None`` says that the figure isn't known.
    """
    over: dict[str, float | None] = {}
    for limit in rule.limits:
        if not limit.concurrency or point.concurrency in limit.concurrency:
            observed = limited_figure(limit, point)
            key = f"{limit.figure} at concurrency {point.concurrency}"
            over[key] = None if observed is None else observed - limit.at_most
    return over


def limited_figure(limit: Limit, point: PointRecord) -> float | None:
    """Return what a limit looks at in a point, ``None`` where it isn't known."""
    if limit.figure == "error_rate":
        if not point.requests_sent or point.requests_ok is None:
            return None
        return (point.requests_sent - point.requests_ok) / point.requests_sent
    if point.figures is None:
        return None
    # ttft_p99_s is the part p99 of the distribution ttft_s.
    name, part, unit = limit.figure.split("_")
    value: float | None = getattr(getattr(point.figures, f"{name}_{unit}"), part)
    return value
