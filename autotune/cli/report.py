"""``autotune report``: write the report of a run anew, or one of several runs."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.output import tell


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders that a sweep or an import made.")],
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A new or empty folder to write the report into, or one that holds an earlier "
            "report; needed for several runs.",
        ),
    ] = None,
) -> None:
    """Write a run's tables, plots (SVG, PNG), report.md and report.html anew from its records.

    Of several runs, write one report of all of them into the folder --to: each judged by itself,
    figures side by side. Runs of another model or workload are refused. Of a layer sweep's folder,
    write its table, plot and text anew.
    """
    from autotune.conclude import report_into, rewrite_reports
    from autotune.errors import UsageError
    from autotune.kernels.folder import KernelFolder

    if to is None and len(runs) > 1:
        named = " ".join(shlex.quote(str(run)) for run in runs)
        raise UsageError(
            "a report of several runs needs a folder of its own: "
            f"autotune report {named} --to FOLDER"
        )
    if to is None and KernelFolder(runs[0]).exists():
        from autotune.kernels.report.write import write_kernels

        for written in write_kernels(KernelFolder(runs[0])).paths:
            tell(str(written))
        return
    for path in rewrite_reports(runs[0]) if to is None else report_into(runs, to):
        tell(str(path))
