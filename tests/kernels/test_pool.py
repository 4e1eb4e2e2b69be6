"""Real worker processes: asked, killed, stalled, and none left behind."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autotune.errors import UsageError
from autotune.kernels.backends.protocol import Calibration, Problem
from autotune.kernels.messages import (
    BeOracle,
    Check,
    Failed,
    FindDevice,
    Found,
    Prepare,
    Ready,
    Request,
    Time,
)
from autotune.kernels.pool import WorkerProcess, end_all
from autotune.kernels.registry import find_backend
from tests.kernels.processes import send, wait_until_nobody_writes_into, worker_pid
from tests.kernels.records import CPU_DEVICE, config

Start = Callable[..., WorkerProcess]


@pytest.fixture(scope="module", autouse=True)
def _server_is_warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first worker waits until torch is loaded; the timeouts below are of the others."""
    worker = WorkerProcess(tmp_path_factory.mktemp("warm") / "log", timeout_s=120)
    assert isinstance(worker.ask(FindDevice(asked="cpu")), Found)
    worker.end()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a worker that logs into the test's folder; all are ended."""
    workers: list[WorkerProcess] = []

    def started(name: str = "one", *, timeout_s: float = 60.0) -> WorkerProcess:
        workers.append(WorkerProcess(tmp_path / f"{name}.log", timeout_s=timeout_s))
        return workers[-1]

    yield started
    end_all(workers)
    wait_until_nobody_writes_into(tmp_path, within_s=5)


def test_a_worker_answers_again_and_again(start: Start) -> None:
    worker = start()
    first, second = (worker.ask(FindDevice(asked="cpu")) for _ in range(2))
    assert isinstance(first, Found) and first == second
    assert (first.device.kind, first.device.capability) == ("cpu", None)
    assert first.device.memory_bytes == psutil.virtual_memory().total


def test_workers_are_asked_at_once(start: Start) -> None:
    """Each answer comes from the one that was asked, whichever is read first."""
    workers = [start(name) for name in ("one", "two")]
    workers[0].begin(FindDevice(asked="cpu"))
    workers[1].begin(FindDevice(asked="cuda"))
    assert isinstance(workers[1].answer(), Failed | Found)
    assert isinstance(workers[0].answer(), Found)


def test_what_cannot_be_done_is_told_and_the_worker_goes_on(start: Start) -> None:
    worker = start()
    unprepared: list[Request] = [Time(), Check(tokens=1, path="nowhere")]
    for request in unprepared:
        told = worker.ask(request)
        assert isinstance(told, Failed) and "asked to" in told.reason
    assert isinstance(worker.ask(FindDevice(asked="cpu")), Found)


def test_an_unknown_backend_is_told_as_the_users_mistake(start: Start) -> None:
    with pytest.raises(UsageError, match="no such kernel backend: one of torch_eager"):
        find_backend("torch_lazy")
    asked = config()
    prepare = Prepare(
        config=asked,
        problem=Problem(spec=asked.layer, scheme="bf16", device=CPU_DEVICE),
        calibration=Calibration(tokens_amax=4.0, activated_amax=6.0),
        backend="torch_lazy",
    )
    told = start().ask(prepare)
    assert isinstance(told, Failed)
    assert told.status == "unsupported" and "torch_lazy" in told.reason


def test_a_library_that_raises_is_told_with_its_words_and_the_story_is_logged(
    start: Start, tmp_path: Path
) -> None:
    """A layer that routing can't be computed for: torch raises in the middle."""
    asked = config()
    spec = asked.layer
    broken = type(spec)(geometry=type(spec.geometry)(64, 32, 2, 8), routing=spec.routing)
    told = start().ask(
        BeOracle(
            config=type(asked)(layer=broken),
            problem=Problem(spec=broken, scheme="bf16", device=CPU_DEVICE),
        )
    )
    assert isinstance(told, Failed)
    assert told.status == "failed" and told.reason.startswith("RuntimeError: selected index k")
    assert "Traceback" in (tmp_path / "one.log").read_text()


def test_an_oracle_is_ready_with_what_a_run_records(start: Start) -> None:
    asked = config()
    problem = Problem(spec=asked.layer, scheme="nvfp4", device=CPU_DEVICE)
    ready = start().ask(BeOracle(config=asked, problem=problem))
    assert isinstance(ready, Ready)
    assert ready.calibration is not None and 4 < ready.calibration.tokens_amax < 12
    assert ready.roof is not None and ready.roof.flops_per_s > 1e8 < ready.roof.bytes_per_s
    assert ready.empty_call_s is not None and 0 < ready.empty_call_s < 1e-3


def test_a_killed_worker_is_told_with_how_it_ended(start: Start, tmp_path: Path) -> None:
    worker = start()
    worker.ask(FindDevice(asked="cpu"))
    with (tmp_path / "one.log").open("a") as log:
        log.write("first\n\nbefore the end\n")
    send(tmp_path / "one.log", signal.SIGKILL)
    told = worker.ask(FindDevice(asked="cpu"))
    assert told == Failed(
        status="crashed",
        reason="the process ended: SIGKILL (out of memory?): first / before the end",
    )


def test_a_worker_that_dies_at_work_is_told(start: Start, tmp_path: Path) -> None:
    """As a kernel's segmentation fault would end it: it was asked, and is waited for."""
    worker = start()
    worker.ask(FindDevice(asked="cpu"))
    send(tmp_path / "one.log", signal.SIGSTOP)
    worker.begin(FindDevice(asked="cpu"))
    os.kill(worker_pid(tmp_path / "one.log"), signal.SIGKILL)
    told = worker.answer()
    assert isinstance(told, Failed) and told.reason.startswith("the process ended: SIGKILL")


def test_a_stalled_worker_is_told_in_time_and_ended(start: Start, tmp_path: Path) -> None:
    worker = start(timeout_s=1.0)
    worker.ask(FindDevice(asked="cpu"))
    pid = worker_pid(tmp_path / "one.log")
    send(tmp_path / "one.log", signal.SIGSTOP)
    begun = time.monotonic()
    told = worker.ask(FindDevice(asked="cpu"))
    # The second for the answer, then two each for an end by itself and one by SIGTERM.
    assert time.monotonic() - begun < 10
    assert told == Failed(status="stalled", reason="no answer within 1 s; see one.log")
    assert not psutil.pid_exists(pid)


def test_a_worker_is_ended_twice_and_after_it_is_gone(start: Start, tmp_path: Path) -> None:
    worker = start()
    worker.ask(FindDevice(asked="cpu"))
    send(tmp_path / "one.log", signal.SIGKILL)
    worker.end()
    worker.end()


def test_a_worker_leads_a_group_of_its_own(start: Start, tmp_path: Path) -> None:
    """So that what ends it can't end the sweep."""
    start().ask(FindDevice(asked="cpu"))
    pid = worker_pid(tmp_path / "one.log")
    assert os.getpgid(pid) == pid != os.getpgid(0)
