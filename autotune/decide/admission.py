"""Who may win: which candidates are right, started, and have figures to be compared by. Pure.

Correctness comes before speed: a candidate that isn't right is kept out here, however fast.
"""

from collections.abc import Mapping

import msgspec

from autotune.decisions import one_line
from autotune.decisions.request import AUTO
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.schema import CANDIDATE_FAILURES, Candidate

_LONGEST_REASON = 200
LaunchedAs = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]
Throughputs = dict[int, dict[int, float]]


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate before any comparison.

    ``refusal`` says why it can't win: it failed itself. ``unmeasured`` says which figures are
    missing although it didn't: that isn't held against it, but it can't be compared either.
    ``launched_as`` is all that tells its launches from another's: of two candidates with the
    same, neither can be better.
    ``throughputs`` holds the valid points' output tokens/s: round -> concurrency -> value.
    """

    candidate: str
    backend: str
    launched_as: LaunchedAs
    verdict: CandidateVerdict
    throughputs: Throughputs
    refusal: str | None = None
    unmeasured: str | None = None

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
        candidate.name: Admission(
            candidate=candidate.name,
            backend=resolved_backend(run, candidate),
            launched_as=(
                resolved_backend(run, candidate),
                candidate.arguments,
                tuple(sorted(candidate.environment.items())),
            ),
            verdict=verdicts[candidate.name],
            throughputs=_throughputs(run, candidate.name),
            refusal=_refusal(run, candidate.name, verdicts[candidate.name]),
            unmeasured=_unmeasured(run, candidate.name),
        )
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


def _throughputs(run: LoadedRun, candidate: str) -> Throughputs:
    values: Throughputs = {}
    for point in run.points:
        if point.candidate == candidate and point.status == "ok" and point.figures is not None:
            throughput = point.figures.output_tokens_per_s
            if throughput is not None and throughput > 0:
                values.setdefault(point.round, {})[point.concurrency] = throughput
    return values


def _refusal(run: LoadedRun, candidate: str, verdict: CandidateVerdict) -> str | None:
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


def _unmeasured(run: LoadedRun, candidate: str) -> str | None:
    points = [point for point in run.points if point.candidate == candidate]
    for concurrency in run.run.concurrencies:
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
