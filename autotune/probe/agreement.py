"""Do a candidate's greedy texts follow the reference's as far as an honest backend's would? Pure.

Two questions. *How often does it write another token* (a rate per token), alone, at each
concurrency, and at long prompts: a defect of the arithmetic raises it everywhere. And *does it now
and then answer something else altogether* (strays, a share of answers): a defect that hits one
answer in eight hardly moves a rate per token. Both are held against the reference's own, measured
in the same way. ``docs/correctness.md`` tells the reasons.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec
from scipy.special import bdtrc

from autotune.decisions.schema import Verdict
from autotune.probe.answers import STRANGE, Walk
from autotune.probe.schema import Finding
from autotune.probe.statistics import larger_share, more_often, rate_bounds, share_bounds
from autotune.records.rule import CorrectnessRule
from autotune.records.schema import PromptKind

# Strays beyond this share, with confidence, are no rounding.
REJECTED_STRAYS = 0.05
# Prompts that are answered otherwise from the beginning, beyond this share with confidence.
REJECTED_BEGINNINGS = 0.25
# How many more of its answers than of the reference's may change from one time to the next.
TOLERATED_CHANGES = 0.02
OVERALL = "in all answers"
# A pass needs the upper bound of the rate to lie below so many times the tolerated one: over all
# answers, and in each part of them, which has fewer tokens.
PASSED_OVERALL, PASSED_IN_PART = 2.0, 5.0
_RANK: dict[Verdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2}


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """How often another token was written: events per token, over distinct prompts.

    A server that answers the same each time shows nothing new when it is asked again, so that a
    prompt counts once: with the mean of its answers.
    """

    events: float
    tokens: float
    prompts: int

    @property
    def value(self) -> float:
        """Events per token."""
        return self.events / self.tokens if self.tokens else 0.0


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the answers that is judged for itself, with the reference's own beside it."""

    where: str
    candidate: Rate
    reference: Rate


def rate_of(walks: Iterable[Walk]) -> Rate:
    """Return the rate at which answers part from the reference's."""
    by_prompt: dict[str, list[Walk]] = {}
    for walk in walks:
        by_prompt.setdefault(walk.prompt, []).append(walk)
    means = [
        (fmean(w.parted for w in some), fmean(w.agreed_tokens + w.parted for w in some))
        for some in by_prompt.values()
    ]
    return Rate(
        events=sum(events for events, _ in means),
        tokens=sum(tokens for _, tokens in means),
        prompts=len(by_prompt),
    )


def settings_of(
    walks: Sequence[Walk], own: Sequence[Walk], kinds: dict[str, PromptKind]
) -> list[Setting]:
    """Part the answers by how they were asked; only parts with answers are returned.

    Args:
        walks: the candidate's.
        own: the reference's.
        kinds: of the prompts.
    """
    parts = _parts(walks, kinds)
    beside = _parts(own, kinds)
    return [
        # The reference under the same circumstances, if it was asked under them.
        Setting(where=where, candidate=rate_of(some), reference=rate_of(beside.get(where) or own))
        for where, some in parts.items()
    ]


def _parts(walks: Sequence[Walk], kinds: dict[str, PromptKind]) -> dict[str, list[Walk]]:
    crowded = sorted({walk.concurrency for walk in walks if walk.mode != "single"})
    parts = {"alone": [w for w in walks if w.mode == "single"]}
    parts |= {
        f"at concurrency {n}": [w for w in walks if w.mode != "single" and w.concurrency == n]
        for n in crowded
    }
    parts["at long prompts"] = [w for w in walks if kinds.get(w.prompt) == "long"]
    parts[OVERALL] = list(walks)
    return {where: some for where, some in parts.items() if some}


def judge_rate(
    settings: Sequence[Setting], *, reference: str, rule: CorrectnessRule, scored: bool
) -> Finding:
    """Judge how often a candidate writes another token than the reference.

    Args:
        settings: the parts to judge; the chance of a false alarm is split over them.
        reference: its name.
        rule: tolerated and rejected rate, and the chance of a false alarm.
        scored: whether there are log-probabilities too, which tell where texts are too few to. They
            are those of a prompt: what texts show of writing token by token stands beside them.
    """
    alpha = rule.false_alarm / max(1, len(settings))
    worst: tuple[Verdict, str, Setting] | None = None
    worst_rank: tuple[float, ...] = ()
    for setting in settings:
        verdict, why = _judge_setting(setting, alpha=alpha, reference=reference, rule=rule)
        low, _ = rate_bounds(setting.candidate.events, setting.candidate.tokens, alpha=alpha)
        few = low <= rule.tolerated_rate or setting.reference.value > rule.rejected_rate
        if verdict == "inconclusive" and scored and few:
            continue
        rank = (_RANK[verdict], low, setting.where == OVERALL)
        if worst is None or rank > worst_rank:
            worst, worst_rank = (verdict, why, setting), rank
    if worst is None:
        return Finding(
            kind="agreement", verdict="pass", sentence="texts part as rounding lets them"
        )
    verdict, why, setting = worst
    low, high = rate_bounds(setting.candidate.events, setting.candidate.tokens, alpha=alpha)
    return Finding(
        kind="agreement",
        verdict=verdict,
        sentence=why,
        figures={
            "rate": setting.candidate.value,
            "rate_low": low,
            "rate_high": high,
            "prompts": setting.candidate.prompts,
            "tokens": setting.candidate.tokens,
            "reference_rate": setting.reference.value,
            "reference_tokens": setting.reference.tokens,
            "alpha": alpha,
        },
    )


def _judge_setting(
    setting: Setting, *, alpha: float, reference: str, rule: CorrectnessRule
) -> tuple[Verdict, str]:
    rate, own = setting.candidate, setting.reference
    low, high = rate_bounds(rate.events, rate.tokens, alpha=alpha)
    told = f"{setting.where} it writes another token than {reference} at {rate.value:.1%} of tokens"
    spread = f"{reference} itself at {own.value:.1%}"
    more = own.tokens > 0 and more_often(rate.events, rate.tokens, own.events, own.tokens) < alpha
    if low > rule.rejected_rate and (more or not own.tokens):
        return "fail", f"{told} (at least {low:.0%}): no rounding does that; {spread}"
    if own.value > rule.rejected_rate:
        return "inconclusive", f"{reference} doesn't repeat its own answers ({spread})"
    if low > rule.tolerated_rate and (more or not own.tokens):
        return "inconclusive", (
            f"{told} (at least {low:.1%}; tolerated are {rule.tolerated_rate:.1%}; {spread}): more "
            "than rounding is known to do, too little to reject"
        )
    passed = PASSED_OVERALL if setting.where == OVERALL else PASSED_IN_PART
    if high > passed * rule.tolerated_rate:
        return "inconclusive", (
            f"{told}, and {rate.tokens:.0f} tokens of {rate.prompts} prompts are too few to rule "
            f"out that it does at {high:.0%} of them; {spread}"
        )
    return "pass", f"{told} (at most {high:.1%}; {spread})"


def judge_beginnings(
    walks: Sequence[Walk],
    own: Sequence[Walk],
    *,
    reference: str,
    rule: CorrectnessRule,
) -> Finding:
    """Judge whether some prompts are answered otherwise from the beginning, each time.

    A defect that hits some prompts and spares the rest hardly moves the rate over all of them.
    Rounding parts answers anywhere along them, so that from the rate further on it follows how many
    part at their beginning.

    Args:
        walks: the candidate's.
        own: the reference's.
        reference: its name.
        rule: the chance of a false alarm.
    """
    others, rest = _beginnings(walks)
    own_others, _ = _beginnings(own)
    n, own_n = (len({walk.prompt for walk in some}) for some in (walks, own))
    figures = {"prompts": float(n), "other_from_the_beginning": float(len(others))}
    told = (
        f"{len(others)} of {n} prompts are answered otherwise from the beginning, of {reference}'s "
        f"own {len(own_others)} of {own_n}"
    )
    further_on = rate_of(rest)
    # One event more than was seen, since few were looked at.
    rate = min(1.0, (further_on.events + 1) / max(1.0, further_on.tokens))
    length = fmean([w.agreed_tokens / w.share for w in rest if w.share] or [0.0])
    expected = 1 - (1 - rate) ** (STRANGE * length + 1)
    if own_others:
        expected = max(expected, (len(own_others) + 1) / (own_n + 1))
    chance = _binomial_tail(len(others), n, expected)
    verdict: Verdict = "pass"
    if others and chance < rule.false_alarm:
        low, _ = share_bounds(len(others), n, alpha=rule.false_alarm)
        if low > REJECTED_BEGINNINGS:
            verdict = "fail"
        else:
            verdict, told = "inconclusive", f"{told}: more than its rounding explains"
    return Finding(kind="agreement", verdict=verdict, sentence=told, figures=figures)


def _beginnings(walks: Sequence[Walk]) -> tuple[set[str], list[Walk]]:
    """The prompts most of whose answers part at the beginning, and the walks of all others."""
    by_prompt: dict[str, list[bool]] = {}
    for walk in walks:
        by_prompt.setdefault(walk.prompt, []).append(walk.parted and walk.share < STRANGE)
    others = {prompt for prompt, some in by_prompt.items() if 2 * sum(some) > len(some)}
    return others, [walk for walk in walks if walk.prompt not in others]


def judge_steadiness(
    walks: Sequence[Walk], own: Sequence[Walk], *, reference: str, rule: CorrectnessRule
) -> Finding:
    """Judge whether a candidate answers otherwise now and then: for chance defects.

    Two things are counted, in all answers and at each concurrency: strays, and answers that aren't
    what the same server usually says to that prompt.

    Args:
        walks: the candidate's.
        own: the reference's.
        reference: its name.
        rule: the chance of a false alarm.
    """
    parts, own_parts = _by_concurrency(walks), _by_concurrency(own)
    alpha = rule.false_alarm / (2 * len(parts))
    judged = [
        judgement
        for where, some in parts.items()
        for judgement in (
            _judge_strays(where, some, own, reference=reference, alpha=alpha),
            _judge_changes(
                where, some, own_parts.get(where) or own, reference=reference, alpha=alpha
            ),
        )
    ]
    verdict, sentence = max(judged, key=lambda one: _RANK[one[0]])
    return Finding(
        kind="load",
        verdict=verdict,
        sentence=sentence,
        figures={
            "answers": len(walks),
            "strays": sum(walk.stray for walk in walks),
            "changed": sum(walk.changed for walk in walks),
            "reference_answers": len(own),
            "reference_strays": sum(walk.stray for walk in own),
            "reference_changed": sum(walk.changed for walk in own),
            "alpha": alpha,
        },
    )


def _by_concurrency(walks: Sequence[Walk]) -> dict[str, list[Walk]]:
    """All answers, and those of each concurrency if there are several."""
    parts = {"": list(walks)}
    crowded = sorted({walk.concurrency for walk in walks if walk.mode != "single"})
    if len(crowded) > 1:
        parts |= {
            f" at concurrency {n}": [w for w in walks if w.mode != "single" and w.concurrency == n]
            for n in crowded
        }
    return parts


def _judge_strays(
    where: str, walks: Sequence[Walk], own: Sequence[Walk], *, reference: str, alpha: float
) -> tuple[Verdict, str]:
    strays = sum(walk.stray for walk in walks)
    if not strays:
        return "pass", "no answer stands apart from the others to its prompt"
    told = (
        f"{strays} of {len(walks)} answers{where} have nothing in common with {reference}'s, nor "
        "with what it says itself at other times"
    )
    chance = max(
        larger_share(strays, len(walks), sum(w.stray for w in own), max(1, len(own))),
        _rounding_strays(strays, walks),
    )
    if chance >= alpha:
        return "pass", f"{told}: not more than chance explains"
    if share_bounds(strays, len(walks), alpha=alpha)[0] > REJECTED_STRAYS:
        return "fail", told
    return "inconclusive", f"{told}: more than its rounding explains"


def _judge_changes(
    where: str, walks: Sequence[Walk], own: Sequence[Walk], *, reference: str, alpha: float
) -> tuple[Verdict, str]:
    changed, own_changed = sum(w.changed for w in walks), sum(w.changed for w in own)
    if not (walks and own):
        return "pass", "it wasn't asked again"
    told = (
        f"{changed} of {len(walks)} answers{where} aren't what it usually says to the same prompt, "
        f"of {reference}'s {own_changed} of {len(own)}"
    )
    more = larger_share(changed, len(walks), own_changed, len(own)) < alpha
    low, _ = share_bounds(changed, len(walks), alpha=alpha)
    if more and low > own_changed / len(own) + TOLERATED_CHANGES:
        return "inconclusive", f"{told}: it is less steady, by chance or by a defect that hits some"
    return "pass", told


def _rounding_strays(strays: int, walks: Sequence[Walk]) -> float:
    """The chance of so many strays if all came of one rate per token: parting at the beginning."""
    events = sum(walk.parted for walk in walks)
    tokens = sum(walk.agreed_tokens + walk.parted for walk in walks)
    if not tokens:
        return 1.0
    # Of a walk that parts at once nothing is seen of its length.
    length = fmean([w.agreed_tokens / w.share for w in walks if w.share] or [0.0])
    # A walk of 32 tokens is strange if it parts at one of its first 4: after 0, 1, 2 or 3.
    expected = 1 - (1 - min(1.0, events / tokens)) ** (STRANGE * length + 1)
    return _binomial_tail(strays, len(walks), expected)


def _binomial_tail(hits: int, n: int, share: float) -> float:
    """P(X >= hits) for n draws at ``share`` each."""
    return float(bdtrc(hits - 1, n, share)) if hits else 1.0
