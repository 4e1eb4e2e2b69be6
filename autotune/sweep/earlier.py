"""Earlier launches of the same engine, to estimate by: of this run, or of those beside it.

Run folders that can't be read are passed over and named: an estimate is never worth a failure.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from autotune.errors import AutotuneError
from autotune.records.folder import RUN_FILE, LoadedRun, RunFolder
from autotune.records.schema import RunRecord
from autotune.sweep.context import SweepContext
from autotune.sweep.race import duration_s

# The newest so many folders are looked at, and of the fitting ones so many are read.
_LOOKED_AT = 50
_READ = 5


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long launches took, from the server's start to its end."""

    launches: int
    mean_s: float
    longest_s: float


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """A run to estimate by; ``differs`` says in which ways it measured something else."""

    run: LoadedRun
    folder: str
    timing: Timing
    differs: tuple[str, ...] = ()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to estimate by, ``None`` without any, and which folders can't be read."""

    earlier: Earlier | None
    unreadable: tuple[str, ...] = ()


def find_earlier(context: SweepContext, begun: LoadedRun | None) -> Found:
    """Return this run's own launches, if it has any, else those of the run beside it that fits.

    A run beside it fits if it is a sweep of the same engine on the same device. One of the same
    model, load and parallelism comes first, then the newest.

    Args:
        context: of the sweep.
        begun: its records so far, if it was started before.
    """
    timing = None if begun is None else timing_of(begun)
    if begun is not None and timing is not None:
        own = Earlier(run=begun, folder=str(context.folder.path), timing=timing)
        return Found(earlier=own)
    unreadable: list[str] = []
    runs = list(_fitting_runs(context, unreadable))
    # Stable: the newest of those that differ in as much comes first.
    runs.sort(key=lambda pair: _distance(pair[1], context))
    for path, run in runs[:_READ]:
        try:
            folder = RunFolder(path)
            loaded = LoadedRun(
                run=run, launches=folder.launches(), points=folder.points(), probes=()
            )
        except (AutotuneError, OSError):
            unreadable.append(str(path))
            continue
        timing = timing_of(loaded)
        if timing is not None:
            differs = _differs(run, context)
            earlier = Earlier(run=loaded, folder=str(path), timing=timing, differs=differs)
            return Found(earlier=earlier, unreadable=tuple(unreadable))
    return Found(earlier=None, unreadable=tuple(unreadable))


def timing_of(run: LoadedRun) -> Timing | None:
    """Return how long a run's launches took; ``None`` where no time is known.

    Launches that went well count, and under load if there are any such: the reference's first
    launch is shorter than those that follow.
    """
    good = [(launch.round, duration_s(launch)) for launch in run.launches if launch.status == "ok"]
    known = [(number, took_s) for number, took_s in good if took_s > 0]
    times_s = [took_s for number, took_s in known if number > 0] or [took_s for _, took_s in known]
    if not times_s:
        return None
    return Timing(launches=len(times_s), mean_s=sum(times_s) / len(times_s), longest_s=max(times_s))


def _fitting_runs(context: SweepContext, unreadable: list[str]) -> Iterator[tuple[Path, RunRecord]]:
    """The runs beside this one that may be estimated by, the newest first."""
    files = [path for path in context.folder.path.parent.glob(f"*/{RUN_FILE}") if path.is_file()]
    files.sort(key=_written_at, reverse=True)
    for file in files[:_LOOKED_AT]:
        if file.parent == context.folder.path:
            continue
        try:
            run = RunFolder(file.parent).read_run()
        except (AutotuneError, OSError):
            unreadable.append(str(file.parent))
            continue
        if run.kind == "sweep" and _same_machine(run, context):
            yield file.parent, run


def _same_machine(run: RunRecord, context: SweepContext) -> bool:
    """Whether it's the same engine and device; the arch alone where there is no device here."""
    scope = context.scope
    return (
        run.scope.engine == scope.engine
        and run.key.arch == context.key.arch
        and (scope.device_name is None or run.scope.device_name == scope.device_name)
    )


def _differs(run: RunRecord, context: SweepContext) -> tuple[str, ...]:
    config, scope = context.config, context.scope
    load = (config.load.concurrency, config.load.input_tokens, config.load.output_tokens)
    pairs = {
        "model": (run.key == context.key),
        "load": (run.concurrencies, run.workload.input_tokens, run.workload.output_tokens) == load,
        "parallelism": all(
            getattr(run.scope, size) == getattr(scope, size)
            for size in ("tp", "ep", "dp", "attention_dp", "a2a_backend")
        ),
    }
    return tuple(what for what, same in pairs.items() if not same)


def _distance(run: RunRecord, context: SweepContext) -> tuple[bool, int]:
    differs = _differs(run, context)
    return "model" in differs, len(differs)


def _written_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
