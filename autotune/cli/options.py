"""Options that several commands share: one name, one help text, one meaning."""

from pathlib import Path
from typing import Annotated

import typer

RunFolderArgument = Annotated[
    Path, typer.Argument(help="A run folder that a sweep or an import made.")
]
EngineVersion = Annotated[str | None, typer.Option(help="The engine's version.")]
TensorParallel = Annotated[int | None, typer.Option(help="Tensor parallelism.", min=1)]
ExpertParallel = Annotated[int | None, typer.Option(help="Expert parallelism.", min=1)]
DataParallel = Annotated[int | None, typer.Option(help="Data parallelism: whole replicas.", min=1)]
AttentionDataParallel = Annotated[
    int | None, typer.Option(help="Data-parallel groups of attention within a replica.", min=1)
]
AllToAll = Annotated[
    str | None, typer.Option(help="The all-to-all backend: none, deepep, flashinfer, ...")
]
DeviceName = Annotated[str | None, typer.Option(help="The GPU's name, e.g. GB200.")]
Accept = Annotated[
    bool,
    typer.Option(
        "--accept",
        help="Write the decision in spite of what speaks against it; each reason goes into the "
        "file. A candidate with wrong answers is never chosen.",
    ),
]
AcceptInconclusive = Annotated[
    bool,
    typer.Option(
        "--accept-inconclusive",
        help="Let candidates win whose answers could be judged neither right nor wrong; the "
        "decision says so.",
    ),
]
Into = Annotated[
    Path | None,
    typer.Option(
        help="A folder of decision files (such as configs/decisions) to put the decision into, "
        "beside the run's own decision.json."
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON, and nothing else on standard output.")
]
