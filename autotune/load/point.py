"""Measure one point: warm up, drain, measure, judge."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from autotune.errors import UsageError
from autotune.load.client import (
    ClosedLoopRun,
    Endpoint,
    Progress,
    open_session,
    run_closed_loop,
)
from autotune.load.judge import PointVerdict, judge_point
from autotune.load.metrics import figures
from autotune.load.steady import measuring_window
from autotune.load.stream import Answer
from autotune.load.workload import Prompt
from autotune.records.schema import (
    MeasurementWarning,
    PointFigures,
    PointStatus,
    RequestRecord,
)

BUSY = 0.8


class PointMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """One measured point; the caller adds whose it is.

    ``requests`` are those of the measured run and of its tail, ``tail`` the latter's answers, in
    their prompts' order. ``interrupted`` means that ``stop`` was set: the point says nothing and
    isn't to be recorded.
    """

    requests: list[RequestRecord]
    tail: list[Answer] = []
    figures: PointFigures | None
    status: PointStatus
    reason: str | None = None
    warnings: tuple[MeasurementWarning, ...] = ()
    interrupted: bool = False


async def measure_point(
    endpoint: Endpoint,
    warmup_prompts: Sequence[Prompt],
    prompts: Sequence[Prompt],
    *,
    concurrency: int,
    max_tokens: int,
    tail: Sequence[Prompt] = (),
    asked_input_tokens: int | None = None,
    asked_output_tokens: int | None = None,
    request_timeout_s: float = 600.0,
    stall_timeout_s: float | None = None,
    max_error_rate: float = 0.01,
    stop: asyncio.Event | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_measuring: Callable[[], None] | None = None,
) -> PointMeasurement:
    """Measure one concurrency of a running server, once.

    The warm-up runs at the same concurrency and shape, is waited for to its end and is
    discarded; so the measured run starts at an empty, warm server over open connections. A point
    that comes out ``not_steady`` is the caller's to measure again.

    Args:
        endpoint: whom to ask, and how.
        warmup_prompts: at least ``concurrency``, others than the measured ones.
        prompts: at least twice ``concurrency``, best a multiple of it.
        concurrency: requests in flight.
        max_tokens: output tokens asked of each request.
        tail: what is asked after the measured ones, in the same loop: the window has ended by
            then, so that it enters no figure. Its prompts' roles aren't ``measured``.
        asked_input_tokens: length of every prompt, to be checked against the server's count; not
            checked on a chat endpoint, whose template adds tokens.
        asked_output_tokens: length that every answer must have; usually ``max_tokens``.
        request_timeout_s: limit of each request, in seconds.
        stall_timeout_s: longest silence of the whole server, in seconds.
        max_error_rate: share of failed requests up to which the point stands.
        stop: set it from elsewhere to end early.
        on_progress: called after each measured request: keep it short.
        on_measuring: called once, when the warm-up is over and no measured request is sent yet.

    Raises:
        UsageError: too few prompts for this concurrency.
    """
    _check_counts(len(warmup_prompts), len(prompts), concurrency)

    async def run(
        some: Sequence[Prompt], report: Callable[[Progress], None] | None
    ) -> ClosedLoopRun:
        return await run_closed_loop(
            endpoint,
            some,
            concurrency=concurrency,
            max_tokens=max_tokens,
            request_timeout_s=request_timeout_s,
            stall_timeout_s=stall_timeout_s,
            stop=stop,
            on_progress=report,
            session=session,
        )

    async with open_session(endpoint, concurrency=concurrency) as session:
        warmed = await run(warmup_prompts, None)
        if warmed.stopped is not None:
            return _ended_in_warmup(warmed, concurrency, interrupted=_is_set(stop))
        if on_measuring is not None:
            on_measuring()
        done = await run([*prompts, *tail], on_progress)
    requests = [answer.record for answer in done.answers()]
    if _is_set(stop) and done.not_sent:
        return PointMeasurement(
            requests=requests,
            figures=None,
            status="request_errors",
            reason=done.stopped,
            interrupted=True,
        )
    measured = [request for request in requests if request.role == "measured"]
    window = measuring_window(measured)
    found = figures(requests, concurrency=concurrency, window=window)
    verdict = judge_point(
        requests,
        found,
        concurrency=concurrency,
        asked_input_tokens=asked_input_tokens if endpoint.kind == "completions" else None,
        asked_output_tokens=asked_output_tokens,
        max_error_rate=max_error_rate,
        not_sent=done.not_sent,
        window=window,
    )
    return PointMeasurement(
        requests=requests,
        # A run that was cut short says nothing of what it didn't ask.
        tail=[] if done.not_sent else done.answers_to([*prompts, *tail])[len(prompts) :],
        figures=found,
        status=verdict.status,
        reason=verdict.reason,
        warnings=(*verdict.warnings, *_warn_of_client(done)),
    )


def _ended_in_warmup(
    warmup: ClosedLoopRun, concurrency: int, *, interrupted: bool
) -> PointMeasurement:
    """Nothing was measured: say what ended the warm-up."""
    records = [answer.record for answer in warmup.answers()]
    verdict: PointVerdict = judge_point(
        records, None, concurrency=concurrency, not_sent=max(1, warmup.not_sent)
    )
    return PointMeasurement(
        requests=[],
        figures=None,
        status=verdict.status,
        reason=f"in the warm-up: {warmup.stopped}",
        interrupted=interrupted,
    )


def _check_counts(warmups: int, measured: int, concurrency: int) -> None:
    if concurrency < 1 or warmups < concurrency or measured < 2 * concurrency:
        raise UsageError(
            f"concurrency {concurrency} with {warmups} warm-up and {measured} measured prompts "
            f"can't be measured: give at least {max(1, concurrency)} and {2 * max(1, concurrency)}"
        )


def _is_set(stop: asyncio.Event | None) -> bool:
    return stop is not None and stop.is_set()


def _warn_of_client(run: ClosedLoopRun) -> list[MeasurementWarning]:
    if run.busy <= BUSY:
        return []
    return [
        MeasurementWarning(
            code="client_busy",
            observed=f"the client used {run.busy:.0%} of a core while measuring",
            threshold=f"{BUSY:.0%}",
            remedy="run the client on a core or machine of its own: its waiting counts as TTFT",
        )
    ]
