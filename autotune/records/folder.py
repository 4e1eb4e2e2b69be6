"""The run folder: where each record lies, and writing it whole.

A file appears under its name complete or not at all, whatever kills the writer, and is never
edited afterwards. Nothing here computes: tables are `autotune.report.tables`, decisions
`autotune.decide`.
"""

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from autotune.decisions.schema import check_name
from autotune.errors import RunFolderError, UsageError
from autotune.records.schema import (
    SCHEMA_VERSION,
    LaunchRecord,
    PointRecord,
    ProbeRecord,
    RunRecord,
    TrialRecord,
)

_Record = TypeVar("_Record", RunRecord, LaunchRecord, PointRecord, ProbeRecord, TrialRecord)

_LARGEST_FILE = 64 * 2**20
_IN_SECONDS = ("mean", "p50", "p90", "p95", "p99")
_TOO_LARGE = 1e15
_REMEDY = "delete this one file; a sweep that is run again measures it anew"

RUN_FILE = "run.json"
CONFIG_FILE = "run.toml"
ENVIRONMENT_FILE = "environment.json"
SCREEN_FILE = "screen.json"
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


def read_whole(path: Path) -> bytes:
    """Return a regular file's bytes.

    Raises:
        OSError: it can't be read, isn't a regular file (a pipe would wait for ever), or is larger
            than 64 MiB.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > _LARGEST_FILE:
            raise OSError(errno.EFBIG, "larger than 64 MiB", str(path))
        return file.read()


def read_if_there(path: Path) -> bytes | None:
    """Return a file's content, ``None`` where there is no such file.

    Raises:
        RunFolderError: it is there and can't be read.
    """
    try:
        return read_whole(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunFolderError(f"{path}: can't be read: {error.strerror or error}") from None


def read_environment_file(path: Path) -> dict[str, Any] | None:
    """Return a run folder's environment.json, ``None`` where there is none.

    Raises:
        RunFolderError: it is there and can't be read: "not recorded" would be untrue of it.
    """
    file = path / ENVIRONMENT_FILE
    remedy = "restore it, or delete it to do without"
    try:
        content = msgspec.json.decode(read_whole(file))
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunFolderError(f"{file}: can't be read: {error}: {remedy}") from None
    if not isinstance(content, dict):
        raise RunFolderError(f"{file}: isn't a JSON object: {remedy}")
    return content


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

    def load_probe_file(self, candidate: str, round_number: int, concurrency: int) -> Path:
        """Probe answers given under one point's load."""
        return self.point_folder(candidate, round_number, concurrency) / "probe.json"

    def point_folder(self, candidate: str, round_number: int, concurrency: int) -> Path:
        return self.launch_folder(candidate, round_number) / f"c{concurrency:04d}"

    def point_file(self, candidate: str, round_number: int, concurrency: int) -> Path:
        return self.point_folder(candidate, round_number, concurrency) / "point.json"

    def requests_file(self, candidate: str, round_number: int, concurrency: int) -> Path:
        return self.point_folder(candidate, round_number, concurrency) / "requests.parquet"

    def trial_file(self, number: int) -> Path:
        return self.path / "trials" / f"{number:04d}.json"

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / RUN_FILE).is_file()

    def write_run(self, record: RunRecord) -> None:
        write_atomically(self.path / RUN_FILE, _encode(record))

    def write_launch(self, record: LaunchRecord) -> None:
        write_atomically(self.launch_file(record.candidate, record.round), _encode(record))

    def write_probe(self, record: ProbeRecord) -> None:
        write_atomically(self._place_of(record), _encode(record))

    def _place_of(self, record: ProbeRecord) -> Path:
        if record.concurrency is None:
            return self.probe_file(record.candidate, record.round)
        return self.load_probe_file(record.candidate, record.round, record.concurrency)

    def write_point(self, record: PointRecord) -> None:
        path = self.point_file(record.candidate, record.round, record.concurrency)
        write_atomically(path, _encode(record))

    def write_trial(self, record: TrialRecord) -> None:
        write_atomically(self.trial_file(record.number), _encode(record))

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
        return _read(path, RunRecord, remedy="restore it, or begin a new run folder")

    def launches(self) -> tuple[LaunchRecord, ...]:
        """Every finished launch, by round, position and candidate."""
        found = self._read_all("launch.json", LaunchRecord)
        for path, record in found:
            _check_place(path, self.launch_file(record.candidate, record.round))
        return tuple(
            sorted((r for _, r in found), key=lambda r: (r.round, r.position, r.candidate))
        )

    def count_launches(self) -> int:
        """How many launches are finished; whether their records can be read isn't asked."""
        return sum(1 for _ in (self.path / "launches").glob("*/*/launch.json"))

    def points(self) -> tuple[PointRecord, ...]:
        """Every measured point, by round, candidate and concurrency."""
        found = self._read_all("c*/point.json", PointRecord)
        for path, record in found:
            place = self.point_file(record.candidate, record.round, record.concurrency)
            _check_place(path, place)
        return tuple(
            sorted((r for _, r in found), key=lambda r: (r.round, r.candidate, r.concurrency))
        )

    def probes(self) -> tuple[ProbeRecord, ...]:
        """Every launch's probe answers, by round, candidate and concurrency (a launch's first)."""
        found = self._read_all("probe.json", ProbeRecord)
        found += self._read_all("c*/probe.json", ProbeRecord)
        for path, record in found:
            _check_place(path, self._place_of(record))
        return tuple(
            sorted((r for _, r in found), key=lambda r: (r.round, r.candidate, r.concurrency or 0))
        )

    def trials(self) -> tuple[TrialRecord, ...]:
        """Every trial of a search, by number."""
        paths = sorted((self.path / "trials").glob("*.json"))
        found = [(path, _read(path, TrialRecord, remedy=_REMEDY)) for path in paths]
        for path, record in found:
            _check_place(path, self.trial_file(record.number))
        return tuple(sorted((r for _, r in found), key=lambda r: r.number))

    def read_probe(self, candidate: str, round_number: int) -> ProbeRecord | None:
        """One launch's own probe answers, ``None`` if it has none yet.

        Raises:
            RunFolderError: the record can't be read.
        """
        path = self.probe_file(candidate, round_number)
        return _read(path, ProbeRecord, remedy=_REMEDY) if path.is_file() else None

    def _read_all(self, name: str, kind: type[_Record]) -> list[tuple[Path, _Record]]:
        paths = sorted((self.path / "launches").glob(f"*/*/{name}"))
        return [(path, _read(path, kind, remedy=_REMEDY)) for path in paths]


class LoadedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run folder's records in memory: what tables, verdicts and decisions are computed from."""

    run: RunRecord
    launches: tuple[LaunchRecord, ...]
    points: tuple[PointRecord, ...]
    probes: tuple[ProbeRecord, ...]
    trials: tuple[TrialRecord, ...] = ()


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
        trials=folder.trials(),
    )


def _encode(record: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record, order="sorted"), indent=2) + b"\n"


def _read(path: Path, kind: type[_Record], *, remedy: str) -> _Record:
    try:
        record = msgspec.json.decode(read_whole(path), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
        raise RunFolderError(f"{path}: not a readable record: {error}: {remedy}") from None
    if isinstance(record, PointRecord):
        _check_figures(record, path, remedy=remedy)
    if record.schema_version != SCHEMA_VERSION:
        raise RunFolderError(
            f"{path}: schema_version is {record.schema_version}, this release reads "
            f"{SCHEMA_VERSION}: use the release that wrote it"
        )
    return record


def _check_figures(point: PointRecord, path: Path, *, remedy: str) -> None:
    impossible = impossible_figure(point)
    if impossible is not None:
        raise RunFolderError(f"{path}: figures: {impossible} can't be measured: {remedy}")


def impossible_figure(point: PointRecord) -> str | None:
    """Return the name and value of a figure that no measurement gives, if the point has one.

    Logarithms are taken of them later, so that nothing negative or beyond all sense may get there.
    """
    figures = point.figures
    if point.status != "ok" or figures is None:
        return None
    named = {"output_tokens_per_s": figures.output_tokens_per_s}
    for metric in ("ttft_s", "latency_s", "tpot_s", "itl_s"):
        distribution = getattr(figures, metric)
        named |= {f"{metric}.{name}": getattr(distribution, name) for name in _IN_SECONDS}
    for name, value in named.items():
        is_rate = name == "output_tokens_per_s"
        if value is not None and not (
            (value > 0 if is_rate else value >= 0) and value < _TOO_LARGE
        ):
            return f"{name}: {value!r}"
    return None


def _check_place(path: Path, expected: Path) -> None:
    """A record that says it is another's would be counted twice, or for the wrong candidate."""
    if path != expected:
        raise RunFolderError(f"{path}: its content belongs to {expected}: delete the copy")
