"""From a run folder's records to what they mean: verdicts, judgement, tables, report, decision.

`autotune sweep`, `autotune import` and `autotune decide` all end here, so that each of them says
the same of the same records.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from autotune.decide.entry import build_entry, merge_entry
from autotune.decide.rule import judge_run
from autotune.decide.schema import Judgement
from autotune.decide.search import race_view
from autotune.decide.verdicts import judge_answers
from autotune.decide.wording import INCONCLUSIVE
from autotune.decisions.check import check_decision
from autotune.decisions.freshness import utc_day
from autotune.decisions.schema import DecisionFile, DecisionKey, decode, encode
from autotune.errors import EXIT_DONE, EXIT_OPEN, RunFolderError
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import (
    DECISION_FILE,
    ENVIRONMENT_FILE,
    LoadedRun,
    RunFolder,
    load_records,
    read_whole,
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


def conclude(
    path: Path,
    *,
    accept: bool = False,
    accept_inconclusive: bool = False,
    into: Path | None = None,
) -> Conclusion:
    """Judge the run at ``path``, write its tables and report, and the decision if there is one.

    Args:
        path: the run folder.
        accept: write the decision in spite of the judgement's blockers, naming them in it.
        accept_inconclusive: let candidates win whose answers couldn't be judged; the decision
            says so.
        into: a folder of decision files to merge the decision into, beside ``decision.json``.

    Raises:
        RunFolderError: no run folder, a broken record, or a file that can't be written.
        DecisionFileError: the decision file to merge into is broken; it's left as it is.
    """
    folder = RunFolder(path)
    loaded = load_records(path)
    verdicts = judge_answers(loaded)
    race = race_view(loaded, verdicts)
    judgement = judge_run(race, verdicts, accept_inconclusive=accept_inconclusive)
    tables = write_tables(folder, loaded, judgement, verdicts)
    accepted = tuple(
        blocker
        for blocker in judgement.blockers
        if accept or (accept_inconclusive and blocker.startswith(INCONCLUSIVE))
    )
    written = _write_decision(
        folder, race, judgement, verdicts, tables=tables, accepted=accepted, into=into
    )
    reports = write_report(folder, loaded, judgement, verdicts, environment=_environment(path))
    return Conclusion(
        run=str(path),
        judgement=judgement,
        verdicts=verdicts,
        reports=tuple(str(report) for report in reports),
        decision_files=tuple(str(file) for file in written),
        accepted=accepted if written else (),
    )


def rewrite_reports(path: Path) -> tuple[str, ...]:
    """Write a run's tables, plots and report anew; its decision is left alone.

    Raises:
        RunFolderError: no run folder, a broken record, or a file that can't be written.
    """
    folder = RunFolder(path)
    loaded = load_records(path)
    verdicts = judge_answers(loaded)
    judgement = judge_run(race_view(loaded, verdicts), verdicts)
    tables = write_tables(folder, loaded, judgement, verdicts)
    reports = write_report(folder, loaded, judgement, verdicts, environment=_environment(path))
    return (*(str(path / name) for name in sorted(tables)), *(str(report) for report in reports))


def _write_decision(
    folder: RunFolder,
    loaded: LoadedRun,
    judgement: Judgement,
    verdicts: Mapping[str, CandidateVerdict],
    *,
    tables: Mapping[str, str],
    accepted: tuple[str, ...],
    into: Path | None,
) -> list[Path]:
    own = folder.path / DECISION_FILE
    if judgement.choice is None or set(judgement.blockers) - set(accepted):
        # A decision that an earlier look wrote must not outlive its reasons.
        try:
            own.unlink(missing_ok=True)
        except OSError as error:
            raise RunFolderError(f"{own}: can't be removed: {error.strerror}") from None
        return []
    entry = build_entry(
        loaded,
        judgement,
        verdicts,
        run_name=folder.path.name,
        tables=tables,
        measured_at=_measured_at(loaded),
        accepted=accepted,
    )
    key = loaded.run.key
    files = {own: merge_entry(None, key, entry)}
    if into is not None:
        shared = into / key.arch / key.model / f"{key.quantization}.json"
        files[shared] = merge_entry(_read_existing(shared, key), key, entry)
    # All are checked before any is written: what a server would refuse is never put in its way.
    contents = {path: _encoded(file, key, where=str(path)) for path, file in files.items()}
    for path, content in contents.items():
        write_atomically(path, content)
    return list(contents)


def _encoded(decision: DecisionFile, key: DecisionKey, *, where: str) -> bytes:
    content = encode(decision)
    check_decision(decode(content, where=where), key, where=where)
    return content


def _read_existing(path: Path, key: DecisionKey) -> DecisionFile | None:
    try:
        data = read_whole(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunFolderError(f"{path}: can't be read: {error.strerror}") from None
    existing = decode(data, where=str(path))
    check_decision(existing, key, where=str(path))
    return existing


def _measured_at(loaded: LoadedRun) -> str:
    """The day of the last measurement; an imported table only has the day of its import."""
    ends = [launch.ended_at for launch in loaded.launches if launch.ended_at is not None]
    latest = max(ends, default=loaded.run.created_at)
    day = utc_day(latest)
    if day is None:
        raise RunFolderError(f"{latest[:80]!r} is no time: a launch or the run was edited by hand")
    return day.isoformat()


def _environment(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(read_whole(path / ENVIRONMENT_FILE))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
