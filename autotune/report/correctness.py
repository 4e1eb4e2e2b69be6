"""The sections on correctness: verdicts and the worst answers; each kind of evidence, and odds.

It shows what `autotune.probe.verdict` found. Answers are a server's words, so hostile ones too:
they are made one short line here, and each format escapes them.
"""

import math
from collections.abc import Sequence

from autotune.probe.schema import CandidateVerdict, Example
from autotune.records.schema import ProbeMode
from autotune.report.content import Block, Column, Paragraph, Section, Table
from autotune.report.numbers import UNKNOWN, known, percent
from autotune.report.subject import Subject
from autotune.report.text import LONGEST, one_line

# Of the beginning that two long answers share, so much is left before they part.
_SHARED_SHOWN = 40
_LEAST_PROBABILITY = 1e-6
_LEAST_PERCENT = 1e-3
_MOST_PERCENT = 0.99

_WHAT_ODDS_SHOW = (
    "How likely a defect would have been missed: that none of the answers was hit, if it hits them "
    "independently. One garbled answer is enough to be seen; of fluent ones that say something "
    "else it takes more than chance explains."
)
_WHAT_A_PASS_SHOWS = (
    "A pass says that no loud defect was seen in these answers. It doesn't show that there is no "
    "small loss of quality, unless the score of a task says so, and then only of a loss that its "
    "interval rules out."
)


def correctness_section(subject: Subject) -> Section:
    """Every candidate's verdict with what decided it, and the worst answers of those that failed.

    Empty where no candidate was judged; folded where nothing stands out.
    """
    verdicts = _judged(subject)
    if not verdicts:
        return Section("Correctness")
    reference = subject.run.run.reference
    blocks: list[Block] = [Paragraph(_compared_with(reference)), _verdicts(verdicts)]
    for verdict in verdicts:
        if verdict.verdict != "pass" and verdict.example is not None:
            blocks += _example(verdict.candidate, verdict.example, reference=reference)
    blocks.append(Paragraph(_WHAT_A_PASS_SHOWS))
    remarkable = any(v.verdict != "pass" and v.findings for v in verdicts)
    return Section("Correctness", tuple(blocks), folded=not remarkable)


def correctness_details_section(subject: Subject) -> Section:
    """What each kind of evidence says, and how easily a defect would have been missed; folded."""
    verdicts = _judged(subject)
    findings, odds = _findings(verdicts), _odds(verdicts)
    blocks: list[Block] = []
    if findings.rows:
        blocks.append(findings)
    if odds.rows:
        blocks += [Paragraph(_WHAT_ODDS_SHOW), odds]
    return Section("Correctness by each kind of evidence", tuple(blocks), folded=True)


def _judged(subject: Subject) -> list[CandidateVerdict]:
    return [subject.verdicts[name] for name in subject.names if name in subject.verdicts]


def probability(value: float) -> str:
    """Return a chance so that a small one doesn't read as none, nor a large one as certainty.

    >>> [probability(p) for p in (1e-9, 0.00025, 0.034, 0.34, 0.9999, 1.0)]
    ['under 1 in a million', '1 in 4,000', '3.4%', '34%', 'over 99%', '100%']
    """
    if not math.isfinite(value):
        return UNKNOWN
    if value < _LEAST_PROBABILITY:
        return "under 1 in a million"
    if value < _LEAST_PERCENT:
        return f"1 in {float(f'{1 / value:.2g}'):,.0f}"
    if _MOST_PERCENT < value < 1:
        return f"over {_MOST_PERCENT:.0%}"
    return percent(float(f"{value:.2g}"))


def how_asked(mode: ProbeMode, concurrency: int) -> str:
    """Return how an answer was asked for: ``alone``, ``among 64``, ``under load at 64``."""
    if mode == "single":
        return "alone"
    return f"among {concurrency}" if mode == "crowd" else f"under load at {concurrency}"


def _compared_with(reference: str | None) -> str:
    if reference is None:
        return (
            "The run names no reference, so that no answer could be compared: only garbled ones "
            "can be told."
        )
    return (
        f"Answers at temperature 0, held against those of {reference}, which is trusted. Agreement "
        "is the mean share of an answer that is the reference's word for word from its beginning; "
        "it isn't what decides, since one token chosen differently changes all that follow."
    )


def _verdicts(verdicts: Sequence[CandidateVerdict]) -> Table:
    columns = (
        Column("candidate", code=True),
        Column("verdict"),
        Column("agreement", numeric=True),
        Column("answers judged", numeric=True),
        Column("what decided"),
    )
    rows = tuple(
        (
            verdict.candidate,
            verdict.verdict,
            UNKNOWN
            if verdict.agreement is None or not known(verdict.agreement)
            else f"{verdict.agreement:.3f}",
            str(verdict.answers),
            one_line(verdict.reason, longest=LONGEST),
        )
        for verdict in verdicts
    )
    return Table(columns, rows)


def _findings(verdicts: Sequence[CandidateVerdict]) -> Table:
    columns = (
        Column("candidate", code=True),
        Column("evidence", code=True),
        Column("verdict"),
        Column("what it says"),
    )
    rows = tuple(
        (
            verdict.candidate,
            finding.kind,
            finding.verdict,
            one_line(finding.sentence, longest=LONGEST),
        )
        for verdict in verdicts
        for finding in verdict.findings
    )
    return Table(columns, rows)


def _example(candidate: str, example: Example, *, reference: str | None) -> list[Block]:
    asked = how_asked(example.mode, example.concurrency)
    skipped = _shared(example.reference_text, example.text) - _SHARED_SHOWN
    heading = f"Worst answer of {candidate}: prompt {one_line(example.prompt)}, asked {asked}"
    if skipped > 0:
        heading += f"; the first {skipped} characters, which are the same, are left out"
    columns = (
        Column(f"{reference} (reference)" if reference is not None else "reference"),
        Column(candidate),
    )
    row = (
        _shown(example.reference_text, skipped),
        _shown(example.text, skipped),
    )
    return [Paragraph(f"{heading}:"), Table(columns, (row,))]


def _shared(text: str, other: str) -> int:
    """How many characters two texts begin alike, if there are too many of them to be shown."""
    if max(len(text), len(other)) <= LONGEST:
        return 0
    pairs = enumerate(zip(text, other, strict=False))
    return next((place for place, (one, two) in pairs if one != two), min(len(text), len(other)))


def _shown(text: str, skipped: int) -> str:
    if skipped > 0:
        text = f"…{text[skipped:]}"
    return one_line(text, longest=LONGEST) or "(no text)"


def _odds(verdicts: Sequence[CandidateVerdict]) -> Table:
    columns = (
        Column("candidate", code=True),
        Column("a defect that"),
        Column("size", numeric=True),
        Column("would have been missed with probability", numeric=True),
        Column("answers", numeric=True),
    )
    rows = tuple(
        (
            verdict.candidate,
            one_line(odds.defect, longest=LONGEST),
            percent(odds.size),
            probability(odds.probability),
            str(odds.answers),
        )
        for verdict in verdicts
        for odds in verdict.odds
    )
    return Table(columns, rows)
