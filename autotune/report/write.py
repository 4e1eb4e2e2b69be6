"""Write a run's report: ``report.md``, ``report.html`` and the plots, into the run folder."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from autotune.decide.schema import Judgement
from autotune.errors import RunFolderError
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun, RunFolder, write_atomically
from autotune.report import correctness, evidence, results, search
from autotune.report.content import Report
from autotune.report.figures import STEMS, draw_figures
from autotune.report.html import render_html
from autotune.report.markdown import render
from autotune.report.probe_texts import probe_texts_section
from autotune.report.subject import Subject

REPORT_FILE = "report.md"
REPORT_HTML = "report.html"


def write_report(
    folder: RunFolder,
    run: LoadedRun,
    judgement: Judgement,
    verdicts: Mapping[str, CandidateVerdict],
    *,
    environment: Mapping[str, Any] | None,
) -> list[Path]:
    """Write ``report.md``, ``report.html`` and the plots (SVG, PNG); return the files, these first.

    Each file is written whole. A plot left by an earlier report of a quantity that this one
    doesn't have is removed, so that no stale picture lies beside the text.

    Args:
        folder: where to write.
        run: the folder's records.
        judgement: what the rule says of ``run``.
        verdicts: correctness by candidate.
        environment: the content of environment.json, ``None`` where there is none.

    Raises:
        RunFolderError: the folder can't be written.
    """
    subject = Subject.of(run, judgement, verdicts=verdicts)
    plots = draw_figures(subject.run, judgement, points=subject.points, summary=subject.summary)
    report = build_report(
        subject, plots=tuple(plots), folder_name=folder.path.name, environment=environment
    )
    for name, data in plots.items():
        write_atomically(folder.path / name, data)
    _remove_stale(folder.path, keep=plots)
    write_atomically(folder.path / REPORT_FILE, render(report).encode())
    write_atomically(folder.path / REPORT_HTML, render_html(report, plots).encode())
    return [folder.path / name for name in (REPORT_FILE, REPORT_HTML, *plots)]


def build_report(
    subject: Subject,
    *,
    plots: tuple[str, ...],
    folder_name: str,
    environment: Mapping[str, Any] | None,
) -> Report:
    """Return the report's content, for any format to render."""
    return Report(
        title=f"{subject.run.run.name}: {subject.run.run.key}",
        sections=(
            results.verdict_section(subject),
            results.plots_section(subject, files=plots),
            results.figures_section(subject),
            results.candidates_section(subject),
            search.search_section(subject),
            correctness.correctness_section(subject),
            probe_texts_section(subject),
            evidence.invalid_section(subject),
            evidence.warnings_section(subject),
            evidence.reproduce_section(subject, folder_name=folder_name),
            evidence.launches_section(subject),
            evidence.environment_section(environment),
        ),
    )


def _remove_stale(path: Path, *, keep: Collection[str]) -> None:
    for stem in STEMS:
        for name in (f"{stem}.svg", f"{stem}.png"):
            if name in keep:
                continue
            try:
                (path / name).unlink(missing_ok=True)
            except OSError as error:
                raise RunFolderError(
                    f"{path / name}: can't be removed ({error.strerror}): remove it, or choose "
                    "another folder"
                ) from error
