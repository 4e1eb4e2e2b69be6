"""How far a run is, as a sweep that is started again on its folder would find it."""

import msgspec

from autotune.config import read_config
from autotune.decide.search import next_search_round
from autotune.errors import ConfigError
from autotune.judged import Judged
from autotune.records.folder import CONFIG_FILE
from autotune.sweep.race import Stop, next_round, over_budget


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is: ``launches`` made, and in one sentence what comes next, or why nothing.

    An imported run has no launches of its own.
    """

    imported: bool
    finished: bool
    launches: int
    sentence: str


def progress_of(judged: Judged) -> Progress:
    """Say how far a run is, as a sweep that is started again on its folder would find it."""
    whole = judged.derived.loaded
    made = len(whole.launches)
    if whole.run.kind == "import":
        return Progress(imported=True, finished=True, launches=made, sentence="imported")
    finished, sentence = _next(judged)
    return Progress(imported=False, finished=finished, launches=made, sentence=sentence)


def _next(judged: Judged) -> tuple[bool, str]:
    """Whether a sweep is over, and what comes next."""
    whole = judged.derived.loaded
    if not any(launch.round == 0 for launch in whole.launches):
        return False, "the reference's launch before round 1 is next"
    search_round = next_search_round(whole)
    step = next_round(judged.derived.race, judged.derived.verdicts)
    if search_round is None and isinstance(step, Stop):
        return True, step.reason
    spent = _spent(judged)
    if spent is not None:
        return True, f"stopped by {spent}"
    if search_round is not None:
        return False, f"search round {search_round} of {whole.run.search_rounds} is next"
    assert not isinstance(step, Stop)
    measured = {launch.candidate for launch in whole.launches if launch.round == step.number}
    left = [name for name in step.names if name not in measured]
    if measured:
        return False, f"round {step.number} is under way, {', '.join(left)} left"
    return False, f"round {step.number} is next, with {', '.join(left)}"


def _spent(judged: Judged) -> str | None:
    """Which budget is spent, as far as the frozen config can be read."""
    try:
        config = read_config(judged.path / CONFIG_FILE)
    except ConfigError:
        return None
    return over_budget(judged.derived.loaded, config.budget)
