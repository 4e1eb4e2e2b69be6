"""Entries of two decisions side by side: which belong together, and what differs in them. Pure."""

from collections.abc import Iterator, Sequence

from autotune.decide.entry import scope_identity
from autotune.decisions.schema import ConcurrencyWinner, Evidence, Scope
from autotune.review.diff_figures import THROUGHPUT, Rounds, figure_changes
from autotune.review.diff_leaves import added_and_removed, changes, paired
from autotune.review.diff_schema import (
    Change,
    EntryChange,
    FigureChange,
    RejectedChange,
    WinnerChange,
    WinnerSide,
)
from autotune.review.diff_sides import SideEntry
from autotune.review.show_words import scope_words

_CHOICE_APART = {"winners"}
_EVIDENCE_APART = {"rows", "rejected", "accepted"}


def matched(
    old: Sequence[SideEntry], new: Sequence[SideEntry]
) -> Iterator[tuple[SideEntry | None, SideEntry | None]]:
    """Yield the entries that replace one another, and those that only one side has.

    They do by the rule of `autotune.decide.entry.merge_entry`: scopes that differ in versions only
    are the same. Where each side has but one entry, the two are compared whatever their scopes.
    """
    if len(old) == len(new) == 1:
        yield old[0], new[0]
        return
    for _, before, after in paired(old, new, by=lambda entry: scope_identity(entry.scope)):
        yield before, after


def compare_entries(
    old: SideEntry | None,
    new: SideEntry | None,
    *,
    beside: Sequence[Scope] = (),
    old_rounds: Rounds | None = None,
    new_rounds: Rounds | None = None,
) -> EntryChange:
    """Return what differs between two entries; of one alone, all that it says.

    Args:
        old: the old side's entry, ``None`` where the new one is added.
        new: the new side's, ``None`` where the old one is removed.
        beside: the scopes of the other entries, to tell this one's apart.
        old_rounds: what each round of the old side showed, where it is a run.
        new_rounds: the same of the new side.
    """
    entry = new or old
    assert entry is not None
    before = None if old is None else old.evidence
    after = None if new is None else new.evidence
    figures = figure_changes(
        before.rows if before else (),
        after.rows if after else (),
        old_rounds=old_rounds,
        new_rounds=new_rounds,
    )
    accepted_added, accepted_removed = added_and_removed(
        before.accepted if before else (), after.accepted if after else ()
    )
    return EntryChange(
        label=scope_words(entry.scope, among=beside),
        status="added" if old is None else "removed" if new is None else "changed",
        old_scope=old.scope if old else None,
        new_scope=new.scope if new else None,
        old_backend=_backend(old),
        new_backend=_backend(new),
        scope=changes(old and old.scope, new and new.scope),
        choice=_without(changes(old and old.choice, new and new.choice), _CHOICE_APART),
        winners=_winners(old, new),
        figures=figures,
        evidence=(
            *_without(changes(before, after), _EVIDENCE_APART),
            *_row_changes(before, after, figures),
        ),
        rejected=_rejected(before, after),
        accepted_added=accepted_added,
        accepted_removed=accepted_removed,
    )


def _backend(entry: SideEntry | None) -> str | None:
    return entry.choice.backend if entry is not None and entry.choice is not None else None


def _without(found: Sequence[Change], names: set[str]) -> tuple[Change, ...]:
    return tuple(change for change in found if change.what.partition(".")[0] not in names)


def _winners(old: SideEntry | None, new: SideEntry | None) -> tuple[WinnerChange, ...]:
    before = old.choice.winners if old is not None and old.choice is not None else ()
    after = new.choice.winners if new is not None and new.choice is not None else ()
    pairs = paired(before, after, by=lambda winner: winner.concurrency)
    return tuple(
        WinnerChange(
            concurrency=(one or other).concurrency,  # type: ignore[union-attr]
            old=_winner(one),
            new=_winner(other),
        )
        for _, one, other in pairs
        if one != other
    )


def _winner(winner: ConcurrencyWinner | None) -> WinnerSide | None:
    if winner is None:
        return None
    return WinnerSide(
        candidate=winner.candidate,
        backend=winner.backend,
        ratio_to_choice=winner.ratio_to_choice,
        interval=winner.interval,
    )


def _row_changes(
    old: Evidence | None, new: Evidence | None, figures: Sequence[FigureChange]
) -> Iterator[Change]:
    """What of the rows is no figure: the backend that ran, and how many rounds were valid.

    The number of rounds stands beside a figure that changed.
    """
    told = {(one.candidate, one.concurrency) for one in figures if one.figure == THROUGHPUT}
    if old is None or new is None:
        return
    for _, one, other in paired(
        old.rows, new.rows, by=lambda row: (row.candidate, row.concurrency)
    ):
        row = one or other
        assert row is not None
        for name in ("backend", "rounds"):
            before, after = getattr(one, name, None), getattr(other, name, None)
            beside_figure = name == "rounds" and (row.candidate, row.concurrency) in told
            if before != after and not beside_figure:
                what = f"rows.{row.candidate} at concurrency {row.concurrency}.{name}"
                yield Change(what=what, old=before, new=after)


def _rejected(old: Evidence | None, new: Evidence | None) -> tuple[RejectedChange, ...]:
    before, after = old.rejected if old else (), new.rejected if new else ()
    return tuple(
        RejectedChange(candidate=str(name), old=one, new=other)
        for name, one, other in paired(before, after, by=lambda rejected: rejected.candidate)
        if one != other
    )
