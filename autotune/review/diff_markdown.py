"""A difference as GitHub-flavoured Markdown for a pull request: the summary first, then tables."""

from collections.abc import Iterator, Sequence

from autotune.report.content import Block, Bullets, Column, Paragraph, Report, Section, Table
from autotune.report.markdown import escape
from autotune.report.markdown import render as render_report
from autotune.review.diff_figures import FALSE_ALARM, THROUGHPUT
from autotune.review.diff_schema import (
    Change,
    Difference,
    EntryChange,
    RejectedChange,
    RunChange,
    SideName,
    WinnerSide,
)
from autotune.review.diff_tables import change_table, throughput_table, times_table
from autotune.review.show_words import ratio_words

_TITLE = "Difference"
_KINDS = {"decision": "decision file", "run": "run folder", "nothing": "nothing"}
_SOURCES = {
    "decision.json": ", by its decision.json",
    "records": ", which has no decision: by what the rule says of its records",
}
_ABSENT = "none"


def render(difference: Difference) -> str:
    """Return the difference as Markdown, ending with a newline; every text in it is escaped."""
    sections = tuple(_sections(difference))
    if not sections or (difference.empty and not difference.out_of_step):
        return f"{difference.summary}\n"
    # Piece by piece, since a text is cut when it is escaped. Inside a line, an arrow opens nothing;
    # escaped it would be hard to read in a terminal.
    pieces = [escape(piece) for piece in difference.summary.split("; ")]
    summary = f"**{'; '.join(pieces).replace('-&gt;', '->')}**"
    body = render_report(Report(_TITLE, sections)).removeprefix(f"# {_TITLE}\n\n")
    sides = [f"- {escape(text)}" for text in _sides(difference)]
    return "\n\n".join([summary, "\n".join(sides), body])


def _sides(difference: Difference) -> Iterator[str]:
    for name, side in (("old", difference.old), ("new", difference.new)):
        yield f"{name}: {_side(side)}"
    if difference.not_compared:
        scopes = "scope" if difference.not_compared == 1 else "scopes"
        yield f"{difference.not_compared} more {scopes} of the decision file: not compared"


def _side(side: SideName) -> str:
    if side.kind == "nothing":
        return "nothing"
    return f"{side.path} ({_KINDS[side.kind]}{_SOURCES.get(side.entries_from or '', '')})"


def _sections(difference: Difference) -> Iterator[Section]:
    if difference.key_changes:
        yield Section("Key", (change_table(difference.key_changes),))
    if difference.out_of_step:
        text = "A run stands for its decision.json, whatever its records say by now:"
        yield Section("Out of step", (Paragraph(text), Bullets(difference.out_of_step)))
    if difference.caveats:
        yield Section("Why the figures may not be comparable", (Bullets(difference.caveats),))
    for entry in difference.entries:
        yield Section(_title(entry), tuple(_entry_blocks(entry)))
    if difference.run is not None:
        yield from _run_sections(difference.run)


def _title(entry: EntryChange) -> str:
    word = {"added": "Scope added", "removed": "Scope removed", "changed": "Scope"}[entry.status]
    return f"{word}: {entry.label}"


def _entry_blocks(entry: EntryChange) -> Iterator[Block]:
    only = {"added": "new", "removed": "old", "changed": None}[entry.status]
    if entry.choice:
        yield Paragraph("Choice", strong=True)
        yield change_table(entry.choice, only=only)
    if entry.winners:
        yield Paragraph("Fastest at each concurrency (ratio to the choice)", strong=True)
        yield _winners_table(entry, only)
    if entry.figures:
        yield Paragraph("Figures", strong=True)
        yield from _figure_blocks(entry, only)
    if entry.scope:
        yield Paragraph("Scope", strong=True)
        yield change_table(entry.scope, only=only)
    if entry.evidence or entry.rejected or entry.accepted_added or entry.accepted_removed:
        yield Paragraph("Evidence", strong=True)
    if entry.evidence:
        yield change_table(entry.evidence, only=only)
    if entry.rejected:
        yield _rejected_table(entry.rejected)
    for word, reasons in (
        ("Accepted now, wasn't before", entry.accepted_added),
        ("Accepted before, isn't any more", entry.accepted_removed),
    ):
        if reasons:
            yield Paragraph(f"{word}:" if entry.status == "changed" else "Accepted in spite of:")
            yield Bullets(reasons)


def _figure_blocks(entry: EntryChange, only: str | None) -> Iterator[Block]:
    throughputs = [one for one in entry.figures if one.figure == THROUGHPUT]
    times = [one for one in entry.figures if one.figure != THROUGHPUT]
    if throughputs:
        yield throughput_table(throughputs, only=only)
    if times:
        yield times_table(times, only=only)
    if entry.status != "changed":
        return
    if any(one.spread != "not_recorded" for one in entry.figures):
        yield Paragraph(
            "Beyond: the change is more than the rounds of both runs explain by how far they lie "
            "apart. Such a change is of the rounds' geometric means, and brackets hold its "
            "interval (Welch's t on logarithms), with at most "
            f"{FALSE_ALARM:.0%} chance that any row of one figure is called beyond without cause."
        )
        yield Paragraph(
            "What differs between two days on one machine isn't in either run's spread."
        )
    else:
        yield Paragraph(
            "No spread recorded: only the means over the rounds are compared, so nothing here says "
            "whether a change is more than chance."
        )


def _winners_table(entry: EntryChange, only: str | None) -> Table:
    sides = [only] if only else ["old", "new"]
    titles = ["fastest"] if only else sides
    columns = (Column("concurrency", numeric=True), *(Column(title) for title in titles))
    rows = tuple(
        (str(change.concurrency), *(_winner(getattr(change, side)) for side in sides))
        for change in entry.winners
    )
    return Table(columns, rows)


def _winner(side: WinnerSide | None) -> str:
    if side is None:
        return _ABSENT
    name = side.candidate
    if side.backend != side.candidate:
        name += f" (backend {side.backend})"
    return f"{name}, {ratio_words(side.ratio_to_choice, side.interval)}"


def _rejected_table(rejected: Sequence[RejectedChange]) -> Table:
    columns = (
        Column("rejected candidate", code=True),
        Column("what"),
        Column("verdict"),
        Column("reason"),
    )
    rows = []
    for change in rejected:
        for word, side in (("was rejected", change.old), ("is rejected", change.new)):
            if side is not None:
                both = change.old is not None and change.new is not None
                what = word if both else {"was rejected": "removed", "is rejected": "added"}[word]
                name = change.candidate
                if side.backend != name:
                    what += f" (backend {side.backend})"
                rows.append((name, what, side.verdict or "none", side.reason))
    return Table(columns, tuple(rows))


def _run_sections(run: RunChange) -> Iterator[Section]:
    parts: tuple[tuple[str, Sequence[Change]], ...] = (
        ("Run", run.about),
        ("Candidates", run.candidates),
        ("Rule", run.rule),
        ("Workload", run.workload),
        ("Launches by status", run.launches),
    )
    for title, found in parts:
        if found:
            yield Section(title, (change_table(found),))
    lines = [
        f"{word}: {', '.join(str(one) for one in numbers)}"
        for word, numbers in (
            ("measured now, wasn't before", run.concurrencies_added),
            ("measured before, isn't any more", run.concurrencies_removed),
        )
        if numbers
    ]
    if lines:
        yield Section("Concurrencies", (Bullets(tuple(lines)),))
    if run.environment:
        weights = [change.weight for change in run.environment]
        note = Paragraph(
            "A hard difference can change which kernels run, or whether they run right; a soft one "
            "only moves figures, as far as is known."
        )
        table = change_table(run.environment, extra=("weight", weights))
        yield Section("Environment", (table, note))
