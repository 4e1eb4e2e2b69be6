"""``autotune sweep``: measure what a config asks for, and decide."""

import asyncio
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AcceptInconclusive, Into, Json
from autotune.cli.output import progress, tell
from autotune.errors import EXIT_INTERRUPTED, ConfigError

if TYPE_CHECKING:
    from autotune.sweep.context import SweepContext

# Shown by --dry-run: the real port is any free one, drawn at each launch.
_EXAMPLE_PORT = 30000


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
            help="Print the schedule, the exact commands and their environment; launch nothing.",
        ),
    ] = False,
    accept_inconclusive: AcceptInconclusive = False,
    into: Into = None,
    json: Json = False,
) -> None:
    """Launch a server per candidate backend, check its answers, load it, and decide.

    Run it again after an interruption, whatever caused it: what was measured is kept. Exits with
    0 if a decision was written, with 2 if nothing can be launched here (with --dry-run after the
    plan was printed), with 3 if it stays open.
    """
    from autotune.config import read_config
    from autotune.records.folder import RunFolder
    from autotune.sweep.context import read_context
    from autotune.sweep.run import check_folder

    settings = read_config(config)
    folder = RunFolder(run if run is not None else Path("results") / settings.name)
    context = read_context(settings, folder)
    check_folder(settings, folder)
    if dry_run:
        _tell_plan(context)
    if context.problems:
        raise ConfigError(f"{config}: nothing can be launched here: {'; '.join(context.problems)}")
    if dry_run:
        return
    again = f"autotune sweep {shlex.quote(str(config))}"
    if run is not None:
        again += f" --run {shlex.quote(str(run))}"
    _heed_sigterm()
    try:
        asyncio.run(_measure(context))
        _heed_sigterm()
        _conclude(folder.path, accept_inconclusive=accept_inconclusive, into=into, json=json)
    except (KeyboardInterrupt, asyncio.CancelledError):
        _tell_interrupted(context, again=again)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _tell_interrupted(context: "SweepContext", *, again: str) -> None:
    from autotune.sweep.plan import make_plan
    from autotune.sweep.run import remaining

    plan = make_plan(context.config)
    made = len(plan.launches) - remaining(plan, context.folder)
    progress(
        f"interrupted: no server is left running; {made} of {len(plan.launches)} launches and "
        f"every finished point are kept in {context.folder.path}. Go on with: {again}"
    )


async def _measure(context: "SweepContext") -> None:
    """Run the sweep; SIGTERM cancels it, so that the server is ended in order."""
    from autotune.sweep.run import run_sweep

    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await run_sweep(context, say=progress)


def _heed_sigterm() -> None:
    """Let SIGTERM end this process as Ctrl-C does, wherever it is."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def _conclude(path: Path, *, accept_inconclusive: bool, into: Path | None, json: bool) -> None:
    from autotune.cli.conclusion import finish
    from autotune.conclude import conclude

    conclusion = conclude(path, accept_inconclusive=accept_inconclusive, into=into)
    finish(conclusion, json=json)


def _tell_plan(context: "SweepContext") -> None:
    from autotune.probe.ask import fillers_in_load, probes_in_load
    from autotune.sweep.plan import make_plan
    from autotune.sweep.run import remaining

    plan = make_plan(context.config)
    config = context.config
    device = context.scope.device_name or f"a GPU of {context.key.arch}"
    tell(f"{config.name}: {context.key} on {device} ({context.device})")
    tell(f"run folder: {context.folder.path}, {remaining(plan, context.folder)} launches to make")
    tell("\nschedule:")
    for number, launch in enumerate(plan.launches, start=1):
        order = ", ".join(str(concurrency) for concurrency in launch.concurrencies)
        name = launch.candidate.name
        what = f"concurrency {order}" if order else "the reference's answers, no load"
        tell(f"  {number:>2}  round {launch.round}  {name}  {what}")
    tell("\nrequests per point, beside as many warm-up requests as the concurrency:")
    for concurrency in config.load.concurrency:
        probes, fillers = probes_in_load(concurrency), fillers_in_load(concurrency)
        tell(
            f"  concurrency {concurrency}: {config.requests_at(concurrency)} measured, then "
            f"{probes} probes among {fillers} more"
        )
    _tell_commands(context)


def _tell_commands(context: "SweepContext") -> None:
    """The exact command of each candidate; what all have in their environment comes first."""
    config, commands = context.config, {}
    for candidate in config.candidate_list():
        site = context.site(
            candidate, port=_EXAMPLE_PORT, round_number=1, meeting_port=_EXAMPLE_PORT + 1
        )
        commands[candidate.name] = context.engine.command(candidate, config=config, site=site)
    shared = set.intersection(*(set(one.environment.items()) for one in commands.values()))
    if shared:
        tell("\nenvironment of every launch:")
    for name, value in sorted(shared):
        tell(f"  {name}={shlex.quote(value)}")
    tell("\ncommands (ports are free ones at each launch; where a folder has a round, it is 1):")
    for candidate in config.candidate_list():
        support = context.supports(candidate)
        if not support.ok:
            tell(f"  {candidate.name}: not launched, unsupported: {support.reason}")
            continue
        command = commands[candidate.name]
        own = sorted(set(command.environment.items()) - shared)
        settings = [f"{name}={shlex.quote(value)}" for name, value in own]
        tell(f"  {candidate.name}: {' '.join([*settings, shlex.join(command.argv)])}")
