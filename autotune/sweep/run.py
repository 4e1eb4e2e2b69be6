"""The sweep itself, from the top: begin or resume a run folder, and make each round's launches.

It measures and records. What the records mean is said afterwards (`autotune.conclude`), from the
folder alone.
"""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from autotune.config import SweepConfig, changed_keys, config_digest, dump_config, read_config
from autotune.decide.search import anchor_of, next_search_round, race_view
from autotune.decide.verdicts import judge_answers
from autotune.errors import RunFolderError
from autotune.records.folder import (
    CONFIG_FILE,
    ENVIRONMENT_FILE,
    LoadedRun,
    RunFolder,
    load_records,
    write_atomically,
)
from autotune.records.schema import Candidate, RunRecord
from autotune.search.study import RunStudy, open_study
from autotune.sweep.context import SweepContext
from autotune.sweep.launch import Launch, now
from autotune.sweep.pace import Pace, Say
from autotune.sweep.plan import PlannedLaunch, first_launch, plan_round
from autotune.sweep.race import Stop, next_round, over_budget
from autotune.sweep.workloads import check_prompts, describe_workload


async def run_sweep(context: SweepContext, *, say: Say) -> LoadedRun:
    """Make launches until the race is over or the budget spent, and return the run's records.

    Args:
        context: what `read_context` found out.
        say: gets progress, one line each.

    Raises:
        RunFolderError: the folder can't be written, is in use, or holds another sweep.
        EngineError: a candidate's folder can't be made.
        InputError: no prompts can be made.
        UsageError: the study's database can't be used.
    """
    folder = context.folder
    with _only_writer(folder):
        check_prompts(context)
        run = _begin(context)
        with open_study(folder, context.config, say=say) as study:
            await _Sweep(context, run, study=study, say=say).run()
    return load_records(folder.path)


class _Sweep:
    """One start of a sweep: goes from round to round, and makes the launches that are missing."""

    def __init__(self, context: SweepContext, run: RunRecord, *, study: RunStudy, say: Say) -> None:
        self._context = context
        self._workload_digest = run.workload.digest
        self._study = study
        self._say = say
        self._pace = Pace(say)

    async def run(self) -> None:
        within_budget = await self._make((first_launch(self._context.config),))
        while within_budget:
            loaded = load_records(self._context.folder.path)
            verdicts = judge_answers(loaded)
            self._study.catch_up(loaded, verdicts)
            search_round = next_search_round(loaded)
            if search_round is not None:
                trials = self._study.ask_round(search_round, loaded, verdicts)
                racers = [one for one in loaded.run.candidates if one.name == anchor_of(loaded.run)]
                racers += [trial.candidate for trial in trials]
                within_budget = await self._make(self._plan(search_round, racers))
                continue
            race = race_view(loaded, verdicts)
            step = next_round(race, verdicts)
            if isinstance(step, Stop):
                self._study.catch_up(loaded, verdicts, final=True)
                self._say(f"the race is over: {step.reason}")
                return
            self._pace.tell_resting(step.number, step.resting)
            racers = [one for one in race.run.candidates if one.name in step.names]
            within_budget = await self._make(self._plan(step.number, racers))
        loaded = load_records(self._context.folder.path)
        self._study.catch_up(loaded, judge_answers(loaded))

    def _plan(self, number: int, candidates: Sequence[Candidate]) -> tuple[PlannedLaunch, ...]:
        return plan_round(self._context.config, number, candidates)

    async def _make(self, launches: Sequence[PlannedLaunch]) -> bool:
        """Make the first of a round's launches that has no record yet; False without a budget.

        One at a time: what it shows may change who else is launched in its round.
        """
        folder = self._context.folder
        for planned in launches:
            if folder.launch_file(planned.candidate.name, planned.round).is_file():
                self._pace.skip(planned)
                continue
            spent = over_budget(load_records(folder.path), self._context.config.budget)
            if spent is not None:
                self._say(f"stopped by {spent}")
                return False
            self._pace.begin(planned)
            launch = Launch(
                self._context,
                planned,
                workload_digest=self._workload_digest,
                say=self._pace.detail,
            )
            record = await launch.run()
            self._pace.end(None if record.status == "ok" else f"{record.status}: {record.reason}")
            return True
        return True


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
        search_rounds=config.search_rounds,
        trials_per_round=config.search.trials_per_round if config.search_rounds else 0,
        tunables=config.tunables(),
    )
    environment = msgspec.json.encode(context.environment, order="sorted")
    write_atomically(
        folder.path / ENVIRONMENT_FILE, msgspec.json.format(environment, indent=2) + b"\n"
    )
    write_atomically(folder.path / CONFIG_FILE, dump_config(config).encode())
    # Last: a folder with run.json has the other two.
    folder.write_run(record)
    return record


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
