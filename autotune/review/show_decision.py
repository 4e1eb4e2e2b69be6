"""``autotune show`` of a decision file: each entry's scope, choice and evidence. Pure."""

from collections.abc import Iterator, Sequence

from autotune.decisions.schema import DecisionFile, Entry, EvidenceRow, Scope
from autotune.report.content import Block, Bullets, Column, Paragraph, Report, Section, Table
from autotune.report.numbers import UNKNOWN, figure, time_unit
from autotune.report.tables import TRIALS_TABLE
from autotune.report.text import count
from autotune.review.show_words import (
    choice_ratio,
    key_words,
    ratio_words,
    scope_words,
    value_words,
)

_TIMES = (
    ("ttft_mean_s", "TTFT mean"),
    ("ttft_p99_s", "TTFT p99"),
    ("latency_mean_s", "latency mean"),
    ("latency_p99_s", "latency p99"),
)


def decision_report(decision: DecisionFile) -> Report:
    """Return what a decision file says, for `autotune.review.show_text` to lay out."""
    scopes = [entry.scope for entry in decision.entries]
    sections: list[Section] = []
    for number, entry in enumerate(decision.entries, start=1):
        others = [scope for scope in scopes if scope is not entry.scope]
        sections += _entry_sections(entry, number if others else None, others)
    title = f"{key_words(decision.key)}: {count(len(decision.entries), 'measured scope')}"
    return Report(title, tuple(sections))


def _entry_sections(entry: Entry, number: int | None, others: Sequence[Scope]) -> Iterator[Section]:
    mark = "" if number is None else f"{number}. "
    yield Section(f"{mark}Scope", (_scope_block(entry.scope, others), _scope_table(entry.scope)))
    yield Section(f"{mark}Choice", tuple(_choice_blocks(entry)))
    yield Section(f"{mark}Evidence", tuple(_evidence_blocks(entry)))


def _scope_block(scope: Scope, others: Sequence[Scope]) -> Paragraph:
    return Paragraph(scope_words(scope, among=others))


def _scope_table(scope: Scope) -> Table:
    """The fields that the line above doesn't always tell."""
    names = [name for name in scope.__struct_fields__ if name not in {"engine", "engine_version"}]
    rows = []
    for name in names:
        value = getattr(scope, name)
        if value not in (None, (), {}):
            told = " (hidden size, expert width, experts, top-k)" if name == "geometry" else ""
            rows.append((name, value_words(value) + told))
    empty = [name for name in names if getattr(scope, name) is None and name != "also_arch_reason"]
    if empty:
        rows.append(("not recorded", ", ".join(empty)))
    return Table((Column("field", code=True), Column("value")), tuple(rows))


def _choice_blocks(entry: Entry) -> Iterator[Block]:
    choice = entry.choice
    accepted = "; accepted by hand, see the evidence" if entry.evidence.accepted else ""
    name = "" if choice.candidate == choice.backend else f" (candidate {choice.candidate})"
    yield Paragraph(
        f"{choice.backend}{name}: {choice.outcome} over {count(choice.rounds, 'round')}, answers "
        f"{choice.verdict}{accepted}",
        strong=True,
    )
    settings = [*choice.arguments, *(f"{k}={v}" for k, v in sorted(choice.environment.items()))]
    if settings:
        yield Paragraph(f"measured with {' '.join(settings)}")
    if TRIALS_TABLE in entry.evidence.tables:
        yield Paragraph(
            f"a search came before the race: {TRIALS_TABLE} of the run has each setting tried"
        )
    ratio = choice_ratio(choice)
    if ratio:
        yield Paragraph(f"throughput {ratio}, the {choice.baseline_role or 'baseline'}")
    yield Bullets(_sentences(choice.reason))
    if choice.winners:
        columns = (
            Column("concurrency", numeric=True),
            Column("fastest", code=True),
            Column("ratio to the choice", numeric=True),
        )
        rows = tuple(
            (
                str(winner.concurrency),
                winner.candidate,
                ratio_words(winner.ratio_to_choice, winner.interval),
            )
            for winner in choice.winners
        )
        yield Table(columns, rows)


def _evidence_blocks(entry: Entry) -> Iterator[Block]:
    evidence = entry.evidence
    # Of a published table only the day of its import is known.
    made = "imported" if evidence.source else "measured"
    yield Paragraph(f"run {evidence.run}, {made} on {evidence.measured_at}")
    if evidence.source is not None:
        yield Paragraph(f"imported from {evidence.source}")
    if evidence.rows:
        yield _rows_table(evidence.rows)
    if evidence.rejected:
        yield Paragraph("Rejected:")
        yield Bullets(
            tuple(
                f"{one.candidate}: {one.reason}"
                + (f" (answers {one.verdict})" if one.verdict else "")
                for one in evidence.rejected
            )
        )
    if evidence.accepted:
        yield Paragraph("Accepted by hand, in spite of:")
        yield Bullets(evidence.accepted)
    tables = (f"{name} {digest}" for name, digest in sorted(evidence.tables.items()))
    yield Paragraph("SHA-256 of the run's tables:")
    yield Bullets(tuple(tables))


def _rows_table(rows: Sequence[EvidenceRow]) -> Table:
    """One row for each concurrency and candidate; each kind of time in one unit."""
    ordered = sorted(rows, key=lambda row: row.concurrency)
    columns = [
        Column("concurrency", numeric=True),
        Column("candidate", code=True),
        Column("output tokens/s", numeric=True),
    ]
    cells = [
        [str(row.concurrency) for row in ordered],
        [row.candidate for row in ordered],
        [figure(row.output_tokens_per_s) for row in ordered],
    ]
    for kind in ("ttft", "latency"):
        shown = [(name, title) for name, title in _TIMES if name.startswith(kind)]
        unit = time_unit(getattr(row, name) for row in rows for name, _ in shown)
        for name, title in shown:
            texts = [unit.show(getattr(row, name)) for row in ordered]
            if any(text != UNKNOWN for text in texts):
                columns.append(Column(f"{title} ({unit.name})", numeric=True))
                cells.append(texts)
    columns.append(Column("n", numeric=True))
    cells.append([str(row.rounds) for row in ordered])
    return Table(tuple(columns), tuple(zip(*cells, strict=True)))


def _sentences(reason: str) -> tuple[str, ...]:
    """Part a reason at its semicolons, but for those inside of brackets."""
    found: list[str] = []
    depth = 0
    for piece in reason.split("; "):
        if depth:
            found[-1] += f"; {piece}"
        else:
            found.append(piece)
        depth = max(0, depth + piece.count("(") - piece.count(")"))
    return tuple(found)
