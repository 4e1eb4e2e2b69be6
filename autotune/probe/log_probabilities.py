"""What a candidate thinks of the reference's own words: teacher-forced log-probabilities. Pure.

The reference's continuation is given to the candidate, which says how likely each token is to it.
So every token counts, not only those up to the first difference; and what a different token costs
is seen too: where two tokens are nearly as likely, rounding may choose either, and nothing is lost.
"""

from collections.abc import Iterable, Sequence
from math import isfinite
from statistics import fmean

import msgspec

from autotune.decisions.schema import Verdict
from autotune.probe.schema import Finding
from autotune.probe.statistics import mean_bounds, rate_bounds
from autotune.records.rule import CorrectnessRule
from autotune.records.schema import Continuation, ProbeMode, ProbeRecord, ScoredContinuation

# A token whose log-probability falls by more than this (in nats: to 37% of what it was) is lost.
LOSS = 1.0
# Lost tokens beyond these shares, with confidence: more than rounding does, and beyond doubt.
TOLERATED_LOSSES, REJECTED_LOSSES = 0.05, 0.25
_TAIL = 0.05


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A server's view of one continuation: log-probability differences to the reference's view.

    ``drops`` are the candidate's minus the reference's, a token each, in nats: negative where the
    candidate finds the reference's token less likely. ``other_tokens`` counts those in whose place
    it would have written another one, ``known`` of how many it said so.
    """

    prompt: str
    mode: ProbeMode
    concurrency: int
    drops: tuple[float, ...]
    other_tokens: int
    known: int


def continuations(probes: Iterable[ProbeRecord], *, reference: str | None) -> list[Continuation]:
    """The reference's own words, as it wrote them in its first launch."""
    mine = [probe for probe in probes if probe.candidate == reference and probe.continuations]
    mine.sort(key=lambda probe: probe.round)
    return list(mine[0].continuations) if mine else []


def read_scores(
    scores: Sequence[ScoredContinuation],
    reference_scores: Sequence[ScoredContinuation],
    written: Sequence[Continuation],
) -> list[Scored]:
    """Hold scores against the reference's own view of the same words.

    The reference's view is the mean of its scores of them when asked alone; what it wrote while
    generating stands in where it has none. Scores that failed are left out, tokens without a
    number too (those are signs of ill health).
    """
    views = {one.prompt: _view(one, reference_scores) for one in written}
    tokens = {one.prompt: one.token_ids for one in written}
    return [
        _scored(score, views[score.prompt], tokens[score.prompt])
        for score in scores
        if score.outcome == "ok" and score.prompt in views
    ]


def _view(written: Continuation, scores: Sequence[ScoredContinuation]) -> tuple[float | None, ...]:
    alone = [
        score.log_probabilities
        for score in scores
        if score.prompt == written.prompt and score.mode == "single" and score.outcome == "ok"
    ]
    if not alone:
        return written.log_probabilities
    columns = [
        [value for value in column if value is not None] for column in zip(*alone, strict=False)
    ]
    return tuple(fmean(column) if column else None for column in columns)


def _scored(
    score: ScoredContinuation, view: tuple[float | None, ...], tokens: tuple[int, ...]
) -> Scored:
    pairs = zip(score.top_token_ids, tokens, strict=False)
    told = [(top, token) for top, token in pairs if top is not None]
    return Scored(
        prompt=score.prompt,
        mode=score.mode,
        concurrency=score.concurrency,
        drops=tuple(
            ours - theirs
            for ours, theirs in zip(score.log_probabilities, view, strict=False)
            if ours is not None and theirs is not None
        ),
        other_tokens=sum(top != token for top, token in told),
        known=len(told),
    )


def judge_scores(
    scores: Sequence[Scored],
    own: Sequence[Scored],
    *,
    reference: str,
    rule: CorrectnessRule,
) -> Finding | None:
    """Judge what a candidate thinks of the reference's words, ``None`` where it wasn't asked.

    Args:
        scores: the candidate's.
        own: the reference's later looks at its own words, the yardstick.
        reference: its name.
        rule: tolerated and rejected drop, and the chance of a false alarm.
    """
    parts = _parts([score for score in scores if score.drops])
    if not parts:
        return None
    # Two bounds are looked at in each part: the mean's and the lost tokens'.
    alpha = rule.false_alarm / (2 * len(parts))
    spread = _own_spread([score for score in own if score.drops], alpha=alpha)
    findings = [
        _judge_part(where, some, spread, alpha=alpha, reference=reference, rule=rule)
        for where, some in parts.items()
    ]
    rank: dict[Verdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2}
    return max(findings, key=lambda finding: rank[finding.verdict])


def _parts(scores: Sequence[Scored]) -> dict[str, list[Scored]]:
    parts: dict[str, list[Scored]] = {}
    for score in scores:
        where = "alone" if score.mode == "single" else f"at concurrency {score.concurrency}"
        parts.setdefault(where, []).append(score)
    return parts


def _own_spread(own: Sequence[Scored], *, alpha: float) -> float:
    """How far the reference's mean view of its own words may lie from itself, in nats per token."""
    return max((_largest_drop(some, alpha) for some in _parts(own).values()), default=0.0)


def _largest_drop(scores: Sequence[Scored], alpha: float) -> float:
    means = list(_means(scores).values())
    if len(means) < 2:
        return 0.0
    return max(0.0, -mean_bounds(means, alpha=alpha)[1])


def _means(scores: Sequence[Scored]) -> dict[str, float]:
    """The mean difference for each prompt: prompts are the independent samples, not tokens."""
    by_prompt: dict[str, list[float]] = {}
    for score in scores:
        by_prompt.setdefault(score.prompt, []).append(fmean(score.drops))
    return {prompt: fmean(values) for prompt, values in by_prompt.items()}


def _judge_part(
    where: str,
    scores: Sequence[Scored],
    spread: float,
    *,
    alpha: float,
    reference: str,
    rule: CorrectnessRule,
) -> Finding:
    means = list(_means(scores).values())
    mean, low, high = mean_bounds(means, alpha=alpha)
    drops = sorted(drop for score in scores for drop in score.drops)
    lost = fmean(drop < -LOSS for drop in drops)
    repeats = len(scores) / len(means)
    # Repeats of one continuation are one sample.
    lost_low, _ = rate_bounds(lost * len(drops) / repeats, len(drops) / repeats, alpha=alpha)
    known = sum(score.known for score in scores)
    bound = f"at most {max(0.0, -low):.3f}" if isfinite(low) else "one prompt bounds nothing"
    told = (
        f"{where} {reference}'s own words lose {max(0.0, -mean):.3f} nats a token with it ({bound}"
    )
    verdict: Verdict = "pass"
    sentence = f"{told}; {reference} differs from itself by up to {spread:.3f})"
    if -high > rule.rejected_drop + spread or lost_low > REJECTED_LOSSES:
        verdict = "fail"
        sentence = f"{told}, {lost:.0%} of tokens lost by over {LOSS:g}): no rounding does that"
    elif -low > rule.tolerated_drop + spread or lost_low > TOLERATED_LOSSES:
        verdict = "inconclusive"
        sentence = (
            f"{told}, {lost:.1%} of tokens lost by over {LOSS:g}): tolerated are "
            f"{rule.tolerated_drop + spread:.3f}"
        )
    return Finding(
        kind="log_probabilities",
        verdict=verdict,
        sentence=sentence,
        figures={
            "drop_mean": mean,
            "drop_low": low,
            "drop_high": high,
            "drop_tail": drops[int(_TAIL * len(drops))],
            "lost_share": lost,
            "other_token_share": sum(s.other_tokens for s in scores) / known if known else 0.0,
            "tokens": len(drops),
            "prompts": len(means),
            "reference_spread": spread,
            "alpha": alpha,
        },
    )
