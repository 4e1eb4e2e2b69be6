"""A layer sweep's run folder: where each record lies, and reading and writing it whole.

run.json environment.json            what was asked, on what
points/<backend>/t00016/point.json   one measured (backend, tokens)
logs/<backend>.log                   what the worker printed
work/                                the oracle's outputs; not evidence, may be deleted
kernels.csv kernels.json kernels.md kernels.svg kernels.png    derived at any time
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from autotune.decisions.schema import check_name
from autotune.errors import RunFolderError, UsageError
from autotune.kernels.schema import SCHEMA_VERSION, KernelPoint, KernelRun, Screen
from autotune.records.folder import read_whole, write_atomically

_Record = TypeVar("_Record", KernelRun, KernelPoint, Screen)

RUN_FILE = "run.json"
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

    def write_point(self, point: KernelPoint) -> None:
        write_atomically(self.point_file(point.backend, point.tokens), encoded(point))

    def read_run(self) -> KernelRun:
        """Read ``run.json``.

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
    return msgspec.json.format(msgspec.json.encode(record, order="sorted"), indent=2) + b"\n"


def read_record(path: Path, kind: type[_Record]) -> _Record:
    """Read one record's file.

    Raises:
        RunFolderError: it can't be read, holds something else, or is of another schema.
    """
    try:
        record = msgspec.json.decode(read_whole(path), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
        raise RunFolderError(
            f"{path}: not a readable {kind.__name__}: {error}: delete the file and measure again"
        ) from None
    if record.schema_version != SCHEMA_VERSION:
        raise RunFolderError(
            f"{path}: schema_version is {record.schema_version}, this release reads "
            f"{SCHEMA_VERSION}: use the release that wrote it"
        )
    return record
