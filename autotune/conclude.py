"""From a run folder's records to what they mean: verdicts, judgement, tables, report, decision.

`autotune sweep`, `autotune import` and `autotune decide` all end here, so that each of them says
the same of the same records.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from autotune.decide.entry import merge_entry, scope_identity
from autotune.decide.schema import Judgement
from autotune.decide.wording import INCONCLUSIVE
from autotune.decisions.check import check_decision
from autotune.decisions.schema import DecisionFile, DecisionKey, Entry, decode, encode
from autotune.derive import Derivation, derive, entry_of, measured_at
from autotune.engines.sglang.side_effects import side_effects
from autotune.engines.sglang.table import read_catalog
from autotune.errors import EXIT_DONE, EXIT_OPEN, RunFolderError
from autotune.judged import Judged, read_judged
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import (
    DECISION_FILE,
    RunFolder,
    read_environment_file,
    read_if_there,
    write_atomically,
)
from autotune.report.several import RunShown, label_runs
from autotune.report.write import check_destination, write_report, write_several


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to; ``decision_files`` were written, none where it stays open.

    ``let_in`` says that candidates competed whose answers couldn't be judged. ``withdrawn`` is the
    run's decision.json where an earlier look wrote one that this one doesn't write again;
    ``replaced`` says which other choice a shared decision file held for the same scope before.
    """

    run: str
    judgement: Judgement
    verdicts: dict[str, CandidateVerdict]
    reports: tuple[str, ...]
    decision_files: tuple[str, ...]
    accepted: tuple[str, ...]
    let_in: bool = False
    withdrawn: str | None = None
    replaced: tuple[str, ...] = ()

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
    derived = derive(path, accept_inconclusive=accept_inconclusive)
    accepted = tuple(
        blocker
        for blocker in derived.judgement.blockers
        if accept or (accept_inconclusive and blocker.startswith(INCONCLUSIVE))
    )
    _write_tables(folder, derived)
    own = folder.path / DECISION_FILE
    entry = entry_of(derived, accepted=accepted)
    written: list[Path] = []
    replaced: tuple[str, ...] = ()
    withdrawn = None
    if entry is None:
        withdrawn = _withdraw(own)
        judged = Judged(path=path, derived=derived, decision=None)
    else:
        written, replaced = _write_decision(own, derived.loaded.run.key, entry, into=into)
        judged = read_judged(path)
    reports = _write_report(judged)
    return Conclusion(
        run=str(path),
        judgement=derived.judgement,
        verdicts=derived.verdicts,
        reports=tuple(str(report) for report in reports),
        decision_files=tuple(str(file) for file in written),
        accepted=accepted if written else (),
        let_in=accept_inconclusive,
        replaced=replaced,
        withdrawn=withdrawn,
    )


def report_into(paths: Sequence[Path], to: Path) -> tuple[str, ...]:
    """Write one report of the runs at ``paths`` into the folder ``to``; the runs stay as they are.

    Raises:
        InputError: a run is given twice, the runs' figures don't compare, or ``to`` is or lies in a
            run folder or holds anything but an earlier report.
        RunFolderError: no run folder, a broken record, or a file that can't be written.
        DecisionFileError: a run's decision.json can't be read.
    """
    labels = label_runs(paths)
    check_destination(to)
    if len(paths) == 1:
        return tuple(str(file) for file in _write_report(read_judged(paths[0]), to))
    runs = []
    for path, label in zip(paths, labels, strict=True):
        judged = read_judged(path)
        runs.append(
            RunShown(
                label=label,
                subject=judged.subject,
                measured_on=measured_at(judged.derived.loaded),
                environment=read_environment_file(path),
                side_effects=side_effects(judged.derived.race.run, catalog=read_catalog()),
            )
        )
    return tuple(str(file) for file in write_several(to, runs))


def rewrite_reports(path: Path) -> tuple[str, ...]:
    """Write a run's tables, plots and report anew, as its decision was made; that is left alone.

    Raises:
        DecisionFileError: its decision.json can't be read.
        RunFolderError: no run folder, a broken record, or a file that can't be written.
    """
    folder = RunFolder(path)
    judged = read_judged(path)
    _write_tables(folder, judged.derived)
    reports = _write_report(judged)
    tables = (str(path / name) for name in sorted(judged.derived.tables))
    return (*tables, *(str(report) for report in reports))


def _write_tables(folder: RunFolder, derived: Derivation) -> None:
    for name, data in derived.tables.items():
        write_atomically(folder.path / name, data)


def _write_report(judged: Judged, to: Path | None = None) -> list[Path]:
    return write_report(
        RunFolder(judged.path),
        judged.subject,
        environment=read_environment_file(judged.path),
        side_effects=side_effects(judged.derived.race.run, catalog=read_catalog()),
        to=to,
    )


def _withdraw(own: Path) -> str | None:
    """Remove a decision that an earlier look wrote: it mustn't outlive its reasons."""
    try:
        own.unlink()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunFolderError(f"{own}: can't be removed: {error.strerror}") from None
    return str(own)


def _write_decision(
    own: Path, key: DecisionKey, entry: Entry, *, into: Path | None
) -> tuple[list[Path], tuple[str, ...]]:
    """Write an entry; return the files, and what a shared one said otherwise so far."""
    files = {own: merge_entry(None, key, entry)}
    replaced: tuple[str, ...] = ()
    if into is not None:
        shared = into / key.arch / key.model / f"{key.quantization}.json"
        existing = _read_existing(shared, key)
        files[shared] = merge_entry(existing, key, entry)
        replaced = tuple(_replaced(existing, entry, where=shared))
    # All are checked before any is written: what a server would refuse is never put in its way.
    contents = {path: _encoded(file, key, where=str(path)) for path, file in files.items()}
    for path, content in contents.items():
        write_atomically(path, content)
    return list(contents), replaced


def _replaced(existing: DecisionFile | None, entry: Entry, *, where: Path) -> Iterator[str]:
    own = scope_identity(entry.scope)
    for old in existing.entries if existing else ():
        if scope_identity(old.scope) == own and old.choice.backend != entry.choice.backend:
            yield f"{where} chose {old.choice.backend} for this scope, from run {old.evidence.run}"


def _encoded(decision: DecisionFile, key: DecisionKey, *, where: str) -> bytes:
    content = encode(decision)
    check_decision(decode(content, where=where), key, where=where)
    return content


def _read_existing(path: Path, key: DecisionKey) -> DecisionFile | None:
    data = read_if_there(path)
    if data is None:
        return None
    existing = decode(data, where=str(path))
    check_decision(existing, key, where=str(path))
    return existing
