"""The section with the probe's texts: what the reference said to each prompt, and who said else.

Equal answers are counted, not repeated; of different ones the commonest are shown, cut around the
place where they part from the reference's. Nothing is judged here (`autotune.probe.verdict`), and
the texts are left as the servers wrote them: each format disarms them its own way.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.probe.answers import Given, Trusted, compared, given, read_trusted, said
from autotune.records.schema import ProbePrompt, ProbeRecord
from autotune.report.content import Answers, Asked, Block, Bullets, Paragraph, Section, SideBySide
from autotune.report.correctness import how_asked
from autotune.report.excerpts import LONGEST_TEXT, cut, excerpt, listed_rounds, not_shown
from autotune.report.subject import Subject
from autotune.report.text import count, one_line

# Different answers shown of one candidate to one prompt: fewer where there are many candidates,
# so that a page about broken servers stays small too.
MOST_DIFFERENT = 3
_MOST_OF_ALL = 18
_MOST_PLACES = 4
_LONGEST_ERROR = 120
_WHERE_THEY_LIE = (
    "Each answer lies in the run folder in full: launches/CANDIDATE/ROUND/probe.json, what was "
    "said under load in launches/CANDIDATE/ROUND/cCONCURRENCY/probe.json."
)


@dataclass(frozen=True)
class _Sorted:
    """One candidate's answers to one prompt, by what became of them.

    ``texts`` holds those that aren't the reference's, the commonest first, by what was said and
    what that was held against: ``None`` where there is nothing to hold it against.
    """

    same: int
    texts: Mapping[tuple[str, str | None], Sequence[Given]]
    unfinished: int
    failed: Sequence[Given]

    @property
    def different(self) -> int:
        return sum(len(ones) for (_, against), ones in self.texts.items() if against is not None)

    @property
    def uncompared(self) -> int:
        return sum(len(ones) for (_, against), ones in self.texts.items() if against is None)

    @property
    def total(self) -> int:
        return self.same + self.different + self.uncompared + self.unfinished + len(self.failed)


@dataclass(frozen=True)
class _Reference:
    """Who is trusted, and for what; ``trusted`` is ``None`` where nothing can be compared."""

    name: str | None
    trusted: Trusted | None

    def text(self, prompt: str) -> str | None:
        return None if self.trusted is None else self.trusted.texts.get(prompt)

    def is_own(self, one: Given) -> bool:
        """Whether this is the trusted answer itself, which would agree with itself."""
        own = None if self.trusted is None else self.trusted.answers.get(one.answer.prompt)
        return own is not None and own.answer is one.answer


def probe_texts_section(subject: Subject) -> Section:
    """Every prompt's answers side by side; empty where nobody was asked anything."""
    title, name = "Probe texts", subject.run.run.reference
    probes, others = _of_one_prompt_set(subject.run.probes, name)
    reference = _Reference(name, read_trusted(probes, reference=name))
    by_candidate = {name: _by_prompt(probes, name) for name in subject.names}
    found = {
        prompt: {
            name: _sort(answers[prompt.name], reference)
            for name, answers in by_candidate.items()
            if prompt.name in answers
        }
        for prompt in _prompts(probes, by_candidate.values())
    }
    if not found:
        return Section(title)
    most = max(1, min(MOST_DIFFERENT, _MOST_OF_ALL // len(by_candidate)))
    asked = [_asked(prompt, by, reference, most=most) for prompt, by in found.items()]
    asked.sort(key=lambda one: not one.differs)
    blocks: list[Block] = [
        Paragraph(_about(reference)),
        Bullets(tuple(_counts(name, list(found.values()), reference) for name in subject.names)),
        SideBySide(tuple(asked)),
    ]
    if others:
        text = f"{count(others, 'answer')} to another set of prompts can't be held against these."
        blocks.append(Paragraph(text))
    blocks.append(Paragraph(_WHERE_THEY_LIE))
    return Section(title, tuple(blocks))


def _of_one_prompt_set(
    probes: Sequence[ProbeRecord], reference: str | None
) -> tuple[list[ProbeRecord], int]:
    """The records that `judge_probes` judges too, and how many answers it can't."""
    ordered = sorted(probes, key=lambda probe: (probe.round, probe.concurrency or 0))
    first = next((probe for probe in ordered if probe.candidate == reference), None)
    if first is None:
        return ordered, 0
    kept = [probe for probe in ordered if probe.prompts_digest == first.prompts_digest]
    return kept, sum(len(probe.answers) for probe in ordered if probe not in kept)


def _by_prompt(probes: Sequence[ProbeRecord], candidate: str) -> dict[str, list[Given]]:
    found: dict[str, list[Given]] = {}
    for one in given(probes, candidate=candidate):
        found.setdefault(one.answer.prompt, []).append(one)
    return found


def _prompts(
    probes: Sequence[ProbeRecord], by_candidate: Iterable[Mapping[str, Sequence[Given]]]
) -> list[ProbePrompt]:
    """The prompts that somebody answered; a point's records don't hold their texts."""
    listed = {prompt.name: prompt for probe in probes for prompt in probe.prompts}
    answered = dict.fromkeys(name for answers in by_candidate for name in answers)
    unlisted = [name for name in answered if name not in listed]
    return [
        *(prompt for name, prompt in listed.items() if name in answered),
        *(ProbePrompt(name=name, kind="short", text="") for name in unlisted),
    ]


def _sort(answers: Sequence[Given], reference: _Reference) -> _Sorted:
    same = unfinished = 0
    failed: list[Given] = []
    texts: dict[tuple[str, str | None], list[Given]] = {}
    for one in answers:
        text = said(one.answer)
        if reference.is_own(one):
            continue
        if one.answer.outcome != "ok":
            failed.append(one)
        elif text is None:
            unfinished += 1
        elif reference.trusted is None or reference.text(one.answer.prompt) is None:
            texts.setdefault((text, None), []).append(one)
        else:
            text, expected = compared(one.answer, text, reference.trusted)
            if text == expected:
                same += 1
            else:
                texts.setdefault((text, expected), []).append(one)
    commonest = sorted(texts.items(), key=lambda item: -len(item[1]))
    return _Sorted(same=same, texts=dict(commonest), unfinished=unfinished, failed=failed)


def _asked(
    prompt: ProbePrompt, found: Mapping[str, _Sorted], reference: _Reference, *, most: int
) -> Asked:
    return Asked(
        name=prompt.name,
        kind=prompt.kind if prompt.text else "",
        text=cut(prompt.text),
        summary=_summary(found, compared_with=reference.text(prompt.name) is not None),
        answers=tuple(
            _answers(name, one, reference, prompt=prompt.name, most=most)
            for name, one in found.items()
            if one.total
        ),
        trusted=_trusted(prompt.name, reference),
        differs=any(one.same != one.total for one in found.values()),
        note=not_shown(len(prompt.text) - LONGEST_TEXT),
    )


def _trusted(prompt: str, reference: _Reference) -> Answers | None:
    name, trusted = reference.name, reference.trusted
    if name is None or trusted is None or prompt not in trusted.answers:
        return None
    round_number, answer = trusted.answers[prompt]
    where = f"{how_asked(answer.mode, answer.concurrency)} in round {round_number}"
    text, summary = reference.text(prompt), "the reference"
    if text is None:
        summary += ", still thinking at the end: nothing can be held against it"
        text = answer.reasoning + answer.text
    return Answers(name, summary, (excerpt(text, None, where=where),))


def _answers(
    name: str, found: _Sorted, reference: _Reference, *, prompt: str, most: int
) -> Answers:
    shown = reference.text(prompt)
    told = tuple(
        excerpt(text, expected, where=_where(ones), shown=shown)
        for (text, expected), ones in list(found.texts.items())[:most]
    )
    if shown is None:
        texts = count(len(found.texts), "different text")
        parts = [f"{texts} in {count(found.total, 'answer')}"]
    else:
        who = "its first answer" if name == reference.name else "the reference"
        parts = [f"same as {who} in {found.same} of {count(found.total, 'answer')}"]
    left = list(found.texts.values())[most:]
    if left:
        answers = count(sum(len(ones) for ones in left), "answer")
        parts.append(f"{count(len(left), 'more text')} of {answers} not shown")
    if found.unfinished:
        parts.append(f"{found.unfinished} still thinking at the end")
    return Answers(name, "; ".join([*parts, *_failures(found.failed)]), told)


def _failures(failed: Sequence[Given]) -> list[str]:
    """One phrase for each way to fail, with the first of its errors."""
    kinds = Counter(one.answer.outcome for one in failed)
    errors = {one.answer.outcome: one.answer.error for one in reversed(failed)}
    phrases = []
    for outcome, number in kinds.items():
        error = one_line(errors[outcome] or "", longest=_LONGEST_ERROR)
        phrases.append(f"{number} failed ({outcome}{f': {error}' if error else ''})")
    return phrases


def _where(ones: Sequence[Given]) -> str:
    """How often a text was given, and where: ``2 answers: among 64 in rounds 1, 2``."""
    places: dict[str, list[int]] = {}
    for one in ones:
        asked = how_asked(one.answer.mode, one.answer.concurrency)
        places.setdefault(asked, []).append(one.round)
    texts = [f"{asked} in {listed_rounds(rounds)}" for asked, rounds in places.items()]
    more = len(texts) - _MOST_PLACES
    shown = "; ".join(texts[:_MOST_PLACES])
    return f"{count(len(ones), 'answer')}: {shown}" + (f"; and {more} more" if more > 0 else "")


def _summary(found: Mapping[str, _Sorted], *, compared_with: bool) -> str:
    total = sum(one.total for one in found.values())
    if not compared_with:
        return f"{count(total, 'answer')}, not compared"
    same = sum(one.same for one in found.values())
    if same == total:
        return f"same as the reference in {same} of {count(total, 'answer')}"
    others = {name: one.total - one.same for name, one in found.items()}
    named = ", ".join(f"{name} {number}" for name, number in others.items() if number)
    return f"{total - same} of {count(total, 'answer')} not the same: {named}"


def _counts(name: str, found: Sequence[Mapping[str, _Sorted]], reference: _Reference) -> str:
    mine = [by_name[name] for by_name in found if name in by_name]
    total = sum(one.total for one in mine)
    if not total:
        return f"{name}: no answers to compare"
    who = "its own first answer" if name == reference.name else "the reference"
    same = f"same as {who} in {sum(one.same for one in mine)} of {count(total, 'answer')}"
    numbers = {
        "different": sum(one.different for one in mine),
        "not compared": sum(one.uncompared for one in mine),
        "still thinking at the end": sum(one.unfinished for one in mine),
        "failed": sum(len(one.failed) for one in mine),
    }
    first = count(total, "answer") if reference.trusted is None else same
    others = [f"{number} {noun}" for noun, number in numbers.items() if number]
    return f"{name}: {', '.join([first, *others])}"


def _about(reference: _Reference) -> str:
    if reference.name is None:
        return "Answers at temperature 0. The run names no reference to hold them against."
    if reference.trusted is None:
        return f"Answers at temperature 0. {reference.name}, the reference, gave no good one."
    return (
        f"Answers at temperature 0 beside the first one of {reference.name}, the reference. A text "
        "is marked from where it leaves the reference's to where both are the same again. Rounding "
        "alone makes honest backends part now and then: the verdicts say what that means."
    )
