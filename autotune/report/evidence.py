"""The sections to check a report by: what failed or warned, launches, environment, commands."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autotune.records.schema import MeasurementWarning, PointRecord
from autotune.report.content import Block, Bullets, Code, Column, Paragraph, Section, Table
from autotune.report.numbers import UNKNOWN, figure
from autotune.report.subject import Subject
from autotune.report.tables import points_table

MOST_ROWS = 200
# Longer tables are folded, so that what a reviewer must see stays on a screen or two.
MOST_OPEN = 12
DEEPEST = 8
_MOST_OBSERVED = 4
INVALID_COLUMNS = (
    Column("candidate", code=True),
    Column("round", numeric=True),
    Column("concurrency", numeric=True),
    Column("status", code=True),
    Column("reason"),
)
WARNING_COLUMNS = (
    Column("code", code=True),
    Column("where"),
    Column("observed"),
    Column("threshold"),
    Column("remedy"),
)


def invalid_section(subject: Subject) -> Section:
    """The points that take no part in the decision, each with its reason."""
    rows = invalid_rows(subject)
    if not rows:
        return Section("Points left out")
    blocks = capped(INVALID_COLUMNS, rows)
    return Section("Points left out", blocks, folded=len(rows) > MOST_OPEN)


def invalid_rows(subject: Subject) -> list[tuple[str, ...]]:
    """Return a row for each point that isn't valid, for ``INVALID_COLUMNS``."""
    points = points_table(subject.whole)
    points = points[points["status"] != "ok"]
    names = ["candidate", "round", "concurrency", "status", "reason"]
    return [tuple(_text(value) for value in row) for row in points[names].values.tolist()]


def warnings_section(subject: Subject) -> Section:
    """Warnings as data; equal ones of one candidate share a row."""
    rows = warning_rows(subject)
    if not rows:
        return Section("Warnings")
    return Section("Warnings", capped(WARNING_COLUMNS, rows), folded=len(rows) > MOST_OPEN)


def warning_rows(subject: Subject) -> list[tuple[str, ...]]:
    """Return a row for each warning of a candidate, for ``WARNING_COLUMNS``."""
    grouped: dict[tuple[str, ...], list[tuple[PointRecord, MeasurementWarning]]] = {}
    for point in subject.whole.points:
        for warning in point.warnings:
            key = (warning.code, point.candidate, warning.threshold, warning.remedy)
            grouped.setdefault(key, []).append((point, warning))
    rows: list[tuple[str, ...]] = []
    for (code, candidate, threshold, remedy), cases in grouped.items():
        places = _some([f"c{point.concurrency} round {point.round}" for point, _ in cases])
        observed = _some(list(dict.fromkeys(warning.observed for _, warning in cases)))
        rows.append((code, f"{candidate}: {places}", observed, threshold, remedy))
    return rows


def launches_section(subject: Subject) -> Section:
    """Every server start, failed ones too."""
    if not len(subject.launches):
        return Section("Launches", folded=True)
    columns = (
        Column("round", numeric=True),
        Column("candidate", code=True),
        Column("status", code=True),
        Column("start-up (s)", numeric=True),
        Column("resolved backend", code=True),
        Column("reason"),
    )
    rows = [
        (
            str(launch.round),
            launch.candidate,
            launch.status,
            figure(launch.ready_s),
            launch.resolved_backend or "not reported",
            launch.reason or "",
        )
        for launch in sorted(subject.whole.launches, key=lambda r: (r.round, r.position))
    ]
    tuning = {launch.kernel_tuning for launch in subject.whole.launches} - {None}
    told = {"own": " anew at each launch", "shared": " once, and shared by all launches"}
    text = "Start-up runs from process start to the first generated token."
    for kind in sorted(str(kind) for kind in tuning):
        text += f" Kernels that the engine tunes at start-up were tuned{told[kind]}."
    note = Paragraph(text)
    return Section("Launches", (*capped(columns, rows), note), folded=True)


def environment_section(environment: Mapping[str, Any] | None) -> Section:
    """The fingerprint of the machine, nested names joined by dots."""
    if environment is None:
        return Section("Environment", (Paragraph("Not recorded."),), folded=True)
    rows = list(flat(environment))
    columns = (Column("what", code=True), Column("value"))
    return Section("Environment", capped(columns, rows), folded=True)


def import_section(subject: Subject) -> Section:
    """What an import left out of its files, and what was said in place of them."""
    notes = subject.run.run.import_notes
    shown = notes[:MOST_ROWS]
    blocks: list[Block] = [Bullets(shown)] if shown else []
    if len(notes) > len(shown):
        more = len(notes) - len(shown)
        blocks.append(Paragraph(f"{more} more aren't shown; run.json has them all."))
    return Section("How the files were taken over", tuple(blocks))


def reproduce_section(subject: Subject, *, folder_name: str) -> Section:
    """The commands that measure and derive all this again."""
    name = shlex.quote(folder_name)
    # Without what was accepted, judging again would withdraw the decision.
    flags = " --accept" if subject.accepted else ""
    flags += " --accept-inconclusive" if subject.inconclusive_let_in else ""
    decide = f"autotune decide {name}{flags}"
    blocks: list[Block] = []
    if subject.imported:
        where = f"The figures were published elsewhere. In the folder that holds {folder_name}, "
        blocks.append(Paragraph(f"{where}they can be judged again:"))
        blocks.append(Code((decide,)))
    else:
        where = f"In the folder that holds {folder_name}, measure again into a new folder, "
        blocks.append(Paragraph(f"{where}or judge these records again:"))
        again = shlex.quote(f"{folder_name}-again")
        blocks.append(Code((f"autotune sweep {name}/run.toml --run {again}", decide)))
    commands: dict[str, str] = {}
    for launch in subject.whole.launches:
        if launch.command:
            commands.setdefault(launch.candidate, shlex.join(launch.command))
    if commands:
        blocks.append(Paragraph("Each candidate's server was started with:"))
        blocks.append(Code(tuple(commands.values())))
    digests = {
        "config digest": subject.run.run.config_digest,
        "workload digest": subject.run.run.workload.digest,
    }
    known = [f"{name} {digest}" for name, digest in digests.items() if digest is not None]
    if known:
        blocks.append(Paragraph(", ".join(known).capitalize() + "."))
    return Section("How to reproduce", tuple(blocks), folded=True)


def capped(columns: tuple[Column, ...], rows: Sequence[tuple[str, ...]]) -> tuple[Block, ...]:
    """Return a table of at most ``MOST_ROWS`` rows, and how many aren't shown."""
    table = Table(columns, tuple(rows[:MOST_ROWS]))
    if len(rows) <= MOST_ROWS:
        return (table,)
    left = len(rows) - MOST_ROWS
    return (table, Paragraph(f"{left} more rows aren't shown; the run folder has them all."))


def _some(texts: list[str]) -> str:
    shown = "; ".join(texts[:_MOST_OBSERVED])
    more = len(texts) - _MOST_OBSERVED
    return f"{shown}; and {more} more" if more > 0 else shown


def _text(value: Any) -> str:
    if value is None or value != value or str(value) == "<NA>":
        return UNKNOWN
    return str(value)


def flat(value: Any, name: str = "", *, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, text) of every leaf; a nest deeper than ``DEEPEST`` is cut."""
    if isinstance(value, Mapping) and value and depth < DEEPEST:
        for key, inner in value.items():
            yield from flat(inner, f"{name}.{key}" if name else str(key), depth=depth + 1)
    elif isinstance(value, list | tuple) and value and depth < DEEPEST:
        if all(isinstance(item, str | int | float | bool) for item in value):
            yield name, ", ".join(str(item) for item in value)
            return
        for place, inner in enumerate(value):
            yield from flat(inner, f"{name}.{place}", depth=depth + 1)
    elif isinstance(value, Mapping | list | tuple):
        yield name, "(more inside)" if value else "none"
    else:
        yield name, "not known" if value is None else str(value)
