"""The sweep itself, from the top: begin or resume a run folder, and make each round's launches.

It measures and records. What the records mean is said afterwards (`autotune.conclude`), from the
folder alone.
"""

from collections.abc import Sequence

import msgspec

from autotune.config import SweepConfig, changed_keys, config_digest, dump_config, read_config
from autotune.decide.search import anchor_of
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
from autotune.records.schema import RunRecord
from autotune.records.writer import only_writer
from autotune.search.study import RunStudy, open_study
from autotune.sweep.context import SweepContext
from autotune.sweep.earlier import Timing
from autotune.sweep.estimate import Progress
from autotune.sweep.launch import Launch, now
from autotune.sweep.pace import left_to_do, progress_of, standings_of
from autotune.sweep.plan import PlannedLaunch, first_launch, plan_round
from autotune.sweep.progress import (
    CandidateRests,
    CandidateReturns,
    LaunchBegan,
    LaunchEnded,
    LeftToDo,
    Noted,
    SweepBegan,
    SweepEnded,
    Tell,
)
from autotune.sweep.race import Stop, over_budget
from autotune.sweep.screen_file import check_begun, check_copy, write_copy
from autotune.sweep.workloads import check_prompts, describe_workload


async def run_sweep(
    context: SweepContext, *, tell: Tell, elsewhere: Timing | None = None
) -> LoadedRun:
    """Make launches until the race is over or the budget spent, and return the run's records.

    Args:
        context: what `read_context` found out.
        tell: gets what happens; it must only take note of it.
        elsewhere: how long launches took in another run, to say how long this one will take.

    Raises:
        RunFolderError: the folder can't be written, is in use, or holds another sweep.
        EngineError: a candidate's folder can't be made.
        InputError: no prompts can be made.
        UsageError: the study's database can't be used.
    """
    folder = context.folder
    with only_writer(folder.path):
        check_prompts(context)
        run = _begin(context)

        def note(text: str) -> None:
            tell(Noted(text=text))

        with open_study(folder, context.config, say=note) as study:
            await _Sweep(context, run, study=study, tell=tell, elsewhere=elsewhere).run()
    return load_records(folder.path)


class _Sweep:
    """One start of a sweep: goes from round to round, and makes the launches that are missing."""

    def __init__(
        self,
        context: SweepContext,
        run: RunRecord,
        *,
        study: RunStudy,
        tell: Tell,
        elsewhere: Timing | None,
    ) -> None:
        self._context = context
        self._workload_digest = run.workload.digest
        self._study = study
        self._tell = tell
        self._elsewhere = elsewhere
        self._launchable = {
            one.name for one in context.config.candidate_list() if context.supports(one).ok
        }
        self._resting: dict[str, str] = {}

    async def run(self) -> None:
        self._tell_began()
        within_budget = await self._make((first_launch(self._context.config),), left=self._left())
        while within_budget:
            loaded = load_records(self._context.folder.path)
            verdicts = judge_answers(loaded)
            self._study.catch_up(loaded, verdicts)
            progress = progress_of(loaded, verdicts)
            self._tell(standings_of(progress))
            search_round, step = progress.search_round, progress.step
            if search_round is not None:
                trials = self._study.ask_round(search_round, loaded, verdicts)
                number = search_round
                racers = [one for one in loaded.run.candidates if one.name == anchor_of(loaded.run)]
                racers += [trial.candidate for trial in trials]
            elif isinstance(step, Stop):
                self._study.catch_up(loaded, verdicts, final=True)
                self._tell(SweepEnded(reason=step.reason))
                return
            else:
                number = step.number
                self._tell_resting(number, step.resting)
                racers = [one for one in progress.race.run.candidates if one.name in step.names]
            planned = plan_round(
                self._context.config, number, racers, screening=self._context.screening
            )
            within_budget = await self._make(planned, left=self._left(progress))
        loaded = load_records(self._context.folder.path)
        self._study.catch_up(loaded, judge_answers(loaded))

    async def _make(self, launches: Sequence[PlannedLaunch], *, left: LeftToDo) -> bool:
        """Make the first of a round's launches that has no record yet; False without a budget.

        One at a time: what it shows may change who else is launched in its round.
        """
        folder = self._context.folder
        for planned in launches:
            if folder.launch_file(planned.candidate.name, planned.round).is_file():
                continue
            spent = over_budget(load_records(folder.path), self._context.config.budget)
            if spent is not None:
                self._tell(SweepEnded(reason=spent, stopped=True))
                return False
            await self._launch(planned, left=left)
            return True
        return True

    async def _launch(self, planned: PlannedLaunch, *, left: LeftToDo) -> None:
        name, number = planned.candidate.name, planned.round
        if self._context.supports(planned.candidate).ok:
            self._tell(
                LaunchBegan(
                    number=left.made + 1,
                    candidate=name,
                    round=number,
                    concurrencies=planned.concurrencies,
                    left=left,
                )
            )
        launch = Launch(
            self._context, planned, workload_digest=self._workload_digest, tell=self._tell
        )
        record = await launch.run()
        self._tell(
            LaunchEnded(candidate=name, round=number, status=record.status, reason=record.reason)
        )

    def _left(self, progress: Progress | None = None) -> LeftToDo:
        return left_to_do(
            self._context.config,
            launchable=self._launchable,
            progress=progress,
            elsewhere=self._elsewhere,
        )

    def _tell_began(self) -> None:
        config, loaded = self._context.config, load_records(self._context.folder.path)
        progress = progress_of(loaded, judge_answers(loaded)) if loaded.launches else None
        self._tell(
            SweepBegan(
                name=config.name,
                folder=str(self._context.folder.path),
                candidates=tuple(one.name for one in config.candidate_list()),
                concurrencies=config.load.concurrency,
                left=self._left(progress),
            )
        )

    def _tell_resting(self, number: int, resting: dict[str, str]) -> None:
        """Tell who isn't launched in a round, where that is new."""
        for name, reason in resting.items():
            if self._resting.get(name) != reason:
                self._tell(CandidateRests(candidate=name, round=number, reason=reason))
        for name in self._resting.keys() - resting.keys():
            self._tell(CandidateReturns(candidate=name, round=number))
        self._resting = dict(resting)


def check_folder(config: SweepConfig, folder: RunFolder) -> None:
    """Check that the folder is new or holds this very sweep. Writes nothing.

    Args:
        config: with the screen that is in force, as `read_context` found it.
        folder: where the sweep is to be.

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
    differs = run.config_digest != config_digest(config)
    if differs or config.screen_file is not None:
        check_begun(config, folder)
    if differs:
        before = read_config(folder.path / CONFIG_FILE)
        raise RunFolderError(
            f"{folder.path}: holds a sweep of another config; changed: "
            f"{', '.join(changed_keys(before, config))}. Change them back, or name a new folder "
            "with --run"
        )


def _begin(context: SweepContext) -> RunRecord:
    """Write what the run is about, unless an earlier start did."""
    config, folder, screening = context.config, context.folder, context.screening
    check_folder(config, folder)
    if folder.exists():
        if screening is not None:
            check_copy(screening.screen, folder, named=str(config.screen_file))
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
    if screening is not None:
        write_copy(screening.screen, folder)
    # Last: a folder with run.json has the others.
    folder.write_run(record)
    return record
