"""The sweep itself, from the top: begin or resume a run folder, make each launch, tell who stays.

It measures and records. What the records mean is said afterwards (`autotune.conclude`), from the
folder alone.
"""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from autotune.config import SweepConfig, changed_keys, config_digest, dump_config, read_config
from autotune.errors import RunFolderError
from autotune.probe.verdict import judge_probes
from autotune.records.folder import (
    CONFIG_FILE,
    ENVIRONMENT_FILE,
    LoadedRun,
    RunFolder,
    load_records,
    write_atomically,
)
from autotune.records.schema import RunRecord
from autotune.sweep.context import SweepContext
from autotune.sweep.launch import Launch, now
from autotune.sweep.plan import Plan, PlannedLaunch, make_plan
from autotune.sweep.race import dropped
from autotune.sweep.workloads import check_prompts, describe_workload

Say = Callable[[str], None]


async def run_sweep(context: SweepContext, *, say: Say) -> LoadedRun:
    """Make every launch of the plan that isn't recorded yet, and return the run's records.

    Args:
        context: what `read_context` found out.
        say: gets progress, one line each.

    Raises:
        RunFolderError: the folder can't be written, is in use, or holds another sweep.
        EngineError: a candidate's folder can't be made.
        InputError: no prompts can be made.
    """
    plan = make_plan(context.config)
    folder = context.folder
    with _only_writer(folder):
        check_prompts(context)
        run = _begin(context)
        done = {(launch.candidate, launch.round) for launch in folder.launches()}
        pace = _Pace(len(plan.launches), say)
        for planned in plan.launches:
            name = planned.candidate.name
            if (name, planned.round) in done:
                pace.skip(planned, "already measured")
                continue
            reason = _who_left(load_records(folder.path)).get(name)
            if reason is not None:
                pace.skip(planned, f"dropped: {reason}")
                continue
            pace.begin(planned)
            launch = Launch(context, planned, workload_digest=run.workload.digest, say=pace.detail)
            record = await launch.run()
            pace.end(None if record.status == "ok" else f"{record.status}: {record.reason}")
    return load_records(folder.path)


def remaining(plan: Plan, folder: RunFolder) -> int:
    """How many launches of the plan are still to be made: without a record, and not dropped."""
    done = {(launch.candidate, launch.round) for launch in folder.launches()}
    left = _who_left(load_records(folder.path)) if folder.exists() else {}
    return sum(
        (launch.candidate.name, launch.round) not in done and launch.candidate.name not in left
        for launch in plan.launches
    )


def check_folder(config: SweepConfig, folder: RunFolder) -> None:
    """Check that the folder is new or holds this very sweep. Writes nothing.

    Raises:
        RunFolderError: it holds a sweep of another config (the changed keys are named), an
            import, or files that are no run.
    """
    if not folder.path.exists():
        return
    if not folder.path.is_dir():
        raise RunFolderError(f"{folder.path}: not a folder: name another one with --run")
    if not folder.exists():
        known = {"work", ".lock"}
        strangers = sorted(path.name for path in folder.path.iterdir() if path.name not in known)
        if strangers:
            raise RunFolderError(
                f"{folder.path}: holds files that are no run ({', '.join(strangers[:3])}): name a "
                "new folder with --run"
            )
        return
    run = folder.read_run()
    if run.kind != "sweep":
        raise RunFolderError(
            f"{folder.path}: holds an imported table: name a new folder with --run"
        )
    if run.config_digest != config_digest(config):
        before = read_config(folder.path / CONFIG_FILE)
        raise RunFolderError(
            f"{folder.path}: holds a sweep of another config; changed: "
            f"{', '.join(changed_keys(before, config))}. Change them back, or name a new folder "
            "with --run"
        )


def _begin(context: SweepContext) -> RunRecord:
    """Write what the run is about, unless an earlier start did."""
    config, folder = context.config, context.folder
    check_folder(config, folder)
    if folder.exists():
        return folder.read_run()
    record = RunRecord(
        kind="sweep",
        name=config.name,
        created_at=now(),
        key=context.key,
        scope=context.scope,
        candidates=config.candidate_list(),
        concurrencies=config.load.concurrency,
        rule=config.rule(),
        workload=describe_workload(context),
        reference=config.reference,
        incumbent=config.incumbent,
        config_digest=config_digest(config),
        checkpoint=context.checkpoint.name,
        vocabulary_size=context.model.vocabulary_size,
    )
    environment = msgspec.json.encode(context.environment, order="sorted")
    write_atomically(
        folder.path / ENVIRONMENT_FILE, msgspec.json.format(environment, indent=2) + b"\n"
    )
    write_atomically(folder.path / CONFIG_FILE, dump_config(config).encode())
    # Last: a folder with run.json has the other two.
    folder.write_run(record)
    return record


def _who_left(loaded: LoadedRun) -> dict[str, str]:
    run = loaded.run
    verdicts = judge_probes(
        loaded.probes,
        candidates=[candidate.name for candidate in run.candidates],
        reference=run.reference,
        rule=run.rule,
        vocabulary_size=run.vocabulary_size,
    )
    return dropped(loaded.launches, loaded.points, verdicts, reference=run.reference or "")


@contextmanager
def _only_writer(folder: RunFolder) -> Iterator[None]:
    """Hold the folder's lock, which the system lets go of however we end."""
    path = folder.path / ".lock"
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise RunFolderError(
            f"{folder.path}: can't be written ({error.strerror}): name another folder with --run"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFolderError(
                f"{folder.path}: another sweep is writing here: wait for it, or name another "
                "folder with --run"
            ) from None
        yield


class _Pace:
    """Says which launch is on, and how much time the rest will take."""

    def __init__(self, total: int, say: Say) -> None:
        self._total = total
        self._say = say
        self._number = 0
        self._durations_s: list[float] = []
        self._began_at = 0.0

    def skip(self, planned: PlannedLaunch, why: str) -> None:
        self._number += 1
        self._line(planned, why)

    def begin(self, planned: PlannedLaunch) -> None:
        self._number += 1
        self._began_at = time.monotonic()
        left = self._total - self._number + 1
        eta = ""
        if self._durations_s:
            mean_s = sum(self._durations_s) / len(self._durations_s)
            eta = f", about {left * mean_s:.0f} s to go"
        self._line(planned, f"launching ({left} launches left{eta})")

    def detail(self, text: str) -> None:
        self._say(f"    {text}")

    def end(self, problem: str | None) -> None:
        self._durations_s.append(time.monotonic() - self._began_at)
        if problem is not None:
            self.detail(problem)

    def _line(self, planned: PlannedLaunch, text: str) -> None:
        where = f"[{self._number}/{self._total}] round {planned.round} {planned.candidate.name}"
        self._say(f"{where}: {text}")
