"""Auto with a decision comes to what naming the backend comes to, over everything in the catalog.

For every backend, all-to-all backend, arch and quantization there is a decision for exactly that
launch. What the catalog refuses, the plugin leaves alone; what it lets pass, the plugin applies,
and SGLang then does what it does for a backend that the user names: the same values, the same
error.
"""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from autotune.decisions import DecisionKey, Geometry
from autotune.engines.sglang.catalog import effective_ep, refusal
from autotune.engines.sglang.table import read_catalog

from .decisions import GEOMETRY, put_decision
from .launches import Outcome, attempt, differences, plugged_in, without_plugins
from .real import CHECKPOINTS, PLATFORMS, make_checkpoint

CATALOG = read_catalog()
QUANTIZATIONS = sorted(
    {
        name
        for rule in (
            *CATALOG.rules,
            *(rule for row in CATALOG.runners.values() for rule in row.rules),
            *(rule for row in CATALOG.a2a.values() for rule in row.rules),
        )
        for names in (
            rule.when_quantizations,
            rule.quantizations,
            rule.open_quantizations,
            rule.not_quantizations,
        )
        for name in names
    }
    | set(CATALOG.direct_quantizations)
)
# Only some models may use these at all; the others go with MiniMax-M2 and its hard-coded rule.
MODEL_OF = {"deepep_v2": "qwen3-moe", "flashinfer_megamoe": "qwen3-moe"}
GEOMETRIES = {"minimax-m2": GEOMETRY, "qwen3-moe": Geometry(4096, 1536, 128, 8)}
# What these buffers hold for a step is small.
MORE = {
    "pplx": {"chunked_prefill_size": 128, "page_size": 16},
    "deepep_v2": {"chunked_prefill_size": 512, "cuda_graph_max_bs_decode": 64},
}
# SGLang puts these Ascend backends, which no CUDA server starts with, back to none.
REPLACED = ("ascend_tp",)


class Cell(NamedTuple):
    """One combination, as the catalog sees it."""

    arch: str
    quantization: str
    a2a: str
    backend: str
    mode: str | None = None

    @property
    def attention_dp(self) -> int:
        return 4 if CATALOG.a2a[self.a2a].attention_dp else 1

    @property
    def ep(self) -> int:
        return effective_ep(CATALOG, a2a_backend=self.a2a, ep=1, tp=4)

    @property
    def model(self) -> str:
        return MODEL_OF.get(self.a2a, "minimax-m2")

    @property
    def scope_mode(self) -> str | None:
        return self.mode or CATALOG.a2a[self.a2a].default_mode

    @property
    def arguments(self) -> dict[str, Any]:
        named = None if self.quantization == "none" else self.quantization
        given: dict[str, Any] = {"quantization": named, "moe_a2a_backend": self.a2a}
        argument = CATALOG.a2a[self.a2a].mode_argument
        if self.mode is not None and argument is not None:
            given[argument.removeprefix("--").replace("-", "_")] = self.mode
        return given | {"attn_dp_size": self.attention_dp} | MORE.get(self.a2a, {})

    @property
    def refused(self) -> str | None:
        if self.backend == "megamoe":
            return "start with --moe-a2a-backend megamoe"
        return refusal(
            CATALOG,
            backend=self.backend,
            quantization=self.quantization,
            arch=self.arch,
            a2a_backend=self.a2a,
            a2a_mode=self.scope_mode,
            tp=4,
            ep=self.ep,
            engine_version="0.5.23",
            settings={},
        )

    def decide(self, folder: Path) -> None:
        """Write the decision for exactly this launch."""
        put_decision(
            folder,
            backend=self.backend,
            key=DecisionKey(
                CHECKPOINTS[self.model]["architectures"][0], self.quantization, self.arch
            ),
            geometry=GEOMETRIES[self.model],
            ep=self.ep,
            attention_dp=self.attention_dp,
            a2a_backend=self.a2a,
            a2a_mode=self.scope_mode,
        )


# What the catalog lets through although SGLang refuses the explicit choice, by its own words.
GAPS: dict[str, Callable[[Cell], bool]] = {
    # The catalog can't see the variable that SGLang asks for beside the all-to-all backend.
    "flashinfer_megamoe requires --moe-a2a-backend flashinfer_megamoe": lambda cell: (
        cell.backend == "flashinfer_megamoe"
        and (cell.a2a, cell.quantization) == ("flashinfer_megamoe", "nvfp4_online")
    ),
    # Meant so: checkpoints with FP4 experts may go by the name fp8.
    "FlashInfer CuteDSL MOE currently supports only": lambda cell: (
        cell.backend == "flashinfer_cutedsl" and cell.quantization == "fp8"
    ),
    "--flashinfer-a2a-dispatch-type nvfp4 requires NVFP4": lambda cell: (
        cell.quantization == "fp8" and cell.mode == "nvfp4"
    ),
    "Standard FP8 MoE checkpoints are not supported": lambda cell: (
        cell.backend == "flashinfer_megamoe" and cell.quantization == "fp8"
    ),
}


@pytest.fixture(autouse=True)
def gpu_only() -> Iterator[None]:
    """What SGLang has, or asks the device itself, where there is a GPU."""
    from sglang.srt.arg_groups.arg_utils import record_fields
    from sglang.srt.layers.quantization import QUANTIZATION_METHODS
    from sglang.srt.layers.quantization.mxfp4 import Mxfp4Config
    from sglang.srt.runtime_context import get_platform

    with (
        patch.dict(QUANTIZATION_METHODS, {"mxfp4": Mxfp4Config}),
        patch("sglang.srt.arg_groups.moe_hook.is_sm100_supported", lambda: get_platform().is_sm100),
        # Read anew for each cell, these two would be half of the time.
        patch("sglang.srt.arg_groups.pipeline.record_fields", functools.cache(record_fields)),
        patch("autotune.integrations.sglang_launch.kernel_libraries", lambda: {}),
    ):
        yield


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {name: make_checkpoint(folder / name, name) for name in GEOMETRIES}


def wrong(cell: Cell, checkpoint: Path, folder: Path, alone: Outcome) -> Iterator[str]:
    """Yield what doesn't hold of a cell."""
    cell.decide(folder)
    with plugged_in(folder) as lines:
        ours = attempt(cell.arch, checkpoint, **cell.arguments)
    if not lines:
        # SGLang refused the launch before its rules were asked.
        if ours.error != alone.error or alone.error is None:
            yield f"nothing was said, and it came to {ours.error}"
        return
    applied = lines[0].startswith("autotune: applied (")
    if cell.refused is not None:
        if applied or cell.refused[:60] not in lines[0]:
            yield f"refused ({cell.refused}), and the line is {lines[0]}"
        if ours.error != alone.error or (not ours.error and ours.declared != alone.declared):
            yield f"refused, and yet it isn't as without the plugin: {ours.error or ours.declared}"
        return
    with without_plugins():
        named = attempt(cell.arch, checkpoint, moe_runner_backend=cell.backend, **cell.arguments)
    if alone.error is None and ours.error is not None:
        yield f"SGLang alone starts, and with the plugin it came to {ours.error}"
    if not applied:
        # SGLang's own checks, asked beforehand, refuse the name or replace it.
        if "can't be used: SGLang " not in lines[0]:
            yield f"not applied: {lines[0]}"
        if named.error is None and named.backend == cell.backend:
            yield f"not applied, though it could have been named: {lines[0]}"
        if ours.error != alone.error or (not ours.error and ours.declared != alone.declared):
            yield f"not applied, and yet it isn't as without the plugin: {ours.error}"
        return
    if named.error is not None and not any(
        words in named.error and of(cell) for words, of in GAPS.items()
    ):
        yield f"a gap of the catalog: {named.error}"
    if ours.error != named.error:
        yield f"came to {ours.error}, named explicitly to {named.error}"
    if ours.error is None and named.error is None:
        if differences(ours, named):
            yield f"differs from the explicit choice in {differences(ours, named)}"
        changed = ours.backend != cell.backend or cell.a2a in REPLACED
        if len(lines) != 1 + changed:
            yield f"became {ours.backend}, and the lines are {lines}"


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
@pytest.mark.parametrize("arch", PLATFORMS)
def test_every_backend_and_all_to_all(
    arch: str, quantization: str, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    found = []
    for a2a in CATALOG.a2a:
        first = Cell(arch, quantization, a2a, "triton")
        with without_plugins():
            alone = attempt(arch, checkpoints[first.model], **first.arguments)
        for backend in CATALOG.runners:
            cell = first._replace(backend=backend)
            problems = wrong(cell, checkpoints[cell.model], tmp_path, alone)
            found += [f"{a2a} {backend}: {problem}" for problem in problems]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("a2a", [name for name, row in CATALOG.a2a.items() if row.mode_argument])
@pytest.mark.parametrize("quantization", ["modelopt_fp4", "mxfp8", "fp8", "none"])
def test_every_mode(
    a2a: str, quantization: str, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    found = []
    for mode in CATALOG.a2a[a2a].modes:
        first = Cell("sm100", quantization, a2a, "triton", mode)
        with without_plugins():
            alone = attempt("sm100", checkpoints[first.model], **first.arguments)
        for backend in CATALOG.runners:
            cell = first._replace(backend=backend)
            problems = wrong(cell, checkpoints[cell.model], tmp_path, alone)
            found += [f"{mode} {backend}: {problem}" for problem in problems]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "cell",
    [
        Cell("sm100", "modelopt_fp4", "megamoe", "experimental_sgl_marlin"),
        Cell("sm100", "w4afp8", "deepep", "experimental_sgl_marlin"),
        Cell("sm100", "modelopt_fp4", "none", "lora_marlin"),
        Cell("sm100", "fp8", "none", "lora_triton"),
        Cell("sm100", "nvfp4_online", "megamoe", "flashinfer_megamoe"),
        Cell("sm100", "mxfp8", "flashinfer", "deep_gemm", "auto"),
    ],
)
def test_what_sglang_refuses_by_name_is_refused(cell: Cell, checkpoints: dict[str, Path]) -> None:
    given = {**cell.arguments, "moe_runner_backend": cell.backend}
    with without_plugins():
        named = attempt(cell.arch, checkpoints[cell.model], **given)
    assert named.error is None or cell.refused is not None
