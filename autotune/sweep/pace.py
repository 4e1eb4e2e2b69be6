"""How far a sweep is: what is left of it, who leads, who is out. Pure, from its records."""

from collections.abc import Collection, Mapping

from autotune.config.schema import BudgetConfig, SweepConfig
from autotune.decide.admission import Admission, Throughputs, admit, throughputs_of
from autotune.decide.rule import compare_run
from autotune.decide.schema import RatioEstimate
from autotune.decide.search import (
    TrialResult,
    anchor_of,
    next_search_round,
    race_view,
    trial_results,
)
from autotune.decide.standing import baseline_of, overall_ratio
from autotune.decide.statistics import geometric_mean
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.sweep.earlier import Timing, timing_of
from autotune.sweep.estimate import Progress, launches_to_make
from autotune.sweep.progress import LeftToDo, Row, Standings
from autotune.sweep.race import Stop, duration_s, next_round


def progress_of(loaded: LoadedRun, verdicts: dict[str, CandidateVerdict]) -> Progress:
    """Return where a run stands: what the race has seen, and what comes next."""
    race = race_view(loaded, verdicts)
    return Progress(
        run=loaded,
        race=race,
        verdicts=verdicts,
        search_round=next_search_round(loaded),
        step=next_round(race, verdicts),
    )


def left_to_do(
    config: SweepConfig,
    *,
    launchable: Collection[str],
    progress: Progress | None,
    elsewhere: Timing | None = None,
) -> LeftToDo:
    """Return how much of a sweep is left.

    Args:
        config: the sweep.
        launchable: the names of the candidates that the engine supports.
        progress: where the sweep stands, if it was begun.
        elsewhere: how long launches took in another run; used until this one has a good launch
            under load.
    """
    launches = launches_to_make(config, launchable=launchable, progress=progress)
    run = None if progress is None else progress.run
    most = _within_budget(config.budget, launches.most, run=run)
    fewest = min(launches.fewest, most)
    timing = None if run is None else timing_of(run)
    if elsewhere is not None and (run is None or timing is None or not _is_loaded(run)):
        timing = elsewhere
    made = 0 if run is None else _started(run)
    if timing is None:
        return LeftToDo(made=made, fewest=fewest, most=most)
    worst_s = _within_hours(config.budget, most * timing.longest_s, run=run)
    return LeftToDo(
        made=made,
        fewest=fewest,
        most=most,
        usual_s=timing.mean_s,
        expected_s=min(fewest * timing.mean_s, worst_s),
        worst_s=worst_s,
    )


def standings_of(progress: Progress) -> Standings:
    """Return who leads and who is out, by the rule that the report judges by."""
    if progress.search_round is not None:
        return _search_standings(progress)
    race, step = progress.race, progress.step
    resting = {} if isinstance(step, Stop) else step.resting
    admissions = admit(race, progress.verdicts)
    comparison = compare_run(race, admissions)
    baseline, _ = baseline_of(race.run, admissions)
    rows = tuple(
        _row(one, race, baseline=admissions.get(baseline or ""), resting=resting)
        for one in admissions.values()
    )
    compared = comparison is not None and len(comparison.contenders) > 1
    return Standings(
        stage="race",
        rows=rows,
        leader=comparison.leader if comparison is not None and compared else None,
        baseline=baseline,
    )


def _row(
    one: Admission, race: LoadedRun, *, baseline: Admission | None, resting: Mapping[str, str]
) -> Row:
    note = one.over_limit
    if note is None and one.throughputs and one.verdict.verdict == "inconclusive":
        note = f"not proven right: {one.verdict.reason}"
    return Row(
        candidate=one.candidate,
        rounds=len(one.complete_rounds(race.run.concurrencies)),
        ratio=overall_ratio(one, baseline, race.run),
        throughputs=_means(one.throughputs),
        failed=one.failure is not None,
        out=one.failure or resting.get(one.candidate),
        note=note,
    )


def _search_standings(progress: Progress) -> Standings:
    """The settings tried so far, each against the anchor in its round."""
    run = progress.run
    anchor = anchor_of(run.run)
    results = [one for one in trial_results(run, progress.verdicts) if one.launched]
    counting = [one for one in results if one.reason is None and one.ratio is not None]
    best = max(counting, key=lambda one: one.ratio or 0.0, default=None)
    return Standings(
        stage="search",
        rows=tuple(_trial_row(one, run) for one in results),
        leader=None if best is None else best.candidate,
        baseline=anchor,
    )


def _trial_row(one: TrialResult, run: LoadedRun) -> Row:
    return Row(
        candidate=one.candidate,
        rounds=1,
        ratio=None if one.ratio is None else RatioEstimate(ratio=one.ratio, n=1),
        throughputs=_means(throughputs_of(run, one.candidate)),
        failed=one.failure is not None,
        out=one.reason,
    )


def _means(throughputs: Throughputs) -> dict[int, float]:
    """Output tokens/s by concurrency, over the rounds."""
    at: dict[int, list[float]] = {}
    for values in throughputs.values():
        for concurrency, value in values.items():
            at.setdefault(concurrency, []).append(value)
    return {concurrency: geometric_mean(values) for concurrency, values in sorted(at.items())}


def _started(run: LoadedRun) -> int:
    """Launches that started a server: what the engine can't run is recorded without one."""
    return sum(bool(launch.command) for launch in run.launches)


def _is_loaded(run: LoadedRun) -> bool:
    return any(launch.round > 0 and launch.status == "ok" for launch in run.launches)


def _within_budget(budget: BudgetConfig, launches: int, *, run: LoadedRun | None) -> int:
    if budget.max_launches is None:
        return launches
    # As `autotune.sweep.race.over_budget` counts them.
    made = 0 if run is None else sum(one.status != "unsupported" for one in run.launches)
    return max(0, min(launches, budget.max_launches - made))


def _within_hours(budget: BudgetConfig, seconds: float, *, run: LoadedRun | None) -> float:
    if budget.max_hours is None:
        return seconds
    spent_s = 0.0 if run is None else sum(duration_s(launch) for launch in run.launches)
    return max(0.0, min(seconds, budget.max_hours * 3600 - spent_s))
