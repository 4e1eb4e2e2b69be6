"""trtllm-gen's bfloat16 functions: weights shuffled, in blocks of 128 bytes along K."""

from autotune.kernels.backends.flashinfer import calls, inputs
from autotune.kernels.backends.flashinfer.layouts import (
    first_product_rows,
    k_blocks,
    shuffled_rows,
    taken_rows,
)
from autotune.kernels.backends.flashinfer.prepared import Kernel
from autotune.kernels.backends.flashinfer.scales import swiglu
from autotune.kernels.backends.flashinfer.stored import stored_layer
from autotune.kernels.layer import Layer


def kernel(layer: Layer, *, routed: bool) -> Kernel:
    """Prepare `trtllm_bf16_moe` or its routed form, without what says how to route."""
    sizes = layer.spec.geometry
    stored = stored_layer(layer, "bf16")
    first, second = stored.first.values, stored.second.values
    parameters = swiglu(layer.spec.activation, experts=sizes.experts, device=first.device)
    return Kernel(
        function="trtllm_bf16_routed_moe" if routed else "trtllm_bf16_moe",
        fixed={
            **calls.trtllm(sizes, width=sizes.expert_width),
            **calls.trtllm_weights(
                k_blocks(taken_rows(first, first_product_rows(first.shape[1]))),
                k_blocks(taken_rows(second, shuffled_rows(second.shape[1]))),
            ),
            **calls.trtllm_swiglu(
                alpha=parameters.alpha, beta=parameters.beta, limit=parameters.limit
            ),
            **calls.trtllm_bf16(),
        },
        inputs=inputs.as_they_are("hidden_states"),
        hidden=sizes.hidden_size,
    )
