"""A sweep's events as plain lines: what a log keeps, and what the live view leaves behind it."""

from autotune.cli.dry_run import count, duration
from autotune.cli.output import progress
from autotune.decide.schema import RatioEstimate
from autotune.decisions.resolution import one_line
from autotune.sweep.progress import (
    CandidateRests,
    CandidateReturns,
    ConclusionBegan,
    Event,
    LaunchBegan,
    LaunchEnded,
    LeftToDo,
    Noted,
    PhaseBegan,
    PointEnded,
    ServerReady,
    Standings,
    SweepBegan,
    SweepEnded,
)

CONCLUDING = "writing tables, plots and report"


class PlainLines:
    """Turns each event into the lines that tell it, mostly one or none."""

    def __init__(self) -> None:
        self._failed: set[str] = set()
        self._on: LaunchBegan | None = None
        self._lead: str | None = None
        self._warned: set[tuple[str, str]] = set()

    def tell(self, event: Event) -> None:
        """Print an event's lines to stderr."""
        for line in self.lines(event):
            progress(line)

    def lines(self, event: Event) -> list[str]:
        """Return an event's lines, each printable and of bounded length."""
        match event:
            case LaunchBegan():
                self._on = event
            case LaunchEnded():
                # What the engine can't run is recorded without being started.
                where = f"round {event.round} {event.candidate}: " if self._on is None else "    "
                self._on = None
                if event.status == "ok":
                    return []
                self._failed.add(event.candidate)
                return [where + _failure(event)]
            case PointEnded():
                return [f"    {line}" for line in [point_line(event), *self._warnings(event)]]
            case CandidateRests() if event.candidate in self._failed:
                return []  # A launch that fails is the last one, and its failure was told.
            case Standings():
                return self._standings(event)
            case Noted():
                return [("" if self._on is None else "    ") + one_line(event.text)]
            case _:
                pass
        return _lines(event)

    def _warnings(self, event: PointEnded) -> list[str]:
        """A point's warnings; one that a candidate had before is in the report, not told again."""
        lines = []
        for warning in event.warnings:
            if (event.candidate, warning.code) not in self._warned:
                self._warned.add((event.candidate, warning.code))
                lines.append("  " + one_line(f"warning: {warning.code}: {warning.observed}"))
        return lines

    def _standings(self, event: Standings) -> list[str]:
        lead = lead_line(event)
        if lead is None or lead == self._lead:
            return []
        self._lead = lead
        return [f"    {lead}"]


def point_line(event: PointEnded) -> str:
    """Return a measured point in one line: its figures, or what went wrong."""
    where = f"concurrency {event.concurrency}"
    if event.status != "ok" or event.output_tokens_per_s is None:
        return one_line(f"{where}: {event.status}: {event.reason}")
    line = f"{where}: {event.output_tokens_per_s:.1f} tokens/s"
    if event.ttft_p50_s is not None and event.latency_p50_s is not None:
        line += f", TTFT {event.ttft_p50_s * 1e3:.0f} ms"
        line += f", latency {event.latency_p50_s * 1e3:.0f} ms (medians)"
    return line


def lead_line(event: Standings) -> str | None:
    """Return who leads in one line, ``None`` while nobody does."""
    row = next((row for row in event.rows if row.candidate == event.leader), None)
    if row is None:
        return None
    what = "leads" if event.stage == "race" else "is the best setting so far"
    if row.ratio is None or row.candidate == event.baseline:
        return f"{row.candidate} {what}"
    return f"{row.candidate} {what}: {ratio_text(row.ratio)} of {event.baseline}"


def ratio_text(estimate: RatioEstimate) -> str:
    """Return a ratio with its interval, if there is one: ``1.13x (1.10 to 1.16)``."""
    text = f"{estimate.ratio:.2f}x"
    if estimate.interval is not None:
        text += f" ({estimate.interval.low:.2f} to {estimate.interval.high:.2f})"
    return text


def time_left(left: LeftToDo) -> str:
    """Return how long a sweep still takes, as far as that is known, with a comma before it."""
    if left.expected_s is None or left.worst_s is None:
        return ""
    return f", about {duration(left.expected_s)} left, at worst {duration(left.worst_s)}"


def _lines(event: Event) -> list[str]:
    match event:
        case SweepBegan():
            return [_beginning(event)]
        case LaunchBegan():
            whole = event.left.made + event.left.fewest
            return [
                f"[{event.number}/{whole}] round {event.round} {event.candidate}: launching"
                f"{time_left(event.left)}"
            ]
        case ServerReady():
            return [f"    ready after {event.ready_s:.1f} s; probing"]
        case PhaseBegan(phase="asking"):
            return [f"    asking {count(event.requests or 0, 'question', 'questions')}"]
        case PhaseBegan(phase="warming_up", attempt=attempt) if attempt > 1:
            return [f"    concurrency {event.concurrency}: it wasn't steady, measuring it again"]
        case CandidateRests():
            where = f"round {event.round}: {event.candidate}"
            return [one_line(f"{where} isn't launched: {event.reason}")]
        case CandidateReturns():
            where = f"round {event.round}: {event.candidate}"
            return [f"{where} is launched again: later rounds ask for it"]
        case SweepEnded():
            how = "stopped by" if event.stopped else "the race is over:"
            return [one_line(f"{how} {event.reason}")]
        case ConclusionBegan():
            return [CONCLUDING]
        case _:
            return []


def _beginning(event: SweepBegan) -> str:
    left = event.left
    made = count(left.made, "launch is", "launches are") + " already made, " if left.made else ""
    if not left.most:
        return f"{event.name}: {made}none is left to make"
    most = f" ({left.most} at most)" if left.most > left.fewest else ""
    what = count(left.fewest, "launch", "launches")
    return f"{event.name}: {made}{what} to make{most}{time_left(left)}"


def _failure(event: LaunchEnded) -> str:
    return one_line(f"{event.status}: {event.reason}")
