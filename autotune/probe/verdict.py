"""From probe answers to a verdict per candidate, by comparison with the reference's answers.

Pure: records in, verdicts out. It reads agreement and loud ill health from greedy texts; it
can't see a small loss of quality, and its reasons don't claim so.
"""

from collections.abc import Sequence

import msgspec

from autotune.decisions.schema import Verdict
from autotune.records.schema import ProbeRecord, Rule


class CandidateVerdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``pass``, ``fail`` or ``inconclusive``, with the sentence that a reviewer needs.

    ``agreement`` is the mean agreement with the reference's answers (1.0 = the same text),
    ``None`` where there was nothing to compare; ``answers`` counts the answers judged.
    """

    candidate: str
    verdict: Verdict
    reason: str
    agreement: float | None = None
    answers: int = 0


def judge_probes(
    probes: Sequence[ProbeRecord],
    *,
    candidates: Sequence[str],
    reference: str | None,
    rule: Rule,
) -> dict[str, CandidateVerdict]:
    """Return each candidate's verdict over all rounds so far."""
    raise NotImplementedError
