"""``autotune import``: a published table becomes a run folder, and is judged as one."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import (
    Accept,
    AllToAll,
    DataParallel,
    DeviceName,
    EngineVersion,
    ExpertParallel,
    Into,
    Json,
    TensorParallel,
)
from autotune.cli.output import progress
from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.importers import Imported


def import_table(
    file: Annotated[Path, typer.Argument(help="A table in tidy form, see docs/importing.md.")],
    model: Annotated[str, typer.Option(help="The architecture's name, e.g. MiniMaxM2ForCausalLM.")],
    geometry: Annotated[
        str, typer.Option(help="H,I,E,K: hidden size, expert width, experts, top-k.")
    ],
    quantization: Annotated[
        str | None, typer.Option(help="The engine's word for it; the table's if not given.")
    ] = None,
    arch: Annotated[str | None, typer.Option(help="sm100, sm90, ...; else the table's.")] = None,
    engine: Annotated[str | None, typer.Option(help="sglang, vllm, ...; else the table's.")] = None,
    engine_version: EngineVersion = None,
    tp: TensorParallel = None,
    ep: ExpertParallel = None,
    dp: DataParallel = None,
    a2a: AllToAll = None,
    device_name: DeviceName = None,
    device_count: Annotated[int | None, typer.Option(help="How many GPUs.", min=1)] = None,
    reference: Annotated[
        str | None, typer.Option(help="The backend whose answers are trusted.")
    ] = None,
    incumbent: Annotated[
        str | None, typer.Option(help="The backend that the engine's auto gave.")
    ] = None,
    also_arch: Annotated[
        list[str] | None,
        typer.Option(help="A further arch that the choice serves; may be given again."),
    ] = None,
    also_arch_reason: Annotated[
        str | None, typer.Option(help="Who said that it holds there, and why.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="The concurrency of all rows that say none.", min=1)
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            help="The engine's name of a backend that the table calls OLD; may be given again.",
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="The run folder to make. Default: results/<name>.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The run's name. Default: the file's, without .csv.")
    ] = None,
    accept: Accept = False,
    into: Into = None,
    json: Json = False,
) -> None:
    """Make a run folder from a published table, and judge it like a sweep's.

    Nothing is guessed: what the table doesn't say is given here or stays unknown. Exits with 0 if
    a decision was written, with 3 if it stays open.
    """
    from autotune.cli.conclusion import finish
    from autotune.conclude import conclude
    from autotune.decisions.schema import Geometry
    from autotune.importers import ImportOptions, import_tidy, write_import

    options = ImportOptions(
        model=model,
        geometry=Geometry.parse(geometry),
        quantization=quantization,
        arch=arch,
        engine=engine,
        engine_version=engine_version,
        tp=tp,
        ep=ep,
        dp=dp,
        a2a_backend=a2a,
        device_name=device_name,
        device_count=device_count,
        reference=reference,
        incumbent=incumbent,
        also_arch=tuple(also_arch or ()),
        also_arch_reason=also_arch_reason,
        concurrency=concurrency,
        rename=_renames(rename or ()),
        name=name,
    )
    created_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    imported = import_tidy(file, options, created_at=created_at)
    folder = run if run is not None else Path("results") / imported.run.run.name
    written = write_import(imported, source=file, folder=folder)
    _tell_import(imported, folder=folder, written=written)
    conclusion = conclude(folder, accept=accept, into=into)
    finish(conclusion, json=json)


def _tell_import(imported: "Imported", *, folder: Path, written: bool) -> None:
    progress(
        f"{len(imported.run.points)} points from {imported.used_rows} of {imported.rows} rows "
        f"{'imported into' if written else 'are already in'} {folder}"
    )
    for reason in imported.skipped:
        progress(f"  not imported: {reason}")


def _renames(pairs: Sequence[str]) -> dict[str, str]:
    """Read ``OLD=NEW`` pairs; OLD may hold ``=``, a name can't."""
    names: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.rpartition("=")
        if not (old and equals and new):
            raise UsageError(f"--rename {pair!a}: write OLD=NEW, e.g. 'triton(default)=triton'")
        if old in names:
            raise UsageError(f"--rename {pair!a}: {old!a} is renamed already")
        names[old] = new
    return names
