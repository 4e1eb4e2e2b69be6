"""A layer sweep's run folder: where each record lies, and reading and writing it whole.

kernel_run.json environment.json     what was asked, on what
points/<backend>/t00016/point.json   one measured (backend, tokens)
logs/<backend>.log                   what the worker printed
work/                                the oracle's outputs; not evidence, may be deleted
kernels.csv kernels.json kernels.md kernels.svg kernels.png    derived at any time
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from autotune.decisions.schema import check_name
from autotune.environment import Environment
from autotune.errors import RunFolderError, UsageError
from autotune.kernels.schema import SCHEMA_VERSION, KernelPoint, KernelRun, Screen
from autotune.records.folder import ENVIRONMENT_FILE, read_whole, write_atomically
from autotune.records.writer import LOCK_FILE

_Record = TypeVar("_Record", KernelRun, KernelPoint, Screen)

RUN_FILE = "kernel_run.json"
TABLE_FILE = "kernels.csv"
SCREEN_FILE = "kernels.json"
TEXT_FILE = "kernels.md"
FIGURE_STEM = "kernels"


class KernelFolder:
    """One layer sweep's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        """Whether a layer sweep was begun here."""
        return (self.path / RUN_FILE).is_file()

    def check_own(self) -> None:
        """Check that the folder is new, empty or a layer sweep's.

        Raises:
            RunFolderError: it holds something else.
        """
        if not self.path.exists() or self.exists():
            return
        if not self.path.is_dir():
            raise RunFolderError(f"{self.path}: not a folder: name another one with --run")
        known = {"logs", "work", "points", ENVIRONMENT_FILE, LOCK_FILE}
        strangers = sorted(path.name for path in self.path.iterdir() if path.name not in known)
        if strangers:
            raise RunFolderError(
                f"{self.path}: holds files that are no layer sweep's ({', '.join(strangers[:3])}): "
                "name a new folder with --run"
            )

    def point_file(self, backend: str, tokens: int) -> Path:
        return (
            self.path / "points" / check_name("backend", backend) / f"t{tokens:05d}" / "point.json"
        )

    def log_file(self, worker: str) -> Path:
        return self.path / "logs" / f"{check_name('backend', worker)}.log"

    def oracle_file(self, tokens: int) -> Path:
        return self.path / "work" / f"oracle-t{tokens:05d}.pt"

    def write_run(self, run: KernelRun) -> None:
        write_atomically(self.path / RUN_FILE, encoded(run))

    def write_environment(self, environment: Environment) -> None:
        write_atomically(self.path / ENVIRONMENT_FILE, encoded(environment))

    def write_point(self, point: KernelPoint) -> None:
        write_atomically(self.point_file(point.backend, point.tokens), encoded(point))

    def read_run(self) -> KernelRun:
        """Read ``kernel_run.json``.

        Raises:
            RunFolderError: there is none, or it isn't a layer sweep's.
        """
        path = self.path / RUN_FILE
        if not path.is_file():
            raise RunFolderError(
                f"{self.path}: not a layer sweep's folder (no {RUN_FILE}): name one that "
                "`autotune kernels` made"
            )
        return read_record(path, KernelRun)

    def points(self) -> tuple[KernelPoint, ...]:
        """Every point, by tokens and backend.

        Raises:
            RunFolderError: one can't be read, or lies where another belongs.
        """
        found = []
        for path in sorted((self.path / "points").glob("*/t*/point.json")):
            point = read_record(path, KernelPoint)
            if path != self.point_file(point.backend, point.tokens):
                raise RunFolderError(f"{path}: its content belongs elsewhere: delete the copy")
            found.append(point)
        return tuple(sorted(found, key=lambda p: (p.tokens, p.backend)))


def encoded(record: msgspec.Struct) -> bytes:
    """Return a record's file: JSON, sorted keys, indented, a newline at the end."""
    # Keys that are numbers (a screen's batches) can only be sorted as the text that they become.
    builtins = msgspec.to_builtins(record, str_keys=True)
    return msgspec.json.format(msgspec.json.encode(builtins, order="sorted"), indent=2) + b"\n"


class _Version(msgspec.Struct):
    """What a record of any schema says."""

    schema_version: int = SCHEMA_VERSION


def read_record(path: Path, kind: type[_Record]) -> _Record:
    """Read one record's file.

    Raises:
        RunFolderError: it can't be read, holds something else, or is of another schema.
    """
    try:
        data = read_whole(path)
        # Before the rest: what another schema has in other places isn't unreadable.
        version = msgspec.json.decode(data, type=_Version).schema_version
        record = msgspec.json.decode(data, type=kind) if version == SCHEMA_VERSION else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
        raise RunFolderError(
            f"{path}: not a readable {kind.__name__}: {error}: delete the file and measure again"
        ) from None
    if record is None:
        raise RunFolderError(
            f"{path}: schema_version is {version}, this release reads {SCHEMA_VERSION}: use the "
            "release that wrote it"
        )
    return record
