"""What a sweep of the layer alone says of a sweep's candidates, and what follows from it. Pure.

It decides nothing about who wins: in a server, routing, graphs and communication change ranks. It
says who is launched first in the race's first round, and, only where the config asks for it, who
isn't launched at all. The reference, against which all are held, and the incumbent, against which
gains are shown, are launched in any case.
"""

import re
from collections.abc import Sequence

import msgspec

from autotune.config.schema import SweepConfig
from autotune.kernels.schema import Screen
from autotune.records.schema import Candidate
from autotune.report.text import one_line

_LONGEST_REASON = 160


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """What a layer sweep says of one of the engine's backends.

    Attributes:
        kernels: the layer's backends that stand for it; none: no opinion.
        ratio: the smallest of their times over the fastest kernel's; ``None`` if none has one.
        wrong: each one that computes the layer wrong, with the reason.
        only_wrong: whether all of them that were computed are wrong, and at least one was.
    """

    kernels: tuple[str, ...] = ()
    ratio: float | None = None
    wrong: tuple[str, ...] = ()
    only_wrong: bool = False


class ScreenedCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A listed candidate with what the layer sweep says of it (`Opinion`).

    ``left_out`` is why it isn't launched, ``None`` where it is.
    """

    candidate: str
    kernels: tuple[str, ...]
    ratio: float | None
    wrong: tuple[str, ...]
    left_out: str | None


class Screening(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep with the layer sweep that screens it.

    ``notes`` are what was found to say when the screen was read, one sentence each.
    """

    config: SweepConfig
    screen: Screen
    notes: tuple[str, ...] = ()

    def opinion(self, backend: str) -> Opinion:
        """Return what the layer sweep says of a backend of this sweep's engine."""
        engine = self.config.engine.name
        found = [
            one
            for one in self.screen.backends
            if any((name.engine, name.backend) == (engine, backend) for name in one.stands_for)
        ]
        ratios = [one.ratio for one in found if one.ratio is not None]
        computed = [one for one in found if one.verdict != "unknown"]
        wrong = [one for one in found if one.verdict == "wrong"]
        return Opinion(
            kernels=tuple(_text(one.backend) for one in found),
            ratio=min(ratios, default=None),
            wrong=tuple(
                f"{_text(one.backend)} ({_text(one.reason) or 'no reason given'})" for one in wrong
            ),
            only_wrong=bool(wrong) and len(wrong) == len(computed),
        )

    def place(self, candidate: Candidate) -> tuple[int, float]:
        """Return a candidate's place in the race's first round; equal ones are drawn.

        Likely leaders come first, the fastest kernel's before all, then those of whom nothing is
        known, then those whose kernels are wrong.
        """
        opinion = self.opinion(candidate.backend)
        if opinion.wrong:
            return 2, 0.0
        return (1, 0.0) if opinion.ratio is None else (0, opinion.ratio)

    def left_out(self, candidate: Candidate) -> str | None:
        """Return why a candidate, or a search's trial, isn't launched; ``None`` where it is."""
        return None if self._role(candidate.name) is not None else self._objection(candidate)

    def candidates(self) -> tuple[ScreenedCandidate, ...]:
        """Return what is said of each listed candidate, in the config's order."""
        return tuple(
            ScreenedCandidate(
                candidate=candidate.name,
                kernels=opinion.kernels,
                ratio=opinion.ratio,
                wrong=opinion.wrong,
                left_out=self.left_out(candidate),
            )
            for candidate in self.config.candidate_list()
            for opinion in [self.opinion(candidate.backend)]
        )

    def warnings(self) -> tuple[str, ...]:
        """Return what a reader must know before anything is launched, one sentence each."""
        found = list(self.notes)
        if not any(one.kernels for one in self.candidates()):
            found.append("none of its kernels stands for a candidate: nothing is screened")
        told = [self._warning(candidate) for candidate in self.config.candidate_list()]
        found += [text for text in told if text is not None]
        return tuple(f"screen: {text}" for text in found)

    def _warning(self, candidate: Candidate) -> str | None:
        """What a reader must know of one candidate."""
        name, opinion = candidate.name, self.opinion(candidate.backend)
        objection, role = self._objection(candidate), self._role(candidate.name)
        last = f"last in round {self.config.search_rounds + 1}"
        if objection is not None and role is None:
            return f"{name} isn't launched: {objection}"
        if objection is not None:
            when = f" ({last})" if opinion.wrong else ""
            return f"{name} is launched all the same{when}, since it is {role}: {objection}"
        if not opinion.wrong:
            return None
        but = ""
        if self.config.screen is not None and self.config.screen.wrong == "drop":
            but = ", and not left out, since another kernel of its own is right"
        return f"{name} is launched {last}{but}: {_are_wrong(opinion.wrong)}"

    def _objection(self, candidate: Candidate) -> str | None:
        """What speaks against launching a candidate, whatever its role, by the config's word."""
        asked, opinion = self.config.screen, self.opinion(candidate.backend)
        if asked is None:
            return None
        if asked.wrong == "drop" and opinion.only_wrong:
            return f"{_are_wrong(opinion.wrong)} (screen.wrong is drop)"
        limit = asked.slower_than
        if limit is not None and opinion.ratio is not None and opinion.ratio > limit:
            return (
                f"alone, its kernel takes {opinion.ratio:.4g} times as long as the fastest "
                f"(screen.slower_than is {limit:g})"
            )
        return None

    def _role(self, name: str) -> str | None:
        """The role that keeps a candidate from being left out; a trial has its candidate's."""
        listed = self._listed(name)
        if listed == self.config.reference:
            return "the reference"
        return "the incumbent" if listed == self.config.incumbent else None

    def _listed(self, name: str) -> str:
        """The listed candidate that a name is of: its own, or a trial's (`trial_name`)."""
        for parent in self.config.tunables():
            if re.fullmatch(rf"{re.escape(parent)}-t[0-9]{{4,}}", name):
                return parent
        return name


def _are_wrong(wrong: Sequence[str]) -> str:
    more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return f"alone, its kernel computes the layer wrong: {wrong[0]}{more}"


def _text(text: str) -> str:
    return one_line(text, longest=_LONGEST_REASON)
