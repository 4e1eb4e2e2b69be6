"""SGLang's own Triton kernels on a CPU, by Triton's interpreter; run as a program of its own.

TRITON_INTERPRET must be set before SGLang is imported. What a GPU would do in CUDA is replaced:
sorting pairs by expert, by SGLang's Triton kernel for few pairs; quantizing with a static scale, by
our reference. Everything else is SGLang's: the products, the activation's plain-torch form, the
quantizing in groups of 128, the sum over experts, and the router. Prints one JSON object.
"""

import importlib
import inspect
import json
import os
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
from torch import Tensor

from autotune.kernels.backends.sglang.prepared import PreparedTriton
from autotune.kernels.backends.sglang.triton_moe import TritonBackend
from autotune.kernels.compare import difference
from autotune.kernels.held import DequantizedExperts, calibrate, roundings
from autotune.kernels.oracle import moe_layer
from autotune.kernels.quantization import fp8
from autotune.kernels.routing import Routing, route
from autotune.kernels.spec import LayerSpec
from tests.kernels.backends.flashinfer.small import H200, layer_and_batch, problem

from .interpreted_cases import BREAKABLE, LAYERS, ROUTERS, TOKENS
from .real import declare_torchvision_operators
from .routings import drawn, relative_error, same_experts

_TRITON_UTILS = "sglang.srt.layers.moe.moe_runner.triton_utils"
# The defaults' tiles are made for GPUs; the interpreter takes its time for each.
_TILES = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
_TILES_OF_BLOCKS = {**_TILES, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128}


def mend_interpreter() -> None:
    """Have the interpreter multiply and round as a GPU does.

    Its product takes bfloat16's bits for whole numbers. Its conversions to fewer bits cut off, or
    round up without carrying into the exponent; torch's round to the nearest, ties to even.
    """
    from triton import language as tl
    from triton.runtime import interpreter

    dtypes = {
        tl.float32: torch.float32,
        tl.float16: torch.float16,
        tl.bfloat16: torch.bfloat16,
        tl.float8e4nv: torch.float8_e4m3fn,
    }

    def convert(values: Any, source: Any, target: Any, _: Any) -> Any:
        bits = np.ascontiguousarray(values).view(f"uint{source.primitive_bitwidth}")
        numbers = torch.from_numpy(bits).view(dtypes[source]).to(dtypes[target])
        return numbers.view(getattr(torch, f"uint{target.primitive_bitwidth}")).numpy()

    product = interpreter.InterpreterBuilder.create_dot

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        bits = convert(handle.data, tl.bfloat16, tl.float32, None)
        return interpreter.TensorHandle(bits.view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return product(self, widened(a), widened(b), *rest)

    interpreter._convert_float = convert
    interpreter.InterpreterBuilder.create_dot = create_dot


def replace_cuda() -> None:
    """Put something that runs here in the places of CUDA's kernels."""
    from sglang.kernels.ops.moe.moe_align_small_numel import moe_align_small_numel

    def align(ids: Tensor, experts: int, block: int, *outputs: Any) -> None:
        rows, expert_ids, padded = outputs[:3]
        # Of the rest of these nothing is read but which rows aren't there.
        rows.fill_(ids.numel())
        expert_ids.zero_()
        moe_align_small_numel(ids, experts, block, rows, expert_ids, padded)

    def quantize(values: Tensor, scale: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
        return fp8.quantize(values, scale=scale).values, scale

    fused_moe = importlib.import_module(f"{_TRITON_UTILS}.fused_moe")
    # The operator is registered for CUDA alone; what it calls isn't.
    fused_moe.outplace_fused_experts = inspect.unwrap(fused_moe.outplace_fused_experts)
    sorting = importlib.import_module(f"{_TRITON_UTILS}.moe_align_block_size")
    sorting.sgl_moe_align_block_size = align
    kernels = importlib.import_module("sglang.kernels.ops.moe.fused_moe_triton_kernels")
    kernels.scaled_fp8_quant = quantize


def layer_error(spec: LayerSpec, scheme: str, *, broken: bool = False) -> float:
    """The backend's relative RMS error to the oracle on what the scheme holds.

    Broken, it is told of rows of gate and up that lie in the other of the two orders.
    """
    from sglang.srt.layers.moe.moe_runner.triton_utils import override_config

    layer, batch = layer_and_batch(spec, tokens=TOKENS)
    calibration = calibrate(layer, batch)
    prepared = TritonBackend().prepare(layer, problem(spec, scheme, H200), calibration)
    assert isinstance(prepared, PreparedTriton)
    if broken:
        prepared.config["gate_up_interleaved"] = not prepared.config["gate_up_interleaved"]
    call = prepared.bind(batch)
    with override_config(_TILES_OF_BLOCKS if scheme == "fp8_block" else _TILES):
        output = call()
    assert (output.dtype, output.shape) == (torch.bfloat16, batch.hidden_states.shape)
    expected = moe_layer(
        batch.hidden_states,
        DequantizedExperts(layer, scheme),
        batch.routing,
        spec.activation,
        roundings=roundings(scheme, calibration),
    )
    _, untouched = layer_and_batch(spec, tokens=TOKENS)
    assert torch.equal(batch.hidden_states, untouched.hidden_states)
    return difference(output, expected).relative_rms


def router_error(name: str) -> float:
    """The largest relative error of SGLang's routing kernel's weights; infinite for other ids."""
    from sglang.kernels.ops.moe.moe_fused_gate import moe_fused_gate

    rule, experts, top_k = ROUTERS[name]
    logits, bias = drawn(rule, experts, tokens=TOKENS, seed=3)
    weights, ids = moe_fused_gate(
        logits,
        bias,
        top_k,
        scoring_func=rule.scoring,
        renormalize=rule.normalize,
        routed_scaling_factor=rule.scaling_factor,
        apply_routed_scaling_factor_on_output=True,
        num_expert_group=rule.groups,
        topk_group=rule.top_groups,
    )
    ours = route(logits, rule, top_k=top_k, correction_bias=bias)
    theirs = Routing(ids.long(), weights)
    return relative_error(ours, theirs) if bool(same_experts(ours, theirs).all()) else float("inf")


def main() -> None:
    declare_torchvision_operators()
    mend_interpreter()
    replace_cuda()
    # What SGLang compiles for a GPU, once more as it is written.
    torch.compiler.set_stance("force_eager")
    torch.set_num_threads(1)
    found = {
        "layers": {name: layer_error(*case) for name, case in LAYERS.items()},
        "broken": {name: layer_error(*LAYERS[name], broken=True) for name in BREAKABLE},
        "routers": {name: router_error(name) for name in ROUTERS},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
