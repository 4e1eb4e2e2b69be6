"""The live view on a real terminal: a sweep in a pty, to its end and interrupted."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.workbench import DEADLINE_S, Workbench, wait_for

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
VARIABLES = ("CI", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS")


class Terminal:
    """A sweep whose stderr is a terminal of 80 x 24; its stdout is a pipe."""

    def __init__(self, bench: Workbench, *arguments: str | Path) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {k: v for k, v in bench.environment.items() if k not in VARIABLES}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "autotune", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            cwd=bench.folder,
            env=environment | {"TERM": "xterm-256color", "PYTHONUTF8": "1"},
            # The terminal is theirs alone, so that Ctrl-C reaches all who have it.
            preexec_fn=lambda: _own_terminal(theirs),
        )
        os.close(theirs)
        self.shown = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def stop_and_continue(self) -> None:
        """As Ctrl-Z and ``fg`` do."""
        sweep = psutil.Process(self.process.pid)
        self.process.send_signal(signal.SIGTSTP)
        assert wait_for(lambda: sweep.status() == psutil.STATUS_STOPPED)
        assert wait_for(lambda: self.shown.count(SHOW) == 1)
        self.process.send_signal(signal.SIGCONT)
        assert wait_for(lambda: self.shown.count(HIDE) == 2)

    def end(self) -> str:
        """Wait for the sweep's end, and return what it wrote to stdout."""
        out, _ = self.process.communicate(timeout=DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return out

    def close(self) -> None:
        """Let go of a process that has ended, and of its terminal."""
        self.process.communicate()
        self._reader.join(DEADLINE_S)
        os.close(self._ours)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # EIO: nobody has the terminal open any more.
            while data := os.read(self._ours, 1 << 16):
                self.shown += data.decode(errors="replace")


@contextlib.contextmanager
def on_terminal(bench: Workbench, *arguments: str | Path) -> Iterator[Terminal]:
    terminal = Terminal(bench, *arguments)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.close()


def _own_terminal(descriptor: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)


def check_restored(shown: str) -> None:
    """The cursor is there, and nothing of the view is drawn after it."""
    assert shown.count(HIDE) == shown.count(SHOW) > 0
    assert "━" not in shown[shown.rindex(SHOW) :] and "─" not in shown[shown.rindex(SHOW) :]


def test_a_view_to_the_end_and_json_alone_on_stdout(bench: Workbench) -> None:
    config = bench.config(["good", "dies_at_start"], rounds=1, concurrency=[4])
    with on_terminal(bench, "sweep", config, "--run", bench.folder / "run", "--json") as terminal:
        assert wait_for(lambda: "probing its answers" in terminal.shown)
        terminal.stop_and_continue()
        terminal.resize(30, 120)
        out = terminal.end()
    assert terminal.process.returncode == 3, terminal.shown
    assert json.loads(out)["judgement"]["choice"] == "good"
    check_restored(terminal.shown)
    # A frame is drawn a few times a second, so it may miss what is short; lines never do.
    for words in (
        " of 3 launches",
        "[2/3] round 1 ",
        "    concurrency 4: ",
        "    launch_failed: the server exited with code 1",
        "the race is over: ",
        "writing tables, plots and report",
    ):
        assert words in terminal.shown, words
    # The server's own escapes come out as text.
    assert "\x1b[31mis available" not in terminal.shown


@pytest.mark.parametrize(
    ("interrupt", "option"), [("ctrl-c", ""), ("sigterm", ""), ("ctrl-c", "--plain")]
)
def test_interrupted_the_terminal_is_as_it_was(
    bench: Workbench, interrupt: str, option: str
) -> None:
    config, run = bench.config(["hangs_at_start"], ready_timeout_s=60), bench.folder / "run"
    arguments = ["sweep", config, "--run", run, *option.split()]
    with on_terminal(bench, *arguments) as terminal:
        begun = "launching" if option else "starting the server"
        assert wait_for(lambda: bench.servers() and begun in terminal.shown)
        if interrupt == "ctrl-c":
            terminal.press("\x03")
        else:
            terminal.process.send_signal(signal.SIGTERM)
        assert terminal.end() == ""
    assert terminal.process.returncode == 130
    if option:
        assert "\x1b" not in terminal.shown
    else:
        check_restored(terminal.shown)
    said = terminal.shown[max(0, terminal.shown.rfind(SHOW)) :]
    assert "interrupted: no server is left running; 0 finished launches" in said
    assert f"Go on with: autotune sweep {config} --run {run}" in said
    assert "Traceback" not in terminal.shown and bench.servers() == []
