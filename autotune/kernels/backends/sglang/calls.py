"""The arguments of SGLang's `fused_experts`, built here and nowhere else.

Pure: no SGLang, and no torch but its types. What is returned is bound against the real signatures
in the tests, where a misspelt or missing argument shows without a GPU.
"""

from typing import TYPE_CHECKING, Any

from autotune.kernels.spec import LayerSpec

if TYPE_CHECKING:
    from torch import Tensor

    from autotune.kernels.backends.sglang.weights import Held
    from autotune.kernels.layer import Batch

Arguments = dict[str, Any]

BLOCK_SHAPE = [128, 128]


def runner_config(spec: LayerSpec, *, rows_alternate: bool) -> Arguments:
    """What `MoeRunnerConfig` is made with.

    All experts are here, so that none is filtered out. Servers let the layer overwrite its input;
    called again and again on the same input, it may not. The routing's weights hold the scaling
    factor already.
    """
    sizes, activation = spec.geometry, spec.activation
    arguments: Arguments = {
        "num_experts": sizes.experts,
        "num_local_experts": sizes.experts,
        "hidden_size": sizes.hidden_size,
        "intermediate_size_per_partition": sizes.expert_width,
        "top_k": sizes.top_k,
        "activation": activation.function,
        "inplace": False,
    }
    if activation.limit is not None:
        arguments["gemm1_alpha"] = activation.alpha
        arguments["gemm1_clamp_limit"] = activation.limit
        arguments["gate_up_interleaved"] = rows_alternate
    return arguments


def topk_output(batch: "Batch") -> Arguments:
    """What `StandardTopKOutput` is made with: float32 weights and int32 ids, [tokens, top_k]."""
    return {
        "topk_weights": batch.routing.weights.contiguous(),
        "topk_ids": batch.routing.expert_ids.int(),
        "router_logits": batch.logits,
    }


def fused_experts(
    first: "Held",
    second: "Held",
    *,
    biases: "tuple[Tensor, Tensor] | None" = None,
    activation_scales: "tuple[Tensor, Tensor] | None" = None,
) -> Arguments:
    """What `fused_experts` is given beside the batch and the runner's config.

    Args:
        first: gate and up, w13.
        second: down, w2.
        biases: float32 of both, [experts, rows], in the rows' order.
        activation_scales: float32, one number each: what a checkpoint's static scales are.
    """
    arguments: Arguments = {"w1": first.values, "w2": second.values}
    if first.scale is not None:
        arguments["use_fp8_w8a8"] = True
        arguments["w1_scale"], arguments["w2_scale"] = first.scale, second.scale
        if first.scale.dim() == 3:
            arguments["block_shape"] = BLOCK_SHAPE
    if activation_scales is not None:
        arguments["a1_scale"], arguments["a2_scale"] = activation_scales
    if biases is not None:
        arguments["b1"], arguments["b2"] = biases
    return arguments
