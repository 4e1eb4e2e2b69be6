"""Which files a folder of decisions holds, and which of them no server would ever read.

Nothing is opened here: names, depths and links are judged. Two kinds of folder are known: one of
decision files, ``<arch>/<model>/<quantization>.json``, and a run folder or a folder of them, each
with a ``decision.json`` of its own.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autotune.decisions.resolution import one_line
from autotune.decisions.schema import DecisionKey
from autotune.errors import UsageError
from autotune.records.folder import DECISION_FILE, RUN_FILE
from autotune.review.findings import Issue

_DEPTH = 3
_SUFFIX = ".json"


@dataclass(frozen=True)
class DecisionPlace:
    """A decision file's path, and the key that its place stands for.

    ``run`` is the run folder that a ``decision.json`` lies in, which has no key by its place.
    """

    path: Path
    key: DecisionKey | None = None
    run: Path | None = None


@dataclass
class Listing:
    """The decision files of a folder, in order, and what is wrong with what else lies there."""

    files: list[DecisionPlace] = field(default_factory=list)
    issues: list[tuple[Path, Issue]] = field(default_factory=list)

    def tell(self, path: Path, issue: Issue) -> None:
        self.issues.append((path, issue))


def list_files(root: Path) -> Listing:
    """List the decision files below ``root``. Links aren't followed."""
    listing = Listing()
    if (root / RUN_FILE).is_file():
        _add_run(root, listing)
    else:
        _walk(root, (), listing)
    return listing


def _walk(folder: Path, names: tuple[str, ...], listing: Listing) -> None:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        listing.tell(folder, _unreadable(error))
        return
    for path, issue in _twins(folder, [entry.name for entry in entries]):
        listing.tell(path, issue)
    for entry in entries:
        path, inner = folder / entry.name, (*names, entry.name)
        if entry.is_symlink():
            listing.tell(path, _LINK)
        elif entry.is_dir(follow_symlinks=False):
            if not names and (path / RUN_FILE).is_file():
                _add_run(path, listing)
            elif len(inner) < _DEPTH:
                _walk(path, inner, listing)
            else:
                listing.tell(path, _TOO_DEEP)
        else:
            _add_file(path, inner, listing)


def _add_run(run: Path, listing: Listing) -> None:
    path = run / DECISION_FILE
    if path.is_symlink():
        listing.tell(path, _LINK)
    elif path.exists():
        listing.files.append(DecisionPlace(path, run=run))


def _add_file(path: Path, names: tuple[str, ...], listing: Listing) -> None:
    name = names[-1]
    if not name.lower().endswith(_SUFFIX):
        listing.tell(path, _NOT_JSON)
    elif not name.endswith(_SUFFIX):
        listing.tell(path, _UPPER_CASE)
    elif len(names) != _DEPTH:
        listing.tell(path, _WRONG_DEPTH)
    else:
        arch, model, file = names
        try:
            key = DecisionKey(model, file.removesuffix(_SUFFIX), arch)
        except UsageError as error:
            listing.tell(path, _wrong("bad_name", str(error), "rename it, or measure again"))
            return
        listing.files.append(DecisionPlace(path, key=key))


def _twins(folder: Path, names: list[str]) -> Iterator[tuple[Path, Issue]]:
    """Names that differ in case only: on some systems they are one file, which hides the other."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(name.casefold(), name)
        if other != name:
            said = f"differs from {one_line(other, limit=100)} in upper and lower case only"
            yield folder / name, _wrong("case_twins", said, "keep the one that engines ask for")


def _wrong(code: str, message: str, remedy: str) -> Issue:
    return Issue(level="wrong", code=code, message=message, remedy=remedy)


def _unreadable(error: OSError) -> Issue:
    said = f"can't be listed: {error.strerror or error}"
    return _wrong("unreadable", said, "make it readable")


_LINK = _wrong("link", "is a link", "put the file itself here: a copy of the folder may lose links")
_TOO_DEEP = _wrong(
    "stray", "a folder where files belong, which no server looks into", "move or remove it"
)
_WRONG_DEPTH = _wrong(
    "stray",
    "no server looks here: decision files are <arch>/<model>/<quantization>.json",
    "move it to its place, or out of this folder",
)
_UPPER_CASE = _wrong("stray", "no server reads it, its name must end in .json", "rename it")
_NOT_JSON = Issue(
    level="note", code="stray", message="isn't a decision file (.json); no server reads it"
)
