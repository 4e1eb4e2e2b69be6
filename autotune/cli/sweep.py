"""``autotune sweep``: measure what a config asks for, and decide."""

import asyncio
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AcceptInconclusive, Into, Json
from autotune.cli.output import progress, tell_json
from autotune.errors import EXIT_INTERRUPTED, ConfigError

if TYPE_CHECKING:
    from autotune.conclude import Conclusion
    from autotune.sweep.context import SweepContext
    from autotune.sweep.earlier import Timing
    from autotune.sweep.progress import Tell


def sweep(
    config: Annotated[Path, typer.Argument(help="A sweep config, see configs/sweeps/.")],
    run: Annotated[
        Path | None,
        typer.Option(
            help="The run folder to begin or go on with. Default: results/<config's name>."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the schedule, what it will cost, the exact commands and their environment; "
            "launch nothing.",
        ),
    ] = False,
    screen: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A layer sweep's kernels.json (autotune kernels): in the first round, likely "
            "leaders are launched first and those that compute the layer wrong last. Counts more "
            "than the config's screen.file.",
            show_default=False,
        ),
    ] = None,
    accept_inconclusive: AcceptInconclusive = False,
    into: Into = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="Tell the progress in plain lines, also where a live view could be."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Launch a server per candidate backend, check its answers, load it, and decide.

    Run it again after an interruption, whatever caused it: what was measured is kept. Exits with
    0 if a decision was written, with 2 if nothing can be launched here (with --dry-run after the
    plan was printed), with 3 if it stays open.
    """
    from autotune.cli.dry_run import tell_preview
    from autotune.config import read_config
    from autotune.config.check import check_screen
    from autotune.records.folder import RunFolder
    from autotune.sweep.context import read_context
    from autotune.sweep.preview import preview
    from autotune.sweep.run import check_folder

    settings = read_config(config)
    if screen is not None:
        settings = settings.screened_by(str(screen))
        check_screen(settings)
    folder = RunFolder(run if run is not None else Path("results") / settings.name)
    context = read_context(settings, folder)
    check_folder(context.config, folder)
    plan = preview(context)
    if dry_run:
        if json:
            tell_json(plan)
        else:
            tell_preview(plan)
    if context.problems:
        raise ConfigError(f"{config}: nothing can be launched here: {'; '.join(context.problems)}")
    if dry_run:
        return
    screened = () if plan.screen is None else plan.screen.warnings
    for warning in (*plan.estimate.warnings, *screened):
        progress(f"warning: {warning}")
    again = f"autotune sweep {shlex.quote(str(config))}"
    if run is not None:
        again += f" --run {shlex.quote(str(run))}"
    if screen is not None:
        again += f" --screen {shlex.quote(str(screen))}"
    _heed_sigterm()
    try:
        conclusion = _measure(
            context,
            plan.estimate.timing,
            plain=plain,
            accept_inconclusive=accept_inconclusive,
            into=into,
        )
        from autotune.cli.conclusion import finish

        finish(conclusion, json=json)
    except (KeyboardInterrupt, asyncio.CancelledError):
        _tell_interrupted(context, again=again)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _tell_interrupted(context: "SweepContext", *, again: str) -> None:
    made = context.folder.count_launches()
    progress(
        f"interrupted: no server is left running; {made} finished launch{'es' * (made != 1)} and "
        f"every finished point are kept in {context.folder.path}. Go on with: {again}"
    )


def _measure(
    context: "SweepContext",
    elsewhere: "Timing | None",
    *,
    plain: bool,
    accept_inconclusive: bool,
    into: Path | None,
) -> "Conclusion":
    """Run the sweep and conclude from it, with somebody listening to the end."""
    from autotune.cli.screen import listening
    from autotune.sweep.progress import ConclusionBegan

    with listening(plain=plain) as tell:
        asyncio.run(_sweep(context, elsewhere, tell=tell))
        _heed_sigterm()
        tell(ConclusionBegan())
        # Only now: nothing that draws is loaded while something is measured.
        from autotune.conclude import conclude

        return conclude(context.folder.path, accept_inconclusive=accept_inconclusive, into=into)


async def _sweep(context: "SweepContext", elsewhere: "Timing | None", *, tell: "Tell") -> None:
    """Run the sweep; SIGTERM cancels it, so that the server is ended in order."""
    from autotune.sweep.run import run_sweep

    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await run_sweep(context, tell=tell, elsewhere=elsewhere)


def _heed_sigterm() -> None:
    """Let SIGTERM end this process as Ctrl-C does, wherever it is."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
