"""trtllm-gen's FP8 functions: a scale per tensor, DeepSeek's 128x128 blocks, MXFP8.

DeepSeek's weights stay as they are, up above gate; the others are shuffled. MXFP8's block scales
are shuffled with them, then put in the 128x4 layout.
"""

import torch

from autotune.kernels.backends.flashinfer import calls, inputs
from autotune.kernels.backends.flashinfer.layouts import (
    first_product_rows,
    shuffled_rows,
    swizzled,
    taken_rows,
    trtllm_padding,
)
from autotune.kernels.backends.flashinfer.padding import padded_layer
from autotune.kernels.backends.flashinfer.prepared import Kernel
from autotune.kernels.backends.flashinfer.scales import multipliers, swiglu
from autotune.kernels.backends.flashinfer.stored import Stored, stored_layer
from autotune.kernels.backends.protocol import Calibration
from autotune.kernels.layer import Layer


def per_tensor_kernel(layer: Layer, calibration: Calibration, *, routed: bool) -> Kernel:
    """Prepare `trtllm_fp8_per_tensor_scale_moe` or its routed form."""
    sizes = layer.spec.geometry
    stored = stored_layer(layer, "fp8")
    found = multipliers(stored, "fp8", calibration)
    first, second = stored.first.values, stored.second.values
    name = "trtllm_fp8_per_tensor_scale"
    return Kernel(
        function=f"{name}_routed_moe" if routed else f"{name}_moe",
        fixed={
            **calls.trtllm(sizes, width=sizes.expert_width),
            **calls.trtllm_weights(
                taken_rows(first, first_product_rows(first.shape[1])),
                taken_rows(second, shuffled_rows(second.shape[1])),
            ),
            **calls.trtllm_fp8(output_scales=found.trtllm),
        },
        inputs=inputs.fp8_static("hidden_states", scale=found.tokens),
        hidden=sizes.hidden_size,
    )


def block_kernel(layer: Layer, scheme: str, *, routed: bool) -> Kernel:
    """Prepare `trtllm_fp8_block_scale_moe` or its routed form for fp8_block or mxfp8."""
    sizes = layer.spec.geometry
    mx = scheme == "mxfp8"
    padding = trtllm_padding(sizes.hidden_size, sizes.expert_width)
    stored = stored_layer(layer, scheme)
    if mx:
        stored = padded_layer(stored, scheme, padding)
        first = shuffled(stored.first, first_product=True)
        second = shuffled(stored.second, first_product=False)
    else:
        first, second = stored.first, stored.second
    names = ("hidden_states", "hidden_states_scale")
    parameters = swiglu(layer.spec.activation, experts=sizes.experts, device=layer.gate_up.device)
    valid = (
        calls.trtllm_valid_sizes(hidden=sizes.hidden_size, width=sizes.expert_width)
        if mx and padding.is_needed
        else {}
    )
    name = "trtllm_fp8_block_scale"
    return Kernel(
        function=f"{name}_routed_moe" if routed else f"{name}_moe",
        fixed={
            **calls.trtllm(sizes, width=padding.width_padded if mx else sizes.expert_width),
            **calls.trtllm_weights(
                first.values,
                second.values,
                scales=(first.block_scales(), second.block_scales()),
            ),
            **calls.trtllm_swiglu(
                alpha=parameters.alpha, beta=parameters.beta, limit=parameters.limit
            ),
            **calls.trtllm_fp8_block(mx=mx),
            **valid,
        },
        inputs=inputs.mxfp8_rows(names, hidden_in=padding.hidden_in, scale_dtype=torch.uint8)
        if mx
        else inputs.fp8_groups(names),
        hidden=sizes.hidden_size,
    )


def shuffled(stored: Stored, *, first_product: bool) -> Stored:
    """Shuffle rows of weights and of their block scales, then swizzle the scales (uint8)."""
    rows = stored.values.shape[1]
    order = first_product_rows(rows) if first_product else shuffled_rows(rows)
    return Stored(
        values=taken_rows(stored.values, order),
        scales=swizzled(taken_rows(stored.block_scales(), order)),
        overall=stored.overall,
    )
