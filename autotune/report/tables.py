"""A run's records as pandas tables: points, launches, trials, summary and correctness.

The tables hold nothing that isn't in the records, so they can be made again at any time, byte
for byte. ``docs/formats.md`` describes every column with its unit; what a figure means is
``docs/metrics.md``.
"""

import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from autotune.decide.schema import Judgement, Standing
from autotune.decide.search import anchor_of, finalists, race_view, trial_results
from autotune.decide.statistics import geometric_mean
from autotune.errors import RunFolderError
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import (
    POINTS_TABLE,
    SUMMARY_TABLE,
    LoadedRun,
    RunFolder,
    load_records,
)
from autotune.records.schema import (
    Candidate,
    Distribution,
    PointFigures,
    PointRecord,
    RunRecord,
)
from autotune.report.columns import (
    AVERAGED,
    CORRECTNESS_COLUMNS,
    DISTRIBUTIONS,
    FIGURES,
    LAUNCHES_COLUMNS,
    POINTS_COLUMNS,
    STATISTICS,
    SUMMARY_COLUMNS,
    TRIALS_COLUMNS,
    make_table,
)

LAUNCHES_TABLE = "launches.csv"
CORRECTNESS_TABLE = "correctness.csv"
TRIALS_TABLE = "trials.csv"


@dataclass(frozen=True)
class RunTables:
    """A run folder as DataFrames; what `load_run` returns."""

    path: Path
    run: RunRecord
    judgement: Judgement
    points: pd.DataFrame = field(repr=False)
    summary: pd.DataFrame = field(repr=False)
    launches: pd.DataFrame = field(repr=False)
    correctness: pd.DataFrame = field(repr=False)
    trials: pd.DataFrame = field(repr=False)

    def requests(self, candidate: str, round_number: int, *, concurrency: int) -> pd.DataFrame:
        """Read one point's requests, one row each; times in seconds from the first dispatch.

        Raises:
            RunFolderError: that point left no requests (never measured, or imported), or its
                file can't be read.
        """
        path = RunFolder(self.path).requests_file(candidate, round_number, concurrency)
        if not path.is_file():
            raise RunFolderError(
                f"{path}: no such file: this point left no requests; `points` lists those that did"
            )
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise RunFolderError(
                f"{path}: not a readable Parquet file ({error}): delete the point's folder and "
                "run the sweep again to measure it anew"
            ) from None


def load_run(path: str | os.PathLike[str]) -> RunTables:
    """Read the run folder at ``path`` into DataFrames, rebuilt from its records.

    The CSV files in the folder aren't read, so an edited or missing one changes nothing.

    Raises:
        RunFolderError: no run folder, or a record that can't be read (the file is named).
    """
    # A record doesn't know its judges; only this convenience, which shows both, asks them.
    from autotune.decide.rule import judge_run
    from autotune.decide.verdicts import judge_answers

    folder = Path(path)
    loaded = load_records(folder)
    verdicts = judge_answers(loaded)
    judgement = judge_run(race_view(loaded, verdicts), verdicts)
    return RunTables(
        path=folder,
        run=loaded.run,
        judgement=judgement,
        points=points_table(loaded),
        summary=summary_table(race_view(loaded, verdicts), judgement),
        launches=launches_table(loaded),
        correctness=correctness_table(loaded, verdicts),
        trials=trials_table(loaded, verdicts),
    )


def render_tables(
    run: LoadedRun, judgement: Judgement, verdicts: Mapping[str, CandidateVerdict]
) -> dict[str, bytes]:
    """Return the run's tables as CSV by file name.

    The same records and judgement give the same bytes. Floats are written with as many digits
    as it takes to read back the same float.
    """
    tables = {
        POINTS_TABLE: points_table(run),
        LAUNCHES_TABLE: launches_table(run),
        SUMMARY_TABLE: summary_table(race_view(run, verdicts), judgement),
        CORRECTNESS_TABLE: correctness_table(run, verdicts),
    }
    if run.run.search_rounds:
        tables[TRIALS_TABLE] = trials_table(run, verdicts)
    return {
        name: table.to_csv(index=False, lineterminator="\n").encode()
        for name, table in tables.items()
    }


def points_table(run: LoadedRun) -> pd.DataFrame:
    """Return one row a point, by round, candidate and concurrency; ``POINTS_COLUMNS`` in order."""
    backends = _backends(run)
    points = sorted(run.points, key=lambda p: (p.round, p.candidate, p.concurrency))
    return make_table([_point_row(point, backends) for point in points], POINTS_COLUMNS)


def launches_table(run: LoadedRun) -> pd.DataFrame:
    """Return one row a launch, failed ones too, by round, position and candidate."""
    backends = _backends(run)
    launches = sorted(run.launches, key=lambda r: (r.round, r.position, r.candidate))
    rows = [
        {name: getattr(launch, name, None) for name in LAUNCHES_COLUMNS}
        | {"backend": backends.get(launch.candidate)}
        for launch in launches
    ]
    return make_table(rows, LAUNCHES_COLUMNS)


def summary_table(run: LoadedRun, judgement: Judgement) -> pd.DataFrame:
    """Return one row for each candidate and concurrency of the run, measured or not.

    Of a run with a search, give the records as the race sees them
    (`autotune.decide.search.race_view`). Only points with status ``ok`` are summed up.
    Throughput is their geometric mean, since candidates are compared by ratios; times are
    arithmetic means over the rounds.
    """
    standings = {standing.candidate: standing for standing in judgement.standings}
    valid: dict[tuple[str, int], list[PointFigures]] = {}
    for point in sorted(run.points, key=lambda p: p.round):
        if point.status == "ok" and point.figures is not None:
            valid.setdefault((point.candidate, point.concurrency), []).append(point.figures)
    rows = []
    for candidate in run.run.candidates:
        standing = standings.get(candidate.name)
        for concurrency in run.run.concurrencies:
            row = {
                "candidate": candidate.name,
                "backend": candidate.backend,
                "concurrency": concurrency,
            }
            row |= _averages(valid.get((candidate.name, concurrency), []))
            rows.append(row | _judged(standing, concurrency))
    return make_table(rows, SUMMARY_COLUMNS)


def correctness_table(run: LoadedRun, verdicts: Mapping[str, CandidateVerdict]) -> pd.DataFrame:
    """Return one row for each candidate's findings, in the run's order; trials follow by number.

    A candidate without findings (nothing was answered) has a row of its own, with the reason.
    """
    rows = []
    for candidate in _everybody(run):
        verdict = verdicts.get(candidate.name)
        if verdict is None:
            continue
        whole = {
            "candidate": candidate.name,
            "candidate_verdict": verdict.verdict,
            "candidate_agreement": verdict.agreement,
            "candidate_answers": verdict.answers,
        }
        rows += [
            whole
            | finding.figures
            | {"kind": finding.kind, "verdict": finding.verdict, "sentence": finding.sentence}
            for finding in verdict.findings
        ]
        if not verdict.findings:
            rows.append(whole | {"verdict": verdict.verdict, "sentence": verdict.reason})
    return make_table(rows, CORRECTNESS_COLUMNS)


def trials_table(run: LoadedRun, verdicts: Mapping[str, CandidateVerdict]) -> pd.DataFrame:
    """Return one row for each trial of a search, by number."""
    trials = {trial.number: trial for trial in run.trials}
    going_on = {trial.number for trial in finalists(run, verdicts)}
    rows = []
    for result in trial_results(run, verdicts):
        candidate = trials[result.number].candidate
        row = {name: getattr(result, name, None) for name in TRIALS_COLUMNS}
        row |= {
            "backend": candidate.backend,
            "values": json.dumps(result.values, sort_keys=True),
            "arguments": shlex.join(candidate.arguments),
            "environment": json.dumps(candidate.environment, sort_keys=True),
            "anchor": anchor_of(run.run),
            "ratio_to_anchor": result.ratio,
            "counts": result.reason is None,
            "finalist": result.number in going_on,
        }
        rows.append(row)
    return make_table(rows, TRIALS_COLUMNS)


def _point_row(point: PointRecord, backends: Mapping[str, str]) -> dict[str, Any]:
    row = {name: getattr(point, name, None) for name in POINTS_COLUMNS}
    row["backend"] = backends.get(point.candidate)
    row["warnings"] = ";".join(warning.code for warning in point.warnings) or None
    if point.figures is not None:
        row |= {name: getattr(point.figures, name) for name in FIGURES}
        for name in DISTRIBUTIONS:
            distribution: Distribution = getattr(point.figures, name)
            row |= {f"{name}_{part}": getattr(distribution, part) for part in STATISTICS}
    return row


def _averages(figures: Sequence[PointFigures]) -> dict[str, Any]:
    throughputs = [f.output_tokens_per_s for f in figures if f.output_tokens_per_s is not None]
    row: dict[str, Any] = {
        "rounds": len(figures),
        "output_tokens_per_s": geometric_mean(throughputs) if throughputs else None,
        "output_tokens_per_s_min": min(throughputs, default=None),
        "output_tokens_per_s_max": max(throughputs, default=None),
    }
    for name in AVERAGED:
        distribution, _, part = name.rpartition("_")
        row[name] = _mean([getattr(getattr(f, distribution), part) for f in figures])
    return row


def _judged(standing: Standing | None, concurrency: int) -> dict[str, Any]:
    if standing is None:
        return {}
    row: dict[str, Any] = {
        "verdict": standing.verdict,
        "admissible": standing.admissible,
        "reason": standing.reason,
    }
    estimate = standing.to_baseline_at.get(concurrency)
    if estimate is not None:
        row |= {"ratio_to_baseline": estimate.ratio, "ratio_rounds": estimate.n}
        if estimate.interval is not None:
            row["ratio_low"] = estimate.interval.low
            row["ratio_high"] = estimate.interval.high
            row["ratio_confidence"] = estimate.interval.confidence
    return row


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean, or ``None`` if a round lacks the figure: fewer rounds than the row's would lie."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _everybody(run: LoadedRun) -> list[Candidate]:
    return [*run.run.candidates, *(trial.candidate for trial in run.trials)]


def _backends(run: LoadedRun) -> dict[str, str]:
    return {candidate.name: candidate.backend for candidate in _everybody(run)}
