"""One server process: start it with its log in a file, see whether it lives, end it for good.

Only process groups that we started are ever signalled, and never by name. The server hangs on
a supervisor's leash (`supervisor.py`), so that it doesn't outlive us even if we are killed.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from autotune.engines import supervisor
from autotune.engines.base import LOG_BYTES, Command
from autotune.errors import EngineError

# The supervisor ends the group within its own timeout; beyond that plus this, it is killed.
_SUPERVISOR_SLACK_S = 10.0


def free_ports(count: int) -> tuple[int, ...]:
    """Return different TCP ports that nobody listens on right now, on any address of ours."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("", 0))
        return tuple(int(probe.getsockname()[1]) for probe in probes)


class ServerProcess:
    """A running server; use it as a context manager, which ends it whatever happens."""

    def __init__(self, command: Command, *, log_file: Path, stop_timeout_s: float) -> None:
        """Start the server; its output goes to ``log_file``.

        Raises:
            EngineError: the log can't be written or the supervisor can't be started.
        """
        self._stop_timeout_s = stop_timeout_s
        self._log_file = log_file
        argv = [sys.executable, "-I", "-S", supervisor.__file__, str(stop_timeout_s)]
        try:
            log_file.parent.mkdir(parents=True, exist_ok=True)
            with log_file.open("wb") as log:
                self._supervisor = subprocess.Popen(
                    [*argv, *command.argv],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **command.environment},
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            raise EngineError(f"{log_file}: can't launch the server: {error}") from error
        self.started_at = time.monotonic()

    @property
    def exit_code(self) -> int | None:
        """The server's exit code, ``None`` while it runs; 128 + N if signal N ended it."""
        return self._supervisor.poll()

    def log(self) -> str:
        """The last 4 MiB of the server's output."""
        with self._log_file.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LOG_BYTES))
            return file.read().decode("utf-8", errors="replace")

    def stop(self) -> None:
        """End the server and all that it started: SIGTERM, then SIGKILL after the timeout."""
        leash = self._supervisor.stdin
        if leash is not None:
            with contextlib.suppress(OSError):
                leash.close()
        try:
            self._supervisor.wait(self._stop_timeout_s + _SUPERVISOR_SLACK_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def tail(log: str, lines: int = 30) -> tuple[str, ...]:
    """Return a log's last lines, safe to print: no control characters, 300 characters each.

    A progress bar's overwritten states are dropped.
    """
    shown = (line.rstrip("\r").rsplit("\r", 1)[-1] for line in log.split("\n"))
    clean = ("".join(c if c.isprintable() else " " for c in line)[:300] for line in shown)
    return tuple([line for line in clean if line.strip()][-lines:])
