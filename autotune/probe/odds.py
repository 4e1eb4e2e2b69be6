"""How likely a defect was missed: the honest end of every pass. Pure."""

from collections.abc import Sequence

from autotune.probe.agreement import Setting
from autotune.probe.answers import Walk
from autotune.probe.schema import MissOdds
from autotune.probe.statistics import detectable_share, miss_probability

# The published case: one answer in eight.
STATED_SHARE = 1 / 8


def odds_of_answers(walks: Sequence[Walk]) -> list[MissOdds]:
    """Odds of having missed a defect that spoils some answers, each by chance, and visibly.

    One for all answers, and one for the highest concurrency: some defects only live there.
    """
    found = []
    if walks:
        found.append(_odds("garbles one answer in eight", len(walks)))
    crowded = [walk.concurrency for walk in walks if walk.mode != "single"]
    if crowded:
        highest = max(crowded)
        some = [w for w in walks if w.mode != "single" and w.concurrency == highest]
        found.append(_odds(f"garbles one answer in eight at concurrency {highest} only", len(some)))
    return found


def smallest_seen(walks: Sequence[Walk]) -> float:
    """The smallest share of spoilt answers that is missed with a chance of 5% at most."""
    return detectable_share(len(walks))


def odds_of_prompts(settings: Sequence[Setting]) -> list[MissOdds]:
    """Odds of having missed a defect of one kind of prompt, of which there are few."""
    long = [setting for setting in settings if setting.where == "at long prompts"]
    return [
        _odds("garbles the answer to one long prompt in eight", one.candidate.prompts)
        for one in long
    ]


def _odds(defect: str, answers: int) -> MissOdds:
    return MissOdds(
        defect=defect,
        size=STATED_SHARE,
        answers=answers,
        probability=miss_probability(STATED_SHARE, answers),
    )
