"""What differs between two decisions or runs, as types; ``autotune diff --json`` prints them.

Computed by `autotune.review.diff`, told by `autotune.review.diff_markdown`. Only differences are
held: of two equal sides, nothing. Times are seconds, throughputs tokens/s.
"""

from typing import Any, Literal

import msgspec

from autotune.decisions.schema import DecisionKey, Interval, RejectedCandidate, Scope
from autotune.environment import Weight

SideKind = Literal["decision", "run", "nothing"]
Spread = Literal["beyond", "within", "not_recorded"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One value that differs; ``None`` stands for what isn't there or isn't recorded.

    ``what`` names the field, nested ones joined by dots (``kernel_libraries.torch``).
    """

    what: str
    old: Any
    new: Any


class EnvironmentChange(Change, frozen=True, kw_only=True):
    """A difference between two machines.

    A ``hard`` one can change which kernels run, or that they run right, so that figures mustn't be
    taken for each other's; a ``soft`` one only moves figures, as far as anybody knows.
    """

    weight: Weight


class FigureChange(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one candidate at one concurrency, mean over the rounds.

    ``figure`` is ``output_tokens_per_s``, or ``ttft`` or ``latency`` with ``_mean_s``, ``_p50_s``
    or ``_p99_s``; p50 only where no side is a decision file, which doesn't hold it.
    ``backend`` is what ran, by the new side where it says so.
    ``change`` is new over old less 1 (0.031 = +3.1%). ``spread`` says whether that is more than
    the rounds of both sides explain by how far they are apart; ``ratio`` is the interval of new
    over old that it was read from, ``None`` where either side has fewer than two rounds.
    """

    candidate: str
    backend: str
    concurrency: int
    figure: str
    unit: Literal["tokens/s", "s"]
    old: float | None
    new: float | None
    old_rounds: int | None
    new_rounds: int | None
    change: float | None = None
    spread: Spread = "not_recorded"
    ratio: Interval | None = None


class WinnerSide(msgspec.Struct, frozen=True, kw_only=True):
    """Who was fastest at a concurrency; ``ratio_to_choice`` is 1.0 for the choice itself."""

    candidate: str
    backend: str
    ratio_to_choice: float
    interval: Interval | None


class WinnerChange(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest candidate at one concurrency, or by how much it is."""

    concurrency: int
    old: WinnerSide | None
    new: WinnerSide | None


class RejectedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that was rejected on one side only, or for another reason."""

    candidate: str
    old: RejectedCandidate | None
    new: RejectedCandidate | None


class EntryChange(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two entries of one scope, or an entry that only one side has.

    ``label`` names the scope in a line, ``scope`` holds the differences between ``old_scope`` and
    ``new_scope``. ``old_backend`` and ``new_backend`` are the choices, also where they are equal.
    """

    label: str
    status: Literal["changed", "added", "removed"]
    old_scope: Scope | None
    new_scope: Scope | None
    old_backend: str | None
    new_backend: str | None
    scope: tuple[Change, ...] = ()
    choice: tuple[Change, ...] = ()
    winners: tuple[WinnerChange, ...] = ()
    figures: tuple[FigureChange, ...] = ()
    evidence: tuple[Change, ...] = ()
    rejected: tuple[RejectedChange, ...] = ()
    accepted_added: tuple[str, ...] = ()
    accepted_removed: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        parts = (self.scope, self.choice, self.winners, self.figures, self.evidence, self.rejected)
        accepted = self.accepted_added or self.accepted_removed
        return self.status == "changed" and not any(parts) and not accepted


class RunChange(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two run folders beside their entries.

    ``launches`` counts them by status.
    """

    about: tuple[Change, ...] = ()
    workload: tuple[Change, ...] = ()
    candidates: tuple[Change, ...] = ()
    concurrencies_added: tuple[int, ...] = ()
    concurrencies_removed: tuple[int, ...] = ()
    rule: tuple[Change, ...] = ()
    launches: tuple[Change, ...] = ()
    environment: tuple[EnvironmentChange, ...] = ()

    @property
    def empty(self) -> bool:
        return not any(getattr(self, name) for name in self.__struct_fields__)


class SideName(msgspec.Struct, frozen=True, kw_only=True):
    """Which file or folder a side is, and from where its entries were taken.

    ``entries_from`` is ``file``, ``decision.json`` of a run folder, or ``records`` where the run
    has no decision of its own and the rule's judgement of its records stands in for it.
    """

    path: str
    kind: SideKind
    entries_from: Literal["file", "decision.json", "records"] | None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from ``old`` to ``new``.

    ``caveats`` say why figures may not be comparable. ``not_compared`` counts entries of a
    decision file for other scopes than that of the run it was held against. ``out_of_step`` names
    runs whose decision.json, which is what was compared, isn't the one that their records make.
    """

    summary: str
    old: SideName
    new: SideName
    key: DecisionKey | None
    scopes: int
    key_changes: tuple[Change, ...] = ()
    entries: tuple[EntryChange, ...] = ()
    run: RunChange | None = None
    caveats: tuple[str, ...] = ()
    not_compared: int = 0
    out_of_step: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.key_changes or self.entries or (self.run and not self.run.empty))
