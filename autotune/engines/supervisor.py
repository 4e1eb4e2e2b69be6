"""Keep one server process group on a leash: it ends when its owner does, however that dies.

Run as a program, by file name and with the standard library alone::

    python supervisor.py STOP_TIMEOUT_S COMMAND [ARGUMENT ...]

Standard input is the leash: when the owner closes it (or is killed, even by SIGKILL) the
server's process group gets SIGTERM, and what is left after the timeout SIGKILL. Processes that
left the group (a daemon that forks twice) come back to us as the subreaper and are ended too.
Nothing else is ever signalled. The exit code is the server's own, 128 + N for signal N.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.05
_LEASH = 0


def main(arguments: list[str]) -> int:
    """Run the command until it exits or the leash is let go; return the exit code."""
    stop_timeout_s, command = float(arguments[0]), arguments[1:]
    _adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_us
        )
    except OSError as error:
        print(f"can't start {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        return 127
    try:
        _wait(server)
    finally:
        _end_group(server, stop_timeout_s)
    code = server.returncode
    return 128 - code if code < 0 else code


def _adopt_orphans() -> None:
    # Linux only; elsewhere a process that leaves the group is out of reach.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _die_with_us() -> None:
    """In the server: if the supervisor itself is killed, the server is too."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _wait(server: "subprocess.Popen[bytes]") -> None:
    while server.poll() is None:
        readable, _, _ = select.select([_LEASH], [], [], _POLL_S)
        if readable and not os.read(_LEASH, 1):
            return


def _end_group(server: "subprocess.Popen[bytes]", stop_timeout_s: float) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    deadline = time.monotonic() + stop_timeout_s
    _signal_all(server, signal.SIGTERM)
    while _anyone_left(server) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    for _ in range(100):
        if not _anyone_left(server):
            break
        _signal_all(server, signal.SIGKILL)
        time.sleep(_POLL_S)
    server.wait()


def _signal_all(server: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, number)
    for child in _children():
        # The server has it from its group already; a second SIGTERM means "now" to some.
        if child != server.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, number)


def _anyone_left(server: "subprocess.Popen[bytes]") -> bool:
    server.poll()
    for child in _children():
        if child != server.pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
    if _children():
        return True
    try:
        os.killpg(server.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _children() -> list[int]:
    """Our own direct children: the server, and its orphans that we adopted."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
