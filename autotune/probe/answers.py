"""What the reference said, and how far each other answer follows it. Pure.

Greedy texts that part at one token have nothing to do with each other afterwards. So an answer is
read as a walk along the reference's: so many tokens agreed, and then it parted or didn't. Parted
walks per agreed token are the *rate* at which a backend writes another token; rounding alone makes
it small, whatever the length of the answers.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from autotune.probe.scoring import agreement
from autotune.probe.thinking import strip_thinking
from autotune.records.schema import ProbeAnswer, ProbeMode, ProbePrompt, ProbeRecord, PromptKind

# Where a server counts no tokens, one is taken to be this many characters.
_CHARACTERS_PER_TOKEN = 4
# An answer that shares less than this with another has nothing in common with it.
STRANGE = 0.1


class Given(NamedTuple):
    """An answer with the round of the launch that gave it."""

    round: int
    answer: ProbeAnswer


class Trusted(msgspec.Struct, frozen=True, kw_only=True):
    """The reference's answer to each prompt: its first one, asked alone, thinking left out.

    ``unfinished`` lists the prompts at which its budget ended inside a thinking block.
    """

    prompts: dict[str, ProbePrompt]
    answers: dict[str, Given]
    texts: dict[str, str]
    unfinished: tuple[str, ...] = ()

    def kinds(self) -> dict[str, PromptKind]:
        """The prompts' kinds, by name."""
        return {name: prompt.kind for name, prompt in self.prompts.items()}


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """One answer held against the reference's.

    ``agreed_tokens`` is how far both are the same, ``parted`` whether they part before both end,
    ``share`` what that is of the whole (1.0 = the same text). ``stray`` tells an answer that has
    nothing in common with the reference's, nor with what the same server usually says, ``changed``
    one that isn't what the same server usually says.
    """

    prompt: str
    mode: ProbeMode
    concurrency: int
    round: int
    agreed_tokens: float
    parted: bool
    share: float
    stray: bool
    changed: bool
    text: str


def given(probes: Iterable[ProbeRecord], *, candidate: str | None) -> list[Given]:
    """All answers of one candidate, by round."""
    mine = [probe for probe in probes if probe.candidate == candidate]
    mine.sort(key=lambda probe: (probe.round, probe.concurrency or 0))
    return [Given(probe.round, answer) for probe in mine for answer in probe.answers]


def said(answer: ProbeAnswer) -> str | None:
    """What an answer says beside its thinking, ``None`` where the budget ended before that."""
    text = strip_thinking(answer.text)
    thinks_only = bool(answer.reasoning) and not answer.text.strip()
    if text is None or (thinks_only and answer.finish_reason == "length"):
        return None
    return text


def read_trusted(probes: Sequence[ProbeRecord], *, reference: str | None) -> Trusted | None:
    """Take each prompt's first good answer of the reference, ``None`` if it gave none."""
    prompts = {
        prompt.name: prompt
        for probe in probes
        if probe.candidate == reference
        for prompt in probe.prompts
    }
    good = [one for one in given(probes, candidate=reference) if one.answer.outcome == "ok"]
    answers: dict[str, Given] = {}
    for one in sorted(good, key=lambda one: (one.answer.mode != "single", one.round)):
        answers.setdefault(one.answer.prompt, one)
    texts = {name: said(one.answer) for name, one in answers.items()}
    if not answers:
        return None
    return Trusted(
        prompts=prompts,
        answers=answers,
        texts={name: text for name, text in texts.items() if text is not None},
        unfinished=tuple(sorted(name for name, text in texts.items() if text is None)),
    )


def walks(answers: Sequence[Given], trusted: Trusted) -> list[Walk]:
    """Hold answers against the trusted ones; those that can't be compared are left out.

    The trusted answers themselves are left out too: they would agree with themselves.
    """
    own = {id(one.answer) for one in trusted.answers.values()}
    told = [
        (one, *compared(one.answer, text, trusted))
        for one in answers
        if one.answer.outcome == "ok"
        and one.answer.prompt in trusted.texts
        and (text := said(one.answer)) is not None
    ]
    usual = _usual([(one, text) for one, text, _ in told])
    return [
        _walk(one, text, expected, trusted.answers[one.answer.prompt].answer, usual)
        for one, text, expected in told
        if id(one.answer) not in own
    ]


def unfinished_share(answers: Sequence[Given], trusted: Trusted) -> float:
    """Share of the good answers that say nothing yet, the reference's own included."""
    good = [one.answer for one in answers if one.answer.outcome == "ok"]
    lost = sum(said(answer) is None or answer.prompt in trusted.unfinished for answer in good)
    return lost / len(good) if good else 0.0


def compared(answer: ProbeAnswer, text: str, trusted: Trusted) -> tuple[str, str]:
    """Return the text of an answer that is compared, and the reference's.

    ``text`` is what it `said`, to a prompt of ``trusted.texts``. Where the answers differ that
    came of thinking, the thoughts are compared too: those who think otherwise from some token on
    answer in other words from the first one on. The load doesn't stop at a text's natural end, at
    which the reference stopped.
    """
    reference, expected = trusted.answers[answer.prompt].answer, trusted.texts[answer.prompt]
    whole, own_whole = (one.reasoning + one.text for one in (answer, reference))
    if text != expected and (whole != text or own_whole != expected):
        text, expected = whole, own_whole
    if answer.mode == "load" and reference.finish_reason != "length":
        text = text[: len(expected)]
    return text, expected


def _walk(
    one: Given,
    text: str,
    expected: str,
    reference: ProbeAnswer,
    usual: Mapping[tuple[int, str], str],
) -> Walk:
    answer, commonest = one.answer, usual[one.round, one.answer.prompt]
    if answer.mode == "load":
        # One of both may have been cut, or have ended by itself, before the other.
        commonest = commonest[: len(text)] + text[len(commonest) :]
    share = agreement(text, expected)
    tokens = reference.output_tokens or max(1, len(expected) // _CHARACTERS_PER_TOKEN)
    longer = max(len(text), len(expected))
    along = share * longer / len(expected) if expected else 0.0
    unlike = text not in (expected, commonest) and agreement(text, commonest) < STRANGE
    return Walk(
        prompt=answer.prompt,
        mode=answer.mode,
        concurrency=answer.concurrency,
        round=one.round,
        agreed_tokens=tokens * min(1.0, along),
        parted=text != expected,
        share=1.0 if text == expected else share,
        stray=unlike and share < STRANGE,
        changed=text != commonest,
        text=text,
    )


def _usual(told: Sequence[tuple[Given, str]]) -> dict[tuple[int, str], str]:
    """The commonest text of each launch for each prompt; of equally common ones the first.

    What it says under load counts only where it was asked nowhere else: there it doesn't end.
    """
    counts: dict[tuple[int, str], Counter[str]] = {}
    asked_otherwise = {(o.round, o.answer.prompt) for o, _ in told if o.answer.mode != "load"}
    for one, text in told:
        where = one.round, one.answer.prompt
        if one.answer.mode != "load" or where not in asked_otherwise:
            counts.setdefault(where, Counter())[text] += 1
    return {where: texts.most_common(1)[0][0] for where, texts in counts.items()}
