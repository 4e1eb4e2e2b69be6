"""A layer sweep, top-down: find the device, ask the oracle, check every backend, time them in turn.

Blocks of calls are interleaved over the backends in random order, so that whatever else the
machine does meets all alike. A backend that fails is a row; the sweep goes on.
"""

import datetime
import os
import random
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from autotune.engines.base import Support
from autotune.environment import read_environment
from autotune.errors import EngineError, RunFolderError, UsageError
from autotune.kernels.backends.protocol import Backend, Calibration, Device, Problem
from autotune.kernels.folder import KernelFolder
from autotune.kernels.messages import (
    Answer,
    Answered,
    BeOracle,
    Check,
    Checked,
    Failed,
    FindDevice,
    Found,
    Prepare,
    Ready,
    Request,
    Response,
    Time,
    Timed,
)
from autotune.kernels.pool import WorkerProcess
from autotune.kernels.registry import BACKENDS, find_backend
from autotune.kernels.schema import FEWEST_ROUNDS, Block, KernelConfig, KernelPoint, KernelRun
from autotune.kernels.work import Work
from autotune.records.writer import only_writer

_ORACLE = "oracle"
Tell = Callable[[str], None]


def run_kernels(
    config: KernelConfig, folder: KernelFolder, *, device: str, tell: Tell
) -> KernelRun:
    """Measure what ``config`` asks for; points that are already in ``folder`` are kept.

    Args:
        config: the sweep; without backends, all there are.
        folder: where records go.
        device: ``auto``, ``cpu`` or ``cuda``.
        tell: hears a line about each step.

    Raises:
        UsageError: an unknown backend, or a device that isn't there.
        RunFolderError: the folder holds something else, can't be written, or is in use.
        EngineError: no process with torch can be started.
    """
    names = config.backends or tuple(backend.name for backend in BACKENDS)
    config = msgspec.structs.replace(config, backends=names)
    backends = [find_backend(name) for name in names]
    folder.check_own()
    with ExitStack() as stack:
        stack.enter_context(only_writer(folder.path))
        sweep = _Sweep(config, folder, backends, tell=tell)
        stack.callback(sweep.end)
        return sweep.run(device)


class _Sweep:
    """What a layer sweep holds while it runs: the worker processes."""

    def __init__(
        self, config: KernelConfig, folder: KernelFolder, backends: list[Backend], *, tell: Tell
    ) -> None:
        self._config = config
        self._folder = folder
        self._backends = {backend.name: backend for backend in backends}
        self._tell = tell
        self._workers: dict[str, WorkerProcess] = {}
        self._problem: Problem
        self._calibration: Calibration

    def end(self) -> None:
        """End every worker."""
        for worker in self._workers.values():
            worker.end()

    def run(self, device_asked: str) -> KernelRun:
        device = self._find_device(device_asked)
        scheme = self._config.scheme
        self._problem = Problem(spec=self._config.layer, scheme=scheme, device=device)
        self._check_folder(device)
        unfinished = self._unfinished()
        supported = self._record_unsupported(unfinished)
        self._tell(
            f"{device.name} ({device.arch}): {len(supported)} of {len(self._backends)} backends "
            "can run"
        )
        run = KernelRun(config=self._config, device=device, started_at=_now())
        if not supported:
            return self._begun(run)
        oracle = self._ask({_ORACLE: BeOracle(config=self._config, problem=self._problem)})
        ready = oracle[_ORACLE]
        if isinstance(ready, Ready) and ready.calibration is not None:
            self._calibration = ready.calibration
            run = msgspec.structs.replace(
                run,
                roof=ready.roof,
                calibration=ready.calibration,
                empty_call_s=ready.empty_call_s,
            )
        run = self._begun(run)
        for tokens in unfinished:
            if isinstance(ready, Failed):
                self._record_failures(dict.fromkeys(supported, ready), tokens)
            else:
                self._measure(supported, tokens)
        return run

    def _begun(self, run: KernelRun) -> KernelRun:
        """Write what the run is about, unless an earlier start did; return what is there."""
        if not self._folder.exists():
            self._folder.write_environment(read_environment(os.environ))
            # Last: a folder with it has the other one.
            self._folder.write_run(run)
        return self._folder.read_run()

    def _find_device(self, asked: str) -> Device:
        response = self._ask({_ORACLE: FindDevice(asked=asked)})[_ORACLE]
        if isinstance(response, Found):
            return response.device
        failed = _as_failure(response)
        if failed.status == "unsupported":
            raise UsageError(failed.reason)
        raise EngineError(
            f"no process that computes can be started: {failed.reason}: install autotune with its "
            "cpu or gpu extra"
        )

    def _check_folder(self, device: Device) -> None:
        if not self._folder.exists():
            return
        earlier = self._folder.read_run()
        if earlier.config != self._config or earlier.device != device:
            raise RunFolderError(
                f"{self._folder.path}: holds another layer sweep; changed: "
                f"{', '.join(_changed(earlier, self._config, device))}. Change them back, or name "
                "a new folder with --run"
            )

    def _unfinished(self) -> list[int]:
        """The batches that lack a point: those are measured whole, since blocks are interleaved."""
        there = {(point.backend, point.tokens) for point in self._folder.points()}
        return [
            tokens
            for tokens in self._config.tokens
            if any((name, tokens) not in there for name in self._backends)
        ]

    def _record_unsupported(self, unfinished: Iterable[int]) -> list[str]:
        layer, supported = self._config.layer, []
        unroutable = layer.routing.problem(layer.geometry)
        for name, backend in self._backends.items():
            support = (
                backend.supports(self._problem)
                if unroutable is None
                else Support(False, f"no token can be routed: {unroutable}")
            )
            if support.ok:
                supported.append(name)
                continue
            failure = Failed(status="unsupported", reason=support.reason)
            for tokens in unfinished:
                self._record_failures({name: failure}, tokens)
        return supported

    def _measure(self, supported: list[str], tokens: int) -> None:
        """Check all backends at one batch, then time them."""
        names, failures = self._prepare_missing(supported)
        path = str(self._folder.oracle_file(tokens))
        answered = self._ask({_ORACLE: Answer(tokens=tokens, path=path)})[_ORACLE]
        if not isinstance(answered, Answered):
            failed = _as_failure(answered)
            reason = f"the oracle: {failed.reason}"
            whole = Failed(status=failed.status, reason=reason)
            self._record_failures(failures | dict.fromkeys(names, whole), tokens)
            return
        responses = self._ask({name: Check(tokens=tokens, path=path) for name in names})
        Path(path).unlink(missing_ok=True)
        checked = {n: r for n, r in responses.items() if isinstance(r, Checked)}
        failures |= {n: _as_failure(r) for n, r in responses.items() if n not in checked}
        blocks, broken = self._time(list(checked), tokens)
        failures |= broken
        self._record_failures(failures, tokens)
        for name, response in checked.items():
            if name not in failures:
                self._record(name, tokens, response, answered.work, blocks[name])
        self._tell(_told(tokens, blocks, failures, checked))

    def _prepare_missing(self, supported: list[str]) -> tuple[list[str], dict[str, Failed]]:
        """Give each backend without a living worker one; return who is ready, and who isn't."""
        # Where not all find room, those that only emulate are left out.
        missing = sorted(
            (name for name in supported if name not in self._workers),
            key=lambda name: self._backends[name].emulates(self._config.scheme),
        )
        if missing:
            self._tell(f"preparing {', '.join(missing)}")
        responses = self._ask(
            {
                name: Prepare(
                    config=self._config,
                    problem=self._problem,
                    calibration=self._calibration,
                    backend=name,
                )
                for name in missing
            }
        )
        failures = {n: _as_failure(r) for n, r in responses.items() if not isinstance(r, Ready)}
        for name in failures:
            self._drop(name)
        return [name for name in supported if name not in failures], failures

    def _time(
        self, names: list[str], tokens: int
    ) -> tuple[dict[str, list[Block]], dict[str, Failed]]:
        """Time blocks of the backends in turn, each round in another order.

        Time that runs out ends the rounds for all alike.
        """
        begun = time.monotonic()
        shuffled = random.Random(f"{self._config.seed}/{tokens}")
        blocks: dict[str, list[Block]] = {name: [] for name in names}
        failures: dict[str, Failed] = {}
        for number in range(self._config.rounds):
            if number >= FEWEST_ROUNDS and time.monotonic() - begun > self._config.batch_s:
                break
            order = [name for name in names if name not in failures]
            shuffled.shuffle(order)
            for position, name in enumerate(order):
                response = self._ask({name: Time()})[name]
                if isinstance(response, Timed):
                    blocks[name].append(Block(number, position, response.times_s))
                else:
                    failures[name] = _as_failure(response)
        return blocks, failures

    def _ask(self, requests: dict[str, Request]) -> dict[str, Response]:
        """Ask some workers, starting those that aren't there.

        On a CPU all compute at once (nothing is timed meanwhile); on a GPU one after another,
        since what each needs for a while may not fit twice.
        """
        at_once = len(requests) > 1 and self._problem.device.kind == "cpu"
        for name in requests:
            self._start(name)
        if at_once:
            for name, request in requests.items():
                self._workers[name].begin(request)
            responses = {name: self._workers[name].answer() for name in requests}
        else:
            responses = {name: self._workers[name].ask(one) for name, one in requests.items()}
        for name, response in responses.items():
            if isinstance(response, Failed) and response.status in ("stalled", "crashed"):
                self._drop(name)
        return responses

    def _start(self, name: str) -> None:
        if name not in self._workers:
            self._workers[name] = WorkerProcess(
                self._folder.log_file(name), timeout_s=self._config.timeout_s
            )

    def _drop(self, name: str) -> None:
        worker = self._workers.pop(name, None)
        if worker is not None:
            worker.end()

    def _record_failures(self, failures: dict[str, Failed], tokens: int) -> None:
        for name, failure in failures.items():
            backend = self._backends[name]
            self._folder.write_point(
                KernelPoint(
                    backend=name,
                    tokens=tokens,
                    status=failure.status,
                    reason=failure.reason,
                    stands_for=backend.stands_for,
                    routes=backend.routes,
                    emulated=backend.emulates(self._config.scheme),
                )
            )

    def _record(
        self, name: str, tokens: int, checked: Checked, work: Work, blocks: list[Block]
    ) -> None:
        backend = self._backends[name]
        problem = checked.numerics.problem
        self._folder.write_point(
            KernelPoint(
                backend=name,
                tokens=tokens,
                status="ok" if problem is None else "wrong",
                reason=problem or "",
                stands_for=backend.stands_for,
                routes=backend.routes,
                emulated=backend.emulates(self._config.scheme),
                graph=checked.graph,
                work=work,
                numerics=checked.numerics,
                first_call_s=checked.first_call_s,
                blocks=tuple(blocks),
            )
        )


def _changed(earlier: KernelRun, config: KernelConfig, device: Device) -> list[str]:
    """Which of a config's keys differ from an earlier one's, and whether the device does."""
    names = [
        field
        for field in config.__struct_fields__
        if getattr(config, field) != getattr(earlier.config, field)
    ]
    return names + (["device"] if device != earlier.device else [])


def _as_failure(response: Response) -> Failed:
    if isinstance(response, Failed):
        return response
    return Failed(status="failed", reason=f"an unexpected answer: {type(response).__name__}")


def _told(
    tokens: int,
    blocks: dict[str, list[Block]],
    failures: dict[str, Failed],
    checked: dict[str, Checked],
) -> str:
    timed = len(blocks) - len(failures.keys() & blocks.keys())
    text = f"{tokens} tokens: {timed} timed"
    wrong = [n for n, c in checked.items() if c.numerics.problem and n not in failures]
    if wrong:
        text += f", of which wrong: {', '.join(wrong)}"
    if failures:
        text += f"; failed: {', '.join(f'{n} ({f.status})' for n, f in failures.items())}"
    return text


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()
