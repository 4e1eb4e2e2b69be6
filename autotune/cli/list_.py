"""``autotune list``: decisions and runs at a glance."""

import datetime
import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from autotune.cli.options import Json
from autotune.cli.output import tell, tell_json
from autotune.cli.width import terminal_width

_GLOB = "a glob such as 'MiniMax*'; it must match whole, case and all"


def list_items(
    places: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR",
            help="Folders of decisions or of runs, run folders, or decision files; by default "
            "configs/decisions and results in the working folder.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        Literal["decision", "run"] | None, typer.Option(help="Only decisions, or only runs.")
    ] = None,
    model: Annotated[str | None, typer.Option(help=f"The architecture's name: {_GLOB}.")] = None,
    quantization: Annotated[str | None, typer.Option(help="The quantization: a glob.")] = None,
    arch: Annotated[str | None, typer.Option(help="The arch: a glob such as 'sm10*'.")] = None,
    engine: Annotated[str | None, typer.Option(help="The engine: a glob.")] = None,
    outcome: Annotated[
        str | None, typer.Option(help="decisive, within_delta or open: a glob.")
    ] = None,
    searched: Annotated[
        bool,
        typer.Option(
            "--searched",
            help="List what a server finds, too: the folders of AUTOTUNE_DECISIONS and the "
            "decisions shipped with autotune; without DIR only these.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """List decisions and runs, one line each.

    What can't be read is a line that says so; the exit code is 0 also then.
    """
    from autotune.decisions.store import Store
    from autotune.review import listing
    from autotune.review.show_listing import listing_text

    if not places:
        places = [] if searched else list(listing.default_places())
    items = listing.list_items(
        places,
        filters=listing.Filters(
            kind=kind,
            model=model,
            quantization=quantization,
            arch=arch,
            engine=engine,
            outcome=outcome,
        ),
        today=datetime.datetime.now(datetime.UTC).date(),
        searched=Store.from_environment(os.environ) if searched else None,
    )
    if json:
        tell_json(items)
    elif items:
        tell(listing_text(items, width=terminal_width()))
    else:
        tell("Nothing found.")
