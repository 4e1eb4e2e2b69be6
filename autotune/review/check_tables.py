"""Whether a run folder's files are what its records and its decision say they are.

The decision names each table's SHA-256, the records make the same tables anew, each point's record
names the SHA-256 of its requests, and an import's that of each file that it was made from.
"""

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from autotune.config import config_digest, read_config
from autotune.derive import Derivation
from autotune.errors import AutotuneError
from autotune.importers.write import sources_in
from autotune.records.folder import CONFIG_FILE, RunFolder, read_whole, sha256_of
from autotune.review.check_fields import same_number
from autotune.review.findings import Issue, Place

_MOST_NAMED = 5


def check_tables(
    stated: Mapping[str, str], derived: Derivation, folder: Path, *, place: Place, remedy: str
) -> Iterator[Issue]:
    """Compare the tables that a decision names with the folder's, and these with the records.

    Args:
        stated: SHA-256 by file name, as the decision says.
        derived: what the records come to.
        folder: the run folder.
        place: where in the decision file ``stated`` is.
        remedy: what writes the decision anew.
    """
    hashes = derived.table_hashes()
    for name in sorted(stated.keys() - hashes.keys()):
        yield _wrong("table_unknown", f"{name!a:.100} is no table of this run", remedy, place)
    for name, data in sorted(derived.tables.items()):
        path = folder / name
        if name not in stated:
            said = f"the decision doesn't name {name}, which the records make"
            yield _wrong("table_unnamed", said, remedy, place)
            continue
        here = (*place, name)
        try:
            there = read_whole(path)
        except OSError as error:
            said = f"{path} can't be read: {error.strerror or error}"
            write = f"`autotune report {folder}` writes it anew"
            yield _wrong("table_missing", said, write, here)
            continue
        if hashlib.sha256(there).hexdigest() != stated[name]:
            said = f"{path} isn't the file that the decision was made with (SHA-256 differs)"
            restore = f"restore it, or else {remedy}" if remedy else ""
            yield _wrong("table_hash", said, restore, here)
        difference = None if there == data else _first_difference(there, data)
        if difference is not None:
            said = f"{path} doesn't say what the records say: {difference}"
            restore = f"restore the records, or let `autotune report {folder}` write it anew"
            yield _wrong("table_content", said, restore, here)


def check_requests(derived: Derivation, path: Path, *, place: Place) -> Iterator[Issue]:
    """Compare each point's requests with the SHA-256 in its record."""
    folder = RunFolder(path)
    absent: list[Path] = []
    changed: list[Path] = []
    for point in derived.loaded.points:
        if point.requests_sha256 is None:
            continue
        file = folder.requests_file(point.candidate, point.round, point.concurrency)
        if not file.is_file():
            absent.append(file)
        elif sha256_of(file) != point.requests_sha256:
            changed.append(file)
    for file in changed[:_MOST_NAMED]:
        said = f"{file} isn't the file that was recorded with its point (SHA-256 differs)"
        yield _wrong("requests_hash", said, "restore it, or measure again", place)
    if len(changed) > _MOST_NAMED:
        said = f"{len(changed) - _MOST_NAMED} more of the run's requests.parquet differ"
        yield _wrong("requests_hash", said, "restore them, or measure again", place)
    if absent:
        points = (
            "1 point's requests aren't"
            if len(absent) == 1
            else (f"the requests of {len(absent)} points aren't")
        )
        said = f"{points} here ({absent[0]}), so that their figures can't be followed further down"
        yield Issue(level="note", code="requests_absent", message=said, place=place)


def check_sources(derived: Derivation, path: Path, *, place: Place) -> Iterator[Issue]:
    """Compare the files that an import keeps with the SHA-256 in its run.json, if it has any."""
    stated = derived.loaded.run.source_sha256
    if not stated:
        return
    kept = sources_in(path)
    import_again = "restore it, or import the original again"
    for name in sorted(stated.keys() - set(kept)):
        said = f"{path}: the source {name!a:.100} that it was imported from isn't here"
        yield _wrong("source_missing", said, import_again, place)
    for name in kept:
        if name not in stated:
            said = f"{path / name} isn't among the sources that were imported"
            yield _wrong("source_unknown", said, "take it away", place)
        elif sha256_of(path / name) != stated[name]:
            said = f"{path / name} isn't the file that was imported (SHA-256 differs)"
            yield _wrong("source_hash", said, import_again, place)


def check_frozen_config(derived: Derivation, path: Path, *, place: Place) -> Iterator[Issue]:
    """Compare a sweep's run.toml with the digest in its run.json."""
    stated = derived.loaded.run.config_digest
    if stated is None:
        return
    try:
        if config_digest(read_config(path / CONFIG_FILE)) == stated:
            return
        said = (
            f"{path / CONFIG_FILE} isn't the config that was measured (its digest differs), or a "
            "release with other settings wrote it"
        )
    except AutotuneError as error:
        said = str(error)
    # Only a note: a setting that a later release adds changes the digest of all that went before.
    yield Issue(level="note", code="config_digest", message=said, place=place)


def _first_difference(there: bytes, derived: bytes) -> str | None:
    """Say where two CSV files differ; ``None`` where only last digits do."""
    try:
        mine = list(csv.reader(io.StringIO(there.decode(), newline="")))
    except (UnicodeDecodeError, csv.Error):
        return "it isn't a CSV file"
    ours = list(csv.reader(io.StringIO(derived.decode(), newline="")))
    if len(mine) != len(ours):
        return f"it has {len(mine)} lines, they make {len(ours)}"
    header = ours[0] if ours else []
    for number, (row, expected) in enumerate(zip(mine, ours, strict=True), start=1):
        if len(row) != len(expected):
            return f"line {number} has {len(row)} columns, they make {len(expected)}"
        for column, cell, other in zip(header, row, expected, strict=False):
            if cell != other and not _same_figure(cell, other):
                return f"line {number}, {column}: {cell[:60]!a}, they say {other[:60]!a}"
    # Equal cells, other bytes: quotes or line ends, which the hash tells of.
    return None


def _same_figure(cell: str, other: str) -> bool:
    try:
        return same_number(float(cell), float(other))
    except ValueError:
        return False


def _wrong(code: str, message: str, remedy: str, place: Place) -> Issue:
    return Issue(level="wrong", code=code, message=message, remedy=remedy, place=place)
