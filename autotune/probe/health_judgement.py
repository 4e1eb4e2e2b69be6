"""Do a candidate's answers look ill where the reference's don't? Pure; `health` names the signs."""

from collections.abc import Mapping, Sequence, Set

import msgspec

from autotune.decisions.schema import Verdict
from autotune.probe.answers import Given, Trusted, said
from autotune.probe.health import Sign, SignKind, score_signs, signs
from autotune.probe.schema import Finding
from autotune.probe.statistics import larger_share
from autotune.records.rule import CorrectnessRule
from autotune.records.schema import PromptKind, ScoredContinuation

# In so many of the prompts garbage is beyond doubt, whether there is a reference or not.
_BEYOND_DOUBT = 0.5
# A reference that is garbled at more of the prompts than this is no reference. Up to there, the
# prompts in question are left out.
_MOST_ILL = 0.25
# Hard signs that an honest small model shows at a single prompt now and then.
_OF_CHANCE: frozenset[SignKind] = frozenset({"one_character", "empty"})
# How much more of an answer must be garbled than of the reference's worst to that prompt.
_WORSE = 0.2
# Soft signs count as a defect beyond this difference of shares.
_CLEAR_DIFFERENCE = 0.1
# Different ill answers to fewer prompts than this are one prompt's trouble, told many times.
_FEWEST_PROMPTS = 3


class IllAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with signs of ill health; ``given`` is ``None`` for a scored continuation."""

    prompt: str
    where: str
    signs: tuple[Sign, ...]
    text: str
    given: Given | None = None

    @property
    def hard(self) -> bool:
        """Whether one of its signs counts by itself."""
        return any(sign.hard for sign in self.signs)

    @property
    def severity(self) -> tuple[bool, float]:
        """What to show the worst answer by."""
        return max((sign.hard, sign.severity) for sign in self.signs)


def ill_answers(
    answers: Sequence[Given],
    scores: Sequence[ScoredContinuation],
    trusted: Trusted | None,
    *,
    vocabulary_size: int | None,
    reference_scores: Sequence[ScoredContinuation] = (),
) -> list[IllAnswer]:
    """Return every good answer, and every score, that shows a sign.

    Args:
        answers: to look at.
        scores: to look at.
        trusted: the reference's answers, if there are any.
        vocabulary_size: of the model, where it is known.
        reference_scores: what the reference told of its own words.
    """
    found = []
    for one in answers:
        answer = one.answer
        # A NaN at the first token leaves no text, but says so.
        if answer.outcome != "ok" and not answer.nan_marked:
            continue
        reference = trusted.answers.get(answer.prompt) if trusted is not None else None
        seen = signs(answer, said(answer), reference.answer if reference else None)
        if seen:
            where = _where(answer.mode, answer.concurrency)
            found.append(
                IllAnswer(
                    prompt=answer.prompt,
                    where=where,
                    signs=tuple(seen),
                    text=answer.text,
                    given=one,
                )
            )
    for score in scores:
        if score.outcome != "ok":
            continue
        told = [own for own in reference_scores if own.prompt == score.prompt]
        seen = score_signs(score, vocabulary_size=vocabulary_size, reference=told)
        if seen:
            where = _where(score.mode, score.concurrency)
            found.append(IllAnswer(prompt=score.prompt, where=where, signs=tuple(seen), text=""))
    return found


def judge_health(
    answers: Sequence[Given],
    ill: Sequence[IllAnswer],
    own: Sequence[Given],
    own_ill: Sequence[IllAnswer],
    *,
    reference: str | None,
    rule: CorrectnessRule,
    kinds: Mapping[str, PromptKind] | None = None,
) -> tuple[Finding, IllAnswer | None]:
    """Judge the signs in a candidate's answers by those in the reference's.

    Args:
        answers: the candidate's answers.
        ill: those of them (and of its scores) that show signs.
        own: the reference's answers, none if there is no reference.
        own_ill: those of them (and of its scores) that show signs.
        reference: its name.
        rule: the chance of a false alarm.
        kinds: of the prompts.

    Returns:
        The finding, and the answer that shows it best.
    """
    worst: dict[tuple[str, SignKind], float] = {}
    for one in own_ill:
        for sign in one.signs:
            where = (one.prompt, sign.kind)
            worst[where] = max(sign.severity, worst.get(where, 0.0))
    garbled = [
        one
        for one in ill
        if any(
            sign.hard and sign.severity >= worst.get((one.prompt, sign.kind), -1.0) + _WORSE
            for sign in one.signs
        )
    ]
    garbled.sort(key=lambda one: one.severity, reverse=True)
    verdict, sentence = _judge_garbled(answers, garbled, own, own_ill, reference=reference)
    if verdict == "pass" and own:
        verdict, sentence = _judge_flaws(
            _parts(answers, ill, kinds or {}),
            _parts(own, own_ill, kinds or {}),
            reference=reference,
            alpha=rule.false_alarm,
        ) or (verdict, sentence)
    figures = {
        "answers": float(len(answers)),
        "garbled": float(len(garbled)),
        "with_signs": float(len(ill)),
        "reference_answers": float(len(own)),
        "reference_with_signs": float(len(own_ill)),
    }
    finding = Finding(kind="health", verdict=verdict, sentence=sentence, figures=figures)
    shown = sorted(ill, key=lambda one: one.severity, reverse=True)
    return finding, next(iter([*garbled, *shown]), None) if verdict != "pass" else None


def _judge_garbled(
    answers: Sequence[Given],
    garbled: Sequence[IllAnswer],
    own: Sequence[Given],
    own_ill: Sequence[IllAnswer],
    *,
    reference: str | None,
) -> tuple[Verdict, str]:
    """Judge what counts on a single occurrence."""
    told = [one for one in garbled if one.given is not None] or garbled
    of = f"{len(answers)} answers" if told and told[0].given is not None else "its scores"
    count = f"{len(told)} of {of} are garbled"
    sick = {one.prompt for one in own_ill if one.hard}
    healthy = {one.answer.prompt for one in own or answers} - sick
    struck = {one.prompt for one in garbled} & healthy
    beyond_doubt = bool(struck) and len(struck) >= _BEYOND_DOUBT * len(healthy)
    doubt = reference_doubt(own, own_ill, reference=reference)
    if doubt is not None and not beyond_doubt:
        return "inconclusive", doubt
    if garbled and own and not _of_chance(garbled):
        return "fail", f"{count} where {reference}'s aren't: {_example(garbled[0])}"
    if garbled and own:
        return "inconclusive", (
            f"{count} where {reference}'s aren't, all of one prompt, which a small model may do "
            f"after one other token: {_example(garbled[0])}"
        )
    if garbled:
        why = "" if beyond_doubt else ", and there is no reference"
        return ("fail" if beyond_doubt else "inconclusive"), f"{count}{why}: {_example(garbled[0])}"
    return "pass", f"none of {len(answers)} answers is garbled"


def _of_chance(garbled: Sequence[IllAnswer]) -> bool:
    """Whether an honest model may have fallen into it, at a single prompt."""
    kinds = {sign.kind for one in garbled for sign in one.signs if sign.hard}
    return kinds <= _OF_CHANCE and len({one.prompt for one in garbled}) == 1


def reference_doubt(
    own: Sequence[Given], own_ill: Sequence[IllAnswer], *, reference: str | None
) -> str | None:
    """Say why nothing can be held against others, if the reference's own answers are garbage."""
    hard = sorted((one for one in own_ill if one.hard), key=lambda one: one.severity)
    asked = {one.answer.prompt for one in own}
    if len({one.prompt for one in hard} & asked) <= _MOST_ILL * len(asked):
        return None
    return (
        f"{reference} itself is ill, so that nothing can be held against others: "
        f"{_example(hard[-1])}"
    )


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the answers: how many different texts each prompt has, and the ill ones of them.

    A server that says the same each time shows nothing new, so each text counts once.
    """

    texts: dict[str, set[str]]
    sick: dict[str, set[str]]
    example: IllAnswer | None

    def ill_prompts(self, prompts: Set[str]) -> int:
        """Prompts of which at least half of the different answers are ill."""
        return sum(2 * len(self.sick.get(p, ())) >= len(self.texts[p]) for p in prompts)

    def ill_texts(self, prompts: Set[str]) -> int:
        """Different answers that are ill, 0 where they are too few prompts'."""
        found = [len(self.sick[prompt]) for prompt in prompts if prompt in self.sick]
        return sum(found) if len(found) >= _FEWEST_PROMPTS else 0


def _parts(
    answers: Sequence[Given], ill: Sequence[IllAnswer], kinds: Mapping[str, PromptKind]
) -> dict[str, _Part]:
    """All answers, those of each way of asking, and those of each kind of prompt."""
    signs_of = {id(one.given.answer): one for one in ill if one.given is not None}
    parts: dict[str, list[Given]] = {}
    for one in answers:
        if one.answer.outcome == "ok":
            kind = kinds.get(one.answer.prompt)
            asked = _where(one.answer.mode, one.answer.concurrency)
            for where in ("", asked, *([f"at {kind} prompts"] if kind else [])):
                parts.setdefault(where, []).append(one)
    return {where: _part(some, signs_of) for where, some in parts.items()}


def _part(answers: Sequence[Given], signs_of: Mapping[int, IllAnswer]) -> _Part:
    texts: dict[str, set[str]] = {}
    sick: dict[str, set[str]] = {}
    found: list[IllAnswer] = []
    for _, answer in answers:
        text = answer.reasoning + answer.text
        texts.setdefault(answer.prompt, set()).add(text)
        if one := signs_of.get(id(answer)):
            sick.setdefault(answer.prompt, set()).add(text)
            found.append(one)
    example = max(found, key=lambda one: one.severity, default=None)
    return _Part(texts=texts, sick=sick, example=example)


def _judge_flaws(
    parts: Mapping[str, _Part], beside: Mapping[str, _Part], *, reference: str | None, alpha: float
) -> tuple[Verdict, str] | None:
    """Judge what honest models do now and then, by how often the reference does it.

    A defect at one concurrency, or at long prompts alone, mustn't drown in the other answers;
    the chance of a false alarm is split over the parts and the two ways of counting.
    """
    found: list[tuple[Verdict, str]] = []
    for where, part in parts.items():
        other = beside.get(where) or beside.get("")
        common = part.texts.keys() & other.texts.keys() if other is not None else set()
        if part.example is None or other is None or not common:
            continue
        n, own_n = (sum(len(some.texts[p]) for p in common) for some in (part, other))
        counts = (
            (
                "prompts",
                part.ill_prompts(common),
                len(common),
                other.ill_prompts(common),
                len(common),
            ),
            ("different answers", part.ill_texts(common), n, other.ill_texts(common), own_n),
        )
        for what, hits, of, own_hits, own_of in counts:
            if larger_share(hits, of, own_hits, own_of) < alpha / (2 * len(parts)):
                clear = hits / of >= own_hits / own_of + _CLEAR_DIFFERENCE
                sentence = (
                    f"{hits} of {of} {what}{where and ' '}{where} look ill, of {reference}'s "
                    f"{own_hits} of {own_of}: {_example(part.example)}"
                )
                found.append(("fail" if clear else "inconclusive", sentence))
    return min(found, default=None)  # "fail" comes before "inconclusive"


def _example(ill: IllAnswer) -> str:
    first = next((sign for sign in ill.signs if sign.hard), ill.signs[0])
    return f"{first.seen} (prompt {ill.prompt!r}, {ill.where})"


def _where(mode: str, concurrency: int) -> str:
    return {"single": "alone", "crowd": f"among {concurrency}"}.get(
        mode, f"under load at {concurrency}"
    )
