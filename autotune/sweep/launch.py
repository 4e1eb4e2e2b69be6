"""One launch: start the candidate's server, probe it, load it, end it, and record each step.

Whatever the server does wrong becomes a record with a status and a reason. Only the user, the
disk and our own errors leave here as exceptions; the server is ended in any case.
"""

import datetime
import shutil
from pathlib import Path
from typing import Any, Literal

import msgspec

from autotune.decisions.request import AUTO
from autotune.decisions.resolution import one_line
from autotune.engines.base import Command, Failure
from autotune.engines.process import ServerProcess, free_ports, tail
from autotune.engines.readiness import NotReady, wait_until_ready
from autotune.errors import EngineError
from autotune.load.client import Endpoint
from autotune.load.point import PointMeasurement, measure_point
from autotune.load.requests_table import write_requests
from autotune.records.schema import LaunchRecord, LaunchStatus, MeasurementWarning, PointRecord
from autotune.sweep.context import SweepContext
from autotune.sweep.correctness import Correctness
from autotune.sweep.plan import PlannedLaunch
from autotune.sweep.progress import (
    Gauge,
    PhaseBegan,
    PointEnded,
    ServerReady,
    Tell,
    telling,
)
from autotune.sweep.workloads import PointPrompts, point_prompts

_SERVER_GONE = "the server had ended before this point"


def now() -> str:
    """The time as ISO 8601 in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class Launch:
    """One planned launch being carried out."""

    def __init__(
        self,
        context: SweepContext,
        planned: PlannedLaunch,
        *,
        workload_digest: str | None,
        tell: Tell,
    ) -> None:
        self._context = context
        self._planned = planned
        self._candidate = planned.candidate
        self._workload_digest = workload_digest
        self._tell = tell
        self._started_at = now()

    async def run(self) -> LaunchRecord:
        """Carry the launch out and return its record, which is on disk by then."""
        support = self._context.supports(self._candidate)
        if support.ok:
            record = await self._serve()
        else:
            record = self._record("unsupported", reason=support.reason)
        self._context.folder.write_launch(record)
        return record

    async def _serve(self) -> LaunchRecord:
        context, candidate = self._context, self._candidate
        port, meeting_port = free_ports(2)
        site = context.site(
            candidate, port=port, round_number=self._planned.round, meeting_port=meeting_port
        )
        command = context.engine.command(candidate, config=context.config, site=site)
        if not context.config.engine.share_kernel_tuning:
            # An interrupted launch of this round may have left what it found.
            shutil.rmtree(site.tuned, ignore_errors=True)
        context.engine.prepare(candidate, config=context.config, site=site)
        log_file = context.folder.log_file(candidate.name, self._planned.round)
        _keep_earlier_log(log_file)
        timeout_s = context.config.engine.ready_timeout_s
        stop_timeout_s = context.config.engine.stop_timeout_s
        self._tell(PhaseBegan(phase="starting", limit_s=timeout_s))
        server = ServerProcess(command, log_file=log_file, stop_timeout_s=stop_timeout_s)
        with server:
            base_url = f"http://127.0.0.1:{port}"
            try:
                ready_s = await wait_until_ready(
                    server, command, base_url=base_url, timeout_s=timeout_s
                )
                return await self._measure(command, server, base_url=base_url, ready_s=ready_s)
            except NotReady as problem:
                return self._not_ready(problem, command, server)
            finally:
                self._tell(PhaseBegan(phase="stopping", limit_s=stop_timeout_s))

    async def _measure(
        self, command: Command, server: ServerProcess, *, base_url: str, ready_s: float
    ) -> LaunchRecord:
        facts: dict[str, Any] = {"command": command, "ready_s": ready_s}
        resolved = await self._context.engine.resolved_backend(base_url=base_url, log=server.log())
        if resolved is not None and self._candidate.backend not in (AUTO, resolved):
            reason = f"asked for {self._candidate.backend}, the engine runs {resolved}"
            return self._record("wrong_backend", reason=reason, resolved=resolved, **facts)
        self._tell(ServerReady(ready_s=ready_s))
        self._tell(PhaseBegan(phase="probing"))
        endpoint = Endpoint(
            base_url=base_url,
            model=command.model,
            kind=self._context.config.load.endpoint,
            ignore_eos=self._context.engine.traits.takes_ignore_eos,
        )
        correctness = Correctness(self._context, self._planned, endpoint, tell=self._tell)
        await correctness.ask()
        for concurrency in self._planned.concurrencies:
            await self._point(endpoint, server, correctness, concurrency)
        code = server.exit_code
        if code is not None:
            failure = self._failure(server.log(), "crashed", f"exit code {code} while serving")
            log_tail = tail(server.log())
            return self._record(
                failure.status, reason=failure.reason, log_tail=log_tail, resolved=resolved, **facts
            )
        return self._record("ok", resolved=resolved, **facts)

    async def _point(
        self,
        endpoint: Endpoint,
        server: ServerProcess,
        correctness: Correctness,
        concurrency: int,
    ) -> None:
        folder, planned = self._context.folder, self._planned
        name = self._candidate.name
        if folder.point_file(name, planned.round, concurrency).is_file():
            return
        if server.exit_code is not None:
            record = self._point_record(concurrency, started_at=now())
            record = msgspec.structs.replace(record, status="crashed", reason=_SERVER_GONE)
            folder.write_point(record)
            self._tell(_point_ended(record))
            return
        started_at = now()
        warnings = await self._flush_cache(endpoint)
        prompts, measured = await self._load(endpoint, concurrency, attempt=1)
        attempts = 1
        if measured.status == "not_steady":
            attempts = 2
            warnings = await self._flush_cache(endpoint)
            prompts, measured = await self._load(endpoint, concurrency, attempt=2)
        correctness.record_tail(prompts.tail, measured.tail, concurrency=concurrency)
        digest = write_requests(
            folder.requests_file(name, planned.round, concurrency), measured.requests
        )
        counted = [request for request in measured.requests if request.role == "measured"]
        record = msgspec.structs.replace(
            self._point_record(concurrency, started_at=started_at),
            status=measured.status,
            reason=measured.reason,
            attempts=attempts,
            requests_sent=len(counted),
            requests_ok=sum(request.outcome == "ok" for request in counted),
            figures=measured.figures,
            warnings=(*warnings, *measured.warnings),
            requests_sha256=digest,
        )
        folder.write_point(record)
        self._tell(_point_ended(record))

    async def _flush_cache(self, endpoint: Endpoint) -> tuple[MeasurementWarning, ...]:
        try:
            await self._context.engine.flush_cache(base_url=endpoint.base_url)
        except EngineError as error:
            warning = MeasurementWarning(
                code="cache_not_flushed",
                observed=one_line(str(error)),
                threshold="an empty prefix cache before each point",
                remedy="see the server's log; prompts are new at each point all the same",
            )
            return (warning,)
        return ()

    async def _load(
        self, endpoint: Endpoint, concurrency: int, *, attempt: int
    ) -> tuple[PointPrompts, PointMeasurement]:
        load = self._context.config.load
        prompts = point_prompts(
            self._context,
            round_number=self._planned.round,
            concurrency=concurrency,
            attempt=attempt,
        )
        phase = PhaseBegan(
            phase="warming_up",
            concurrency=concurrency,
            requests=len(prompts.warmup),
            attempt=attempt,
        )
        gauge = Gauge()

        def begin() -> None:
            requests = len(prompts.measured)
            self._tell(msgspec.structs.replace(phase, phase="measuring", requests=requests))
            gauge.begin()

        self._tell(phase)
        async with telling(
            gauge, self._tell, measured=len(prompts.measured), output_tokens=load.output_tokens
        ):
            measured = await measure_point(
                endpoint,
                prompts.warmup,
                prompts.measured,
                tail=prompts.tail.prompts,
                concurrency=concurrency,
                max_tokens=load.output_tokens,
                asked_input_tokens=None if load.prompts else load.input_tokens,
                asked_output_tokens=load.output_tokens,
                request_timeout_s=load.request_timeout_s,
                on_progress=gauge.set,
                on_measuring=begin,
            )
        return prompts, measured

    def _not_ready(
        self, problem: NotReady, command: Command, server: ServerProcess
    ) -> LaunchRecord:
        log = server.log()
        status: LaunchStatus = "ready_timeout" if problem.timed_out else "launch_failed"
        last = tail(log)
        reason = str(problem)
        if server.exit_code is not None and last:
            # What it died of is on its last line: "ValueError: ...".
            reason = f"{reason}: {last[-1]}"
        failure = self._failure(log, status, reason)
        return self._record(failure.status, reason=failure.reason, command=command, log_tail=last)

    def _failure(self, log: str, status: LaunchStatus, reason: str) -> Failure:
        return self._context.engine.read_failure(log) or Failure(status=status, reason=reason)

    def _tuning(self) -> Literal["own", "shared"] | None:
        if not self._context.engine.traits.tunes_kernels:
            return None
        return "shared" if self._context.config.engine.share_kernel_tuning else "own"

    def _point_record(self, concurrency: int, *, started_at: str) -> PointRecord:
        return PointRecord(
            candidate=self._candidate.name,
            round=self._planned.round,
            concurrency=concurrency,
            status="ok",
            started_at=started_at,
            workload_digest=self._workload_digest,
        )

    def _record(
        self,
        status: LaunchStatus,
        *,
        reason: str | None = None,
        command: Command | None = None,
        ready_s: float | None = None,
        resolved: str | None = None,
        log_tail: tuple[str, ...] = (),
    ) -> LaunchRecord:
        return LaunchRecord(
            candidate=self._candidate.name,
            round=self._planned.round,
            position=self._planned.position,
            status=status,
            reason=" ".join(tail(reason, 3)) if reason else None,
            command=command.argv if command else (),
            environment=command.environment if command else {},
            started_at=self._started_at,
            ended_at=now(),
            ready_s=ready_s,
            kernel_tuning=self._tuning() if command else None,
            resolved_backend=resolved,
            log_tail=log_tail,
        )


def _keep_earlier_log(log_file: Path) -> None:
    """Put an interrupted start's log aside: points that it measured are kept, so is its log."""
    if log_file.is_file():
        earlier = len(list(log_file.parent.glob("server.interrupted-*.log")))
        log_file.rename(log_file.with_name(f"server.interrupted-{earlier + 1}.log"))


def _point_ended(record: PointRecord) -> PointEnded:
    figures = record.figures
    return PointEnded(
        candidate=record.candidate,
        concurrency=record.concurrency,
        status=record.status,
        reason=record.reason,
        output_tokens_per_s=None if figures is None else figures.output_tokens_per_s,
        ttft_p50_s=None if figures is None else figures.ttft_s.p50,
        latency_p50_s=None if figures is None else figures.latency_s.p50,
        warnings=record.warnings,
    )
