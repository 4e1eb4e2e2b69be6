"""From probe answers to a verdict per candidate, by comparison with the reference's answers.

Pure: records in, verdicts out. It reads agreement and loud ill health from greedy texts; it
can't see a small loss of quality, and its reasons don't claim so.

How it judges, in this order (``docs/decisions.md`` tells why):

1. no answers, or no reference's answers to compare with: ``inconclusive``;
2. a request that failed although the reference answered that prompt: ``fail``;
3. an answer that disagrees with the reference's *and* looks worse than anything the reference
   wrote (replacement characters, one piece of text repeated): ``fail``;
4. mean agreement below ``max_disagreement``: ``fail``;
5. the reference doesn't repeat itself, so that nothing can be held against it: ``inconclusive``;
6. answers change under load clearly more often than the reference's do: ``inconclusive``;
7. mean agreement of at least ``min_agreement``: ``pass``; between the two: ``inconclusive``.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from autotune.decisions.schema import Verdict
from autotune.probe.scoring import agreement, repetition_share, replacement_share
from autotune.records.schema import ProbeAnswer, ProbeRecord, Rule

# How much worse than the reference's worst answer a text must look to count as ill.
_ILL_MARGIN = 0.2
# How much larger a share of answers than the reference's may change under load.
_CHANGE_MARGIN = 0.05


class CandidateVerdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``pass``, ``fail`` or ``inconclusive``, with the sentence that a reviewer needs.

    ``agreement`` is the mean agreement with the reference's answers (1.0 = the same text),
    ``None`` where there was nothing to compare; ``answers`` counts the answers judged.
    ``worst_prompt`` names the prompt of the answer that agrees least.
    """

    candidate: str
    verdict: Verdict
    reason: str
    agreement: float | None = None
    answers: int = 0
    worst_prompt: str | None = None


class _Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What the reference said: one text a prompt, and how well and how often it repeats it."""

    texts: dict[str, str]
    own_agreement: float
    changes_under_load: float
    replacement: float
    repetition: float


def judge_probes(
    probes: Sequence[ProbeRecord],
    *,
    candidates: Sequence[str],
    reference: str | None,
    rule: Rule,
) -> dict[str, CandidateVerdict]:
    """Return each candidate's verdict over all rounds so far.

    Args:
        probes: the probe records of any candidates and rounds.
        candidates: the names to judge; each gets a verdict.
        reference: the candidate whose answers are trusted, ``None`` if there is none.
        rule: gives ``min_agreement`` and ``max_disagreement``.
    """
    trusted_probes = [probe for probe in probes if probe.candidate == reference]
    if trusted_probes:
        # Answers to other prompts can't be held against these.
        digest = trusted_probes[0].prompts_digest
        probes = [probe for probe in probes if probe.prompts_digest == digest]
        trusted_probes = [probe for probe in trusted_probes if probe.prompts_digest == digest]
    trusted = _read_reference(trusted_probes, rule)
    return {
        candidate: _judge(
            candidate,
            [probe for probe in probes if probe.candidate == candidate],
            reference=reference,
            trusted=trusted,
            rule=rule,
        )
        for candidate in candidates
    }


def _judge(
    candidate: str,
    probes: Sequence[ProbeRecord],
    *,
    reference: str | None,
    trusted: _Reference | None,
    rule: Rule,
) -> CandidateVerdict:
    answers = [answer for probe in probes for answer in probe.answers]
    if not answers:
        return _verdict(candidate, "inconclusive", "no correctness evidence: no probe was answered")
    failed = [
        answer
        for answer in answers
        if answer.outcome != "ok" and (trusted is None or answer.prompt in trusted.texts)
    ]
    if failed:
        first = failed[0]
        reason = f"{len(failed)} of {len(answers)} probe requests failed ({first.outcome}"
        reason += f": {first.error})" if first.error else ")"
        return _verdict(candidate, "fail", reason, answers=len(answers))
    if reference is None or trusted is None:
        reason = "no reference answers to compare with"
        return _verdict(candidate, "inconclusive", reason, answers=len(answers))
    good = [answer for answer in answers if answer.outcome == "ok"]
    if not good:
        return _verdict(candidate, "inconclusive", f"nothing that {reference} answered was asked")
    return _compare(candidate, probes, good, reference=reference, trusted=trusted, rule=rule)


def _compare(
    candidate: str,
    probes: Sequence[ProbeRecord],
    answers: Sequence[ProbeAnswer],
    *,
    reference: str,
    trusted: _Reference,
    rule: Rule,
) -> CandidateVerdict:
    scored = [(agreement(a.text, trusted.texts.get(a.prompt, "")), a) for a in answers]
    mean = fmean(score for score, _ in scored)
    worst = min(scored, key=lambda pair: pair[0])[1].prompt
    ill = [a for score, a in scored if score < rule.max_disagreement and _is_ill(a, trusted)]
    changed = _changes_under_load(probes, rule)
    reason: str
    verdict: Verdict
    if ill:
        verdict = "fail"
        reason = f"{len(ill)} of {len(answers)} answers are garbled where {reference}'s aren't"
    elif mean < rule.max_disagreement:
        verdict = "fail"
        reason = f"its answers have nothing in common with {reference}'s (agreement {mean:.2f})"
    elif trusted.own_agreement < rule.min_agreement:
        verdict = "inconclusive"
        reason = f"{reference} doesn't repeat its own answers ({trusted.own_agreement:.2f})"
    elif _too_many(changed, trusted.changes_under_load):
        verdict = "inconclusive"
        reason = (
            f"{changed:.0%} of its answers under load differ altogether from those given alone; "
            f"of {reference}'s {trusted.changes_under_load:.0%}"
        )
    elif mean < rule.min_agreement:
        verdict = "inconclusive"
        reason = (
            f"agrees with {reference} by {mean:.2f} only, under {rule.min_agreement:g}: too little "
            "to trust, too much to reject"
        )
    else:
        verdict = "pass"
        reason = (
            f"agrees with {reference} by {mean:.2f} over {len(answers)} greedy answers, alone and "
            "under load (rules out loud defects, not a small loss of quality)"
        )
    return _verdict(
        candidate, verdict, reason, agreement=mean, answers=len(answers), worst_prompt=worst
    )


def _read_reference(probes: Sequence[ProbeRecord], rule: Rule) -> _Reference | None:
    """Take each prompt's first answer, asked alone, as what the reference says."""
    good = [answer for probe in probes for answer in probe.answers if answer.outcome == "ok"]
    texts: dict[str, str] = {}
    for answer in sorted(good, key=lambda answer: answer.mode != "single"):
        texts.setdefault(answer.prompt, answer.text)
    if not texts:
        return None
    return _Reference(
        texts=texts,
        own_agreement=fmean(agreement(answer.text, texts[answer.prompt]) for answer in good),
        changes_under_load=_changes_under_load(probes, rule),
        replacement=max(replacement_share(answer.text) for answer in good),
        repetition=max(repetition_share(answer.text) for answer in good),
    )


def _is_ill(answer: ProbeAnswer, trusted: _Reference) -> bool:
    return (
        (not answer.text.strip() and bool(trusted.texts.get(answer.prompt, "").strip()))
        or replacement_share(answer.text) > trusted.replacement + _ILL_MARGIN
        or repetition_share(answer.text) > trusted.repetition + _ILL_MARGIN
    )


def _too_many(changed: float, reference: float) -> bool:
    return changed > reference + (_CHANGE_MARGIN if reference else 0)


def _changes_under_load(probes: Iterable[ProbeRecord], rule: Rule) -> float:
    """Share of answers under load that differ altogether from the same launch's answer alone."""
    pairs = []
    for probe in probes:
        alone = {a.prompt: a.text for a in probe.answers if a.mode == "single"}
        pairs += [
            (answer.text, alone[answer.prompt])
            for answer in probe.answers
            if answer.mode == "loaded" and answer.prompt in alone
        ]
    if not pairs:
        return 0.0
    return fmean(agreement(loaded, text) < rule.max_disagreement for loaded, text in pairs)


def _verdict(
    candidate: str,
    verdict: Verdict,
    reason: str,
    *,
    agreement: float | None = None,
    answers: int = 0,
    worst_prompt: str | None = None,
) -> CandidateVerdict:
    return CandidateVerdict(
        candidate=candidate,
        verdict=verdict,
        reason=reason,
        agreement=agreement,
        answers=answers,
        worst_prompt=worst_prompt,
    )
