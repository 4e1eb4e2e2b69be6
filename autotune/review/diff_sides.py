"""What ``autotune diff`` is given, read: a decision file, a run folder, or nothing."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from autotune.decide.entry import evidence_rows, rejected_candidates
from autotune.decisions.schema import (
    Choice,
    DecisionFile,
    DecisionKey,
    Evidence,
    Scope,
    decode,
)
from autotune.derive import entry_of, measured_at
from autotune.errors import DecisionFileError, InputError
from autotune.judged import Judged, read_judged
from autotune.records.folder import read_environment_file, read_whole
from autotune.review.diff_schema import SideName

_LARGEST_PIPE = 4 * 2**20
# What a shell's <(command) is called: a pipe that is open already, so that reading it ends.
_OPEN_PIPE = re.compile(r"/dev/fd/\d+|/proc/self/fd/\d+")


class SideEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One scope's choice and evidence. A run in which nobody can be chosen has no ``choice``."""

    scope: Scope
    choice: Choice | None
    evidence: Evidence


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two that are compared; ``run`` and ``environment`` only of a run folder."""

    name: SideName
    key: DecisionKey | None = None
    entries: tuple[SideEntry, ...] = ()
    run: Judged | None = None
    environment: Mapping[str, Any] | None = None


def read_side(path: Path) -> Side:
    """Read a decision file, a run folder, or nothing (``/dev/null``).

    Raises:
        InputError: there is no such path, or it can't be read.
        DecisionFileError: a file that is no decision, or one of another schema version.
        RunFolderError: a folder that is no run, or with a record that can't be read.
    """
    if str(path) == os.devnull:
        return Side(name=SideName(path=str(path), kind="nothing", entries_from=None))
    if path.is_dir():
        return _run_side(path)
    return _decision_side(path, decode(_read(path), where=str(path)))


def _decision_side(path: Path, decision: DecisionFile) -> Side:
    return Side(
        name=SideName(path=str(path), kind="decision", entries_from="file"),
        key=decision.key,
        entries=_entries(decision),
    )


def _run_side(path: Path) -> Side:
    judged = read_judged(path)
    return Side(
        name=SideName(
            path=str(path),
            kind="run",
            entries_from="records" if judged.decision is None else "decision.json",
        ),
        key=judged.derived.loaded.run.key,
        entries=(_derived(judged),) if judged.decision is None else _entries(judged.decision),
        run=judged,
        environment=read_environment_file(path),
    )


def _entries(decision: DecisionFile) -> tuple[SideEntry, ...]:
    return tuple(
        SideEntry(scope=entry.scope, choice=entry.choice, evidence=entry.evidence)
        for entry in decision.entries
    )


def _derived(judged: Judged) -> SideEntry:
    """The entry that the records would make, whatever stands against it; nobody accepted that."""
    derived = judged.derived
    entry = entry_of(derived, accepted=derived.judgement.blockers)
    evidence = Evidence(
        run=derived.run_name,
        measured_at=measured_at(derived.loaded),
        tables=derived.table_hashes(),
        rows=evidence_rows(derived.race),
        rejected=rejected_candidates(derived.judgement),
        source=derived.race.run.source,
    )
    return SideEntry(
        scope=derived.race.run.scope,
        choice=None if entry is None else entry.choice,
        evidence=evidence,
    )


def _read(path: Path) -> bytes:
    try:
        data = _read_pipe(path) if _OPEN_PIPE.fullmatch(str(path)) else read_whole(path)
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file or folder: name a decision file or a run folder, or "
            f"{os.devnull} for a side that has none"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from None
    if not data.strip():
        raise DecisionFileError(
            f"{path}: empty, so no decision file: name {os.devnull} for a side that has none"
        )
    return data


def _read_pipe(path: Path) -> bytes:
    with path.open("rb") as pipe:
        data = pipe.read(_LARGEST_PIPE + 1)
    if len(data) > _LARGEST_PIPE:
        raise DecisionFileError(f"{path}: larger than a decision file can be")
    return data
