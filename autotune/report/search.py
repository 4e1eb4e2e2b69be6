"""The section on a search: every setting that was tried, and how much each tunable mattered."""

import math
from collections.abc import Sequence

from autotune.decide.search import (
    TrialResult,
    anchor_of,
    finalists,
    next_search_round,
    trial_results,
)
from autotune.report.content import Block, Column, Paragraph, Section, Table
from autotune.report.evidence import capped
from autotune.report.numbers import UNKNOWN, percent
from autotune.report.subject import Subject
from autotune.report.text import count, one_line
from autotune.search.importance import importances
from autotune.tunables import Value, text_of

_ONE_LAUNCH = (
    "Of one launch each there is no interval, and the best of many looks better than it is. So "
    "each candidate's best is launched anew, in the race, which alone decides."
)
_IMPORTANCE = (
    "How much each tunable had to do with being among the best trials (PED-ANOVA, shares of what "
    "can be told apart). Trials are few, and each is one launch: these are rough hints, and decide "
    "nothing."
)


def search_section(subject: Subject) -> Section:
    """Every trial with its ratio to the anchor, the best first; empty where nothing was tuned."""
    run = subject.whole.run
    if not run.search_rounds:
        return Section("Search")
    results = trial_results(subject.whole, subject.verdicts)
    going_on = {trial.candidate.name for trial in finalists(subject.whole, subject.verdicts)}
    blocks: list[Block] = [Paragraph(_what_was_done(subject, results)), Paragraph(_ONE_LAUNCH)]
    if results:
        blocks += capped(_columns(anchor_of(run) or "the anchor"), _rows(results, going_on))
    unfinished = next_search_round(subject.whole)
    if unfinished is not None:
        blocks.append(
            Paragraph(
                f"The search isn't over: round {unfinished} of {run.search_rounds} isn't complete, "
                "so that no setting went on to the race."
            )
        )
    else:
        blocks += [Paragraph(text) for text in _left_out(subject, results, going_on)]
    table = _importances(subject, results)
    if table.rows:
        blocks += [Paragraph(_IMPORTANCE), table]
    return Section("Search", tuple(blocks))


def _what_was_done(subject: Subject, results: Sequence[TrialResult]) -> str:
    run = subject.whole.run
    anchor = anchor_of(run) or "the anchor"
    launched = sum(result.launched for result in results)
    tried = f"{count(launched, 'setting')} {'was' if launched == 1 else 'were'} tried"
    return (
        f"Before the race {tried} of {', '.join(run.tunables)}, by one launch each. Ratios are of "
        f"throughput to {anchor}'s in the same round, over all concurrencies (weighted geometric "
        "mean)."
    )


def _columns(anchor: str) -> tuple[Column, ...]:
    return (
        Column("trial", code=True),
        Column("round", numeric=True),
        Column("setting", code=True),
        Column(f"ratio to {anchor}", numeric=True),
        Column("correctness"),
        Column("what became of it"),
    )


def _rows(results: Sequence[TrialResult], going_on: set[str]) -> list[tuple[str, ...]]:
    parents = list(dict.fromkeys(result.parent for result in results))

    def place(result: TrialResult) -> tuple[int, bool, float, int]:
        worst = result.ratio is None or not math.isfinite(result.ratio)
        return (
            parents.index(result.parent),
            result.reason is not None,
            0.0 if worst else -(result.ratio or 0.0),
            result.number,
        )

    return [
        (
            result.candidate,
            str(result.round),
            setting_text(result.values),
            UNKNOWN if result.ratio is None else f"{result.ratio:.3f}",
            result.verdict if result.launched else UNKNOWN,
            "went on to the race"
            if result.candidate in going_on
            else one_line(result.reason or "slower than the best"),
        )
        for result in sorted(results, key=place)
    ]


def setting_text(values: dict[str, Value]) -> str:
    """Return a setting on one line, e.g. ``chunk=8192, fuse=true``."""
    words = {True: "true", False: "false"}
    return ", ".join(
        f"{name}={words[value] if isinstance(value, bool) else text_of(value)}"
        for name, value in sorted(values.items())
    )


def _left_out(subject: Subject, results: Sequence[TrialResult], going_on: set[str]) -> list[str]:
    """Say of each candidate none of whose settings went on, why."""
    texts = []
    for parent in subject.whole.run.tunables:
        own = [result for result in results if result.parent == parent]
        if any(result.candidate in going_on for result in own):
            continue
        if any(result.reason is None for result in own):
            texts.append(f"The best setting of {parent} adds nothing to it: it runs as it is.")
        else:
            texts.append(f"No setting of {parent} counts: it runs in the race as it is.")
    return texts


def _importances(subject: Subject, results: Sequence[TrialResult]) -> Table:
    columns = (
        Column("candidate", code=True),
        Column("tunable", code=True),
        Column("importance", numeric=True),
        Column("trials", numeric=True),
    )
    rows = []
    for parent, tunables in subject.whole.run.tunables.items():
        measured = sum(r.parent == parent and r.ratio is not None for r in results)
        shares = importances(parent, tunables, results=results)
        rows += [
            (parent, name, percent(round(share, 2)), str(measured))
            for name, share in shares.items()
        ]
    return Table(columns, tuple(rows))
