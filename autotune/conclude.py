"""From a run folder's records to what they mean: verdicts, judgement, tables, report, decision.

`autotune sweep`, `autotune import` and `autotune decide` all end here, so that each of them says
the same of the same records.
"""

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from autotune.decide.entry import build_entry, merge_entry
from autotune.decide.rule import judge_run
from autotune.decide.schema import Judgement
from autotune.decisions.schema import DecisionFile, decode, encode
from autotune.errors import EXIT_DONE, EXIT_OPEN, RunFolderError
from autotune.probe.verdict import CandidateVerdict, judge_probes
from autotune.records.folder import (
    DECISION_FILE,
    ENVIRONMENT_FILE,
    LoadedRun,
    RunFolder,
    load_records,
    write_atomically,
)
from autotune.report.tables import write_tables
from autotune.report.write import write_report


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to; ``decision_files`` were written, none where it stays open."""

    run: str
    judgement: Judgement
    verdicts: dict[str, CandidateVerdict]
    reports: tuple[str, ...]
    decision_files: tuple[str, ...]
    accepted: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 where a decision stands, 3 where it is open."""
        return EXIT_DONE if self.decision_files else EXIT_OPEN


def conclude(path: Path, *, accept: bool = False, into: Path | None = None) -> Conclusion:
    """Judge the run at ``path``, write its tables and report, and the decision if there is one.

    Args:
        path: the run folder.
        accept: write the decision in spite of the judgement's blockers, naming them in it.
        into: a folder of decision files to merge the decision into, beside ``decision.json``.

    Raises:
        RunFolderError: no run folder, a broken record, or a file that can't be written.
        DecisionFileError: the decision file to merge into is broken; it's left as it is.
    """
    folder = RunFolder(path)
    loaded = load_records(path)
    verdicts = _verdicts(loaded)
    judgement = judge_run(loaded, verdicts)
    tables = write_tables(folder, loaded, judgement)
    written = _write_decision(
        folder, loaded, judgement, verdicts, tables=tables, accept=accept, into=into
    )
    reports = write_report(folder, loaded, judgement, verdicts, environment=_environment(path))
    return Conclusion(
        run=str(path),
        judgement=judgement,
        verdicts=verdicts,
        reports=tuple(str(report) for report in reports),
        decision_files=tuple(str(file) for file in written),
        accepted=judgement.blockers if accept and written else (),
    )


def rewrite_reports(path: Path) -> tuple[str, ...]:
    """Write a run's tables, plots and report anew; its decision is left alone.

    Raises:
        RunFolderError: no run folder, a broken record, or a file that can't be written.
    """
    folder = RunFolder(path)
    loaded = load_records(path)
    verdicts = _verdicts(loaded)
    judgement = judge_run(loaded, verdicts)
    tables = write_tables(folder, loaded, judgement)
    reports = write_report(folder, loaded, judgement, verdicts, environment=_environment(path))
    return (*(str(path / name) for name in sorted(tables)), *(str(report) for report in reports))


def _verdicts(loaded: LoadedRun) -> dict[str, CandidateVerdict]:
    run = loaded.run
    return judge_probes(
        loaded.probes,
        candidates=[candidate.name for candidate in run.candidates],
        reference=run.reference,
        rule=run.rule,
    )


def _write_decision(
    folder: RunFolder,
    loaded: LoadedRun,
    judgement: Judgement,
    verdicts: Mapping[str, CandidateVerdict],
    *,
    tables: Mapping[str, str],
    accept: bool,
    into: Path | None,
) -> list[Path]:
    own = folder.path / DECISION_FILE
    if judgement.choice is None or (judgement.blockers and not accept):
        # A decision that an earlier look wrote must not outlive its reasons.
        own.unlink(missing_ok=True)
        return []
    entry = build_entry(
        loaded,
        judgement,
        verdicts,
        run_name=folder.path.name,
        tables=tables,
        measured_at=_measured_at(loaded),
        accepted=judgement.blockers if accept else (),
    )
    key = loaded.run.key
    write_atomically(own, encode(merge_entry(None, key, entry)))
    if into is None:
        return [own]
    shared = into / key.arch / key.model / f"{key.quantization}.json"
    write_atomically(shared, encode(merge_entry(_read_existing(shared), key, entry)))
    return [own, shared]


def _read_existing(path: Path) -> DecisionFile | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunFolderError(f"{path}: can't be read: {error.strerror}") from None
    return decode(data, where=str(path))


def _measured_at(loaded: LoadedRun) -> str:
    """The day of the last measurement; an imported table only has the day of its import."""
    ends = [launch.ended_at for launch in loaded.launches if launch.ended_at is not None]
    return (
        datetime.datetime.fromisoformat(max(ends, default=loaded.run.created_at)).date().isoformat()
    )


def _environment(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads((path / ENVIRONMENT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
