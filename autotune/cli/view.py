"""What the live view knows: a sweep's events, taken up one by one. Pure; how it looks is `live`."""

import msgspec

from autotune.sweep.progress import (
    ConclusionBegan,
    Event,
    LaunchBegan,
    LaunchEnded,
    LeftToDo,
    Noted,
    PhaseBegan,
    PointEnded,
    PointProgress,
    QuestionsProgress,
    Row,
    Standings,
    SweepBegan,
    SweepEnded,
)

_KEPT_WARNINGS = 3


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """A warning, of a ``candidate`` or of the sweep as a whole."""

    text: str
    candidate: str | None = None
    code: str | None = None

    def replaces(self, other: "Warned") -> bool:
        """Whether this is the other one again: the same text, or the same of a candidate."""
        same = self.candidate == other.candidate and self.code == other.code
        return same and (self.code is not None or self.text == other.text)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep as far as its events have told it.

    All ``*_at_s`` are of the monotonic clock. ``points`` are those that the current launch has
    measured, by concurrency. ``warnings`` are the last ones, the newest at the end; of a
    candidate's of one kind the newest is kept. ``concluding_at_s`` is when the report was begun.
    """

    began: SweepBegan | None = None
    began_at_s: float = 0.0
    left: LeftToDo | None = None
    launch: LaunchBegan | None = None
    launch_at_s: float = 0.0
    phase: PhaseBegan | None = None
    phase_at_s: float = 0.0
    progress: PointProgress | QuestionsProgress | None = None
    points: dict[int, PointEnded] = {}
    standings: Standings | None = None
    warnings: tuple[Warned, ...] = ()
    ended: SweepEnded | None = None
    concluding_at_s: float | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        """Everybody's row, in the run's order."""
        if self.standings is not None and (self.standings.rows or self.began is None):
            return self.standings.rows
        return tuple(Row(candidate=name) for name in (self.began.candidates if self.began else ()))


def advance(view: View, event: Event, *, at_s: float) -> View:
    """Return the view after an event.

    Args:
        view: before it.
        event: what happened.
        at_s: when, by the monotonic clock.
    """
    change = msgspec.structs.replace
    match event:
        case SweepBegan():
            return View(began=event, began_at_s=at_s, left=event.left)
        case LaunchBegan():
            return change(
                view,
                launch=event,
                launch_at_s=at_s,
                left=event.left,
                phase=None,
                progress=None,
                points={},
            )
        case PhaseBegan():
            return change(view, phase=event, phase_at_s=at_s, progress=None)
        case PointProgress() | QuestionsProgress():
            return change(view, progress=event)
        case PointEnded():
            warnings = [
                Warned(
                    text=f"at concurrency {event.concurrency}: {one.code}: {one.observed}",
                    candidate=event.candidate,
                    code=one.code,
                )
                for one in event.warnings
            ]
            points = view.points | {event.concurrency: event}
            return _warn(change(view, points=points, progress=None), warnings)
        case LaunchEnded():
            left = view.left if view.launch is None else _one_less(view.left)
            return change(view, left=left, launch=None, phase=None, progress=None, points={})
        case Standings():
            return change(view, standings=event)
        case Noted():
            return _warn(view, [Warned(text=event.text)])
        case SweepEnded():
            made = 0 if view.left is None else view.left.made
            return change(view, ended=event, left=LeftToDo(made=made, fewest=0, most=0))
        case ConclusionBegan():
            return change(view, concluding_at_s=at_s)
        case _:
            return view


def seconds_left(view: View, now_s: float) -> float | None:
    """Return how long the expected launches still take, ``None`` where that isn't known.

    A launch that takes longer than usual counts as nearly over.
    """
    left = view.left
    if left is None or left.expected_s is None or left.usual_s is None:
        return None
    if view.launch is None or not left.fewest:
        return left.expected_s
    passed_s = min(now_s - view.launch_at_s, left.expected_s / left.fewest)
    return left.expected_s - max(0.0, passed_s)


def _one_less(left: LeftToDo | None) -> LeftToDo | None:
    """What is left when the launch that was on is over, until the sweep tells it anew."""
    if left is None:
        return None
    fewest, most = max(0, left.fewest - 1), max(0, left.most - 1)
    expected_s, worst_s = left.expected_s, left.worst_s
    return msgspec.structs.replace(
        left,
        made=left.made + 1,
        fewest=fewest,
        most=most,
        expected_s=None if expected_s is None else expected_s * fewest / max(1, left.fewest),
        worst_s=None if worst_s is None else worst_s * most / max(1, left.most),
    )


def _warn(view: View, warnings: list[Warned]) -> View:
    """The view with these warnings added; one that comes again takes the place of the last."""
    kept = [one for one in view.warnings if not any(new.replaces(one) for new in warnings)]
    return msgspec.structs.replace(view, warnings=tuple((*kept, *warnings)[-_KEPT_WARNINGS:]))
