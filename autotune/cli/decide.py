"""``autotune decide``: judge a run folder again, and write its decision."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.output import tell_json


def decide(
    run: Annotated[Path, typer.Argument(help="A run folder that a sweep or an import made.")],
    accept: Annotated[
        bool,
        typer.Option(
            "--accept",
            help="Write the decision in spite of what speaks against it; each reason goes into "
            "the file. A candidate with wrong answers is never chosen.",
        ),
    ] = False,
    into: Annotated[
        Path | None,
        typer.Option(
            help="A folder of decision files (such as configs/decisions) to put the decision "
            "into, beside the run's own decision.json."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Judge a run from its records alone: verdicts, tables, report and decision.

    The same records give the same answer as the sweep gave. Exits with 0 if a decision was
    written, with 3 if it stays open.
    """
    from autotune.cli.conclusion import tell_conclusion
    from autotune.conclude import conclude

    conclusion = conclude(run, accept=accept, into=into)
    if json:
        tell_json(conclusion)
    else:
        tell_conclusion(conclusion)
    raise typer.Exit(conclusion.exit_code)
