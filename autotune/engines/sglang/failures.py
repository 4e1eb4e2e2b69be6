"""What a failed SGLang launch died of, read from its log.

Only what ends a process counts: tracebacks of a server's process or of its main program, the
watchdogs, argparse, what C++ prints on its way out. All else, however alarming, is left alone:
SGLang warns of much that it survives. Of several deaths the first cause wins; what other ranks
say afterwards (NCCL, exit codes) counts only where no cause is found.
"""

import re
from collections.abc import Iterator
from typing import Literal

from autotune.decisions import one_line
from autotune.engines.base import LOG_BYTES, Failure
from autotune.engines.sglang.failure_rows import CAUSE, OUT_OF_MEMORY, PERHAPS, ROWS, Row
from autotune.records.schema import LaunchStatus

# A log is hostile text: these bound the work.
_MOST_CHARACTERS = LOG_BYTES
_MOST_LINES = 200_000
_LONGEST_LINE = 1000
_MOST_MESSAGE_LINES = 12
_MOST_FRAMES = 300
_REASON_LIMIT = 300  # a launch's record keeps no more of a line

_TRACEBACK = "Traceback (most recent call last):"
_CHAINS = ("During handling of the above", "The above exception was the direct cause")
_RANK = re.compile(r"\[rank\d{1,5}\]: ?")  # torch's prefix, also before each line of a traceback
_LOGGED = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]{0,80}\] ?")
# How the processes log what ends them (managers/*.py, entrypoints/http_server.py, uvicorn's
# lifespan). Tracebacks below any other text are those of logger.exception: the server lives on.
_DIED = re.compile(r"hit an exception: $|warmup error: $|ERROR:\s*$")
# Without such a header, only a main program's traceback starts at the very outside.
_OUTERMOST = re.compile(r"in <module>$|in _run_module_as_main$|in _bootstrap$")
_EXCEPTION = re.compile(r"(?![A-Z]+:)(?:[a-z_]\w*\.){0,20}[A-Z]\w*(?::\s|:?$)")
_ENDED_BY_US = ("KeyboardInterrupt", "SystemExit", "asyncio.exceptions.CancelledError")
_FATAL_LOGGED = re.compile(
    r"\w+ watchdog timeout \(|Subprocess .{1,80} crashed with|Scheduler or DataParallelController"
    r"|Received sigquit|SIGQUIT received|ERROR:\s+\[Errno "
)
_FATAL_PRINTED = re.compile(
    r"[\w .-]{1,60}: error: |  what\(\):  |Fatal Python error: |ERROR:\s+\[Errno |\[E\d{4} "
)
# Serving first: a graph's replay passes through the runners that captured it.
_STAGES = (
    ("while serving", re.compile(r"in (?:run_)?event_loop")),
    (
        "while capturing CUDA graphs",
        re.compile(r"cuda_graph_runner\.py|in (?:capture|init_cuda_g)"),
    ),
    ("while loading the weights", re.compile(r"/model_loader/|in load_(?:model|weights)")),
    ("while allocating the KV cache", re.compile(r"in (?:alloc_memory_pool|_create_buffers)")),
)


class _Event:
    """One death: a traceback with those that it is chained to, or a single telling line."""

    def __init__(self, line: str = "", *, state: Literal["frames", "done"] = "frames") -> None:
        self.messages = [line] if line else []
        self.frames: list[str] = []
        self.fatal = False
        self.cut = not line  # until a header is seen: the log may begin inside a traceback
        self._state: Literal["frames", "message", "done", "chained"] = state
        self._first_frame = False

    def goes_on(self, header: str) -> bool:
        """Take a traceback's header, unless it begins another event."""
        if self._state != "chained" and not (self.cut and not self.frames):
            return False
        self.fatal = self.fatal or bool(_DIED.search(header))
        self.cut = self.cut and bool(self.messages)
        self._state, self._first_frame = "frames", True
        return True

    def takes(self, line: str) -> bool:
        """Take a line if it belongs here; ``over`` tells whether more may follow."""
        if self._state == "frames":
            return self._takes_frame(line)
        if self._state == "message" and line.strip() and not _is_another(line):
            if self.messages[-1].count("\n") < _MOST_MESSAGE_LINES:
                self.messages[-1] += "\n" + line
            return True
        if self._state == "message":
            self._state = "done"
        elif self._state == "done" and line.startswith(_CHAINS):
            self._state = "chained"
            return True
        return not line.strip()

    @property
    def over(self) -> bool:
        return self._state == "done"

    def _takes_frame(self, line: str) -> bool:
        if _EXCEPTION.match(line):
            self.messages.append(line)
            self._state = "message"
        elif _is_another(line):
            if self.cut and _LOGGED.match(line):
                self._state = "done"  # the log began with a whole line
            return False
        elif line.startswith("  "):
            self.fatal = self.fatal or (self._first_frame and bool(_OUTERMOST.search(line)))
            self._first_frame = False
            if len(self.frames) < _MOST_FRAMES:
                self.frames.append(line)
        return not line or line[0].isspace() or self._state == "message"


def _is_another(line: str) -> bool:
    """Whether another process prints this between a traceback's lines."""
    return bool(_LOGGED.match(line)) or _is_fatal(line)


def read_failure(log: str) -> Failure | None:
    """Name the failure that a log of SGLang tells of, ``None`` where none is recognised."""
    best: tuple[int, Failure] | None = None
    for event in _events(log):
        found = _read(event)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
            if best[0] == CAUSE:
                break
    return None if best is None else best[1]


def _events(log: str) -> Iterator[_Event]:
    event: _Event | None = _Event()
    for full_line in log[-_MOST_CHARACTERS:].rsplit("\n", _MOST_LINES)[-_MOST_LINES:]:
        line = full_line[:_LONGEST_LINE].rstrip("\r")
        rank = _RANK.match(line)
        line = line[rank.end() :] if rank else line
        header, found, _ = line.partition(_TRACEBACK)
        if found:
            if event is None or not event.goes_on(header):
                if event is not None:
                    yield event
                event = _Event()
                event.goes_on(header)
            continue
        if event is not None and event.takes(line):
            continue
        if event is not None and event.over:
            yield event
            event = None
        if _is_fatal(line):
            yield _Event(line, state="done")
    if event is not None:
        yield event


def _is_fatal(line: str) -> bool:
    logged = _LOGGED.match(line)
    if logged:
        return bool(_FATAL_LOGGED.match(line, logged.end()))
    return bool(_FATAL_PRINTED.match(line))


def _read(event: _Event) -> tuple[int, Failure] | None:
    """What an event says and how telling that is (less is more)."""
    if not event.messages or (event.frames and not event.fatal and not event.cut):
        return None
    named = [(row, text) for text in event.messages if (row := _row_of(text)) is not None]
    if named:
        # What was raised first is the cause; what followed was raised while handling it.
        row, text = min(named, key=lambda pair: pair[0].rank)
        return row.rank, _failure(row.status, _kind(row, event), _telling(text, row))
    if not event.fatal or event.messages[-1].startswith(_ENDED_BY_US):
        return None
    serving = _stage(event) == _STAGES[0][0]
    status: LaunchStatus = "crashed" if serving else "launch_failed"
    kind = "the server stopped on an exception"
    return PERHAPS, _failure(status, kind, event.messages[-1].partition("\n")[0])


def _row_of(text: str) -> Row | None:
    return next((row for row in ROWS if row.pattern.search(text)), None)


def _kind(row: Row, event: _Event) -> str:
    stage = _stage(event) if row.kind == OUT_OF_MEMORY else ""
    return f"{row.kind} {stage}".rstrip()


def _stage(event: _Event) -> str:
    frames = "\n".join(event.frames)
    return next((name for name, pattern in _STAGES if pattern.search(frames)), "")


def _telling(text: str, row: Row) -> str:
    """The message's lines up to the one in which the pattern's match ends."""
    found = row.pattern.search(text)
    end = text.find("\n", found.end() if found else 0)
    return text if end < 0 else text[:end]


def _failure(status: LaunchStatus, kind: str, text: str) -> Failure:
    logged = _LOGGED.match(text)
    line = " ".join(text[logged.end() if logged else 0 :].split())
    return Failure(status=status, reason=one_line(f"{kind}: {line}", limit=_REASON_LIMIT))
