"""What is said of a candidate's answers, as types: findings, worst example, odds, verdict.

Computed by `autotune.probe.verdict` from records alone; shown by `autotune.report`.
"""

from typing import Literal

import msgspec

from autotune.decisions.schema import Verdict
from autotune.records.schema import ProbeMode

FindingKind = Literal["requests", "health", "agreement", "log_probabilities", "load", "task"]


class Finding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one kind of evidence says: a verdict, the sentence for it, and the numbers behind.

    ``figures`` are named after what they are (``rate``, ``rate_low``, ``answers``); rates are per
    token, drops nats per token, shares of answers without a unit.
    """

    kind: FindingKind
    verdict: Verdict
    sentence: str
    figures: dict[str, float] = {}


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer that is furthest from the reference's, beside the reference's own."""

    prompt: str
    mode: ProbeMode
    concurrency: int
    text: str
    reference_text: str


class MissOdds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How likely a defect of a stated size was missed.

    ``defect`` says what it does, ``size`` how often or how much, ``probability`` how likely it is
    that none of ``answers`` showed it.
    """

    defect: str
    size: float
    answers: int
    probability: float


class CandidateVerdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``pass``, ``fail`` or ``inconclusive``, with the sentence that a reviewer needs.

    ``agreement`` is the mean share of each answer that is the reference's, word for word, from
    its beginning (1.0 = the same text); ``None`` where there was nothing to compare. ``answers``
    counts the answers judged.
    """

    candidate: str
    verdict: Verdict
    reason: str
    agreement: float | None = None
    answers: int = 0
    findings: tuple[Finding, ...] = ()
    example: Example | None = None
    odds: tuple[MissOdds, ...] = ()
