"""``flashinfer_cutlass``: `flashinfer.fused_moe.cutlass_fused_moe`, tokens routed beforehand.

``quant_scales`` by scheme, with the multipliers of `scales`:

- bf16: none;
- fp8: first, 1 / s_a, second, s_x; the input is quantized before the call;
- fp8_block (Hopper): float32 scales of the weights' 128x128 blocks; the input stays bfloat16;
- nvfp4: 1 / s_x, block scales, first, 1 / s_a, block scales, second; the input stays bfloat16 and
  is quantized in the kernel, as SGLang has it;
- mxfp4, mxfp8: block scales, ones, block scales, ones; the input is MXFP8.

FP4 weights are called int64 and block scales int32, by which the library tells the scheme.
"""

from typing import TYPE_CHECKING, Any

from autotune.engines.base import Support
from autotune.kernels.backends.flashinfer import calls, rules
from autotune.kernels.backends.protocol import Calibration, EngineBackend, Prepared, Problem

if TYPE_CHECKING:
    from torch import Tensor

    from autotune.kernels.backends.flashinfer.layouts import Padding
    from autotune.kernels.backends.flashinfer.prepared import Kernel
    from autotune.kernels.backends.flashinfer.stored import Stored, StoredLayer
    from autotune.kernels.layer import Layer

_NAME = "flashinfer_cutlass"
_ARCHS = {
    "bf16": rules.SINCE_ADA,
    "fp8": rules.SINCE_ADA,
    "fp8_block": rules.HOPPER,
    "nvfp4": rules.BLACKWELL_AND_LATER,
    "mxfp4": rules.BLACKWELL_AND_LATER,
    "mxfp8": rules.BLACKWELL,
}
# Multiples that hidden size and width must be; the MX kernels need 128, to which is padded.
_MULTIPLES = {
    "bf16": (8, 8),
    "fp8": (16, 16),
    "fp8_block": (128, 128),
    "nvfp4": (64, 16),
    "mxfp4": (32, 32),
    "mxfp8": (32, 32),
}
_BFLOAT16_BYTES = 2


class CutlassBackend:
    """The protocol's `Backend` for CUTLASS's fused MoE."""

    name = _NAME
    stands_for: tuple[EngineBackend, ...] = (
        EngineBackend("sglang", "flashinfer_cutlass"),
        EngineBackend("vllm", "flashinfer_cutlass"),
    )
    routes = False

    def emulates(self, scheme: str) -> bool:
        return False

    def supports(self, problem: Problem) -> Support:
        scheme, spec = problem.scheme, problem.spec
        if scheme not in _ARCHS:
            return Support(False, f"{_NAME} has no kernel for {scheme}")
        what = f"{_NAME} with {scheme}"
        hidden, width = _MULTIPLES[scheme]
        return rules.support(
            rules.device_problem(problem.device, _ARCHS[scheme], what),
            rules.activation_problem(spec.activation, parameters=True, what=what),
            rules.multiple_problem(spec.geometry, hidden=hidden, width=width, what=what),
            rules.installed_problem(),
        )

    def working_bytes(self, problem: Problem, *, tokens: int) -> int:
        sizes = problem.spec.geometry
        # Rows once an expert, both products' outputs and the activated rows between them.
        row = 2 * sizes.hidden_size + 3 * sizes.expert_width
        return tokens * sizes.top_k * row * _BFLOAT16_BYTES

    def prepare(self, layer: "Layer", problem: Problem, calibration: Calibration) -> Prepared:
        from autotune.kernels.backends.flashinfer.prepared import PreparedKernel, as_given

        return PreparedKernel(kernel(layer, problem.scheme, calibration), as_given)


def kernel(layer: "Layer", scheme: str, calibration: Calibration) -> "Kernel":
    """Prepare the function's arguments."""
    import torch

    from autotune.kernels.backends.flashinfer import inputs
    from autotune.kernels.backends.flashinfer.prepared import Kernel
    from autotune.kernels.backends.flashinfer.scales import multipliers, swiglu
    from autotune.kernels.backends.flashinfer.stored import stored_layer

    sizes, device = layer.spec.geometry, layer.gate_up.device
    stored = stored_layer(layer, scheme)
    first, second = stored.first.values, stored.second.values
    scales: list[Tensor] = []
    made = inputs.as_they_are("input")
    match scheme:
        case "fp8":
            found = multipliers(stored, scheme, calibration)
            scales = [found.first, _one(1.0 / found.activated, device), found.second]
            scales.append(_one(found.tokens, device))
            made = inputs.fp8_static("input", scale=found.tokens)
        case "fp8_block":
            scales = [stored.first.block_scales(), stored.second.block_scales()]
        case "nvfp4":
            found = multipliers(stored, scheme, calibration)
            scales = [
                _one(1.0 / found.tokens, device),
                _swizzled(stored.first),
                found.first,
                _one(1.0 / found.activated, device),
                _swizzled(stored.second),
                found.second,
            ]
            first, second = first.view(torch.int64), second.view(torch.int64)
        case "mxfp4" | "mxfp8":
            first, second, scales = _mx(stored, scheme, sizes.hidden_size, sizes.expert_width)
            hidden_in = _padding(sizes.hidden_size, sizes.expert_width).hidden_in
            made = inputs.mxfp8_swizzled(("input", "input_sf"), hidden_in=hidden_in)
    parameters = swiglu(layer.spec.activation, experts=sizes.experts, device=device)
    return Kernel(
        function="cutlass_fused_moe",
        fixed=calls.cutlass(
            weights=(first, second),
            quant_scales=scales,
            output_dtype=torch.bfloat16,
            biases=_biases(layer, scheme),
            swiglu={
                "swiglu_alpha": parameters.alpha,
                "swiglu_beta": parameters.beta,
                "swiglu_limit": parameters.limit,
            },
            use_deepseek_fp8_block_scale=scheme == "fp8_block",
            use_mxfp8_act_scaling=scheme in ("mxfp4", "mxfp8"),
        ),
        inputs=made,
        hidden=sizes.hidden_size,
    )


def _one(value: float, device: Any) -> "Tensor":
    import torch

    return torch.tensor(value, dtype=torch.float32, device=device)


def _swizzled(stored: "Stored") -> "Tensor":
    import torch

    from autotune.kernels.backends.flashinfer.layouts import swizzled

    return swizzled(stored.block_scales()).view(torch.int32)


def _padding(hidden: int, width: int) -> "Padding":
    from autotune.kernels.backends.flashinfer.layouts import cutlass_padding

    return cutlass_padding(hidden, width)


def _mx(
    stored: "StoredLayer", scheme: str, hidden: int, width: int
) -> "tuple[Tensor, Tensor, list[Tensor]]":
    """Weights and scales of an MX scheme, padded to multiples of 128."""
    import torch

    from autotune.kernels.backends.flashinfer.padding import padded_layer

    whole = padded_layer(stored, scheme, _padding(hidden, width))
    first, second = whole.first.values, whole.second.values
    if scheme == "mxfp4":
        first, second = first.view(torch.int64), second.view(torch.int64)
    ones = torch.ones(first.shape[0], dtype=torch.float32, device=first.device)
    return first, second, [_swizzled(whole.first), ones, _swizzled(whole.second), ones]


def _biases(layer: "Layer", scheme: str) -> "tuple[Tensor, Tensor] | None":
    """Both biases in bfloat16, the first one's up above gate, padded as the weights are."""
    import torch

    from autotune.kernels.backends.flashinfer.layouts import up_above_gate
    from autotune.kernels.backends.flashinfer.padding import padded_biases

    if layer.gate_up_bias is None or layer.down_bias is None:
        return None
    first, second = up_above_gate(layer.gate_up_bias), layer.down_bias
    if scheme in ("mxfp4", "mxfp8"):
        sizes = layer.spec.geometry
        padding = _padding(sizes.hidden_size, sizes.expert_width)
        first, second = padded_biases(first, second, padding)
    return first.to(torch.bfloat16), second.to(torch.bfloat16)
