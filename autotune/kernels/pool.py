"""Worker processes as the sweep sees them: started, asked, waited for, ended.

What goes wrong with a process (it dies, it hangs) comes back as a `Failed`, never as an exception.
Each worker leads a process group of its own, and only that is ever killed.
"""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec

from autotune.kernels import entry
from autotune.kernels.messages import Failed, Request, Response

_END_S = 2.0
_LARGEST_LOG = 2**20
_TELLING_LINES = 3


def _context() -> ForkServerContext:
    """A server that has torch and its compiler loaded, and forks a worker in milliseconds.

    It touches no device, so that each worker may.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["autotune.kernels.worker", "torch._inductor.compile_fx"])
    return context


class WorkerProcess:
    """One worker process.

    Args:
        log: where what it prints goes.
        timeout_s: how long it may take for one request.
    """

    def __init__(self, log: Path, *, timeout_s: float) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._timeout_s = timeout_s
        context = _context()
        self._connection: Connection
        self._connection, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(
            target=entry.serve, args=(theirs, str(log)), daemon=True
        )
        self._process.start()
        self._ended = False
        theirs.close()

    def ask(self, request: Request) -> Response:
        """Ask and wait for the answer."""
        self.begin(request)
        return self.answer()

    def begin(self, request: Request) -> None:
        """Ask; the answer is waited for with `answer`."""
        # A worker that is gone is told of by the answer.
        with contextlib.suppress(OSError):
            self._connection.send_bytes(msgspec.json.encode(request))

    def answer(self) -> Response:
        """Wait for the answer to what was asked last.

        After a `Failed` of status ``stalled`` or ``crashed`` the worker is gone.
        """
        try:
            if not self._connection.poll(self._timeout_s):
                self.end()
                return Failed(
                    status="stalled",
                    reason=f"no answer within {self._timeout_s:g} s; see {self._log.name}",
                )
            return msgspec.json.decode(self._connection.recv_bytes(), type=Response)
        except (EOFError, OSError):
            return self._gone()

    def end(self) -> None:
        """End the worker and whatever it started."""
        if self._ended or self._process.pid is None:
            return
        self._ended = True
        self._connection.close()
        self._process.join(_END_S)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._process.is_alive():
                break
            _signal_group(self._process.pid, number)
            self._process.join(_END_S)
        _signal_group(self._process.pid, signal.SIGKILL)
        self._process.close()

    def _gone(self) -> Failed:
        """Say how the process ended, and the last that it said."""
        self._process.join(_END_S)
        code = self._process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = signal.Signals(-code).name
            if -code == signal.SIGKILL:
                how += " (out of memory?)"
        tail = " / ".join(_last_lines(self._log))
        self.end()
        return Failed(
            status="crashed", reason=f"the process ended: {how}" + (f": {tail}" if tail else "")
        )


def end_all(workers: Sequence[WorkerProcess]) -> None:
    """End every worker."""
    for worker in workers:
        worker.end()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _last_lines(log: Path) -> list[str]:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LARGEST_LOG))
        text = file.read().decode("utf-8", errors="replace")
        return [line.strip()[:200] for line in text.splitlines() if line.strip()][-_TELLING_LINES:]
    return []
