"""``autotune report``: write a run's tables, plots and Markdown report anew."""

from autotune.cli.options import RunFolderArgument
from autotune.cli.output import tell


def report(
    run: RunFolderArgument,
) -> None:
    """Write a run's tables, plots (SVG, PNG) and report.md anew from its records."""
    from autotune.conclude import rewrite_reports

    for path in rewrite_reports(run):
        tell(str(path))
