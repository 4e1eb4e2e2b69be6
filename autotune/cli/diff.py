"""``autotune diff``: what changed between two decisions, or two runs."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import Json
from autotune.cli.output import tell, tell_json

_SIDE = "A decision file, a run folder, or /dev/null."


def diff(
    old: Annotated[Path, typer.Argument(help=_SIDE)],
    new: Annotated[Path, typer.Argument(help=_SIDE)],
    json: Json = False,
) -> None:
    """Print what changed from OLD to NEW, as Markdown for a pull request.

    Choice, figures, scope and evidence; of two run folders also candidates, rule, workload,
    launches and environment. Exits with 0 whether or not anything differs.
    """
    from autotune.review.diff import compare_sides
    from autotune.review.diff_markdown import render
    from autotune.review.diff_sides import read_side

    difference = compare_sides(read_side(old), read_side(new))
    if json:
        tell_json(difference)
    else:
        tell(render(difference).rstrip("\n"))
