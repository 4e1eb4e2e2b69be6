"""What changed between two decisions or runs. Reading them is `autotune.review.diff_sides`."""

from collections.abc import Iterable, Iterator

from autotune.decisions import one_line
from autotune.review.diff_entries import compare_entries, matched
from autotune.review.diff_figures import Rounds, rounds_of
from autotune.review.diff_leaves import changes
from autotune.review.diff_runs import compare_runs
from autotune.review.diff_schema import Change, Difference, EntryChange, RunChange
from autotune.review.diff_sides import Side, SideEntry
from autotune.review.diff_summary import summarise
from autotune.review.in_step import OUT_OF_STEP, in_step

# Another one of these runs other kernels, or shares the work out otherwise.
_HARD_IN_SCOPE = frozenset(
    {
        *("engine", "geometry", "dtype", "tp", "ep", "dp", "attention_dp"),
        *("a2a_backend", "a2a_mode", "engine_settings", "device_name", "device_count"),
    }
)


def compare_sides(old: Side, new: Side) -> Difference:
    """Return what changed from ``old`` to ``new``. Pure.

    A run is held against a decision file by its own entry alone: the file's entries for other
    scopes are counted (``not_compared``), and neither added nor removed by it.
    """
    entries, scopes, left = _entries(old, new)
    run = _runs(old, new)
    key_changes = changes(old.key, new.key) if old.key and new.key else ()
    caveats = (*_other_subject(key_changes, entries), *_caveats(run))
    plain = Difference(
        summary="",
        old=old.name,
        new=new.name,
        key=new.key or old.key,
        scopes=scopes,
        key_changes=key_changes,
        entries=entries,
        run=run,
        caveats=caveats if _compared(entries) else (),
        out_of_step=tuple(_out_of_step(old, new)),
        not_compared=left,
    )
    return summarise(plain)


def _out_of_step(old: Side, new: Side) -> Iterator[str]:
    """Which run's decision isn't the one that its records make."""
    for side in (old, new):
        if side.run is not None and not in_step(side.run):
            path = one_line(side.name.path)
            yield f"{path}: {OUT_OF_STEP}; `autotune check` on the folder says where"


def _entries(old: Side, new: Side) -> tuple[tuple[EntryChange, ...], int, int]:
    """What differs in the entries, how many scopes were compared, and how many left out."""
    rounds = [_rounds(old), _rounds(new)]
    pairs = list(_pairs(old, new))
    left = (
        len(old.entries)
        + len(new.entries)
        - sum((a is not None) + (b is not None) for a, b in pairs)
    )
    found = [
        compare_entries(
            before,
            after,
            beside=[
                entry.scope
                for entry in (*old.entries, *new.entries)
                if entry is not before and entry is not after
            ],
            old_rounds=rounds[0],
            new_rounds=rounds[1],
        )
        for before, after in pairs
    ]
    return tuple(change for change in found if not change.empty), len(pairs), left


def _rounds(side: Side) -> Rounds | None:
    """What each round showed; ``None`` of a decision file, which doesn't say it."""
    if side.run is None:
        return {} if side.name.kind == "nothing" else None
    return rounds_of(side.run.derived.race)


def _pairs(old: Side, new: Side) -> Iterator[tuple[SideEntry | None, SideEntry | None]]:
    kinds = {old.name.kind, new.name.kind}
    for before, after in matched(old.entries, new.entries):
        alone = before is None or after is None
        owner = old if after is None else new
        if kinds == {"run", "decision"} and alone and owner.name.kind == "decision":
            continue
        yield before, after


def _compared(entries: Iterable[EntryChange]) -> bool:
    return any(figure.change is not None for entry in entries for figure in entry.figures)


def _runs(old: Side, new: Side) -> RunChange | None:
    if old.run is None or new.run is None:
        return None
    return compare_runs(
        old.run, new.run, old_environment=old.environment, new_environment=new.environment
    )


def _caveats(run: RunChange | None) -> Iterator[str]:
    """Why the two sides' figures may not be each other's measure."""
    if run is None:
        return
    if run.workload:
        named = ", ".join(change.what for change in run.workload)
        yield f"the workloads differ ({named}): the figures aren't those of the same requests"
    hard = [change.what for change in run.environment if change.weight == "hard"]
    if hard:
        yield f"the machines differ ({', '.join(hard)}): other kernels may have run"


def _other_subject(key_changes: Iterable[Change], entries: Iterable[EntryChange]) -> Iterator[str]:
    """Why figures of two decisions may not be each other's measure: they're of other things."""
    named = [change.what for change in key_changes]
    for entry in entries:
        if entry.old_scope is not None and entry.new_scope is not None:
            named += [
                change.what
                for change in entry.scope
                if change.what.partition(".")[0] in _HARD_IN_SCOPE
            ]
    if named:
        told = ", ".join(dict.fromkeys(named))
        yield f"the two aren't about the same ({told}): a change needn't be the backend's"
