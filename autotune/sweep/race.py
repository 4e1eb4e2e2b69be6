"""Who stays in a sweep: which candidates are not launched again, and why. Pure.

So far only failures take a candidate out; nobody is dropped for speed.
"""

from collections.abc import Mapping, Sequence

from autotune.probe.schema import CandidateVerdict
from autotune.records.schema import CANDIDATE_FAILURES, LaunchRecord, PointRecord


def dropped(
    launches: Sequence[LaunchRecord],
    points: Sequence[PointRecord],
    verdicts: Mapping[str, CandidateVerdict],
    *,
    reference: str,
) -> dict[str, str]:
    """Return the candidates that need no further launch, each with its reason.

    A candidate that failed once can't win, so that measuring it again would only cost time. The
    reference goes on as long as it can be launched: the others are judged by its answers.
    """
    reasons: dict[str, str] = {}
    for launch in launches:
        if launch.status != "ok":
            reasons.setdefault(launch.candidate, f"{launch.status} in round {launch.round}")
    for candidate, verdict in verdicts.items():
        if verdict.verdict == "fail" and candidate != reference:
            reasons.setdefault(candidate, f"wrong answers: {verdict.reason}")
    for point in points:
        if point.status in CANDIDATE_FAILURES and point.candidate != reference:
            where = f"at concurrency {point.concurrency} in round {point.round}"
            reasons.setdefault(point.candidate, f"{point.status} {where}")
    return reasons
