"""Check folders of decision files: everything that a reviewer can't see by reading them.

The steps are in the other modules of this package: which files there are (`check_files`), what
their bytes say (`check_schema`), whether the evidence carries them (`evidence`), whether they are
fresh (`freshness`, `check_backends`) and alone for their key (`check_twins`).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from packaging.version import InvalidVersion, Version

from autotune.decisions.schema import DecisionFile, Entry
from autotune.records.folder import read_whole
from autotune.review.check_backends import check_backends
from autotune.review.check_files import DecisionPlace, Listing, list_files
from autotune.review.check_known import known_backends, known_versions
from autotune.review.check_lines import JsonLines, read_lines
from autotune.review.check_schema import check_duplicates, check_form, read_decision
from autotune.review.check_twins import Placed, check_keys, check_lending
from autotune.review.evidence import EvidenceFolder, check_evidence
from autotune.review.findings import Finding, Issue, Review, entry_place, locate
from autotune.review.freshness import (
    KnownVersions,
    check_age,
    check_versions,
    known_name,
    superseded_by,
)


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """How a check is made.

    Attributes:
        evidence: the folder of run folders that entries name.
        today: what ages are counted from.
        max_age_days: entries measured longer ago are stale; ``None`` sets no limit.
        versions: what somebody runs, by name (`check_known.read_given_versions`).
    """

    evidence: Path
    today: date
    max_age_days: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _File:
    """A decision file on its way through the checks."""

    root: Path
    place: DecisionPlace
    lines: JsonLines
    decision: DecisionFile | None
    issues: list[Issue]

    @property
    def path(self) -> str:
        return str(self.place.path)


def check_folders(folders: Sequence[Path], options: CheckOptions) -> Review:
    """Check every decision file below ``folders``; nothing is written.

    Findings are ordered by file and entry. Whatever the files hold is a finding: nothing in them
    makes this raise.
    """
    listings = [(folder, list_files(folder)) for folder in folders]
    # Folders may overlap, and a file isn't its own twin.
    places = {
        os.path.realpath(place.path): (root, place)
        for root, listing in reversed(listings)
        for place in reversed(listing.files)
    }
    files = [_read(root, place) for root, place in reversed(places.values())]
    known = known_versions(_entries(files), options.versions)
    evidence: dict[Path, EvidenceFolder] = {}
    for file in files:
        if file.decision is not None:
            root = options.evidence if file.place.run is None else _folder_of(file.place.run)
            runs = evidence.setdefault(root, EvidenceFolder(root))
            file.issues.extend(_check_file(file, file.decision, runs, options, known=known))
    _check_twins(files)
    findings = [*_findings_beside(listings), *(one for file in files for one in _findings(file))]
    findings += _unused_versions(files, options.versions)
    findings += _nothing_found(listings)
    return Review(
        findings=tuple(sorted(findings, key=lambda one: (one.path, one.entry or 0))),
        checked=sum(1 for _ in _entries(files)),
    )


def _read(root: Path, place: DecisionPlace) -> _File:
    try:
        data = read_whole(place.path)
    except OSError as error:
        said = f"can't be read: {error.strerror or error}"
        issue = Issue(level="wrong", code="unreadable", message=said, remedy="make it readable")
        return _File(root, place, JsonLines(), None, [issue])
    decision = read_decision(data, place.key)
    if isinstance(decision, Issue):
        return _File(root, place, JsonLines(), None, [decision])
    lines = read_lines(data)
    issues = [*check_form(data, decision, lines), *check_duplicates(decision)]
    return _File(root, place, lines, decision, issues)


def _check_file(
    file: _File,
    decision: DecisionFile,
    evidence: EvidenceFolder,
    options: CheckOptions,
    *,
    known: KnownVersions,
) -> Iterator[Issue]:
    run = file.place.run
    into = "" if run is not None else str(file.root)
    for index, entry in enumerate(decision.entries):
        if run is not None and entry.evidence.run != os.path.basename(os.path.abspath(run)):
            said = f"names {entry.evidence.run!a:.100} as its run, and lies in {run}"
            yield Issue(
                level="wrong",
                code="evidence_name",
                message=said,
                remedy=f"`autotune decide {run}` writes it anew",
                place=entry_place(index, "evidence", "run"),
            )
            continue
        yield from check_evidence(entry, index, decision.key, evidence=evidence, into=into)
        newer = superseded_by(index, decision.entries)
        if newer is not None:
            said = f"kept for {entry.scope.engine} {entry.scope.engine_version}: entry {newer} "
            yield Issue(
                level="note",
                code="superseded",
                message=f"{said}measured a newer release",
                place=entry_place(index, "scope", "engine_version"),
            )
            continue
        yield from check_versions(entry, index, known)
        yield from check_age(entry, index, today=options.today, max_age_days=options.max_age_days)
        yield from check_backends(
            entry, index, backends=_backends(known), run=evidence.find(entry.evidence.run)
        )


def _folder_of(run: Path) -> Path:
    """The folder that a run folder lies in, also of ``.``."""
    return run.parent if run.name not in ("", "..") else Path(os.path.abspath(run)).parent


def _backends(known: KnownVersions) -> Callable[[str], frozenset[str] | None]:
    """What engines have in the newest version that is known of each."""

    def ask(engine: str) -> frozenset[str] | None:
        found = [one.version for one in known.get(known_name(engine), ()) if _reads(one.version)]
        return known_backends(engine, max(found, key=Version, default=None))

    return ask


def _reads(version: str) -> bool:
    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


def _check_twins(files: Iterable[_File]) -> None:
    """Add what is told of files beside one another; a run's own decision is meant to be one."""
    by_path = {
        file.path: file for file in files if file.decision is not None and file.place.run is None
    }
    placed = [
        Placed(path, file.decision) for path, file in by_path.items() if file.decision is not None
    ]
    for one, issue in (*check_keys(placed), *check_lending(placed)):
        by_path[one.path].issues.append(issue)


def _findings(file: _File) -> Iterator[Finding]:
    """The file's issues in order, and a word for each entry that has nothing against it."""
    for issue in file.issues:
        yield locate(issue, file.path, lines=file.lines.lines)
    if file.decision is None:
        return
    against = {issue.place[:2] for issue in file.issues if issue.level in ("wrong", "stale")}
    for index, entry in enumerate(file.decision.entries):
        if entry_place(index) not in against:
            yield locate(_fine(entry, index), file.path, lines=file.lines.lines)


def _fine(entry: Entry, index: int) -> Issue:
    version = entry.scope.engine_version or "of unrecorded version"
    said = f"{entry.choice.backend} ({entry.scope.engine} {version}) follows from "
    return Issue(
        level="ok", code="ok", message=f"{said}{entry.evidence.run}", place=entry_place(index)
    )


def _findings_beside(listings: Iterable[tuple[Path, Listing]]) -> Iterator[Finding]:
    for _, listing in listings:
        for path, issue in listing.issues:
            yield locate(issue, str(path), lines={})


def _unused_versions(files: Sequence[_File], given: Mapping[str, str]) -> Iterator[Finding]:
    used = {
        known_name(name)
        for entry in _entries(files)
        for name in (entry.scope.engine, *entry.scope.kernel_libraries)
    }
    for name in sorted(given.keys() - used):
        said = f"--version {name}={given[name]}: no decision records a version of {name}"
        yield locate(Issue(level="note", code="version_unused", message=said), "", lines={})


def _nothing_found(listings: Sequence[tuple[Path, Listing]]) -> Iterator[Finding]:
    for folder, listing in listings:
        if not listing.files:
            issue = Issue(level="note", code="empty", message="holds no decision")
            yield locate(issue, str(folder), lines={})


def _entries(files: Iterable[_File]) -> Iterator[Entry]:
    for file in files:
        if file.decision is not None:
            yield from file.decision.entries
