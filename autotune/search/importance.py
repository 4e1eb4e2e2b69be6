"""How much each tunable had to do with a search's results, as Optuna reckons it."""

import warnings
from collections.abc import Mapping, Sequence

from autotune.decide.search import TrialResult
from autotune.records.schema import Tunable
from autotune.search.quiet import quiet_optuna
from autotune.search.space import as_trial, parameter, state_of

# Fewer trials say nothing at all.
LEAST_TRIALS = 4


def importances(
    parent: str, tunables: Mapping[str, Tunable], *, results: Sequence[TrialResult]
) -> dict[str, float]:
    """Return each tunable's share of what sets the best trials apart (PED-ANOVA), largest first.

    Empty where fewer than ``LEAST_TRIALS`` trials of ``parent`` have a ratio, all have the same,
    or there is only one tunable.

    Raises:
        RunFolderError: a trial's record doesn't fit the tunables.
    """
    measured = [
        result for result in results if result.parent == parent and state_of(result) == "complete"
    ]
    different = len({result.ratio for result in measured}) > 1
    if len(tunables) < 2 or len(measured) < LEAST_TRIALS or not different:
        return {}
    names = {parameter(parent, name): name for name in tunables}
    with quiet_optuna(), warnings.catch_warnings():
        import optuna

        # It says that few trials make a rough figure: so does the report.
        warnings.simplefilter("ignore", UserWarning)

        study = optuna.create_study(direction="maximize")
        study.add_trials([as_trial(result, tunables) for result in measured])
        found = optuna.importance.get_param_importances(study)
    return {names[name]: share for name, share in found.items()}
