"""What the records say that a study should hold: one entry a trial. Pure.

A search's trials are there, and everybody who runs in the race: the listed candidates and the
finalists. Values are throughputs over the anchor's; see `autotune.decide.search`.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from autotune.decide.admission import Admission, admit
from autotune.decide.compare import score
from autotune.decide.limits import name_of
from autotune.decide.search import (
    TrialResult,
    anchor_of,
    race_view,
    trial_results,
)
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.schema import RunRecord
from autotune.search.space import (
    CANDIDATE,
    State,
    constraints_of,
    distributions,
    parameters,
    state_of,
)
from autotune.tunables import Value

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Part = Literal["search", "race"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a study. ``part`` and ``name`` tell it from all others.

    ``steps`` holds the value in each race round.
    """

    part: Part
    name: str
    state: State
    params: dict[str, Value]
    value: float | None = None
    constraints: dict[str, float] = {}
    steps: dict[int, float] = {}
    round: int | None = None


def entries(
    loaded: LoadedRun, verdicts: Mapping[str, CandidateVerdict], *, final: bool
) -> tuple[Entry, ...]:
    """Return what a study should hold by now; those of the race are told once it is ``final``."""
    settings = {trial.candidate.name: (trial.parent, trial.values) for trial in loaded.trials}
    found = [_searched(result) for result in trial_results(loaded, verdicts)]
    race = race_view(loaded, verdicts)
    admissions = admit(race, verdicts)
    ratios = _ratios(race)
    for candidate in race.run.candidates:
        name = candidate.name
        parent, values = settings.get(name, (name, {}))
        admission = admissions[name]
        steps = ratios.get(name, {})
        state: State = "running"
        if final:
            # As in a search: a value that isn't known can't be made up.
            state = "complete" if steps else "pruned" if admission.failure else "fail"
        told = state in ("complete", "pruned")
        found.append(
            Entry(
                part="race",
                name=name,
                state=state,
                params={CANDIDATE: parent, **parameters(parent, values)},
                value=_mean(steps) if state == "complete" else None,
                constraints=_constraints(admission) if told else {},
                steps=steps,
            )
        )
    return tuple(found)


def spread_of(entry: Entry, run: RunRecord) -> dict[str, "BaseDistribution"]:
    """Return what an entry's parameters are drawn from."""
    from optuna.distributions import CategoricalDistribution

    parent = str(entry.params[CANDIDATE])
    listed = [candidate.name for candidate in run.candidates]
    names = [key.removeprefix(f"{parent}.") for key in entry.params if key != CANDIDATE]
    return {
        CANDIDATE: CategoricalDistribution(listed),
        **distributions(parent, run.tunables.get(parent, {}), names),
    }


def _searched(result: TrialResult) -> Entry:
    state = state_of(result)
    return Entry(
        part="search",
        name=result.candidate,
        state=state,
        params={CANDIDATE: result.parent, **parameters(result.parent, result.values)},
        value=result.ratio if state == "complete" else None,
        constraints=constraints_of(result) if state in ("complete", "pruned") else {},
        round=result.round,
    )


def _constraints(admission: Admission) -> dict[str, float]:
    wrong = admission.verdict.verdict == "fail"
    return {
        "failed": float(admission.failure is not None and not wrong),
        "wrong answers": float(wrong),
        **{
            name_of(check): check.observed - check.limit.at_most
            for check in admission.limits
            if check.observed is not None
        },
    }


def _ratios(race: LoadedRun) -> dict[str, dict[int, float]]:
    """Each racer's throughput over the anchor's, in every race round that both completed."""
    run = race.run
    valid: dict[tuple[str, int], dict[int, float]] = {}
    for point in race.points:
        throughput = point.figures.output_tokens_per_s if point.figures else None
        if point.status != "ok" or point.round <= run.search_rounds:
            continue
        if throughput is not None and throughput > 0:
            valid.setdefault((point.candidate, point.round), {})[point.concurrency] = throughput
    scores = {
        key: score(values, run)
        for key, values in valid.items()
        if all(one in values for one in run.concurrencies)
    }
    anchor = anchor_of(run) or ""
    ratios: dict[str, dict[int, float]] = {}
    for (name, number), own in sorted(scores.items()):
        if (anchor, number) in scores:
            ratios.setdefault(name, {})[number] = math.exp(own - scores[anchor, number])
    return ratios


def _mean(steps: Mapping[int, float]) -> float:
    """The geometric mean, as becomes ratios."""
    return math.exp(math.fsum(math.log(one) for one in steps.values()) / len(steps))
