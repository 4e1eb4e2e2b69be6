"""Who may win: which candidates are right, started, keep to the limits, and have figures. Pure.

Correctness and limits come before speed: a candidate that isn't right, or is over a limit, is kept
out here, however fast.
"""

from collections.abc import Mapping, Sequence

import msgspec

from autotune.decide.limits import LimitCheck, check_limits, over_limit, unknown_limit
from autotune.decisions import one_line
from autotune.decisions.request import AUTO
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.rule import Rule
from autotune.records.schema import CANDIDATE_FAILURES, Candidate, PointRecord, RunRecord

_LONGEST_REASON = 200
LaunchedAs = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]
Throughputs = dict[int, dict[int, float]]


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate before any comparison.

    ``failure`` says how it failed itself, which later rounds don't mend. ``limits`` holds what it
    showed against each limit; ``over_limit`` says which it is over in the mean of its rounds.
    ``unmeasured`` says which figures are missing although it didn't fail: that isn't held against
    it, but it can't be compared either.
    ``launched_as`` is all that tells its launches from another's: of two candidates with the
    same, neither can be better.
    ``throughputs`` holds the valid points' output tokens/s: round -> concurrency -> value.
    """

    candidate: str
    backend: str
    launched_as: LaunchedAs
    verdict: CandidateVerdict
    throughputs: Throughputs
    limits: tuple[LimitCheck, ...] = ()
    failure: str | None = None
    over_limit: str | None = None
    unmeasured: str | None = None

    @property
    def refusal(self) -> str | None:
        """Why it can't win as things are; ``None`` if it may."""
        return self.failure or self.over_limit

    def lasting_refusal(self, rule: Rule) -> str | None:
        """Why no further launch of it is worth its time; ``None`` if one may be.

        A limit must have been broken in enough rounds for that: one round may be over by chance.
        """
        return self.failure or over_limit([one for one in self.limits if one.is_lasting(rule)])

    def complete_rounds(self, concurrencies: tuple[int, ...]) -> set[int]:
        """Rounds in which this candidate has a valid point at every concurrency."""
        return {
            round_number
            for round_number, values in self.throughputs.items()
            if all(concurrency in values for concurrency in concurrencies)
        }


def admit(run: LoadedRun, verdicts: Mapping[str, CandidateVerdict]) -> dict[str, Admission]:
    """Return every candidate's admission, in the run's order."""
    return {
        candidate.name: _admission(run, candidate, verdicts[candidate.name])
        for candidate in run.run.candidates
    }


def resolved_backend(run: LoadedRun, candidate: Candidate) -> str:
    """Return what a candidate ran: its own backend, or what ``auto`` became in every launch.

    ``auto`` is returned where the engine didn't say, or not the same each time.
    """
    if candidate.backend != AUTO:
        return candidate.backend
    told = backends_told(run, candidate.name)
    return told[0] if len(told) == 1 and told[0] is not None else AUTO


def backends_told(run: LoadedRun, candidate: str) -> list[str | None]:
    """What the engine said that a candidate's good launches ran, each once; ``None``: nothing."""
    told = {
        launch.resolved_backend
        for launch in run.launches
        if launch.candidate == candidate and launch.status == "ok"
    }
    return sorted(told, key=lambda name: name or "")


def throughputs_of(run: LoadedRun, candidate: str) -> Throughputs:
    """Return a candidate's valid output tokens/s: round -> concurrency -> value."""
    values: Throughputs = {}
    for point in run.points:
        if point.candidate == candidate and point.status == "ok" and point.figures is not None:
            throughput = point.figures.output_tokens_per_s
            if throughput is not None and throughput > 0:
                values.setdefault(point.round, {})[point.concurrency] = throughput
    return values


def _admission(run: LoadedRun, candidate: Candidate, verdict: CandidateVerdict) -> Admission:
    name = candidate.name
    points = [point for point in run.points if point.candidate == name]
    limits = check_limits(points, run.run)
    return Admission(
        candidate=name,
        backend=resolved_backend(run, candidate),
        launched_as=(
            resolved_backend(run, candidate),
            candidate.arguments,
            tuple(sorted(candidate.environment.items())),
        ),
        verdict=verdict,
        throughputs=throughputs_of(run, name),
        limits=limits,
        failure=_failure(run, name, verdict),
        over_limit=over_limit(limits),
        unmeasured=_unmeasured(points, run.run) or unknown_limit(limits),
    )


def _failure(run: LoadedRun, candidate: str, verdict: CandidateVerdict) -> str | None:
    for launch in run.launches:
        if launch.candidate == candidate and launch.status != "ok":
            return f"{launch.status} in round {launch.round}{_because(launch.reason)}"
    if verdict.verdict == "fail":
        return f"wrong answers: {verdict.reason}"
    points = [point for point in run.points if point.candidate == candidate]
    for point in points:
        if point.status in CANDIDATE_FAILURES:
            where = f"at concurrency {point.concurrency} in round {point.round}"
            return f"{point.status} {where}{_because(point.reason)}"
    return None


def _unmeasured(points: Sequence[PointRecord], run: RunRecord) -> str | None:
    for concurrency in run.concurrencies:
        here = [point for point in points if point.concurrency == concurrency]
        if not any(
            point.status == "ok" and point.figures and point.figures.output_tokens_per_s
            for point in here
        ):
            failed = next((point for point in here if point.status != "ok"), None)
            why = f" ({failed.status}{_because(failed.reason)})" if failed else ""
            return f"no valid throughput at concurrency {concurrency}{why}"
    return None


def _because(reason: str | None) -> str:
    # A server wrote it: it may be long, and hold anything.
    return f": {one_line(' '.join(reason.split()), limit=_LONGEST_REASON)}" if reason else ""
