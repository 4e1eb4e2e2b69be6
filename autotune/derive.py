"""What a run folder's records come to: verdicts, judgement, tables, the decision's entry.

Nothing is written here. `autotune.conclude` writes what this says; `autotune.review` holds
checked-in files against it.
"""

import hashlib
import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from autotune.decide.entry import build_entry
from autotune.decide.rule import judge_run
from autotune.decide.schema import Judgement
from autotune.decide.search import race_view
from autotune.decide.verdicts import judge_answers
from autotune.decisions.freshness import utc_day
from autotune.decisions.schema import Entry
from autotune.errors import RunFolderError
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun, load_records
from autotune.report.tables import render_tables


class Derivation(msgspec.Struct, frozen=True, kw_only=True):
    """All that follows from a run folder's records.

    ``race`` is ``loaded`` as the rule sees it (of a search only what goes on), ``tables`` holds
    the CSV files' bytes by name.
    """

    run_name: str
    loaded: LoadedRun
    race: LoadedRun
    verdicts: dict[str, CandidateVerdict]
    judgement: Judgement
    tables: dict[str, bytes]

    def table_hashes(self) -> dict[str, str]:
        """SHA-256 of each table by file name, as a decision's evidence names them."""
        return {name: hashlib.sha256(data).hexdigest() for name, data in self.tables.items()}


def derive(path: Path, *, accept_inconclusive: bool = False) -> Derivation:
    """Judge the run at ``path`` from its records alone.

    Args:
        path: the run folder.
        accept_inconclusive: let candidates win whose answers couldn't be judged.

    Raises:
        RunFolderError: no run folder, or a broken record.
    """
    loaded = load_records(path)
    verdicts = judge_answers(loaded)
    race = race_view(loaded, verdicts)
    judgement = judge_run(race, verdicts, accept_inconclusive=accept_inconclusive)
    return Derivation(
        # "." has no name of its own.
        run_name=os.path.basename(os.path.abspath(path)),
        loaded=loaded,
        race=race,
        verdicts=verdicts,
        judgement=judgement,
        tables=render_tables(loaded, judgement, verdicts),
    )


def entry_of(derivation: Derivation, *, accepted: Collection[str]) -> Entry | None:
    """Return the entry that a decision file would hold; ``None`` where none may be written.

    Args:
        derivation: what the records come to.
        accepted: blockers that somebody accepted; others than the judgement's are left out.

    Raises:
        RunFolderError: a record's time isn't one.
    """
    judgement = derivation.judgement
    if judgement.choice is None or set(judgement.blockers) - set(accepted):
        return None
    return build_entry(
        derivation.race,
        judgement,
        derivation.verdicts,
        run_name=derivation.run_name,
        tables=derivation.table_hashes(),
        measured_at=measured_at(derivation.loaded),
        accepted=[blocker for blocker in judgement.blockers if blocker in accepted],
    )


def measured_at(loaded: LoadedRun) -> str:
    """Return the day of the last measurement; an imported table only has the day of its import.

    Raises:
        RunFolderError: the latest of the times isn't one.
    """
    ends = [launch.ended_at for launch in loaded.launches if launch.ended_at is not None]
    latest = max(ends, default=loaded.run.created_at)
    day = utc_day(latest)
    if day is None:
        raise RunFolderError(f"{latest[:80]!r} is no time: a launch or the run was edited by hand")
    return day.isoformat()
