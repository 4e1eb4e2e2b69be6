"""``autotune resolve``: ask what a server would be told, and why."""

import datetime
import os
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import (
    AllToAll,
    AttentionDataParallel,
    DataParallel,
    DeviceName,
    EngineVersion,
    ExpertParallel,
    Json,
    TensorParallel,
)
from autotune.cli.output import progress, tell, tell_json
from autotune.errors import EXIT_STALE, EXIT_USAGE, UsageError


def resolve(
    quantization: Annotated[str, typer.Option(help="The server's --quantization, or none.")],
    arch: Annotated[str, typer.Option(help="sm100, sm90, cpu-x86_64, ...")],
    model: Annotated[
        str | None, typer.Option(help="The architecture's name, e.g. MiniMaxM2ForCausalLM.")
    ] = None,
    model_path: Annotated[
        Path | None,
        typer.Option(help="A checkpoint folder, whose config.json gives name, geometry and dtype."),
    ] = None,
    geometry: Annotated[
        str | None,
        typer.Option(help="H,I,E,K: hidden size, expert width, experts, top-k."),
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="The backend the user asked for; auto leaves it open.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="sglang, vllm, transformers, ...")] = None,
    engine_version: EngineVersion = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16, ...")] = None,
    tp: TensorParallel = None,
    ep: ExpertParallel = None,
    dp: DataParallel = None,
    attention_dp: AttentionDataParallel = None,
    a2a: AllToAll = None,
    device_name: DeviceName = None,
    max_age_days: Annotated[
        int | None, typer.Option(help="Older decisions are stale.", min=1)
    ] = None,
    decisions: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder of decision files to search first; may be given again. Then come "
            "AUTOTUNE_DECISIONS and the decisions shipped with autotune."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print which backend a server would start with, and why.

    Exits with 0 for any clear answer (also "keep the engine's own default"), with 2 if the
    decision file is broken, with 4 if it is stale.
    """
    from autotune.decisions import Geometry, ResolveRequest, Store
    from autotune.decisions import resolve as answer
    from autotune.integrations.startup import DISABLE_VARIABLE, switched_on
    from autotune.model import read_model

    if (model is None) == (model_path is None):
        raise UsageError("give exactly one of --model and --model-path")
    sizes = Geometry.parse(geometry) if geometry is not None else None
    if model_path is not None:
        facts = read_model(model_path)
        model, sizes, dtype = facts.architecture, sizes or facts.geometry, dtype or facts.dtype
    request = ResolveRequest(
        model=model or "",
        quantization=quantization,
        arch=arch,
        backend=backend or None,
        geometry=sizes,
        engine=engine,
        engine_version=engine_version,
        dtype=dtype,
        tp=tp,
        ep=ep,
        dp=dp,
        attention_dp=attention_dp,
        a2a_backend=a2a,
        device_name=device_name,
        disabled=switched_on(os.environ, DISABLE_VARIABLE),
        max_age_days=max_age_days,
        today=datetime.datetime.now(datetime.UTC).date(),
    )
    store = Store.from_environment(os.environ, extra=decisions or ())
    resolution = answer(request, store)
    if json:
        tell_json(resolution)
    else:
        tell(f"{resolution.status}: {resolution.backend or 'the engine keeps its own default'}")
        tell(f"  {resolution.reason}")
        if resolution.file is not None:
            tell(f"  file: {resolution.file}")
        for warning in resolution.warnings:
            tell(f"  warning: {warning}")
    for problem in store.problems():
        progress(f"autotune: {problem}")
    raise typer.Exit({"invalid": EXIT_USAGE, "stale": EXIT_STALE}.get(resolution.status, 0))
