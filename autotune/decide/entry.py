"""Freeze a judgement into a decision file's entry, and put it among the entries already there.

Pure: where the file lies, and writing it, is `autotune.conclude`'s.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from autotune.decide.admission import resolved_backend
from autotune.decide.schema import Judgement, Standing
from autotune.decide.statistics import geometric_mean
from autotune.decisions.freshness import release
from autotune.decisions.schema import (
    SCHEMA_VERSION,
    Choice,
    DecisionFile,
    DecisionKey,
    Entry,
    Evidence,
    EvidenceRow,
    RejectedCandidate,
    Scope,
)
from autotune.errors import AutotuneError, DecisionFileError
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.schema import PointFigures


def build_entry(
    run: LoadedRun,
    judgement: Judgement,
    verdicts: Mapping[str, CandidateVerdict],
    *,
    run_name: str,
    tables: Mapping[str, str],
    measured_at: str,
    accepted: Sequence[str],
) -> Entry:
    """Return the entry that says what was chosen, for which scope, on what evidence.

    Args:
        run: the run's records.
        judgement: what the rule says of them.
        verdicts: every candidate's verdict.
        run_name: the run folder's name.
        tables: SHA-256 of the run's tables by file name.
        measured_at: day of the last measurement, ISO 8601.
        accepted: the blockers that somebody accepted, word for word.

    Raises:
        AutotuneError: nothing was chosen, or a blocker isn't among ``accepted``.
    """
    if judgement.choice is None:
        raise AutotuneError(f"no decision can be written: {judgement.summary}")
    missing = [blocker for blocker in judgement.blockers if blocker not in accepted]
    if missing:
        raise AutotuneError(f"no decision without acceptance (--accept): {'; '.join(missing)}")
    return Entry(
        scope=run.run.scope,
        choice=_choice(run, judgement, verdicts[judgement.choice], judgement.choice),
        evidence=Evidence(
            run=run_name,
            measured_at=measured_at,
            tables=dict(tables),
            rows=evidence_rows(run),
            rejected=rejected_candidates(judgement),
            accepted=tuple(accepted),
            source=run.run.source,
        ),
    )


def merge_entry(existing: DecisionFile | None, key: DecisionKey, entry: Entry) -> DecisionFile:
    """Return the file with ``entry`` in it: it replaces its own scope's, the others stay.

    Two scopes are the same if they differ in versions only: a patch release measured anew
    replaces the older one. Other sizes, devices, dtypes, environments and engine releases
    (major.minor) stand side by side.

    Raises:
        DecisionFileError: ``existing`` is about another key.
    """
    if existing is not None and existing.key != key:
        raise DecisionFileError(f"the existing file is about {existing.key}, not about {key}")
    kept = [
        old
        for old in (existing.entries if existing else ())
        if scope_identity(old.scope) != scope_identity(entry.scope)
    ]
    entries = sorted([*kept, entry], key=lambda one: scope_identity(one.scope))
    return DecisionFile(schema_version=SCHEMA_VERSION, key=key, entries=tuple(entries))


def scope_identity(scope: Scope) -> bytes:
    """Return what two scopes share whose entries replace one another (`merge_entry`)."""
    known = release(scope.engine_version or "")
    plain = msgspec.structs.replace(
        scope,
        engine_version="{}.{}".format(*known) if known else scope.engine_version,
        kernel_libraries={},
        also_arch=(),
        also_arch_reason=None,
    )
    return msgspec.json.encode(plain, order="sorted")


def _choice(run: LoadedRun, judgement: Judgement, verdict: CandidateVerdict, name: str) -> Choice:
    candidate = next(one for one in run.run.candidates if one.name == name)
    standing = next(one for one in judgement.standings if one.candidate == name)
    ratio = standing.to_baseline if judgement.baseline != name else None
    return Choice(
        backend=standing.backend,
        candidate=name,
        outcome=judgement.outcome,
        verdict=verdict.verdict,
        reason="; ".join([judgement.summary, verdict.reason, *judgement.notes]),
        rounds=judgement.rounds,
        arguments=candidate.arguments,
        environment=candidate.environment,
        baseline=judgement.baseline,
        baseline_role=judgement.baseline_role,
        ratio=ratio.ratio if ratio else None,
        interval=ratio.interval if ratio else None,
        winners=judgement.winners,
    )


def rejected_candidates(judgement: Judgement) -> tuple[RejectedCandidate, ...]:
    """Return who couldn't win, and why."""
    return tuple(_rejection(one) for one in judgement.standings if not one.admissible)


def _rejection(standing: Standing) -> RejectedCandidate:
    return RejectedCandidate(
        candidate=standing.candidate,
        backend=standing.backend,
        reason=standing.reason or "not admissible",
        verdict=standing.verdict,
    )


def evidence_rows(run: LoadedRun) -> tuple[EvidenceRow, ...]:
    """Return one row for each candidate and concurrency with a valid point, in the run's order."""
    rows = []
    for candidate in run.run.candidates:
        for concurrency in sorted(run.run.concurrencies):
            figures = [
                point.figures
                for point in run.points
                if point.candidate == candidate.name
                and point.concurrency == concurrency
                and point.status == "ok"
                and point.figures is not None
                and point.figures.output_tokens_per_s
            ]
            if figures:
                backend = resolved_backend(run, candidate)
                rows.append(_row(candidate.name, backend, concurrency, figures))
    return tuple(rows)


def _row(
    candidate: str, backend: str, concurrency: int, figures: Sequence[PointFigures]
) -> EvidenceRow:
    return EvidenceRow(
        candidate=candidate,
        backend=backend,
        concurrency=concurrency,
        rounds=len(figures),
        output_tokens_per_s=geometric_mean(
            [one.output_tokens_per_s for one in figures if one.output_tokens_per_s]
        ),
        ttft_mean_s=_mean([one.ttft_s.mean for one in figures]),
        ttft_p99_s=_mean([one.ttft_s.p99 for one in figures]),
        latency_mean_s=_mean([one.latency_s.mean for one in figures]),
        latency_p99_s=_mean([one.latency_s.p99 for one in figures]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean over rounds, ``None`` unless each round has the figure."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None
