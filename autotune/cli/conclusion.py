"""How a judged run is told on a terminal: the one line, what goes with it, where the files are."""

from typing import NoReturn

import typer

from autotune.cli.output import tell, tell_json
from autotune.conclude import Conclusion


def finish(conclusion: Conclusion, *, json: bool) -> NoReturn:
    """Print what a run came to, and end the command with the exit code for it."""
    if json:
        tell_json(conclusion)
    else:
        _tell(conclusion)
    raise typer.Exit(conclusion.exit_code)


def _tell(conclusion: Conclusion) -> None:
    judgement = conclusion.judgement
    tell(judgement.summary)
    for note in judgement.notes:
        tell(f"  note: {note}")
    for blocker in judgement.blockers:
        mark = "accepted" if blocker in conclusion.accepted else "open"
        tell(f"  {mark}: {blocker}")
    for standing in judgement.standings:
        if not standing.admissible and standing.reason is not None:
            tell(f"  rejected: {standing.candidate}: {standing.reason}")
    for path in conclusion.decision_files:
        tell(f"decision: {path}")
    for sentence in conclusion.replaced:
        tell(f"  replaced: {sentence}")
    if not conclusion.decision_files:
        tell("decision: none written")
        if conclusion.withdrawn is not None:
            tell(f"  removed: {conclusion.withdrawn}, which an earlier look wrote")
        if judgement.choice is not None:
            flags = "--accept --accept-inconclusive" if conclusion.let_in else "--accept"
            tell(f"  to write it all the same: autotune decide {conclusion.run} {flags}")
    for path in conclusion.reports:
        if path.endswith((".md", ".html")):
            tell(f"report:   {path}")
