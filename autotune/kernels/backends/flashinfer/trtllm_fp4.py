"""trtllm-gen's FP4 functions: NVFP4 with NVFP4 activations, MXFP4 with MXFP8 ones.

Which of them is meant the library tells from shapes: how many values share a scale.
"""

import torch
from torch import Tensor

from autotune.kernels.backends.flashinfer import calls, inputs
from autotune.kernels.backends.flashinfer.layouts import (
    first_product_rows,
    shuffled_rows,
    trtllm_padding,
    up_above_gate,
)
from autotune.kernels.backends.flashinfer.padding import padded_biases, padded_layer
from autotune.kernels.backends.flashinfer.prepared import Kernel
from autotune.kernels.backends.flashinfer.scales import multipliers, swiglu
from autotune.kernels.backends.flashinfer.stored import stored_layer
from autotune.kernels.backends.flashinfer.trtllm_fp8 import shuffled
from autotune.kernels.backends.protocol import Calibration
from autotune.kernels.layer import Layer

_NAMES = ("hidden_states", "hidden_states_scale")


def kernel(layer: Layer, scheme: str, calibration: Calibration, *, routed: bool) -> Kernel:
    """Prepare `trtllm_fp4_block_scale_moe` or its routed form for nvfp4 or mxfp4."""
    sizes, device = layer.spec.geometry, layer.gate_up.device
    padding = trtllm_padding(sizes.hidden_size, sizes.expert_width)
    stored = stored_layer(layer, scheme)
    if scheme == "nvfp4":
        found = multipliers(stored, scheme, calibration)
        output_scales, dequantizes = found.trtllm, found.first
        made = inputs.nvfp4_rows(_NAMES, scale=found.tokens, hidden_in=padding.hidden_in)
    else:
        output_scales, dequantizes = None, None
        made = inputs.mxfp8_rows(
            _NAMES, hidden_in=padding.hidden_in, scale_dtype=torch.float8_e4m3fn
        )
    whole = padded_layer(stored, scheme, padding)
    first = shuffled(whole.first, first_product=True)
    second = shuffled(whole.second, first_product=False)
    parameters = swiglu(
        layer.spec.activation, experts=sizes.experts, device=device, dequantizes=dequantizes
    )
    valid = (
        calls.trtllm_valid_sizes(hidden=sizes.hidden_size, width=sizes.expert_width)
        if padding.is_needed
        else {}
    )
    return Kernel(
        function="trtllm_fp4_block_scale_routed_moe" if routed else "trtllm_fp4_block_scale_moe",
        fixed={
            **calls.trtllm(sizes, width=padding.width_padded),
            **calls.trtllm_weights(
                first.values,
                second.values,
                # Whatever the scales are, the library wants them called E4M3.
                scales=(
                    first.block_scales().view(torch.float8_e4m3fn),
                    second.block_scales().view(torch.float8_e4m3fn),
                ),
            ),
            **calls.trtllm_swiglu(
                alpha=parameters.alpha, beta=parameters.beta, limit=parameters.limit
            ),
            **calls.trtllm_fp4(biases=_biases(layer), output_scales=output_scales),
            **calls.trtllm_fp4_scale_layout(),
            **valid,
        },
        inputs=made,
        hidden=sizes.hidden_size,
    )


def _biases(layer: Layer) -> tuple[Tensor, Tensor] | None:
    """Both biases, float32, in the order of the weights' rows."""
    if layer.gate_up_bias is None or layer.down_bias is None:
        return None
    sizes = layer.spec.geometry
    padding = trtllm_padding(sizes.hidden_size, sizes.expert_width)
    first, second = padded_biases(up_above_gate(layer.gate_up_bias), layer.down_bias, padding)
    device = first.device
    return (
        first[:, first_product_rows(first.shape[1]).to(device)].contiguous(),
        second[:, shuffled_rows(second.shape[1]).to(device)].contiguous(),
    )
