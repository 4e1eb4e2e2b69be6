"""``flashinfer_cutedsl``: `flashinfer.fused_moe.CuteDslMoEWrapper`, NVFP4, as SGLang runs it.

The multipliers of `scales` are ``w1_alpha`` and ``w2_alpha``; ``fc2_input_scale`` is 1 / s_a.
"""

from typing import TYPE_CHECKING

from autotune.engines.base import Support
from autotune.kernels.backends.flashinfer import calls, rules
from autotune.kernels.backends.protocol import Calibration, EngineBackend, Prepared, Problem

if TYPE_CHECKING:
    from autotune.kernels.backends.flashinfer.prepared import Kernel
    from autotune.kernels.layer import Layer

_NAME = "flashinfer_cutedsl"
_TILE_ROWS = 256
_BFLOAT16_BYTES = 2


class CuteDslBackend:
    """The protocol's `Backend` for FlashInfer's CuTe-DSL fused MoE."""

    name = _NAME
    stands_for: tuple[EngineBackend, ...] = (
        EngineBackend("sglang", "flashinfer_cutedsl"),
        EngineBackend("vllm", "flashinfer_cutedsl"),
    )
    routes = False

    def emulates(self, scheme: str) -> bool:
        return False

    def supports(self, problem: Problem) -> Support:
        spec = problem.spec
        if problem.scheme != "nvfp4":
            return Support(False, f"{_NAME} is NVFP4 alone in engines, not {problem.scheme}")
        return rules.support(
            rules.device_problem(problem.device, rules.BLACKWELL, _NAME),
            rules.activation_problem(spec.activation, parameters=False, what=_NAME),
            rules.bias_problem(spec, taken=False, what=_NAME),
            # Whole 128x4 atoms of block scales, and whole groups of 64 rows.
            rules.multiple_problem(spec.geometry, hidden=128, width=64, what=_NAME),
            rules.installed_problem(),
        )

    def working_bytes(self, problem: Problem, *, tokens: int) -> int:
        sizes = problem.spec.geometry
        rows = tokens * sizes.top_k + min(tokens * sizes.top_k, sizes.experts) * _TILE_ROWS
        return rows * (sizes.hidden_size + sizes.expert_width) * _BFLOAT16_BYTES

    def prepare(self, layer: "Layer", problem: Problem, calibration: Calibration) -> Prepared:
        from autotune.kernels.backends.flashinfer.prepared import PreparedKernel, as_given

        return PreparedKernel(kernel(layer, calibration), as_given)


def kernel(layer: "Layer", calibration: Calibration) -> "Kernel":
    """Prepare the wrapper's arguments."""
    import torch

    from autotune.kernels.backends.flashinfer import inputs
    from autotune.kernels.backends.flashinfer.layouts import (
        grouped_rows,
        mma_view,
        swizzled,
        taken_rows,
    )
    from autotune.kernels.backends.flashinfer.prepared import Kernel
    from autotune.kernels.backends.flashinfer.scales import multipliers
    from autotune.kernels.backends.flashinfer.stored import stored_layer

    sizes = layer.spec.geometry
    stored = stored_layer(layer, "nvfp4")
    found = multipliers(stored, "nvfp4", calibration)
    first, second = stored.first, stored.second
    order = grouped_rows(first.values.shape[1])
    device = first.values.device
    return Kernel(
        function="CuteDslMoEWrapper",
        constructor=calls.cute_dsl_wrapper(sizes, device=str(device)),
        fixed=calls.cute_dsl_run(
            weights=(taken_rows(first.values, order), second.values),
            scales=(
                mma_view(swizzled(taken_rows(first.block_scales(), order))),
                mma_view(swizzled(second.block_scales())),
            ),
            alphas=(found.first, found.second),
            fc2_input_scale=torch.full((1,), 1.0 / found.activated, device=device),
        ),
        inputs=inputs.nvfp4_rows(("x", "x_sf"), scale=found.tokens, hidden_in=sizes.hidden_size),
        hidden=sizes.hidden_size,
        tuned=False,
    )
