"""The run folder: where each record lies, and writing it whole.

A file appears under its name complete or not at all, whatever kills the writer, and is never
edited afterwards. Nothing here computes: tables are `autotune.report.tables`, decisions
`autotune.decide`.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from autotune.decisions.schema import check_name
from autotune.errors import RunFolderError, UsageError
from autotune.records.schema import LaunchRecord, PointRecord, ProbeRecord, RunRecord

_Record = TypeVar("_Record", RunRecord, LaunchRecord, PointRecord, ProbeRecord)

RUN_FILE = "run.json"
CONFIG_FILE = "run.toml"
ENVIRONMENT_FILE = "environment.json"
DECISION_FILE = "decision.json"
POINTS_TABLE = "points.csv"
SUMMARY_TABLE = "summary.csv"


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``: temporary file, fsync, rename, fsync of the folder.

    Raises:
        RunFolderError: the folder or the file can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise RunFolderError(
            f"{path}: can't be written ({error.strerror}): free space or choose another folder"
        ) from error


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class RunFolder:
    """One run's folder: the paths of its records, reading and writing them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def work(self) -> Path:
        """Scratch space of the run's servers: checkpoints, caches. Not evidence; may be deleted."""
        return self.path / "work"

    def launch_folder(self, candidate: str, round_number: int) -> Path:
        """Where one launch's record, log, probe and points lie."""
        return self.path / "launches" / check_name("candidate", candidate) / str(round_number)

    def launch_file(self, candidate: str, round_number: int) -> Path:
        return self.launch_folder(candidate, round_number) / "launch.json"

    def log_file(self, candidate: str, round_number: int) -> Path:
        return self.launch_folder(candidate, round_number) / "server.log"

    def probe_file(self, candidate: str, round_number: int) -> Path:
        return self.launch_folder(candidate, round_number) / "probe.json"

    def point_folder(self, candidate: str, round_number: int, concurrency: int) -> Path:
        return self.launch_folder(candidate, round_number) / f"c{concurrency:04d}"

    def point_file(self, candidate: str, round_number: int, concurrency: int) -> Path:
        return self.point_folder(candidate, round_number, concurrency) / "point.json"

    def requests_file(self, candidate: str, round_number: int, concurrency: int) -> Path:
        return self.point_folder(candidate, round_number, concurrency) / "requests.parquet"

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / RUN_FILE).is_file()

    def write_run(self, record: RunRecord) -> None:
        write_atomically(self.path / RUN_FILE, _encode(record))

    def write_launch(self, record: LaunchRecord) -> None:
        write_atomically(self.launch_file(record.candidate, record.round), _encode(record))

    def write_probe(self, record: ProbeRecord) -> None:
        write_atomically(self.probe_file(record.candidate, record.round), _encode(record))

    def write_point(self, record: PointRecord) -> None:
        path = self.point_file(record.candidate, record.round, record.concurrency)
        write_atomically(path, _encode(record))

    def read_run(self) -> RunRecord:
        """Read ``run.json``.

        Raises:
            RunFolderError: there is none, or it isn't a run record of this schema.
        """
        path = self.path / RUN_FILE
        if not path.is_file():
            raise RunFolderError(
                f"{self.path}: not a run folder (no {RUN_FILE}): name a folder that "
                "`autotune sweep` or `autotune import` made"
            )
        return _read(path, RunRecord)

    def launches(self) -> tuple[LaunchRecord, ...]:
        """Every finished launch, by round, position and candidate."""
        records = self._read_all("launch.json", LaunchRecord)
        return tuple(sorted(records, key=lambda r: (r.round, r.position, r.candidate)))

    def points(self) -> tuple[PointRecord, ...]:
        """Every measured point, by round, candidate and concurrency."""
        records = self._read_all("c*/point.json", PointRecord)
        return tuple(sorted(records, key=lambda r: (r.round, r.candidate, r.concurrency)))

    def probes(self) -> tuple[ProbeRecord, ...]:
        """Every launch's probe answers, by round and candidate."""
        records = self._read_all("probe.json", ProbeRecord)
        return tuple(sorted(records, key=lambda r: (r.round, r.candidate)))

    def _read_all(self, name: str, kind: type[_Record]) -> Iterator[_Record]:
        for path in sorted((self.path / "launches").glob(f"*/*/{name}")):
            yield _read(path, kind)


class LoadedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run folder's records in memory: what tables, verdicts and decisions are computed from."""

    run: RunRecord
    launches: tuple[LaunchRecord, ...]
    points: tuple[PointRecord, ...]
    probes: tuple[ProbeRecord, ...]


def load_records(path: Path) -> LoadedRun:
    """Read every record of the run folder at ``path``.

    Raises:
        RunFolderError: no run folder, or a record that can't be read (the file is named).
    """
    folder = RunFolder(path)
    return LoadedRun(
        run=folder.read_run(),
        launches=folder.launches(),
        points=folder.points(),
        probes=folder.probes(),
    )


def _encode(record: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record, order="sorted"), indent=2) + b"\n"


def _read(path: Path, kind: type[_Record]) -> _Record:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, UsageError) as error:
        raise RunFolderError(
            f"{path}: not a readable record: {error}. Delete this one file and run the sweep "
            "again to measure it anew"
        ) from None
