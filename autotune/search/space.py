"""Tunables and results as Optuna has them: distributions, drawing, finished trials.

In a study a tunable is called ``<candidate>.<tunable>``, since two candidates may have tunables
of one name. Optuna is imported where it is needed: it takes long, and most commands don't.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from autotune.decide.search import TrialResult
from autotune.errors import RunFolderError
from autotune.records.schema import Tunable
from autotune.tunables import Setting, Value, can_be, in_force, in_order, rounded

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, Trial

# The study's first parameter: which listed candidate a trial launches.
CANDIDATE = "candidate"
State = Literal["running", "complete", "pruned", "fail"]


def parameter(parent: str, tunable: str) -> str:
    """Return a tunable's name in a study."""
    return f"{parent}.{tunable}"


def distribution(tunable: Tunable) -> "BaseDistribution":
    """Return what a tunable is drawn from."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    low, high, step, log = tunable.low, tunable.high, tunable.step, tunable.log
    if low is None or high is None:
        return CategoricalDistribution(tunable.choices)
    if isinstance(low, int) and isinstance(high, int) and not isinstance(step, float):
        return IntDistribution(low, high, log=log, step=step or 1)
    return FloatDistribution(float(low), float(high), log=log, step=step)


def draw(trial: "Trial", parent: str, tunables: Mapping[str, Tunable]) -> Setting:
    """Draw a value for each tunable that is in force, those that others depend on first."""
    values: Setting = {}
    for name in in_order(tunables):
        if in_force(tunables[name], values):
            drawn = _suggest(trial, parameter(parent, name), tunables[name])
            values[name] = rounded(drawn, tunables[name])
    return values


def _suggest(trial: "Trial", name: str, tunable: Tunable) -> Value:
    value: Value
    low, high, step, log = tunable.low, tunable.high, tunable.step, tunable.log
    if low is None or high is None:
        value = trial.suggest_categorical(name, tunable.choices)
    elif isinstance(low, int) and isinstance(high, int) and not isinstance(step, float):
        value = trial.suggest_int(name, low, high, step=step or 1, log=log)
    else:
        value = trial.suggest_float(name, float(low), float(high), step=step, log=log)
    return value


def parameters(parent: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """Return a setting as a study has it."""
    return {parameter(parent, name): value for name, value in values.items()}


def distributions(
    parent: str, tunables: Mapping[str, Tunable], names: Iterable[str]
) -> dict[str, "BaseDistribution"]:
    """Return what the named tunables are drawn from, those that others depend on first."""
    wanted = set(names)
    return {
        parameter(parent, name): distribution(tunables[name])
        for name in in_order(tunables)
        if name in wanted
    }


def state_of(result: TrialResult) -> State:
    """Return what a study is told of a trial.

    Samplers learn nothing from a failed trial, and would go on trying what can't be launched. So
    what failed by itself is ``pruned``, with a constraint that says so. ``fail`` is for what can't
    be told, for no fault of the setting.
    """
    if not result.launched:
        return "running"
    if result.ratio is not None and None not in result.over.values():
        return "complete"
    return "pruned" if result.failure is not None else "fail"


def constraints_of(result: TrialResult) -> dict[str, float]:
    """Return a finished trial's constraints: above 0 is a violation, as Optuna has it."""
    return {
        "failed": float(result.failure is not None),
        "wrong answers": float(result.verdict == "fail"),
        **{name: by for name, by in result.over.items() if by is not None},
    }


def as_trial(result: TrialResult, tunables: Mapping[str, Tunable]) -> "FrozenTrial":
    """Return a trial of one candidate as a sampler sees it.

    Raises:
        RunFolderError: its record doesn't fit the tunables.
    """
    from optuna.trial import TrialState, create_trial

    for name, value in result.values.items():
        if name not in tunables or not can_be(tunables[name], value):
            raise RunFolderError(
                f"trials/{result.number:04d}.json: doesn't fit the run's tunables ({name!r} can't "
                f"be {value!r}): delete this one file; a sweep that is run again draws another "
                "setting"
            )
    state = state_of(result)
    values = parameters(result.parent, result.values)
    # In the order in which they are drawn: a brute-force sampler follows it.
    spread = distributions(result.parent, tunables, result.values)
    return create_trial(
        state=TrialState[state.upper()],
        value=result.ratio if state == "complete" else None,
        params={name: values[name] for name in spread},
        distributions=spread,
        constraints=constraints_of(result) if state in ("complete", "pruned") else None,
    )
