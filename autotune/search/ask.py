"""Which settings to try next: a sampler of Optuna's, on a study made from the records each time.

Nothing but the records and the config's seed goes into a draw, so that a sweep that was killed
draws the same again. Each candidate is searched by itself: among the trials of all, those of the
fastest one would be all the good ones, and a sampler would learn nothing of the others.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

from autotune.decide.search import TrialResult
from autotune.errors import AutotuneError
from autotune.records.schema import Tunable
from autotune.search.quiet import quiet_optuna
from autotune.search.space import as_trial, draw
from autotune.tunables import Setting, every_setting

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

Sampler = Literal["tpe", "random", "brute_force"]

# Optuna's default of 10 is more than a usual search has.
STARTUP_TRIALS = 4
_TRIES = 20
_MOST_DRAWN = 1000


def ask_setting(
    parent: str,
    tunables: Mapping[str, Tunable],
    *,
    results: Sequence[TrialResult],
    sampler: Sampler,
    seed: int,
) -> Setting:
    """Return a setting of ``parent`` that wasn't tried yet; there must be one.

    Args:
        parent: the listed candidate.
        tunables: its tunables.
        results: its trials so far, running ones too.
        sampler: which of Optuna's draws.
        seed: of this one draw.

    Raises:
        RunFolderError: a trial's record doesn't fit the tunables.
    """
    tried = [result.values for result in results]
    with quiet_optuna():
        import optuna

        study = optuna.create_study(
            sampler=make_sampler(sampler, tunables, seed=seed), direction="maximize"
        )
        study.add_trials([as_trial(result, tunables) for result in results])
        # A setting that is drawn again stays a running trial, which the next draw avoids.
        for _ in range(_TRIES):
            values = draw(study.ask(), parent, tunables)
            if values not in tried:
                return values
    return _any_other(parent, tunables, tried, seed=seed)


def make_sampler(name: Sampler, tunables: Mapping[str, Tunable], *, seed: int) -> "BaseSampler":
    """Return a sampler for one candidate's tunables."""
    from optuna.samplers import BruteForceSampler, RandomSampler, TPESampler

    if name == "random":
        return RandomSampler(seed=seed)
    if name == "brute_force":
        return BruteForceSampler(seed=seed)
    return TPESampler(
        seed=seed,
        n_startup_trials=STARTUP_TRIALS,
        multivariate=True,
        # Where some are in force only beside others, each group is drawn together.
        group=any(tunable.when for tunable in tunables.values()),
        constant_liar=True,
    )


def _any_other(
    parent: str, tunables: Mapping[str, Tunable], tried: Collection[Setting], *, seed: int
) -> Setting:
    """Return any setting that wasn't tried: what a sampler insists on may be tried already."""
    settings = every_setting(tunables)
    if settings is not None:
        # So many hold one that wasn't tried, if there is one.
        some = [one for one in islice(settings, len(tried) + _MOST_DRAWN) if one not in tried]
        return random.Random(seed).choice(some)
    with quiet_optuna():
        import optuna

        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
        drawn = (draw(study.ask(), parent, tunables) for _ in range(_MOST_DRAWN))
        found = next((values for values in drawn if values not in tried), None)
    if found is None:
        raise AutotuneError(
            f"candidates.{parent}.tunables: {_MOST_DRAWN} draws gave nothing that wasn't tried "
            "yet: give those that are rarely in force more of the choices"
        )
    return found
