"""Worker processes as a test sees them: found by what they write to, signalled, waited for."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil


def worker_pid(log: Path) -> int:
    """The process that leads the group of those that write into ``log``."""
    found = [pid for pid in _writing_into(log) if os.getpgid(pid) == pid]
    assert len(found) == 1, f"{log}: {found} write into it"
    return found[0]


def send(log: Path, number: signal.Signals) -> None:
    """Send a signal to the worker that writes into ``log``, and wait until it has got it."""
    process = psutil.Process(worker_pid(log))
    process.send_signal(number)
    if number == signal.SIGSTOP:
        _until(lambda: process.status() == psutil.STATUS_STOPPED)
    else:
        _until(lambda: not _alive(process))


def wait_until_nobody_writes_into(logs: Path, *, within_s: float) -> None:
    """Wait until no process has a file below ``logs`` open."""
    _until(lambda: not list(_writing_into(logs)), within_s=within_s)


def _writing_into(place: Path) -> Iterator[int]:
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            target = Path(os.readlink(f"/proc/{process.pid}/fd/1"))
            if target.is_relative_to(place.resolve()) and _alive(process):
                yield process.pid


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _until(condition: Callable[[], bool], *, within_s: float = 10.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
