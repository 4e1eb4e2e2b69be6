"""What an import is told beside the file, and what it comes to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from autotune.decisions import one_line
from autotune.decisions.arch import family
from autotune.decisions.schema import Geometry, check_name
from autotune.errors import UsageError
from autotune.records.folder import LoadedRun

_NAMES = ("model", "quantization", "arch", "engine", "a2a_backend", "name", "reference")
_COUNTS = ("tp", "ep", "dp", "device_count", "concurrency")

# Where a run folder keeps what was imported: the tidy table, and other tools' files.
SOURCE_TABLE = "source.csv"
SOURCE_FOLDER = "source"

Repeats = Literal["launches", "same-server"]


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What a published table can't say, or says in other words than a decision.

    ``model`` is the architecture's name (a table has a hub name), ``geometry`` its MoE layer.
    A value given for something that the table says as well replaces the table's, which is told
    in `Imported.skipped`. ``concurrency`` is only for rows that say none. ``rename`` maps a
    table's backend label to the engine's name of the backend. ``name`` is the run's name, by
    default the file's stem.

    The rest is for other tools' result files: ``backend`` names the backend of all files that
    don't say theirs, ``file_backends`` that of single files (by path as given, or by name).
    ``repeats`` says what points are that were measured several times: fresh server starts, or
    repetitions on one server. ``metric`` is the metric and unit of tables in Markdown that don't
    say theirs, as ``output_throughput:tok/s``. ``source`` is where the files were published.

    Raises:
        UsageError: a name that can't be one, a count below 1, ``also_arch`` without a reason or
            with an arch that can't borrow; the option is named.
    """

    model: str
    geometry: Geometry
    quantization: str | None = None
    arch: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    tp: int | None = None
    ep: int | None = None
    dp: int | None = None
    a2a_backend: str | None = None
    device_name: str | None = None
    device_count: int | None = None
    reference: str | None = None
    incumbent: str | None = None
    also_arch: tuple[str, ...] = ()
    also_arch_reason: str | None = None
    concurrency: int | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    backend: str | None = None
    file_backends: Mapping[str, str] = field(default_factory=dict)
    repeats: Repeats | None = None
    metric: str | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        for what in (*_NAMES, "incumbent", "backend"):
            value = getattr(self, what)
            if value is not None:
                check_name(what, value)
        for what in _COUNTS:
            count = getattr(self, what)
            if count is not None and count < 1:
                raise UsageError(f"{what} {count}: give a whole number of at least 1")
        for old, new in self.rename.items():
            check_name(f"the new name of {old[:80]!a},", new)
        for file, backend in self.file_backends.items():
            check_name(f"the backend of {one_line(file, limit=80)},", backend)
        for arch in self.also_arch:
            check_name("also_arch", arch)
        if bool(self.also_arch) != bool(self.also_arch_reason):
            raise UsageError(
                "also_arch and its reason go together: give --also-arch ARCH and "
                "--also-arch-reason with who said that the choice holds there, and why"
            )

    def check_also_arch(self, arch: str) -> None:
        """Refuse archs that can't borrow what was measured on ``arch``.

        Raises:
            UsageError: one is ``arch`` itself, or of another family.
        """
        for other in self.also_arch:
            if other == arch:
                raise UsageError(f"also_arch {other}: that is what was measured; leave it out")
            if family(other) != family(arch):
                raise UsageError(
                    f"also_arch {other}: has kernels of its own, so what was measured on {arch} "
                    "can't hold there: measure it"
                )


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file that was read. ``name`` is its path in the run folder, which keeps a copy of it."""

    name: str
    path: Path
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A file's content as records, not yet written.

    ``rows`` counts the file's data rows, ``used_rows`` those that are in the records.
    ``skipped`` says what isn't, one sentence each with the reason; ``notes`` what else a reader
    must know of how the records were made. ``sources`` are the files whose bytes were read.
    """

    run: LoadedRun
    skipped: tuple[str, ...]
    rows: int
    used_rows: int
    sources: tuple[SourceFile, ...]
    notes: tuple[str, ...] = ()
