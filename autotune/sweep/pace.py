"""How a sweep tells what it is doing, one line a step: which launch is on, and who rests."""

import time
from collections.abc import Callable, Mapping

from autotune.sweep.plan import PlannedLaunch

Say = Callable[[str], None]


class Pace:
    """Counts the launches of one start of a sweep, and how long they take."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._number = 0
        self._durations_s: list[float] = []
        self._began_at = 0.0
        self._resting: dict[str, str] = {}
        self._told: set[tuple[str, int]] = set()

    def tell_resting(self, number: int, resting: Mapping[str, str]) -> None:
        """Tell who isn't launched in a round, where that is new."""
        for name, reason in resting.items():
            if self._resting.get(name) != reason:
                self._say(f"round {number}: {name} isn't launched: {reason}")
        for name in self._resting.keys() - resting.keys():
            self._say(f"round {number}: {name} is launched again: later rounds ask for it")
        self._resting = dict(resting)

    def skip(self, planned: PlannedLaunch) -> None:
        """Tell of a launch that an earlier start made, once."""
        place = (planned.candidate.name, planned.round)
        if place not in self._told:
            self._told.add(place)
            self._number += 1
            self._line(planned, "already measured")

    def begin(self, planned: PlannedLaunch) -> None:
        self._told.add((planned.candidate.name, planned.round))
        self._number += 1
        self._began_at = time.monotonic()
        usual = ""
        if self._durations_s:
            mean_s = sum(self._durations_s) / len(self._durations_s)
            usual = f" (a launch takes {mean_s:.0f} s)"
        self._line(planned, f"launching{usual}")

    def detail(self, text: str) -> None:
        self._say(f"    {text}")

    def end(self, problem: str | None) -> None:
        self._durations_s.append(time.monotonic() - self._began_at)
        if problem is not None:
            self.detail(problem)

    def _line(self, planned: PlannedLaunch, text: str) -> None:
        where = f"[{self._number}] round {planned.round} {planned.candidate.name}"
        self._say(f"{where}: {text}")
