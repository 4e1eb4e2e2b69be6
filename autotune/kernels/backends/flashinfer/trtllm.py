"""``flashinfer_trtllm`` and ``flashinfer_trtllm_routed``: trtllm-gen's fused MoE on SM100.

The plain one is given logits and routes itself, in the same call; the routed one is given each
token's experts and weights. Otherwise they are the same kernels.
"""

from typing import TYPE_CHECKING

from autotune.engines.base import Support
from autotune.kernels.backends.flashinfer import calls, rules
from autotune.kernels.backends.protocol import Calibration, EngineBackend, Prepared, Problem

if TYPE_CHECKING:
    from autotune.kernels.backends.flashinfer.calls import Arguments
    from autotune.kernels.backends.flashinfer.prepared import Kernel
    from autotune.kernels.layer import Layer

_SCHEMES = ("bf16", "fp8", "fp8_block", "mxfp4", "mxfp8", "nvfp4")
# Multiples that hidden size and width must be; those with a block's size are padded on.
_MULTIPLES = {
    "bf16": (128, 128),
    "fp8": (128, 128),
    "fp8_block": (128, 128),
    "nvfp4": (16, 16),
    "mxfp4": (32, 32),
    "mxfp8": (32, 32),
}
_FP4 = ("nvfp4", "mxfp4")
_BLOCK_FP8 = ("fp8_block", "mxfp8")
# A tile is at least this many tokens, and each expert's are padded to tiles.
_LARGEST_TILE = 256
_BFLOAT16_BYTES = 2


class TrtllmBackend:
    """The protocol's `Backend` for trtllm-gen's fused MoE.

    Args:
        name: ours.
        stands_for: the engines' names for it.
        routes: whether it is the plain form, which reads logits.
    """

    def __init__(self, name: str, *, stands_for: tuple[EngineBackend, ...], routes: bool) -> None:
        self.name = name
        self.stands_for = stands_for
        self.routes = routes

    def emulates(self, scheme: str) -> bool:
        return False

    def supports(self, problem: Problem) -> Support:
        scheme, spec = problem.scheme, problem.spec
        if scheme not in _SCHEMES:
            return Support(False, f"{self.name} has no kernel for {scheme}")
        what = f"{self.name} with {scheme}"
        hidden, width = _MULTIPLES[scheme]
        return rules.support(
            rules.device_problem(problem.device, rules.BLACKWELL, what),
            rules.activation_problem(spec.activation, parameters=scheme != "fp8", what=what),
            rules.bias_problem(spec, taken=scheme == "mxfp4", what=what),
            rules.routing_problem(spec.routing, spec.geometry)
            if self.routes
            else rules.given_routing_problem(spec.geometry),
            rules.block_fp8_problem(spec, routes=self.routes) if scheme in _BLOCK_FP8 else None,
            rules.multiple_problem(spec.geometry, hidden=hidden, width=width, what=what),
            rules.installed_problem(),
        )

    def working_bytes(self, problem: Problem, *, tokens: int) -> int:
        sizes = problem.spec.geometry
        rows = tokens * sizes.top_k + min(tokens * sizes.top_k, sizes.experts) * _LARGEST_TILE
        return rows * (sizes.hidden_size + 3 * sizes.expert_width) * _BFLOAT16_BYTES

    def prepare(self, layer: "Layer", problem: Problem, calibration: Calibration) -> Prepared:
        import torch

        from autotune.kernels.backends.flashinfer.prepared import (
            PreparedKernel,
            as_logits,
            as_pair,
        )

        kernel = self.kernel(layer, problem.scheme, calibration)
        if not self.routes:
            return PreparedKernel(kernel, as_pair)
        # MXFP4's functions want bfloat16 logits; the others are given what a router may give.
        dtype = torch.bfloat16 if problem.scheme == "mxfp4" else torch.float32
        return PreparedKernel(kernel, as_logits(dtype))

    def kernel(self, layer: "Layer", scheme: str, calibration: Calibration) -> "Kernel":
        """Prepare the function's arguments."""
        from dataclasses import replace

        from autotune.kernels.backends.flashinfer import trtllm_bf16, trtllm_fp4, trtllm_fp8

        routed = not self.routes
        match scheme:
            case "bf16":
                found = trtllm_bf16.kernel(layer, routed=routed)
            case "fp8":
                found = trtllm_fp8.per_tensor_kernel(layer, calibration, routed=routed)
            case "fp8_block" | "mxfp8":
                found = trtllm_fp8.block_kernel(layer, scheme, routed=routed)
            case _:
                found = trtllm_fp4.kernel(layer, scheme, calibration, routed=routed)
        return replace(found, fixed={**found.fixed, **self._method(layer, scheme)})

    def _method(self, layer: "Layer", scheme: str) -> "Arguments":
        if not self.routes:
            # The bfloat16 form alone has no such argument.
            bias: Arguments = {} if scheme == "bf16" else {"routing_bias": None}
            return {**calls.trtllm_no_method(fp4=scheme in _FP4), **bias}
        choice = rules.routing_choice(layer.spec.routing)
        if isinstance(choice, str):
            raise ValueError(f"{self.name}: {choice}")
        return {**calls.trtllm_method(choice), "routing_bias": layer.correction_bias}
