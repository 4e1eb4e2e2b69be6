"""``autotune check``: whether checked-in decisions still hold."""

import datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from autotune.errors import UsageError


def check(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR",
            help="Folders of decision files, or run folders. Default: configs/decisions.",
            show_default=False,
        ),
    ] = None,
    evidence: Annotated[
        Path, typer.Option(help="The folder of the run folders that decisions name.")
    ] = Path("results"),
    max_age_days: Annotated[
        int | None, typer.Option(help="Older decisions are stale.", min=1)
    ] = None,
    version: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VERSION",
            help="The version of an engine or kernel library that you run, instead of what is "
            "installed here or known from a catalog; may be given again.",
        ),
    ] = None,
    form: Annotated[
        Literal["text", "github", "json"],
        typer.Option("--format", help="github prints workflow annotations."),
    ] = "text",
) -> None:
    """Check that decision files are whole, follow from their evidence, and are fresh.

    Every decision is derived anew from its run folder and compared; nothing is written. Exits
    with 0 if all hold, with 4 if some are stale, with 2 if anything is wrong.
    """
    from autotune.cli.output import tell
    from autotune.review.check import CheckOptions, check_folders
    from autotune.review.check_known import read_given_versions
    from autotune.review.check_print import exit_code, render

    chosen = list(dict.fromkeys(folders or [Path("configs/decisions")]))
    for folder in chosen:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder: name one that holds decision files")
    if evidence != Path("results") and not evidence.is_dir():
        raise UsageError(f"{evidence}: no such folder: name the one that holds the run folders")
    options = CheckOptions(
        evidence=evidence,
        today=datetime.datetime.now(datetime.UTC).date(),
        max_age_days=max_age_days,
        versions=read_given_versions(version or ()),
    )
    review = check_folders(chosen, options)
    tell(render(review, form, workplace=str(Path.cwd())))
    raise typer.Exit(exit_code(review))
