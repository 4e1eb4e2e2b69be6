"""Bring a study in line with the records: add what it lacks, tell what has ended.

Records are written first, so a study is behind them at most. Where it says otherwise than they
do, they are right.
"""

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from autotune.records.schema import RunRecord
from autotune.search.entries import Entry, spread_of
from autotune.search.space import State

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial, TrialState

Key = tuple[str, str]


class Agreement(Enum):
    """How a study stands to the records.

    ``behind``: it can be brought in line. ``outdated``: it was told what the records by now say
    otherwise, and a finished trial can't be changed. ``foreign``: it holds what isn't theirs.
    """

    BEHIND = "behind"
    OUTDATED = "outdated"
    FOREIGN = "foreign"


def agreement(trials: Sequence["FrozenTrial"], wanted: Sequence[Entry]) -> Agreement:
    """Say how a study's trials stand to what the records say.

    Trials without a record that are waiting, running or failed carry nothing, and are no reason
    to distrust the others.
    """
    by_key: dict[Key, Entry] = {(entry.part, entry.name): entry for entry in wanted}
    seen: set[Key] = set()
    outdated = False
    for trial in trials:
        key = key_of(trial)
        entry = by_key.get(key)
        if entry is None:
            if trial.state.name in ("COMPLETE", "PRUNED"):
                return Agreement.FOREIGN
            continue
        if key in seen or trial.params != entry.params:
            return Agreement.FOREIGN
        seen.add(key)
        outdated = outdated or _contradicts(trial, entry)
    return Agreement.OUTDATED if outdated else Agreement.BEHIND


def catch_up(
    study: "Study", storage: "BaseStorage", wanted: Sequence[Entry], *, run: RunRecord
) -> None:
    """Add the trials that a study lacks, report what is new, and tell those that have ended.

    Args:
        study: one that is behind the records at most.
        storage: the same that ``study`` is in.
        wanted: what the records say.
        run: for what the parameters are drawn from.
    """
    from optuna.trial import TrialState

    present = {key_of(trial): trial for trial in study.get_trials()}
    known = {(entry.part, entry.name) for entry in wanted}
    for entry in wanted:
        trial = present.get((entry.part, entry.name))
        if trial is None:
            study.add_trial(_new(entry, run))
        elif not trial.state.is_finished():
            _advance(study, storage, trial, entry)
    for key, trial in present.items():
        if key not in known and trial.state == TrialState.RUNNING:
            # Its record was deleted, or somebody else asked for it: nobody will tell it.
            study.tell(trial.number, state=TrialState.FAIL)


def key_of(trial: "FrozenTrial") -> Key:
    """Return which entry a trial is of; one that isn't ours has a key that no entry has."""
    attributes: Mapping[str, object] = trial.user_attrs
    name = attributes.get("name")
    part = attributes.get("part")
    return (str(part), str(name)) if name is not None else ("", str(trial.number))


def _new(entry: Entry, run: RunRecord) -> "FrozenTrial":
    from optuna.trial import create_trial

    attributes: dict[str, object] = {"part": entry.part, "name": entry.name}
    if entry.round is not None:
        attributes["round"] = entry.round
    spread = spread_of(entry, run)
    return create_trial(
        state=_state(entry.state),
        value=entry.value,
        params={name: entry.params[name] for name in spread},
        distributions=spread,
        user_attrs=attributes,
        intermediate_values=entry.steps,
        constraints=entry.constraints or None,
    )


def _advance(study: "Study", storage: "BaseStorage", trial: "FrozenTrial", entry: Entry) -> None:
    """Bring a running trial up to its entry; what an interrupted call did already is left."""
    from optuna.trial import Trial, TrialState

    number = storage.get_trial_id_from_study_id_trial_number(
        storage.get_study_id_from_name(study.study_name), trial.number
    )
    live = Trial(study, number)
    for step, value in entry.steps.items():
        if step not in trial.intermediate_values:
            live.report(value, step)
    if entry.state == "running":
        return
    for name, constraint in entry.constraints.items():
        if name not in trial.constraints:
            live.set_constraint(name, constraint)
    state = _state(entry.state)
    study.tell(live, entry.value if state == TrialState.COMPLETE else None, state=state)


def _contradicts(trial: "FrozenTrial", entry: Entry) -> bool:
    """Whether a trial was told anything that its entry doesn't say."""
    if any(not _close(value, entry.steps.get(s)) for s, value in trial.intermediate_values.items()):
        return True
    if not trial.state.is_finished():
        # An entry that isn't over has no constraints yet; those of an interrupted tell stay.
        return any(not _close(by, entry.constraints.get(k)) for k, by in trial.constraints.items())
    if trial.state != _state(entry.state):
        return True
    if entry.state == "complete" and not _close(trial.value, entry.value):
        return True
    if entry.steps.keys() - trial.intermediate_values.keys():
        return True
    told = trial.constraints
    return told.keys() != entry.constraints.keys() or any(
        not _close(told[name], by) for name, by in entry.constraints.items()
    )


def _close(one: float | None, other: float | None) -> bool:
    # A database may keep fewer digits.
    return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-9)


def _state(state: State) -> "TrialState":
    from optuna import trial

    return trial.TrialState[state.upper()]
