"""Write what is derived of a layer sweep's records: table, screen, plot, text."""

from dataclasses import dataclass
from pathlib import Path

from autotune.kernels.folder import (
    FIGURE_STEM,
    SCREEN_FILE,
    TABLE_FILE,
    TEXT_FILE,
    KernelFolder,
    encoded,
)
from autotune.kernels.ranking import screen
from autotune.kernels.report.content import build_report
from autotune.kernels.report.figure import draw_kernels
from autotune.kernels.report.table import kernels_table
from autotune.kernels.schema import Screen
from autotune.records.folder import write_atomically
from autotune.report.content import Report
from autotune.report.markdown import render


@dataclass(frozen=True)
class Written:
    """What was derived, and where it lies."""

    screen: Screen
    report: Report
    paths: tuple[Path, ...]


def write_kernels(folder: KernelFolder) -> Written:
    """Write ``kernels.csv``, ``kernels.json``, ``kernels.md`` and the plot anew.

    Raises:
        RunFolderError: a record can't be read, or a file not be written.
    """
    run, points = folder.read_run(), folder.points()
    table, screened = kernels_table(run, points), screen(run, points)
    plots = draw_kernels(run, table, stem=FIGURE_STEM)
    report = build_report(run, screened, table, pictures=tuple(plots))
    for suffix in ("svg", "png"):
        if f"{FIGURE_STEM}.{suffix}" not in plots:
            (folder.path / f"{FIGURE_STEM}.{suffix}").unlink(missing_ok=True)
    for name, data in plots.items():
        write_atomically(folder.path / name, data)
    csv = table.to_csv(index=False, lineterminator="\n").encode()
    write_atomically(folder.path / TABLE_FILE, csv)
    write_atomically(folder.path / SCREEN_FILE, encoded(screened))
    write_atomically(folder.path / TEXT_FILE, render(report).encode())
    names = (TABLE_FILE, SCREEN_FILE, TEXT_FILE, *plots)
    return Written(screened, report, tuple(folder.path / name for name in names))
