"""The one sentence that a reviewer reads first: what changed, in words. Pure."""

from collections.abc import Iterator, Sequence

import msgspec

from autotune.review.diff_figures import THROUGHPUT
from autotune.review.diff_schema import Change, Difference, EntryChange, FigureChange
from autotune.review.show_words import key_words, signed_percent, value_words

NO_DIFFERENCE = "No difference."
_OUT_OF_STEP = "a decision doesn't follow from its run's records"


def summarise(difference: Difference) -> Difference:
    """Return ``difference`` with its ``summary`` filled in."""
    return msgspec.structs.replace(difference, summary=_summary(difference))


def _summary(difference: Difference) -> str:
    if difference.empty:
        return NO_DIFFERENCE if not difference.out_of_step else f"No difference; {_OUT_OF_STEP}."
    subject = "" if difference.key is None else f"{key_words(difference.key)}: "
    parts = list(_parts(difference))
    return f"{subject}{'; '.join(parts)}."


def _parts(difference: Difference) -> Iterator[str]:
    changed = [entry for entry in difference.entries if entry.status == "changed"]
    if difference.old.kind == "nothing":
        yield f"new {_subject_of(difference.new.kind)}: {_choices(difference.entries)}"
        return
    if difference.new.kind == "nothing":
        yield f"{_subject_of(difference.old.kind)} removed: {_choices(difference.entries)}"
        return
    for change in difference.key_changes:
        yield f"{change.what} {value_words(change.old)} -> {value_words(change.new)}"
    yield from _choice_parts(changed, difference.scopes)
    for status in ("added", "removed"):
        found = [entry for entry in difference.entries if entry.status == status]
        if found:
            yield f"{_count(len(found), 'scope')} {status} ({_choices(found)})"
    yield from _figure_parts([figure for entry in changed for figure in entry.figures])
    yield from _other_parts(changed)
    if difference.run is not None and not difference.run.empty:
        yield from _run_parts(difference)
    if difference.caveats:
        yield "the figures may not be comparable"
    if difference.out_of_step:
        yield _OUT_OF_STEP


def _subject_of(kind: str) -> str:
    return {"run": "run"}.get(kind, "decision")


def _choices(entries: Sequence[EntryChange]) -> str:
    backends = dict.fromkeys(
        entry.new_backend or entry.old_backend or "nobody chosen" for entry in entries
    )
    text = ", ".join(backends)
    return text if len(entries) == 1 else f"{text} for {_count(len(entries), 'scope')}"


def _choice_parts(changed: Sequence[EntryChange], scopes: int) -> Iterator[str]:
    moves: dict[tuple[str | None, str | None], int] = {}
    for entry in changed:
        if entry.old_backend != entry.new_backend:
            move = (entry.old_backend, entry.new_backend)
            moves[move] = moves.get(move, 0) + 1
    for (old, new), number in moves.items():
        yield f"{old or 'nobody'} -> {new or 'nobody'}{_of(number, scopes)}"
    if not moves and scopes:
        kept = dict.fromkeys(entry.new_backend or "nobody" for entry in changed)
        if kept:
            yield f"{', '.join(kept)} stays the choice"
    outcomes: dict[str, int] = {}
    for entry in changed:
        for change in entry.choice:
            if change.what in {"outcome", "verdict"}:
                text = f"{change.what} {value_words(change.old)} -> {value_words(change.new)}"
                outcomes[text] = outcomes.get(text, 0) + 1
    for text, number in outcomes.items():
        yield f"{text}{_of(number, scopes)}"


def _of(number: int, scopes: int) -> str:
    return "" if scopes == 1 else f" for {number} of {scopes} scopes"


def _figure_parts(figures: Sequence[FigureChange]) -> Iterator[str]:
    throughputs = [one for one in figures if one.figure == THROUGHPUT]
    shares = [one.change for one in throughputs if one.change is not None]
    if shares:
        low, high = signed_percent(min(shares)), signed_percent(max(shares))
        spread = f"throughput {low}" if low == high else f"throughput {low} to {high}"
        judged = [one for one in throughputs if one.spread != "not_recorded"]
        if judged:
            beyond = sum(one.spread == "beyond" for one in judged)
            spread += f" ({beyond} of {len(judged)} beyond the rounds' spread)"
        yield spread
    alone = sum(one.change is None for one in throughputs)
    if alone:
        yield f"{_count(alone, 'throughput')} on one side only"
    if figures and not throughputs:
        yield f"{_count(len(figures), 'time')} changed"


def _other_parts(changed: Sequence[EntryChange]) -> Iterator[str]:
    scope = dict.fromkeys(change.what for entry in changed for change in entry.scope)
    if scope:
        yield f"scope differs in {_some(list(scope))}"
    for what in ("run", "measured_at"):
        values = dict.fromkeys(
            f"{value_words(change.old)} -> {value_words(change.new)}"
            for entry in changed
            for change in entry.evidence
            if change.what == what
        )
        if len(values) == 1:
            yield f"{'measured' if what == 'measured_at' else what} {next(iter(values))}"
    if not any(entry.choice or entry.figures or entry.scope for entry in changed):
        others = [change for entry in changed for change in entry.evidence]
        if others:
            yield f"evidence differs in {_some([change.what for change in others])}"
    for name in ("accepted_added", "accepted_removed"):
        number = sum(len(getattr(entry, name)) for entry in changed)
        if number:
            yield f"{_count(number, 'accepted reason')} {name.partition('_')[2]}"
    rejected = sum(len(entry.rejected) for entry in changed)
    if rejected:
        yield f"{_count(rejected, 'rejected candidate')} changed"


def _run_parts(difference: Difference) -> Iterator[str]:
    run = difference.run
    assert run is not None
    if not difference.entries:
        yield "the decision is the same"
    names: dict[str, Sequence[Change]] = {
        "candidates": run.candidates,
        "rule": run.rule,
        "workload": run.workload,
        "environment": run.environment,
        "launches": run.launches,
    }
    differing = [name for name, found in names.items() if found]
    if run.concurrencies_added or run.concurrencies_removed:
        differing.insert(1, "concurrencies")
    if differing:
        yield f"the runs differ in {', '.join(differing)}"


def _some(names: Sequence[str], *, most: int = 4) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
