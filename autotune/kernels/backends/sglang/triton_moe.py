"""``sglang_triton``: `fused_experts` of SGLang's Triton runner, tokens routed beforehand.

By scheme: bf16 as it is; fp8 with a scale an expert and projection and static scales of the
activations; fp8_block with scales of 128x128 blocks. Input and activated rows are quantized in the
call, by SGLang's own kernels. Which tiles it takes is looked up where SGLang does: in its files for
the GPU, the number of experts and the width, else by its rule of thumb.
"""

from typing import TYPE_CHECKING

from autotune.engines.base import Support
from autotune.kernels.backends.flashinfer.rules import support
from autotune.kernels.backends.protocol import Calibration, EngineBackend, Prepared, Problem
from autotune.kernels.backends.sglang import rules

if TYPE_CHECKING:
    from autotune.kernels.layer import Layer

_NAME = "sglang_triton"
_BFLOAT16_BYTES = 2


class TritonBackend:
    """The protocol's `Backend` for SGLang's Triton fused MoE."""

    name = _NAME
    stands_for: tuple[EngineBackend, ...] = (EngineBackend("sglang", "triton"),)
    routes = False

    def emulates(self, scheme: str) -> bool:
        return False

    def supports(self, problem: Problem) -> Support:
        scheme, spec, device = problem.scheme, problem.spec, problem.device
        what = f"{_NAME} with {scheme}"
        return support(
            rules.scheme_problem(scheme, _NAME),
            rules.device_problem(device, rules.FIRST_ARCH.get(scheme, 0), what),
            rules.activation_problem(spec.activation, what),
            rules.size_problem(spec.geometry, scheme, device, what),
            rules.installed_problem(),
        )

    def working_bytes(self, problem: Problem, *, tokens: int) -> int:
        sizes = problem.spec.geometry
        # Rows once an expert: both products' outputs, the activated rows, and those quantized.
        row = sizes.hidden_size + 4 * sizes.expert_width
        return tokens * (sizes.top_k * row + 2 * sizes.hidden_size) * _BFLOAT16_BYTES

    def prepare(self, layer: "Layer", problem: Problem, calibration: Calibration) -> Prepared:
        from autotune.kernels.backends.sglang.prepared import prepared
        from autotune.kernels.backends.sglang.state import ensure_published

        ensure_published()
        return prepared(layer, problem.scheme, calibration)
