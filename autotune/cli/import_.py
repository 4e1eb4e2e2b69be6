"""``autotune import``: result files that people have become a run folder, judged as a sweep's."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Result files or folders of one comparison: what bench_serving, vllm bench and "
            "other tools write, or a tidy table; see docs/importing.md.",
        ),
    ],
    model: Annotated[str, typer.Option(help="The architecture's name, e.g. MiniMaxM2ForCausalLM.")],
    geometry: Annotated[
        str, typer.Option(help="H,I,E,K: hidden size, expert width, experts, top-k.")
    ],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            help="The format of all files. Default: told by their content.",
        ),
    ] = None,
    quantization: Annotated[
        str | None, typer.Option(help="The engine's word for it; the files' if not given.")
    ] = None,
    arch: Annotated[str | None, typer.Option(help="sm100, sm90, ...; else the files'.")] = None,
    engine: Annotated[str | None, typer.Option(help="sglang, vllm, ...; else the files'.")] = None,
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
    backend: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[FILE=]NAME",
            help="The engine's name of the backend that was measured: of FILE, or of all files "
            "that don't say theirs; may be given again.",
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            help="The engine's name of a backend that the files call OLD; may be given again.",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(help="The requests in flight of all points that say none.", min=1),
    ] = None,
    repeats: Annotated[
        Literal["launches", "same-server"] | None,
        typer.Option(
            help="What points are that were measured several times: fresh server starts, each a "
            "sample, or repetitions on one server, which are averaged into one."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:UNIT",
            help="The metric of Markdown tables that don't say theirs, e.g. "
            "output_throughput:tok/s; several with a comma between them.",
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Where the files were published, e.g. a pull request's URL.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="The run folder to make. Default: results/<name>.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The run's name. Default: the file's, without what follows the dot."),
    ] = None,
    accept: Accept = False,
    into: Into = None,
    json: Json = False,
) -> None:
    """Make a run folder from result files that you have, and judge it like a sweep's.

    Nothing is guessed: what the files don't say is given here or stays unknown, and what they
    contradict each other in is refused. All of it is imported, or nothing. Exits with 0 if a
    decision was written, with 3 if it stays open.
    """
    from autotune.cli.conclusion import finish
    from autotune.conclude import conclude
    from autotune.decisions.schema import Geometry
    from autotune.importers import ImportOptions, import_files, write_import

    default_backend, file_backends = _backends(backend or ())
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
        rename=_pairs("--rename", rename or (), example="'triton(default)=triton'"),
        name=name,
        backend=default_backend,
        file_backends=file_backends,
        repeats=repeats,
        metric=metric,
        source=source,
    )
    created_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    imported = import_files(files, options, created_at=created_at, format_name=from_)
    folder = run if run is not None else Path("results") / imported.run.run.name
    written = write_import(imported, folder=folder)
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
    for note in imported.notes:
        progress(f"  note: {note}")


def _backends(given: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """Read ``NAME`` and ``FILE=NAME``; a name holds no ``=``."""
    names = [text for text in given if "=" not in text]
    if len(names) > 1:
        raise UsageError(
            f"--backend {names[1]!a}: {names[0]!a} is given for all files already: write "
            "FILE=NAME for a backend of one file"
        )
    pairs = [text for text in given if "=" in text]
    return (names[0] if names else None), _pairs(
        "--backend", pairs, example="results.jsonl=triton", form="FILE=NAME"
    )


def _pairs(
    flag: str, given: Sequence[str], *, example: str, form: str = "OLD=NEW"
) -> dict[str, str]:
    """Read pairs such as ``OLD=NEW``; OLD may hold ``=``, a name can't."""
    pairs: dict[str, str] = {}
    for pair in given:
        old, equals, new = pair.rpartition("=")
        if not (old and equals and new):
            raise UsageError(f"{flag} {pair!a}: write {form}, e.g. {example}")
        if old in pairs:
            what = "renamed" if flag == "--rename" else "named"
            raise UsageError(f"{flag} {pair!a}: {old!a} is {what} already")
        pairs[old] = new
    return pairs
