"""What a search found: each trial's result, who goes on to the race, and what the race sees. Pure.

A trial is launched once, in a round that the anchor shares: its value is its throughput over the
anchor's in that round. The best of many trials looks better than it is, since luck helped to make
it the best (the winner's curse): so the finalists are measured anew, in rounds of their own.
"""

import math
from collections.abc import Mapping

import msgspec

from autotune.decide.compare import score
from autotune.decide.limits import over_limits
from autotune.decisions import one_line
from autotune.decisions.schema import Verdict
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.schema import (
    CANDIDATE_FAILURES,
    LaunchRecord,
    PointRecord,
    RunRecord,
    TrialRecord,
)
from autotune.tunables import count_settings

_LONGEST_REASON = 200


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """One trial and what came of it.

    ``ratio`` is its throughput over the anchor's in the same round (weighted geometric mean over
    the concurrencies), ``None`` where either isn't complete. ``over`` says how far it is above
    each limit. ``failure`` says how it failed itself; ``reason`` why it doesn't count, ``None``
    where it does. It is ``launched`` once its launch is over.
    """

    number: int
    round: int
    parent: str
    candidate: str
    values: dict[str, bool | int | float | str]
    launched: bool
    verdict: Verdict
    ratio: float | None = None
    over: dict[str, float | None] = {}
    failure: str | None = None
    reason: str | None = None


def anchor_of(run: RunRecord) -> str | None:
    """Return whose launch each search round shares: the incumbent, without one the reference."""
    return run.incumbent or run.reference


def trial_results(
    loaded: LoadedRun, verdicts: Mapping[str, CandidateVerdict]
) -> tuple[TrialResult, ...]:
    """Return every trial's result, by number.

    Args:
        loaded: the run's records.
        verdicts: the verdict on each trial's answers, by its candidate's name.
    """
    launches = {(launch.candidate, launch.round): launch for launch in loaded.launches}
    points: dict[tuple[str, int], list[PointRecord]] = {}
    for point in loaded.points:
        points.setdefault((point.candidate, point.round), []).append(point)
    anchor = anchor_of(loaded.run) or ""
    return tuple(
        _result(
            trial,
            loaded.run,
            launch=launches.get((trial.candidate.name, trial.round)),
            points=points.get((trial.candidate.name, trial.round), []),
            anchor_points=points.get((anchor, trial.round), []),
            verdict=verdicts[trial.candidate.name],
        )
        for trial in loaded.trials
    )


def missing_trials(loaded: LoadedRun, round_number: int) -> dict[str, int]:
    """Return how many trials of each parent a search round still lacks; none where it has all.

    A round has ``trials_per_round`` of each, or as many as there are settings left to try.
    """
    run = loaded.run
    missing = {}
    for parent, tunables in run.tunables.items():
        own = [trial.round for trial in loaded.trials if trial.parent == parent]
        before = sum(number < round_number for number in own)
        wanted = run.trials_per_round
        left = count_settings(tunables, at_most=before + wanted) - before
        missing[parent] = min(wanted, left) - own.count(round_number)
    return {parent: count for parent, count in missing.items() if count > 0}


def next_search_round(loaded: LoadedRun) -> int | None:
    """Return the first search round that isn't complete, ``None`` where the search is over.

    A round is complete when its trials are drawn, and they and the anchor were launched; one
    that has no setting left to try needs no launch. It is over, too, where the anchor can't be
    launched: there is nothing to compare with.
    """
    launched = {(launch.candidate, launch.round) for launch in loaded.launches}
    anchor = anchor_of(loaded.run)
    if any(one.candidate == anchor and one.status != "ok" for one in loaded.launches):
        return None
    for number in range(1, loaded.run.search_rounds + 1):
        trials = [trial for trial in loaded.trials if trial.round == number]
        names = [trial.candidate.name for trial in trials]
        if trials and anchor is not None:
            names.append(anchor)
        if missing_trials(loaded, number) or any((one, number) not in launched for one in names):
            return number
    return None


def finalists(
    loaded: LoadedRun, verdicts: Mapping[str, CandidateVerdict]
) -> tuple[TrialRecord, ...]:
    """Return each parent's best trial that counts, in the run's order; none before the search ends.

    A trial that adds nothing to its parent is no finalist: the parent runs itself.
    """
    if not loaded.trials or next_search_round(loaded) is not None:
        return ()
    listed = {candidate.name: candidate for candidate in loaded.run.candidates}
    trials = {trial.number: trial for trial in loaded.trials}
    raced = {one.candidate for one in loaded.launches if one.round > loaded.run.search_rounds}
    best: dict[str, TrialResult] = {}
    results = trial_results(loaded, verdicts)
    for result in results:
        if result.reason is None and result.ratio is not None:
            leading = best.get(result.parent)
            if leading is None or result.ratio > (leading.ratio or 0):
                best[result.parent] = result
    for trial in loaded.trials:
        if trial.candidate.name in raced:
            # Whatever the race says of it: a later verdict must not put another in its place.
            best[trial.parent] = next(r for r in results if r.number == trial.number)
    found = [trials[best[parent].number] for parent in listed if parent in best]
    return tuple(
        trial
        for trial in found
        if (trial.candidate.arguments, trial.candidate.environment)
        != (listed[trial.parent].arguments, listed[trial.parent].environment)
    )


def race_view(loaded: LoadedRun, verdicts: Mapping[str, CandidateVerdict]) -> LoadedRun:
    """Return the records as the race sees them: without the search, but with its finalists.

    Figures of search rounds are left out, since they chose who takes part. A failure counts
    whenever it happened. A run without a search is returned as it is.
    """
    run = loaded.run
    if run.search_rounds == 0:
        return loaded
    racers = (*run.candidates, *(trial.candidate for trial in finalists(loaded, verdicts)))
    names = {candidate.name for candidate in racers}
    return LoadedRun(
        run=msgspec.structs.replace(run, candidates=racers),
        launches=tuple(one for one in loaded.launches if one.candidate in names),
        points=tuple(
            point
            for point in loaded.points
            if point.candidate in names
            and (point.round > run.search_rounds or point.status in CANDIDATE_FAILURES)
        ),
        probes=tuple(probe for probe in loaded.probes if probe.candidate in names),
    )


def _result(
    trial: TrialRecord,
    run: RunRecord,
    *,
    launch: LaunchRecord | None,
    points: list[PointRecord],
    anchor_points: list[PointRecord],
    verdict: CandidateVerdict,
) -> TrialResult:
    own, anchors = _complete(points, run), _complete(anchor_points, run)
    launched = launch is not None
    ratio = None
    if launched and own is not None and anchors is not None:
        ratio = math.exp(score(own, run) - score(anchors, run))
    over: dict[str, float | None] = {}
    for point in points:
        if point.status == "ok":
            over |= over_limits(point, run.rule)
    failure = _failure(launch, points)
    return TrialResult(
        number=trial.number,
        round=trial.round,
        parent=trial.parent,
        candidate=trial.candidate.name,
        values=trial.values,
        launched=launched,
        verdict=verdict.verdict,
        ratio=ratio,
        over=over,
        failure=failure,
        reason=_reason(
            launched=launched,
            failure=failure,
            verdict=verdict,
            over=over,
            incomplete=_incomplete(points, run),
            anchor=None if anchors is not None else anchor_of(run) or "the anchor",
        ),
    )


def _reason(
    *,
    launched: bool,
    failure: str | None,
    verdict: CandidateVerdict,
    over: Mapping[str, float | None],
    incomplete: str | None,
    anchor: str | None,
) -> str | None:
    """Why a trial doesn't count, the gravest reason first."""
    if not launched:
        return "not launched yet"
    if failure is not None:
        return failure
    if verdict.verdict == "fail":
        return f"wrong answers: {_short(verdict.reason)}"
    above = [f"{name} by {by:.3g}" for name, by in over.items() if by is not None and by > 0]
    if above:
        return f"over the limit: {', '.join(above)}"
    if incomplete is not None:
        return incomplete
    unknown = [name for name, by in over.items() if by is None]
    if unknown:
        return f"not known, so that its limit can't be checked: {unknown[0]}"
    if anchor is not None:
        return f"{anchor} has no valid figures in its round to compare with"
    return None


def _failure(launch: LaunchRecord | None, points: list[PointRecord]) -> str | None:
    if launch is not None and launch.status != "ok":
        return f"{launch.status}: {_short(launch.reason or 'no reason recorded')}"
    for point in points:
        if point.status in CANDIDATE_FAILURES:
            why = _short(point.reason or "no reason recorded")
            return f"{point.status} at concurrency {point.concurrency}: {why}"
    return None


def _complete(points: list[PointRecord], run: RunRecord) -> dict[int, float] | None:
    """The throughput at every concurrency, ``None`` where one has no valid one."""
    valid = {}
    for point in points:
        throughput = point.figures.output_tokens_per_s if point.figures else None
        if point.status == "ok" and throughput is not None and throughput > 0:
            valid[point.concurrency] = throughput
    return valid if all(one in valid for one in run.concurrencies) else None


def _incomplete(points: list[PointRecord], run: RunRecord) -> str | None:
    if _complete(points, run) is not None:
        return None
    bad = next((point for point in points if point.status != "ok"), None)
    if bad is None:
        return "not measured at every concurrency"
    why = _short(bad.reason or "no reason recorded")
    return f"{bad.status} at concurrency {bad.concurrency}: {why}"


def _short(text: str) -> str:
    # A server wrote it: it may be long, and hold anything.
    return one_line(" ".join(text.split()), limit=_LONGEST_REASON)
