"""What a sweep tells while it runs, as typed events to one listener; how they look isn't said here.

The events go one way, and nothing of a sweep depends on who listens. They are told between
measurements, but for `PointProgress` and `QuestionsProgress`: while requests run, the load client
calls `Gauge.set` after each request, which keeps a reference, and a task looks at the gauge a few
times a second. So the loop that takes the stamps never waits for a listener, as long as the
listener only takes note.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Literal

import msgspec

from autotune.decide.schema import RatioEstimate
from autotune.load.client import Progress
from autotune.records.schema import LaunchStatus, MeasurementWarning, PointStatus

POLL_S = 0.25

Phase = Literal["starting", "probing", "asking", "warming_up", "measuring", "stopping"]


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An event; its type is its tag where it is sent to another process."""


class LeftToDo(msgspec.Struct, frozen=True, kw_only=True):
    """How far a sweep is, in launches and in time, by the launches that it made.

    ``made`` counts servers that were started. ``fewest`` and ``most`` are launches still to make
    (`autotune.sweep.estimate.Launches`), the one that is under way among them, within what the
    budget allows. ``expected_s`` is for the fewest of them at the usual length, ``worst_s`` for the
    most at the longest; ``None`` where no launch's length is known yet.
    """

    made: int
    fewest: int
    most: int
    usual_s: float | None = None
    expected_s: float | None = None
    worst_s: float | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate as its records stand.

    ``ratio`` is its throughput over the baseline's, ``throughputs`` its output tokens/s by
    concurrency (geometric mean over the rounds, as in ``summary.csv``). ``out`` says why it isn't
    launched any more, ``failed`` that this is its own fault; ``note`` is what else keeps it from
    winning so far.
    """

    candidate: str
    rounds: int = 0
    ratio: RatioEstimate | None = None
    throughputs: dict[int, float] = {}
    failed: bool = False
    out: str | None = None
    note: str | None = None


class SweepBegan(_Event, frozen=True, kw_only=True):
    """A sweep starts, or goes on: ``left.made`` launches are there from earlier starts."""

    name: str
    folder: str
    candidates: tuple[str, ...]
    concurrencies: tuple[int, ...]
    left: LeftToDo


class LaunchBegan(_Event, frozen=True, kw_only=True):
    """A server is started; ``number`` counts all that this run started."""

    number: int
    candidate: str
    round: int
    concurrencies: tuple[int, ...]
    left: LeftToDo


class PhaseBegan(_Event, frozen=True, kw_only=True):
    """A launch enters a phase; ``limit_s`` is how long it may take at most.

    ``requests`` are sent in it, where that is known: in ``asking``, a task's questions. ``attempt``
    counts how often the point of this ``concurrency`` is measured.
    """

    phase: Phase
    concurrency: int | None = None
    requests: int | None = None
    attempt: int = 1
    limit_s: float | None = None


class ServerReady(_Event, frozen=True, kw_only=True):
    """The server has generated its first token, so long after its start."""

    ready_s: float


class PointProgress(_Event, frozen=True, kw_only=True):
    """How far the point is that is being measured: ``finished`` counts failed requests too.

    Of the ``total``, the first ``measured`` enter its figures; probes among load follow.
    ``tokens_per_s`` are the output tokens asked of the requests that ended well, over the time
    since the first was sent; the point's figure leaves out ramp-up and drain, this doesn't.
    ``None`` once the probes are on, or where none ended.
    """

    finished: int
    failed: int
    total: int
    measured: int
    tokens_per_s: float | None = None


class QuestionsProgress(_Event, frozen=True, kw_only=True):
    """How many of a task's questions were asked and answered: ``answered`` counts failures too."""

    answered: int
    failed: int
    total: int


class PointEnded(_Event, frozen=True, kw_only=True):
    """A point's record is written. Times are medians, in seconds."""

    candidate: str
    concurrency: int
    status: PointStatus
    reason: str | None = None
    output_tokens_per_s: float | None = None
    ttft_p50_s: float | None = None
    latency_p50_s: float | None = None
    warnings: tuple[MeasurementWarning, ...] = ()


class LaunchEnded(_Event, frozen=True, kw_only=True):
    """A launch's record is written; an ``unsupported`` one may have started nothing."""

    candidate: str
    round: int
    status: LaunchStatus
    reason: str | None = None


class Standings(_Event, frozen=True, kw_only=True):
    """Who leads as the records stand, and who is out; in a ``search``, the settings tried so far.

    ``leader`` is ``None`` until two of them can be compared. ``baseline`` is whom the ratios are
    against.
    """

    stage: Literal["search", "race"]
    rows: tuple[Row, ...]
    leader: str | None = None
    baseline: str | None = None


class CandidateRests(_Event, frozen=True, kw_only=True):
    """A candidate isn't launched in this round, nor in those after it unless figures change."""

    candidate: str
    round: int
    reason: str


class CandidateReturns(_Event, frozen=True, kw_only=True):
    """A candidate that rested is launched again."""

    candidate: str
    round: int


class Noted(_Event, frozen=True, kw_only=True):
    """Something else that a reader should know, in one sentence."""

    text: str


class SweepEnded(_Event, frozen=True, kw_only=True):
    """No launch follows; ``stopped`` by the budget, or else the race is over."""

    reason: str
    stopped: bool = False


class ConclusionBegan(_Event, frozen=True, kw_only=True):
    """What was measured is judged, and tables, plots and report are written."""


Event = (
    SweepBegan
    | LaunchBegan
    | PhaseBegan
    | ServerReady
    | PointProgress
    | QuestionsProgress
    | PointEnded
    | LaunchEnded
    | Standings
    | CandidateRests
    | CandidateReturns
    | Noted
    | SweepEnded
    | ConclusionBegan
)
Tell = Callable[[Event], None]


def tell_nobody(_: Event) -> None:
    """Listen to nothing."""


class Gauge:
    """The last word of a closed loop on how far it is, for whoever looks."""

    def __init__(self) -> None:
        self.latest: Progress | None = None
        self.began_at_s: float | None = None

    def begin(self) -> None:
        """The first request is about to be sent."""
        self.began_at_s = time.perf_counter()

    def set(self, progress: Progress) -> None:
        """Keep what the loop says; called on the measuring thread, after each request."""
        self.latest = progress

    def read(self, *, measured: int, output_tokens: int) -> PointProgress | None:
        """Return how far the point is, ``None`` before the first request's end."""
        latest, began_at_s = self.latest, self.began_at_s
        if latest is None or began_at_s is None:
            return None
        good, took_s = latest.finished - latest.failed, time.perf_counter() - began_at_s
        counts = good > 0 and latest.finished <= measured and took_s > 0
        return PointProgress(
            finished=latest.finished,
            failed=latest.failed,
            total=latest.total,
            measured=measured,
            tokens_per_s=good * output_tokens / took_s if counts else None,
        )


def telling(
    gauge: Gauge, tell: Tell, *, measured: int, output_tokens: int
) -> contextlib.AbstractAsyncContextManager[None]:
    """While the block runs, tell a few times a second how far its point is, where that is new."""
    return _watching(
        gauge, tell, read=lambda _: gauge.read(measured=measured, output_tokens=output_tokens)
    )


def telling_questions(gauge: Gauge, tell: Tell) -> contextlib.AbstractAsyncContextManager[None]:
    """While the block runs, tell a few times a second how many questions were answered."""
    return _watching(
        gauge,
        tell,
        read=lambda latest: QuestionsProgress(
            answered=latest.finished, failed=latest.failed, total=latest.total
        ),
    )


@contextlib.asynccontextmanager
async def _watching(
    gauge: Gauge, tell: Tell, *, read: Callable[[Progress], Event | None]
) -> AsyncIterator[None]:
    """While the block runs, tell what is ``read`` of the gauge, where it says something new."""

    async def look() -> None:
        told = None
        while True:
            await asyncio.sleep(POLL_S)
            latest = gauge.latest
            if latest is not None and latest is not told:
                told = latest
                event = read(latest)
                if event is not None:
                    tell(event)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
