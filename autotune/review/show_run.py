"""``autotune show`` of a run folder: how far it is, what it came to, and where the report lies.

The sections are those of the report, so that both say the same; nothing is written.
"""

from pathlib import Path
from typing import Any

import msgspec

from autotune.decide.schema import Judgement
from autotune.decisions.schema import DecisionKey, Scope
from autotune.judged import Judged
from autotune.records.folder import DECISION_FILE
from autotune.records.schema import LaunchStatus
from autotune.report.candidates import candidates_section, rejected_section
from autotune.report.content import Block, Column, Paragraph, Report, Section, Table
from autotune.report.numbers import UNKNOWN, figure
from autotune.report.results import figures_section, verdict_section
from autotune.report.subject import Subject
from autotune.review.in_step import OUT_OF_STEP, in_step
from autotune.review.show_judged import Progress, progress_of
from autotune.review.show_search import ShownSearch, search_data, search_lines
from autotune.review.show_words import key_words
from autotune.sweep.race import duration_s

_REPORTS = ("report.html", "report.md")


class ShownLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """One server start; times in seconds, ``None`` where they aren't known."""

    round: int
    candidate: str
    status: LaunchStatus
    reason: str | None
    started_at: str | None
    took_s: float | None
    ready_s: float | None
    resolved_backend: str | None


class ShownRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run at a glance; ``figures`` are the rows of its summary table.

    ``reports`` and ``decision_file`` are the derived files that lie in the folder. ``accepted``
    and ``inconclusive_let_in`` say what somebody accepted to have that decision, as for
    `autotune.judged.Judged`; ``in_step`` whether it follows from the records. ``search`` is only
    there where something was tuned.
    """

    path: str
    kind: str
    key: DecisionKey
    scope: Scope
    progress: Progress
    judgement: Judgement
    figures: tuple[dict[str, Any], ...]
    launches: tuple[ShownLaunch, ...]
    reports: tuple[str, ...]
    decision_file: str | None
    accepted: tuple[str, ...]
    inconclusive_let_in: bool
    in_step: bool
    search: ShownSearch | None


def run_data(judged: Judged) -> ShownRun:
    """Return a run for ``autotune show --json``."""
    subject, run = judged.subject, judged.derived.loaded.run
    return ShownRun(
        path=str(judged.path),
        kind=run.kind,
        key=run.key,
        scope=run.scope,
        progress=progress_of(judged),
        judgement=judged.derived.judgement,
        figures=tuple(_rows(subject)),
        launches=_launches(judged),
        reports=_reports(judged.path),
        decision_file=None if judged.decision is None else str(judged.path / DECISION_FILE),
        accepted=judged.accepted,
        inconclusive_let_in=judged.inconclusive_let_in,
        in_step=in_step(judged),
        search=search_data(judged),
    )


def run_report(judged: Judged) -> Report:
    """Return a run for `autotune.review.show_text` to lay out."""
    subject = judged.subject
    return Report(
        f"{judged.path}: {key_words(judged.derived.loaded.run.key)}",
        (
            Section("State", tuple(_state(judged))),
            verdict_section(subject),
            figures_section(subject),
            rejected_section(subject),
            candidates_section(subject),
            search_lines(judged),
            _launches_section(judged),
        ),
    )


def _rows(subject: Subject) -> list[dict[str, Any]]:
    rows = subject.summary.astype(object).where(subject.summary.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def _state(judged: Judged) -> list[Block]:
    progress = progress_of(judged)
    made = "" if progress.imported else f"; {progress.launches} launches made"
    word = "finished" if progress.finished else "unfinished"
    state = "imported" if progress.imported else f"{word}: {progress.sentence}"
    lines: list[Block] = [Paragraph(f"{state}{made}.")]
    reports = _reports(judged.path)
    again = f"none yet: autotune report {judged.path}"
    lines.append(Paragraph(f"Report: {', '.join(reports) or again}"))
    if judged.decision is not None:
        lines.append(Paragraph(f"Decision: {judged.path / DECISION_FILE}"))
        if not in_step(judged):
            text = f"{OUT_OF_STEP} (autotune check {judged.path} says where)"
            lines.append(Paragraph(text, strong=True))
    else:
        lines.append(Paragraph(f"Decision: none written (autotune decide {judged.path})"))
    return lines


def _launches_section(judged: Judged) -> Section:
    launches = _launches(judged)
    if not launches:
        return Section("Launches")
    columns = (
        Column("round", numeric=True),
        Column("candidate", code=True),
        Column("status", code=True),
        Column("took (s)", numeric=True),
        Column("start-up (s)", numeric=True),
        Column("backend that ran", code=True),
        Column("reason"),
    )
    rows = tuple(
        (
            str(launch.round),
            launch.candidate,
            launch.status,
            UNKNOWN if launch.took_s is None else f"{launch.took_s:,.0f}",
            figure(launch.ready_s),
            launch.resolved_backend or "not reported",
            launch.reason or "",
        )
        for launch in launches
    )
    return Section("Launches", (Table(columns, rows),))


def _launches(judged: Judged) -> tuple[ShownLaunch, ...]:
    return tuple(
        ShownLaunch(
            round=launch.round,
            candidate=launch.candidate,
            status=launch.status,
            reason=launch.reason,
            started_at=launch.started_at,
            took_s=duration_s(launch) or None,
            ready_s=launch.ready_s,
            resolved_backend=launch.resolved_backend,
        )
        for launch in judged.derived.loaded.launches
    )


def _reports(path: Path) -> tuple[str, ...]:
    return tuple(str(path / name) for name in _REPORTS if (path / name).is_file())
