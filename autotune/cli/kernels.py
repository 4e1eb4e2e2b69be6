"""``autotune kernels``: measure one MoE layer alone, without a server."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from autotune.cli.options import Json
from autotune.cli.output import progress, tell, tell_json
from autotune.cli.width import terminal_width
from autotune.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, UsageError

if TYPE_CHECKING:
    from autotune.decisions.schema import Geometry
    from autotune.kernels.schema import KernelConfig, KernelPoint, KernelRun

_NEEDS_ONE = "give either --model-path or --geometry"


def kernels(
    model_path: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A checkpoint's folder: its config.json says the layer's sizes, routing, "
            "activation and quantization. No weights are needed.",
        ),
    ] = None,
    geometry: Annotated[
        str | None,
        typer.Option(
            metavar="H,I,E,K", help="Hidden size, expert width, experts, top-k: 3072,1536,256,8."
        ),
    ] = None,
    quantization: Annotated[
        str | None,
        typer.Option(
            help="bf16, fp8, fp8_block, nvfp4, mxfp4 or mxfp8. Default: the checkpoint's own, "
            "or bf16.",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[
        str, typer.Option(metavar="N,N,...", help="The batches: tokens in each.")
    ] = "1,16,64,128",
    routing: Annotated[
        str | None,
        typer.Option(
            help="minimax, softmax, deepseek or renormalize. Default: the architecture's own, "
            "or minimax.",
            show_default=False,
        ),
    ] = None,
    distribution: Annotated[
        str,
        typer.Option(
            help="How tokens spread over experts: uniform, zipf:1.0, or replay:FILE (JSON lines, "
            "each the list of one token's experts)."
        ),
    ] = "uniform",
    backend: Annotated[
        list[str] | None,
        typer.Option(help="Only this backend; may be given several times.", show_default=False),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            help="How often each backend is timed at each batch, at most.", min=3, max=10_000
        ),
    ] = 20,
    batch_seconds: Annotated[
        float,
        typer.Option(
            help="Rounds end once timing a batch took this long, but not before 5.", min=0.1
        ),
    ] = 5.0,
    cold_cache: Annotated[
        bool,
        typer.Option("--cold-cache", help="Empty a GPU's L2 cache before each call."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of weights and inputs.", min=0, max=2**31)] = 0,
    device: Annotated[
        Literal["auto", "cpu", "cuda"], typer.Option(help="Where to compute.")
    ] = "auto",
    run: Annotated[
        Path | None,
        typer.Option(
            help="The folder to begin or go on with. Default: results/kernels-<model or "
            "geometry>-<quantization>.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run one MoE layer with seeded weights on each backend: right or wrong, and how fast.

    Every backend is compared with a plain reference, then timed. Records, a table, a plot and
    kernels.json go into the folder; `autotune sweep --screen kernels.json` launches the likely
    leaders first. Run it again after an interruption. Exits with 1 if no backend that ran was
    right, with 2 if none can run here.
    """
    from autotune.kernels.folder import SCREEN_FILE, KernelFolder
    from autotune.kernels.report.write import write_kernels
    from autotune.kernels.run import run_kernels

    config = _config(
        model_path=model_path,
        geometry=geometry,
        quantization=quantization,
        tokens=tokens,
        routing=routing,
        distribution=distribution,
        backends=tuple(backend or ()),
        rounds=rounds,
        batch_s=batch_seconds,
        cold_cache=cold_cache,
        seed=seed,
    )
    folder = KernelFolder(run if run is not None else Path("results") / _folder_name(config))
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        measured = run_kernels(config, folder, device=device, tell=progress)
    except KeyboardInterrupt:
        progress(
            f"interrupted: no worker is left running, and every finished point is kept in "
            f"{folder.path}. Go on with the same command"
        )
        raise typer.Exit(EXIT_INTERRUPTED) from None
    written = write_kernels(folder)
    if json:
        tell_json(written.screen)
    else:
        from autotune.review.show_text import render_text

        tell(render_text(written.report, width=terminal_width()))
    progress(f"written: {folder.path}, {folder.path / SCREEN_FILE}")
    _exit(measured, folder.points())


def _exit(run: "KernelRun", points: "tuple[KernelPoint, ...]") -> None:
    statuses = {point.status for point in points}
    if "ok" in statuses:
        return
    if statuses <= {"unsupported"}:
        progress(f"autotune: no backend can compute this layer on {run.device.name}")
        raise typer.Exit(EXIT_USAGE)
    progress("autotune: no backend computed this layer right")
    raise typer.Exit(EXIT_FAILURE)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _config(
    *,
    model_path: Path | None,
    geometry: str | None,
    quantization: str | None,
    tokens: str,
    routing: str | None,
    distribution: str,
    backends: tuple[str, ...],
    rounds: int,
    batch_s: float,
    cold_cache: bool,
    seed: int,
) -> "KernelConfig":
    """Return what the options ask for.

    Raises:
        UsageError: an option can't be used, or a file that it names.
    """
    from autotune.kernels.checkpoint import read_layer
    from autotune.kernels.distribution import check_recording, parse_distribution
    from autotune.kernels.model_layer import named_rule
    from autotune.kernels.registry import find_backend
    from autotune.kernels.schema import KernelConfig
    from autotune.kernels.scheme_names import scheme_name
    from autotune.kernels.spec import LayerSpec

    architecture = None
    if model_path is not None and geometry is None:
        found = read_layer(model_path, routing=routing, quantization=quantization)
        layer, scheme, architecture = found.layer, found.scheme, found.architecture
    elif geometry is not None and model_path is None:
        layer = LayerSpec(geometry=_sizes(geometry), routing=named_rule(routing or "minimax"))
        scheme = scheme_name(quantization or "bf16")
    else:
        raise UsageError(_NEEDS_ONE)
    check_recording(layer, parse_distribution(distribution))
    return KernelConfig(
        layer=layer,
        architecture=architecture,
        scheme=scheme,
        tokens=_batches(tokens),
        distribution=distribution,
        backends=tuple(find_backend(name).name for name in dict.fromkeys(backends)),
        rounds=rounds,
        batch_s=batch_s,
        cold_cache=cold_cache,
        seed=seed,
    )


def _sizes(text: str) -> "Geometry":
    """Read a geometry; one whose top-k can't be is refused by each backend, with the rule."""
    from autotune.decisions.schema import Geometry

    return Geometry.parse_any(text)


def _batches(text: str) -> tuple[int, ...]:
    try:
        batches = tuple(int(part) for part in text.split(","))
    except ValueError:
        batches = ()
    if not batches or min(batches) < 1 or max(batches) > 2**20:
        raise UsageError(
            f"--tokens {text[:80]!r}: give whole numbers from 1 to {2**20}, e.g. 1,16,64,128"
        )
    return tuple(sorted(set(batches)))


def _folder_name(config: "KernelConfig") -> str:
    sizes = config.layer.geometry
    whose = config.architecture or (
        f"h{sizes.hidden_size}-w{sizes.expert_width}-e{sizes.experts}-k{sizes.top_k}"
    )
    return f"kernels-{whose}-{config.scheme}"
