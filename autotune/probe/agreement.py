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
from autotune.records.schema import CorrectnessRule, PromptKind

# Strays beyond this share, with confidence, are no rounding.
REJECTED_STRAYS = 0.05
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
    return {where: some for where, some in parts.items() if some}


def judge_rate(
    settings: Sequence[Setting], *, reference: str, rule: CorrectnessRule, only_reject: bool
) -> Finding:
    """Judge how often a candidate writes another token than the reference.

    Args:
        settings: the parts to judge; the chance of a false alarm is split over them.
        reference: its name.
        rule: tolerated and rejected rate, and the chance of a false alarm.
        only_reject: whether there is better evidence (log-probabilities), so that texts only say
            what can't be rounding.
    """
    alpha = rule.false_alarm / max(1, len(settings))
    worst: tuple[Verdict, str, Setting] | None = None
    for setting in settings:
        verdict, why = _judge_setting(setting, alpha=alpha, reference=reference, rule=rule)
        if verdict == "inconclusive" and only_reject:
            continue
        rank = (_RANK[verdict], setting.candidate.value)
        if worst is None or rank > (_RANK[worst[0]], worst[2].candidate.value):
            worst = (verdict, why, setting)
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
    if high > rule.rejected_rate:
        return "inconclusive", (
            f"{rate.tokens:.0f} tokens of {rate.prompts} prompts {setting.where} are too few to "
            f"tell: it may write another token than {reference} at up to {high:.0%} of them"
        )
    return "pass", f"{told} (at most {high:.1%}; {spread})"


def judge_strays(
    walks: Sequence[Walk], own: Sequence[Walk], *, reference: str, rule: CorrectnessRule
) -> Finding:
    """Judge how often a candidate answers something else altogether, now and then.

    Args:
        walks: the candidate's.
        own: the reference's.
        reference: its name.
        rule: the chance of a false alarm.
    """
    crowded = sorted({walk.concurrency for walk in walks if walk.mode != "single"})
    parts = {"": list(walks)}
    if len(crowded) > 1:
        parts |= {
            f" at concurrency {n}": [w for w in walks if w.mode != "single" and w.concurrency == n]
            for n in crowded
        }
    alpha = rule.false_alarm / len(parts)
    own_strays = sum(walk.stray for walk in own)
    sentence = "no answer stands apart from the others to its prompt"
    verdict: Verdict = "pass"
    for where, some in parts.items():
        strays = sum(walk.stray for walk in some)
        if not strays:
            continue
        told = (
            f"{strays} of {len(some)} answers{where} have nothing in common with {reference}'s, "
            f"nor with what it says itself at other times"
        )
        chance = max(
            larger_share(strays, len(some), own_strays, max(1, len(own))),
            _rounding_strays(strays, some),
        )
        low, _ = share_bounds(strays, len(some), alpha=alpha)
        if chance < alpha and low > REJECTED_STRAYS:
            sentence, verdict = told, "fail"
            break
        if chance < alpha and verdict == "pass":
            sentence, verdict = f"{told}: more than its rounding explains", "inconclusive"
        elif verdict == "pass":
            sentence = f"{told}: not more than chance explains"
    return Finding(
        kind="load",
        verdict=verdict,
        sentence=sentence,
        figures={
            "answers": len(walks),
            "strays": sum(walk.stray for walk in walks),
            "reference_answers": len(own),
            "reference_strays": own_strays,
            "alpha": alpha,
        },
    )


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
