"""From probe records to a verdict per candidate: the findings weighed, the worst answer, the odds.

Pure: records in, verdicts out, the same ones whenever it is asked. Each kind of evidence judges in
a module of its own (`health`, `agreement`, `log_probabilities`, `task`); here they are put
together. ``fail`` outweighs ``inconclusive``, which outweighs ``pass``; ``docs/correctness.md``
tells why each rule is as it is, and what a pass doesn't show.
"""

from collections.abc import Sequence
from statistics import fmean

import msgspec

from autotune.decisions.schema import Verdict
from autotune.probe.agreement import (
    Setting,
    judge_beginnings,
    judge_rate,
    judge_steadiness,
    settings_of,
)
from autotune.probe.answers import (
    Given,
    Trusted,
    Walk,
    given,
    read_trusted,
    unfinished_share,
    walks,
)
from autotune.probe.health_judgement import (
    IllAnswer,
    ill_answers,
    judge_health,
    reference_doubt,
)
from autotune.probe.log_probabilities import Scored, continuations, judge_scores, read_scores
from autotune.probe.odds import odds_of_answers, odds_of_prompts, smallest_seen
from autotune.probe.schema import CandidateVerdict, Example, Finding, MissOdds
from autotune.probe.task import judge_task, odds_of_task
from autotune.records.rule import CorrectnessRule, Rule
from autotune.records.schema import ProbeRecord, ScoredContinuation, TaskAnswer

# Beyond this share of answers that are all thinking, what is left isn't the prompt set any more.
_MOST_UNFINISHED = 0.25
_RANK: dict[Verdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2}


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    """All that one candidate's servers answered."""

    answers: list[Given]
    walks: list[Walk]
    raw_scores: list[ScoredContinuation]
    scores: list[Scored]
    task: list[tuple[TaskAnswer, ...]]
    ill: list[IllAnswer]


def judge_probes(
    probes: Sequence[ProbeRecord],
    *,
    candidates: Sequence[str],
    reference: str | None,
    rule: Rule,
    vocabulary_size: int | None = None,
) -> dict[str, CandidateVerdict]:
    """Return each candidate's verdict over all launches so far.

    Args:
        probes: the probe records of any candidates and rounds.
        candidates: the names to judge; each gets a verdict.
        reference: the candidate whose answers are trusted, ``None`` if there is none.
        rule: its ``correctness`` says what is tolerated.
        vocabulary_size: of the model, where it is known.
    """
    probes = sorted(probes, key=lambda probe: (probe.round, probe.concurrency or 0))
    trusted_probes = [probe for probe in probes if probe.candidate == reference]
    if trusted_probes:
        # Answers to other prompts can't be held against these.
        digest = trusted_probes[0].prompts_digest
        probes = [probe for probe in probes if probe.prompts_digest == digest]
    trusted = read_trusted(probes, reference=reference)
    own = _side(probes, reference, trusted, reference, vocabulary_size)
    return {
        candidate: _judge(
            candidate,
            _side(probes, candidate, trusted, reference, vocabulary_size),
            own,
            trusted=trusted,
            reference=reference,
            rule=rule.correctness,
        )
        for candidate in candidates
    }


def _side(
    probes: Sequence[ProbeRecord],
    candidate: str | None,
    trusted: Trusted | None,
    reference: str | None,
    vocabulary_size: int | None,
) -> _Side:
    mine = [probe for probe in probes if probe.candidate == candidate]
    answers = given(mine, candidate=candidate)
    raw = [score for probe in mine for score in probe.scores]
    own = [score for p in probes if p.candidate == reference for score in p.scores]
    return _Side(
        answers=answers,
        walks=walks(answers, trusted) if trusted is not None else [],
        raw_scores=raw,
        scores=read_scores(raw, own, continuations(probes, reference=reference)),
        task=[probe.task for probe in mine if probe.task],
        ill=ill_answers(
            answers, raw, trusted, vocabulary_size=vocabulary_size, reference_scores=own
        ),
    )


def _judge(
    candidate: str,
    side: _Side,
    own: _Side,
    *,
    trusted: Trusted | None,
    reference: str | None,
    rule: CorrectnessRule,
) -> CandidateVerdict:
    if not side.answers:
        return CandidateVerdict(
            candidate=candidate,
            verdict="inconclusive",
            reason="no correctness evidence: no probe was answered",
        )
    doubt = reference_doubt(own.answers, own.ill, reference=reference)
    health, ill = judge_health(
        side.answers,
        side.ill,
        own.answers if trusted is not None else [],
        # Held against itself, it is excused by itself, unless it is no reference at all.
        [one for one in own.ill if not (candidate == reference and doubt and one.hard)],
        reference=reference,
        rule=rule,
        kinds=trusted.kinds() if trusted is not None else None,
    )
    findings = [*_failed_requests(side, own, trusted), health]
    if trusted is None or reference is None or doubt is not None:
        # Differing from garbage is no fault.
        sentence = doubt or "no reference answers to compare with"
        findings.append(Finding(kind="agreement", verdict="inconclusive", sentence=sentence))
        return _verdict(candidate, findings, side=side, example=_ill_example(ill, trusted))
    settings = settings_of(side.walks, own.walks, trusted.kinds())
    findings += _comparisons(side, own, settings, trusted=trusted, reference=reference, rule=rule)
    return _verdict(
        candidate,
        findings,
        side=side,
        example=_ill_example(ill, trusted) or _worst_example(side.walks, trusted),
        odds=_odds(side, settings, findings, rule),
    )


def _comparisons(
    side: _Side,
    own: _Side,
    settings: Sequence[Setting],
    *,
    trusted: Trusted,
    reference: str,
    rule: CorrectnessRule,
) -> list[Finding]:
    """What can only be said beside the reference."""
    lost = unfinished_share(side.answers, trusted)
    if lost > _MOST_UNFINISHED or not side.walks:
        sentence = f"nothing that {reference} answered was asked"
        if lost > 0:
            sentence = (
                f"{lost:.0%} of the answers never came to an end of their thinking, which ate the "
                "budget: raise probe.max_tokens"
            )
        return [Finding(kind="agreement", verdict="inconclusive", sentence=sentence)]
    scored = judge_scores(side.scores, own.scores, reference=reference, rule=rule)
    task = judge_task(side.task, own.task, rule)
    rate = judge_rate(settings, reference=reference, rule=rule, scored=scored is not None)
    beginnings = judge_beginnings(side.walks, own.walks, reference=reference, rule=rule)
    worse = beginnings if _RANK[beginnings.verdict] > _RANK[rate.verdict] else rate
    findings = [
        msgspec.structs.replace(worse, figures=beginnings.figures | rate.figures),
        judge_steadiness(side.walks, own.walks, reference=reference, rule=rule),
        scored,
        task,
    ]
    return [finding for finding in findings if finding is not None]


def _failed_requests(side: _Side, own: _Side, trusted: Trusted | None) -> list[Finding]:
    """Requests that failed although the reference answered, or scored, that prompt."""
    known = None if trusted is None else {*trusted.texts, *trusted.unfinished}
    failed = [
        (answer.outcome, answer.error)
        for _, answer in side.answers
        if answer.outcome != "ok" and (known is None or answer.prompt in known)
    ]
    scored = {one.prompt for one in own.raw_scores if one.outcome == "ok"}
    failed += [
        (one.outcome, one.error)
        for one in side.raw_scores
        if one.outcome != "ok" and (known is None or one.prompt in scored)
    ]
    if not failed:
        return []
    outcome, error = failed[0]
    total = len(side.answers) + len(side.raw_scores)
    sentence = f"{len(failed)} of {total} probe requests failed ({outcome}"
    sentence += f": {error})" if error else ")"
    figures = {"failed": float(len(failed)), "asked": float(total)}
    return [Finding(kind="requests", verdict="fail", sentence=sentence, figures=figures)]


def _verdict(
    candidate: str,
    findings: Sequence[Finding],
    *,
    side: _Side,
    example: Example | None,
    odds: Sequence[MissOdds] = (),
) -> CandidateVerdict:
    worst = max(findings, key=lambda finding: _RANK[finding.verdict])
    reason = worst.sentence
    if worst.verdict == "pass":
        reason = _why_passed(findings, side)
    return CandidateVerdict(
        candidate=candidate,
        verdict=worst.verdict,
        reason=reason,
        agreement=fmean(walk.share for walk in side.walks) if side.walks else None,
        answers=len(side.answers),
        findings=tuple(findings),
        example=example if worst.verdict != "pass" or (example and example.text) else None,
        odds=tuple(odds),
    )


def _why_passed(findings: Sequence[Finding], side: _Side) -> str:
    by_kind = {finding.kind: finding for finding in findings}
    best = by_kind.get("log_probabilities") or by_kind["agreement"]
    reason = f"{best.sentence}; {by_kind['health'].sentence}"
    if "task" in by_kind:
        reason += f"; {by_kind['task'].sentence}"
    else:
        reason += "; a small loss of quality wouldn't show here"
    return f"{reason}; garbage in {smallest_seen(side.walks):.1%} of answers would have been seen"


def _odds(
    side: _Side, settings: Sequence[Setting], findings: Sequence[Finding], rule: CorrectnessRule
) -> list[MissOdds]:
    odds = [*odds_of_answers(side.walks), *odds_of_prompts(settings)]
    for finding in findings:
        if finding.kind == "task" and "items" in finding.figures:
            odds.append(
                odds_of_task(
                    int(finding.figures["items"]),
                    finding.figures["discordant_share"],
                    margin=rule.task_margin,
                )
            )
    return odds


def _ill_example(ill: IllAnswer | None, trusted: Trusted | None) -> Example | None:
    if ill is None or ill.given is None:
        return None
    answer = ill.given.answer
    return Example(
        prompt=answer.prompt,
        mode=answer.mode,
        concurrency=answer.concurrency,
        text=answer.text,
        reference_text=trusted.texts.get(answer.prompt, "") if trusted is not None else "",
    )


def _worst_example(walks: Sequence[Walk], trusted: Trusted) -> Example | None:
    """The answer that follows the reference's least, ``None`` where all follow it to the end."""
    parted = [walk for walk in walks if walk.parted]
    if not parted:
        return None
    worst = min(parted, key=lambda walk: (not walk.stray, walk.share))
    return Example(
        prompt=worst.prompt,
        mode=worst.mode,
        concurrency=worst.concurrency,
        text=worst.text,
        reference_text=trusted.texts[worst.prompt],
    )
