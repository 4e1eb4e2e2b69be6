"""What the score of a task says of a candidate, held against the reference's on the same items.

A backend can be fluent and still answer fewer questions right; only a score tells. The items on
which the two differ carry all that is to be learnt, so that few of them need few items in all.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import msgspec

from autotune.decisions.schema import Verdict
from autotune.probe.schema import Finding, MissOdds
from autotune.probe.statistics import items_needed, loss_missed, paired_difference, wilson
from autotune.records.rule import CorrectnessRule
from autotune.records.schema import TaskAnswer

# Of each two-sided interval: 2.5% to each side, for a claim of a loss as for one of none.
CONFIDENCE = 0.95
# Beyond this share of answers that can't be graded, what is left isn't the task any more.
LARGEST_MISSING_SHARE = 0.1
# A task that the model can't do shows nothing: a broken one would score the same.
LOWEST_REFERENCE_ACCURACY = 0.2


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    """What one side answered: its score of each item (a mean over runs) and of each run.

    In ``at_worst`` answers that couldn't be graded count as wrong.
    """

    scores: dict[str, float]
    at_worst: dict[str, float]
    runs: tuple[float, ...]
    failed: float
    unfinished: float


class _Pairs(msgspec.Struct, frozen=True, kw_only=True):
    """The items that both sides answered, as counts; means over runs make fractions of them."""

    items: int
    right: float
    reference_right: float
    gained: float
    lost: float

    def difference(self) -> tuple[float, float]:
        """Bounds of the difference of the accuracies."""
        return paired_difference(self.gained, self.lost, self.items, confidence=CONFIDENCE)

    def figures(self) -> dict[str, float]:
        n = self.items
        figures = {
            "items": float(n),
            "discordant_share": (self.gained + self.lost) / n,
            "difference": (self.gained - self.lost) / n,
        }
        figures["difference_low"], figures["difference_high"] = self.difference()
        shares = {"accuracy": self.right, "reference_accuracy": self.reference_right}
        for name, right in shares.items():
            figures[name] = right / n
            bounds = wilson(right, n, confidence=CONFIDENCE)
            figures[f"{name}_low"], figures[f"{name}_high"] = bounds
        return figures


def judge_task(
    candidate: Sequence[Sequence[TaskAnswer]],
    reference: Sequence[Sequence[TaskAnswer]],
    rule: CorrectnessRule,
) -> Finding | None:
    """Return what the candidate's score says, held against the reference's on the same items.

    An item counts once, with the mean over the runs: the runs of one item are alike, so more of
    them are no more evidence than one, while more items are.

    Args:
        candidate: graded answers, one sequence a run.
        reference: the reference's, in the same way.
        rule: whose ``task_margin`` is the loss of accuracy that is accepted.

    Returns:
        ``fail`` where the whole interval of the difference lies below ``-task_margin``, ``pass``
        where it lies above, even with each answer that couldn't be graded taken for wrong, else
        ``inconclusive``; ``None`` where nobody was asked.
    """
    ours, theirs = _side(candidate), _side(reference)
    if not ours.at_worst and not theirs.at_worst:
        return None
    figures = {
        "runs": float(len(ours.runs)),
        "reference_runs": float(len(theirs.runs)),
        "failed_share": ours.failed,
        "unfinished_share": ours.unfinished,
    }
    for name, side in (("run_sd", ours), ("reference_run_sd", theirs)):
        if len(side.runs) > 1:
            figures[name] = stdev(side.runs)
    pairs = _pairs(ours.scores, theirs.scores)
    at_worst = _pairs(ours.at_worst, theirs.scores)
    doubt = _missing(ours, theirs)
    if doubt is None and (pairs is None or at_worst is None):
        doubt = "no question was answered by both sides"
    if doubt is not None or pairs is None or at_worst is None:
        return _finding("inconclusive", doubt or "", figures)
    figures |= pairs.figures()
    return _judge_figures(figures, rule.task_margin, at_worst)


def odds_of_task(
    items: int, discordant_share: float, *, margin: float, confidence: float = CONFIDENCE
) -> MissOdds:
    """Return how likely a loss of ``margin`` can't be told from none by this many items.

    Args:
        items: that both sides answered.
        discordant_share: of items that only one of the two got right.
        margin: the loss of accuracy (0.02 = two points).
        confidence: of the two-sided interval.
    """
    return MissOdds(
        defect=f"loses {100 * margin:g} points of accuracy on the task",
        size=margin,
        answers=items,
        probability=loss_missed(items, discordant_share, margin, confidence=confidence),
    )


def _judge_figures(figures: dict[str, float], margin: float, at_worst: _Pairs) -> Finding:
    """Judge the interval of the difference; ``at_worst`` may only keep it from passing."""
    items, low = int(figures["items"]), figures["difference_low"]
    said = _said(figures, items)
    too_much = f"a loss of more than {100 * margin:g} points"
    if figures["reference_accuracy"] < LOWEST_REFERENCE_ACCURACY:
        return _finding(
            "inconclusive",
            f"{said}: a task that the reference can't do shows nothing: give easier questions",
            figures,
        )
    if figures["difference_high"] < -margin:
        return _finding("fail", f"{said}, {too_much}", figures)
    if low < -margin:
        needed = items_needed(figures["discordant_share"], margin, confidence=CONFIDENCE)
        figures["items_needed"] = float(needed)
        doubt = f"{too_much} can't be ruled out: {_remedy(needed, items)}"
        return _finding("inconclusive", f"{said}: {doubt}", figures)
    if at_worst.difference()[0] < -margin:
        doubt = f"the answers that couldn't be graded may hide {too_much}"
        return _finding("inconclusive", f"{said}, but {doubt}", figures)
    lower = "lower, but not " if figures["difference_high"] < 0 else "not "
    return _finding("pass", f"{said}, {lower}{too_much}", figures)


def _said(figures: Mapping[str, float], items: int) -> str:
    """The numbers in words; the sign is part of them: -1.3 points are a loss."""
    names = ("difference", "difference_low", "difference_high")
    middle, low, high = (f"{100 * figures[name]:+z.1f}" for name in names)
    return (
        f"{_share(figures, 'accuracy')} of {items:,} questions right, the reference "
        f"{_share(figures, 'reference_accuracy')}: {middle} points ({low} to {high} at "
        f"{CONFIDENCE:.0%} confidence)"
    )


def _remedy(needed: int, items: int) -> str:
    if needed <= items:
        return "the difference is too near to that for these questions to tell: give more"
    return f"about {_rounded(needed):,} questions would be needed"


def _missing(ours: _Side, theirs: _Side) -> str | None:
    """Why too few answers were graded to judge, if they were."""
    for whose, side in (("", ours), (" of the reference", theirs)):
        if side.unfinished > LARGEST_MISSING_SHARE:
            return (
                f"{side.unfinished:.0%} of the answers{whose} never came to an end of their "
                "thinking, which ate the budget: raise probe.task.max_tokens"
            )
        if side.failed > LARGEST_MISSING_SHARE:
            return f"{side.failed:.0%} of the questions{whose} failed as requests"
    return None


def _side(runs: Sequence[Sequence[TaskAnswer]]) -> _Side:
    graded: dict[str, list[bool]] = {}
    at_worst: dict[str, list[bool]] = {}
    run_scores: list[float] = []
    failed = unfinished = 0
    for run in runs:
        right: list[bool] = []
        for answer in run:
            at_worst.setdefault(answer.item, []).append(
                answer.outcome == "ok" and answer.correct is True
            )
            if answer.outcome != "ok":
                failed += 1
            elif answer.correct is None:
                unfinished += 1
            else:
                right.append(answer.correct)
                graded.setdefault(answer.item, []).append(answer.correct)
        if right:
            run_scores.append(fmean(right))
    asked = sum(map(len, at_worst.values())) or 1
    return _Side(
        scores={item: fmean(given) for item, given in graded.items()},
        at_worst={item: fmean(given) for item, given in at_worst.items()},
        runs=tuple(run_scores),
        failed=failed / asked,
        unfinished=unfinished / asked,
    )


def _pairs(scores: Mapping[str, float], reference: Mapping[str, float]) -> _Pairs | None:
    both = [(scores[item], reference[item]) for item in scores if item in reference]
    if not both:
        return None
    return _Pairs(
        items=len(both),
        right=sum(ours for ours, _ in both),
        reference_right=sum(theirs for _, theirs in both),
        gained=sum(max(0.0, ours - theirs) for ours, theirs in both),
        lost=sum(max(0.0, theirs - ours) for ours, theirs in both),
    )


def _finding(verdict: Verdict, sentence: str, figures: Mapping[str, float]) -> Finding:
    return Finding(kind="task", verdict=verdict, sentence=sentence, figures=dict(figures))


def _share(figures: Mapping[str, float], name: str) -> str:
    low, high = figures[f"{name}_low"], figures[f"{name}_high"]
    return f"{figures[name]:.1%} ({low:.1%} to {high:.1%})"


def _rounded(number: int) -> int:
    """Two digits: the number is an estimate."""
    digits: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // digits) * digits
