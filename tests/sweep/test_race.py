from typing import get_args

import pytest

from autotune.decisions.schema import Verdict
from autotune.probe.schema import CandidateVerdict
from autotune.records.schema import (
    LaunchRecord,
    LaunchStatus,
    PointRecord,
    PointStatus,
)
from autotune.sweep.race import dropped

FATAL_POINTS = {"crashed", "stalled", "request_errors"}


def launch(candidate: str, status: LaunchStatus = "ok", *, round_number: int = 1) -> LaunchRecord:
    return LaunchRecord(candidate=candidate, round=round_number, position=1, status=status)


def point(candidate: str, status: PointStatus) -> PointRecord:
    return PointRecord(candidate=candidate, round=2, concurrency=16, status=status)


def verdict(candidate: str, kind: Verdict) -> dict[str, CandidateVerdict]:
    return {candidate: CandidateVerdict(candidate=candidate, verdict=kind, reason="because")}


def test_nobody_is_dropped_who_did_well() -> None:
    assert dropped([launch("a")], [point("a", "ok")], verdict("a", "pass"), reference="r") == {}


@pytest.mark.parametrize("status", get_args(LaunchStatus))
@pytest.mark.parametrize("candidate", ["a", "reference"])
def test_who_cannot_be_launched_is_dropped(status: LaunchStatus, candidate: str) -> None:
    out = dropped([launch(candidate, status, round_number=2)], [], {}, reference="reference")
    assert out == ({} if status == "ok" else {candidate: f"{status} in round 2"})


@pytest.mark.parametrize("status", get_args(PointStatus))
def test_only_a_candidates_own_failure_at_a_point_drops_it(status: PointStatus) -> None:
    out = dropped([], [point("a", status)], {}, reference="reference")
    assert ("a" in out) == (status in FATAL_POINTS)
    if out:
        assert out["a"] == f"{status} at concurrency 16 in round 2"
    assert dropped([], [point("reference", status)], {}, reference="reference") == {}


@pytest.mark.parametrize("kind", get_args(Verdict))
def test_wrong_answers_drop_a_candidate_but_not_the_reference(kind: Verdict) -> None:
    out = dropped([], [], verdict("a", kind), reference="reference")
    assert out == ({"a": "wrong answers: because"} if kind == "fail" else {})
    assert dropped([], [], verdict("reference", kind), reference="reference") == {}


def test_the_first_reason_is_the_one_told() -> None:
    launches = [launch("a", "oom", round_number=1), launch("a", "crashed", round_number=2)]
    out = dropped(launches, [point("a", "stalled")], verdict("a", "fail"), reference="r")
    assert out == {"a": "oom in round 1"}
