"""Write a report: ``report.md``, ``report.html`` and the plots, of one run or of several."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.errors import InputError, RunFolderError
from autotune.records.folder import RunFolder, write_atomically
from autotune.report import candidates, correctness, evidence, pictures, results, search
from autotune.report.content import Report
from autotune.report.drawing import is_ours
from autotune.report.figures import STEMS, draw_figures
from autotune.report.html import render_html
from autotune.report.markdown import render
from autotune.report.probe_texts import probe_texts_section
from autotune.report.several import RunShown, check_alike
from autotune.report.several_figures import draw_several
from autotune.report.several_sections import build_several
from autotune.report.subject import Subject
from autotune.report.text import one_line

REPORT_FILE = "report.md"
REPORT_HTML = "report.html"
# Of a picture: so much says who made it.
_BEGINNING = 2048
# Ends each report.md, unseen by who reads it.
_MARK = "\n<!-- made by autotune report, which makes it anew: edits are lost -->\n"
_PICTURES = frozenset(f"{stem}.{suffix}" for stem in STEMS for suffix in ("svg", "png"))
_FILES = _PICTURES | {REPORT_FILE, REPORT_HTML}


def write_report(
    folder: RunFolder,
    subject: Subject,
    *,
    environment: Mapping[str, Any] | None,
    side_effects: Mapping[str, str] | None = None,
    to: Path | None = None,
) -> list[Path]:
    """Write ``report.md``, ``report.html`` and the plots (SVG, PNG); return the files, these first.

    Each file is written whole. A plot left by an earlier report of a quantity that this one
    doesn't have is removed, so that no stale picture lies beside the text.

    Args:
        folder: the run's folder.
        subject: the folder's records and what was judged of them.
        environment: the content of environment.json, ``None`` where there is none.
        side_effects: what else a candidate changes, a sentence for each that does.
        to: where to write; into the run's folder if not given.

    Raises:
        RunFolderError: the folder can't be written.
    """
    plots = draw_figures(
        subject.run, subject.judgement, points=subject.points, summary=subject.summary
    )
    report = build_report(
        subject,
        plots=tuple(plots),
        folder_name=folder.path.name,
        environment=environment,
        side_effects=side_effects,
    )
    return _write(to or folder.path, report, plots)


def write_several(to: Path, runs: Sequence[RunShown]) -> list[Path]:
    """Write one report of several runs into ``to``; return the files, the texts first.

    Raises:
        InputError: the runs' figures can't stand beside one another.
        RunFolderError: the folder can't be written.
    """
    check_alike(runs)
    plots = draw_several(runs)
    return _write(to, build_several(runs, plots=tuple(plots)), plots)


def _write(path: Path, report: Report, plots: Mapping[str, bytes]) -> list[Path]:
    for name, data in plots.items():
        write_atomically(path / name, data)
    _remove_stale(path, keep=plots)
    write_atomically(path / REPORT_FILE, (render(report) + _MARK).encode())
    write_atomically(path / REPORT_HTML, render_html(report, plots).encode())
    return [path / name for name in (REPORT_FILE, REPORT_HTML, *plots)]


def build_report(
    subject: Subject,
    *,
    plots: tuple[str, ...],
    folder_name: str,
    environment: Mapping[str, Any] | None,
    side_effects: Mapping[str, str] | None = None,
) -> Report:
    """Return the report's content, for any format to render."""
    return Report(
        title=f"{subject.run.run.name}: {subject.run.run.key}",
        sections=(
            results.verdict_section(subject),
            pictures.plots_section(subject, files=plots),
            results.figures_section(subject),
            candidates.rejected_section(subject),
            candidates.candidates_section(subject, side_effects=side_effects),
            correctness.correctness_section(subject),
            evidence.invalid_section(subject),
            evidence.warnings_section(subject),
            evidence.import_section(subject),
            search.search_section(subject),
            correctness.correctness_details_section(subject),
            probe_texts_section(subject),
            pictures.tradeoff_section(subject),
            results.reading_section(),
            evidence.reproduce_section(subject, folder_name=folder_name),
            evidence.launches_section(subject),
            evidence.environment_section(environment),
        ),
    )


def check_destination(to: Path) -> None:
    """Raise unless ``to`` is new, empty, or holds nothing but an earlier report.

    Raises:
        InputError: it is or lies in a run folder, or holds something that a report isn't made of.
        RunFolderError: it can't be looked into.
    """
    place = Path(os.path.realpath(to))
    for folder in (place, *place.parents):
        if RunFolder(folder).exists():
            raise InputError(
                f"{to}: is or lies in a run folder, which holds that run's own report: name "
                "another folder with --to"
            )
    try:
        with os.scandir(place) as entries:
            foreign = sorted(entry.name for entry in entries if not _of_a_report(entry))
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunFolderError(
            f"{to}: can't be used as a folder ({error.strerror}): name another one with --to"
        ) from None
    if foreign:
        raise InputError(
            f"{to}: holds {one_line(foreign[0])}, which is no part of a report: name a new or an "
            "empty folder with --to, or one that holds an earlier report"
        )


def _of_a_report(entry: os.DirEntry[str]) -> bool:
    """Whether a file is one that `_write` wrote, or began to write."""
    if not entry.is_file(follow_symlinks=False):
        return False
    if entry.name.startswith("."):
        return entry.name[1:].rpartition(".")[0] in _FILES
    if entry.name in _PICTURES:
        with open(entry.path, "rb") as file:
            return is_ours(file.read(_BEGINNING))
    if entry.name == REPORT_HTML:  # Written after the other one, which can tell.
        return (Path(entry.path).parent / REPORT_FILE).is_file()
    return entry.name == REPORT_FILE and Path(entry.path).read_bytes().endswith(_MARK.encode())


def _remove_stale(path: Path, *, keep: Collection[str]) -> None:
    """Remove plots that an earlier report left; pictures that somebody else made stay."""
    for stem in STEMS:
        for name in (f"{stem}.svg", f"{stem}.png"):
            if name in keep:
                continue
            try:
                with (path / name).open("rb") as file:
                    ours = is_ours(file.read(_BEGINNING))
                if ours:
                    (path / name).unlink(missing_ok=True)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise RunFolderError(
                    f"{path / name}: can't be removed ({error.strerror}): remove it, or choose "
                    "another folder"
                ) from error
