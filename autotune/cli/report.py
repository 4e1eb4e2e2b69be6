"""``autotune report``: write a run's tables, plots and Markdown report anew."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.output import tell


def report(
    run: Annotated[Path, typer.Argument(help="A run folder that a sweep or an import made.")],
) -> None:
    """Write a run's tables, plots (SVG, PNG) and report.md anew from its records."""
    from autotune.conclude import rewrite_reports

    for path in rewrite_reports(run):
        tell(str(path))
