"""``autotune show``: one decision or one run, in full."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import Json
from autotune.cli.output import tell, tell_json
from autotune.cli.width import terminal_width


def show(
    what: Annotated[
        Path, typer.Argument(metavar="RUN|DECISION", help="A run folder or a decision file.")
    ],
    json: Json = False,
) -> None:
    """Print a run or a decision: what was chosen, why, and on which figures.

    A run is judged from its records; nothing is written into its folder.
    """
    from autotune.review.show import ShownDecision, read_shown
    from autotune.review.show_decision import decision_report
    from autotune.review.show_text import render_text

    shown = read_shown(what)
    if isinstance(shown, ShownDecision):
        if json:
            tell_json(shown)
        else:
            tell(render_text(decision_report(shown.decision), width=terminal_width()))
        return
    from autotune.review.show_run import run_data, run_report

    if json:
        tell_json(run_data(shown))
    else:
        tell(render_text(run_report(shown), width=terminal_width()))
