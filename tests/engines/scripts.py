"""Tiny server programs, run with this interpreter, and what is needed to watch them."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from autotune.engines.base import Command
from autotune.engines.process import ServerProcess

# Far beyond what any of this takes, so that only a thing that never comes fails a test.
DEADLINE_S = 30.0
MODEL = "tiny"


def python(code: str, *arguments: str, **environment: str) -> Command:
    """The command that runs a piece of Python, with unbuffered output."""
    argv = (sys.executable, "-I", "-u", "-c", code, *arguments)
    return Command(argv=argv, environment=environment, model=MODEL)


def start(command: Command, folder: Path, *, stop_timeout_s: float = 5.0) -> ServerProcess:
    """Start a command with its log in ``folder``."""
    return ServerProcess(command, log_file=folder / "server.log", stop_timeout_s=stop_timeout_s)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until ``condition`` holds; fail with ``what`` if it never does."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


def wait_for_exit(server: ServerProcess) -> int:
    """Wait for the server's own end and return its exit code."""
    wait_for(lambda: server.exit_code is not None, "the server exits")
    code = server.exit_code
    assert code is not None
    return code


def wait_for_pid(file: Path) -> int:
    """Wait until a script has written its process id to ``file``."""
    wait_for(lambda: file.is_file() and file.read_text().endswith("\n"), f"{file.name} is written")
    return int(file.read_text())


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and wasn't waited for doesn't."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
