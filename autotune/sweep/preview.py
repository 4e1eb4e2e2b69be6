"""What a sweep will do, before it does anything: its schedule, its cost and its exact commands.

Reads what an earlier start left in the run folder, and launches and writes nothing.
"""

import msgspec

from autotune.config.schema import SweepConfig
from autotune.decide.verdicts import judge_answers
from autotune.probe.ask import fillers_in_load, probes_in_load
from autotune.records.folder import load_records
from autotune.records.schema import Candidate
from autotune.report.text import one_line
from autotune.sweep.context import SweepContext
from autotune.sweep.earlier import find_earlier
from autotune.sweep.estimate import Estimate, Progress, estimate
from autotune.sweep.pace import progress_of
from autotune.sweep.plan import PlannedLaunch, first_launch, plan_round
from autotune.sweep.race import Stop
from autotune.sweep.screening import ScreenedCandidate, Screening

# Shown in commands: the real port is any free one, drawn at each launch.
EXAMPLE_PORT = 30000
_EXAMPLE_ROUND = 1


class ScheduledLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """One launch of the schedule; in round 0 the reference is probed, without load."""

    round: int
    position: int
    candidate: str
    concurrencies: tuple[int, ...]


class SearchSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """The rounds that try tunables: what is drawn is known only when it is drawn.

    Each of them launches ``companion``, and ``settings`` settings of each of ``candidates``.
    """

    rounds: int
    companion: str
    candidates: tuple[str, ...]
    settings: int


class PointRequests(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests a point sends; as many warm-up requests as the concurrency come first."""

    concurrency: int
    measured: int
    probes: int
    fillers: int


class CandidateCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate is launched with; ``unsupported`` says why it won't be.

    ``environment`` holds what it has beyond `Preview.shared_environment`.
    """

    candidate: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    unsupported: str | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Which launches are made, in which order.

    ``launches`` are those that are made unless a candidate fails or is far behind: round 0, and
    the first rounds of the race. The rounds after them up to ``last_round`` are made only as long
    as they are needed, by those who are still in the race.
    """

    launches: tuple[ScheduledLaunch, ...]
    search: SearchSchedule | None
    last_certain_round: int
    last_round: int


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a sweep that was begun stands: the round that is next, or why there is none (``over``).

    A search round has no ``names``. ``resting`` gives the reason why each of the others isn't
    launched in a round of the race.
    """

    round: int | None
    names: tuple[str, ...] = ()
    resting: dict[str, str] = {}
    over: str | None = None


class ScreenPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep of the layer alone says of the candidates, and where that was read.

    In the run folder it is ``screen.json``. ``warnings`` say what follows from it.
    """

    file: str
    scheme: str
    device_name: str
    wrong: str
    slower_than: float | None
    candidates: tuple[ScreenedCandidate, ...]
    warnings: tuple[str, ...]


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep before it starts, or before it goes on (``standing``).

    ``screen`` is there where the candidates are screened. ``problems`` say why nothing can be
    launched on this machine.
    """

    name: str
    key: str
    device: str
    folder: str
    schedule: Schedule
    standing: Standing | None
    estimate: Estimate
    requests: tuple[PointRequests, ...]
    shared_environment: dict[str, str]
    commands: tuple[CandidateCommand, ...]
    screen: ScreenPreview | None = None
    problems: tuple[str, ...] = ()


def preview(context: SweepContext) -> Preview:
    """Return what a sweep will do. Nothing is launched or written.

    Raises:
        RunFolderError: the run folder holds a record that can't be read.
    """
    config = context.config
    device = context.scope.device_name or f"a GPU of {context.key.arch}"
    shared, commands = _commands(context)
    progress = _progress(context)
    return Preview(
        name=config.name,
        key=str(context.key),
        device=f"{device} ({context.device})",
        folder=str(context.folder.path),
        schedule=schedule_of(config, context.screening),
        standing=None if progress is None else _standing(progress, config.reference),
        estimate=estimate(
            config,
            find_earlier(context, None if progress is None else progress.run),
            launchable={one.candidate for one in commands if one.unsupported is None},
            progress=progress,
        ),
        requests=tuple(
            PointRequests(
                concurrency=concurrency,
                measured=config.requests_at(concurrency),
                probes=probes_in_load(concurrency),
                fillers=fillers_in_load(concurrency),
            )
            for concurrency in config.load.concurrency
        ),
        shared_environment=shared,
        commands=commands,
        screen=None if context.screening is None else _screen(context.screening),
        problems=context.problems,
    )


def schedule_of(config: SweepConfig, screening: Screening | None = None) -> Schedule:
    """Return the order of a sweep's launches, as far as the config and its screen say it."""
    candidates, rule = config.candidate_list(), config.rule()
    first = config.search_rounds + 1
    certain = config.search_rounds + rule.needed_rounds
    last = config.search_rounds + rule.max_rounds
    planned = [first_launch(config)]
    for number in range(first, min(certain, last) + 1):
        planned += plan_round(config, number, candidates, screening=screening)
    tuned = tuple(
        given.name or given.backend for given in config.candidate_configs() if given.tunables
    )
    return Schedule(
        launches=tuple(_scheduled(one) for one in planned),
        search=SearchSchedule(
            rounds=config.search_rounds,
            companion=config.incumbent or config.reference,
            candidates=tuned,
            settings=config.search.trials_per_round,
        )
        if tuned
        else None,
        last_certain_round=min(certain, last),
        last_round=last,
    )


def _progress(context: SweepContext) -> Progress | None:
    """Where the run folder's sweep stands, ``None`` if it isn't begun."""
    if not context.folder.exists():
        return None
    loaded = load_records(context.folder.path)
    return progress_of(loaded, judge_answers(loaded))


def _standing(progress: Progress, reference: str) -> Standing:
    step = progress.step
    if not any(launch.round == 0 for launch in progress.run.launches):
        return Standing(round=0, names=(reference,))
    if progress.search_round is not None:
        return Standing(round=progress.search_round)
    if isinstance(step, Stop):
        return Standing(round=None, over=step.reason)
    return Standing(round=step.number, names=step.names, resting=step.resting)


def _screen(screening: Screening) -> ScreenPreview:
    asked, screen = screening.config.screen, screening.screen
    assert asked is not None and asked.file is not None
    return ScreenPreview(
        file=asked.file,
        scheme=screen.scheme,
        device_name=one_line(screen.device_name),
        wrong=asked.wrong,
        slower_than=asked.slower_than,
        candidates=screening.candidates(),
        warnings=screening.warnings(),
    )


def _scheduled(planned: PlannedLaunch) -> ScheduledLaunch:
    return ScheduledLaunch(
        round=planned.round,
        position=planned.position,
        candidate=planned.candidate.name,
        concurrencies=planned.concurrencies,
    )


def _commands(context: SweepContext) -> tuple[dict[str, str], tuple[CandidateCommand, ...]]:
    """The environment that all launches share, and each candidate's command."""
    candidates = context.config.candidate_list()
    built = {one.name: _command(context, one) for one in candidates}
    shared = set.intersection(*(set(environment.items()) for _, environment in built.values()))
    commands = []
    for candidate in candidates:
        argv, environment = built[candidate.name]
        support = context.supports(candidate)
        commands.append(
            CandidateCommand(
                candidate=candidate.name,
                argv=argv,
                environment=dict(sorted(set(environment.items()) - shared)),
                unsupported=None if support.ok else support.reason or "no reason given",
            )
        )
    return dict(sorted(shared)), tuple(commands)


def _command(context: SweepContext, candidate: Candidate) -> tuple[tuple[str, ...], dict[str, str]]:
    site = context.site(
        candidate,
        port=EXAMPLE_PORT,
        round_number=_EXAMPLE_ROUND,
        meeting_port=EXAMPLE_PORT + 1,
    )
    command = context.engine.command(candidate, config=context.config, site=site)
    return tuple(command.argv), dict(command.environment)
