"""The live view as a process of its own, so that drawing takes no time from the measuring one.

The sweep's process only puts its events into a queue; a thread there writes them to a pipe. The
other end is this module run as a program: it takes the events up, keeps the view at the bottom of
the terminal, and prints the plain lines above it. When the pipe is closed, however the sweep ended,
it takes the view away and shows the cursor again.
"""

import contextlib
import io
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from types import FrameType

import msgspec
from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from autotune.cli.live import Look, render
from autotune.cli.output import printable, progress
from autotune.cli.plain import PlainLines
from autotune.cli.view import View, advance
from autotune.sweep.progress import Event, Noted, Tell

_FRAME_S = 0.25
_CLOSE_S = 3.0
_SHOW_CURSOR = "\x1b[?25h"
# Below this, a view has no room: plain lines say more.
_LEAST_WIDTH, _LEAST_HEIGHT = 40, 10


class Told(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An event on its way, with the time by the monotonic clock, which all processes share."""

    at_s: float
    event: Event


class Pause(msgspec.Struct, frozen=True, tag=True):
    """Take the view away and say when that is done: the sweep is about to be stopped (Ctrl-Z)."""


class Resume(msgspec.Struct, frozen=True, tag=True):
    """Draw again."""


Word = Told | Pause | Resume


def wants_live(*, plain: bool) -> bool:
    """Whether the view is to be drawn: stderr is a terminal that can, and nobody minds.

    A terminal that says that it can't move its cursor (``TERM=dumb``) gets plain lines, as does
    one whose output is kept as a log (``CI``). ``NO_COLOR`` takes the colours only.
    """
    if plain or os.environ.get("CI", "").lower() not in {"", "0", "false"}:
        return False
    console = Console(stderr=True)
    # FORCE_COLOR makes rich take anything for a terminal, a pipe too.
    able = sys.stderr.isatty() and console.is_interactive
    return able and console.width >= _LEAST_WIDTH and console.height >= _LEAST_HEIGHT


@contextlib.contextmanager
def listening(*, plain: bool) -> Iterator[Tell]:
    """Give a listener for a sweep's events: the live view where it can be drawn, or plain lines."""
    screen = _open_screen() if wants_live(plain=plain) else None
    if screen is None:
        yield PlainLines().tell
        return
    try:
        # Whatever else is printed meanwhile would be torn by the view.
        with contextlib.redirect_stderr(_Lines(screen.tell)):
            yield screen.tell
    finally:
        screen.close()


def _open_screen() -> "Screen | None":
    """The view, or ``None`` where its process can't be started."""
    try:
        return Screen()
    except OSError as error:
        progress(f"no live view, its process can't be started: {error.strerror}")
        return None


class Screen:
    """The sweep's end of the pipe. If the other end dies, plain lines go on where it stopped."""

    def __init__(self) -> None:
        # The same modules as here, wherever they were found.
        start = f"import sys; sys.path[:] = {sys.path!r}; import autotune.cli.screen as s; s.main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._queue: queue.SimpleQueue[Word | None] = queue.SimpleQueue()
        self._stderr = sys.stderr
        self._writer = threading.Thread(target=self._write, name="live view", daemon=True)
        self._writer.start()
        self._usual = signal.signal(signal.SIGTSTP, self._stop_both)

    def tell(self, event: Event) -> None:
        """Take note of an event; it is sent by another thread."""
        self._queue.put(Told(at_s=time.monotonic(), event=event))

    def close(self) -> None:
        """Take the view away; return when the terminal is as it was."""
        signal.signal(signal.SIGTSTP, self._usual)
        self._queue.put(None)
        try:
            self._writer.join(_CLOSE_S)
            if self._writer.is_alive():
                # It writes to a process that doesn't read, being stopped perhaps.
                self._process.kill()
            self._process.wait(_CLOSE_S)
        except BaseException as error:
            self._process.kill()
            self._process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        finally:
            if self._process.returncode != 0:
                print(_SHOW_CURSOR, end="", file=self._stderr, flush=True)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _stop_both(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: give the terminal back first, and take it again when we go on."""
        answer = self._process.stdout
        assert answer is not None
        self._queue.put(Pause())
        if select.select([answer], [], [], _CLOSE_S)[0]:
            os.read(answer.fileno(), 1)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._queue.put(Resume())

    def _write(self) -> None:
        plain, pipe = PlainLines(), self._process.stdin
        assert pipe is not None
        broken = False
        while (word := self._queue.get()) is not None:
            lines = plain.lines(word.event) if isinstance(word, Told) else []
            if not broken:
                try:
                    pipe.write(msgspec.json.encode(word) + b"\n")
                    pipe.flush()
                    continue
                except OSError:
                    broken = True
                    print(_SHOW_CURSOR, file=self._stderr)
                    lines.insert(0, "the live view has ended: going on without it")
            for line in lines:
                print(printable(line), file=self._stderr, flush=True)
        with contextlib.suppress(OSError):
            pipe.close()


class _Lines(io.TextIOBase):
    """A stand-in for stderr that makes an event of each line."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if line.strip():
                self._tell(Noted(text=line))
        return len(text)


class _Drawing:
    """The terminal's end: the view, and the lines above it."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._view = View()
        self._plain = PlainLines()
        self._live = self._new_live()
        self._rest = b""
        self._paused = False
        self._size = self._console.size
        # What stands above the view, as far as a screen may show it.
        self._above: deque[str] = deque(maxlen=200)

    def run(self) -> None:
        """Draw until the pipe is closed."""
        pipe, due_s = sys.stdin.fileno(), 0.0
        self._live.start()
        try:
            while True:
                # While paused, there is nothing to draw.
                wait_s = None if self._paused else max(0.0, due_s - time.monotonic())
                if select.select([pipe], [], [], wait_s)[0]:
                    data = os.read(pipe, 1 << 16)
                    if not data:
                        return
                    self._take(data)
                if not self._paused and time.monotonic() >= due_s:
                    self._heed_size()
                    self._live.update(self._frame(), refresh=True)
                    due_s = time.monotonic() + _FRAME_S
        finally:
            self._live.stop()

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            match msgspec.json.decode(line, type=Word):
                case Pause():
                    self._live.stop()
                    self._paused = True
                    os.write(sys.stdout.fileno(), b".")
                case Resume():
                    self._live = self._new_live()
                    self._live.start()
                    self._paused = False
                case Told(at_s=at_s, event=event):
                    self._view = advance(self._view, event, at_s=at_s)
                    for text in self._plain.lines(event):
                        self._above.append(printable(text))
                        self._console.print(Text(printable(text)), soft_wrap=True)

    def _heed_size(self) -> None:
        """After a resize, draw all anew: terminals wrap and cut what was there each in its way."""
        size = self._console.size
        if size == self._size:
            return
        self._size = size
        self._live.stop()
        self._console.clear()
        room = size.height - len(self._frame().renderables) - 1
        shown: list[str] = []
        for text in reversed(self._above):
            room -= -(-cell_len(text) // size.width) or 1
            if room < 0:
                break
            shown.insert(0, text)
        for text in shown:
            self._console.print(Text(text), soft_wrap=True)
        self._live = self._new_live()
        self._live.start()

    def _frame(self) -> Group:
        size = self._console.size
        look = Look(
            # The last column is left free: a full line would wrap in some terminals.
            width=max(1, size.width - 1),
            height=max(1, size.height - 2),
            ascii_only=self._console.options.ascii_only,
        )
        return Group(*render(self._view, look, now_s=time.monotonic()))

    def _new_live(self) -> Live:
        return Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )


def main() -> None:
    """Draw what comes in at standard input."""
    # Ctrl-C, Ctrl-Z and SIGTERM are the sweep's to answer; it closes the pipe when it has.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        _Drawing().run()
