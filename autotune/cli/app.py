"""The Typer application: which commands there are, and the options of none in particular."""

from typing import Annotated

import typer

import autotune
from autotune.cli.check import check
from autotune.cli.decide import decide
from autotune.cli.diff import diff
from autotune.cli.import_ import import_table
from autotune.cli.kernels import kernels
from autotune.cli.list_ import list_items
from autotune.cli.report import report
from autotune.cli.resolve import resolve
from autotune.cli.show import show
from autotune.cli.simulate import simulate
from autotune.cli.sweep import sweep

app = typer.Typer(
    name="autotune",
    help=(
        "Measure which MoE backend is right and fast for a model on this machine, freeze the "
        "answer, and start servers from it."
    ),
    epilog=(
        "Exit codes: 0 done, 1 failed while running, 2 bad usage or input, 3 no decision (open), "
        "4 stale decision, 130 interrupted."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"autotune {autotune.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options that come before a command."""


app.command()(sweep)
app.command()(decide)
app.command()(resolve)
app.command("import")(import_table)
app.command()(report)
app.command()(diff)
app.command("list")(list_items)
app.command()(show)
app.command()(simulate)
app.command()(check)
app.command()(kernels)
