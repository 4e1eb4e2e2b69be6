"""The keyword arguments of FlashInfer's functions, built here and nowhere else.

Pure: no FlashInfer, and no torch but its types. What is returned is bound against the real
signatures in the tests, where a misspelt or missing argument shows without a GPU. Expert and
tensor parallelism are always one: a layer is measured whole.
"""

from typing import TYPE_CHECKING, Any

from autotune.decisions.schema import Geometry
from autotune.kernels.backends.flashinfer.rules import (
    RENORMALIZE,
    SWIGLU_TYPE,
    TOP_K,
    RoutingChoice,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Arguments = dict[str, Any]

# flashinfer.tllm_enums: SfLayout.layout_linear, WeightLayout, Fp8QuantizationType
LINEAR_SCALES = 2
MAJOR_K, BLOCK_MAJOR_K = 0, 2
DEEPSEEK_FP8, MX_FP8 = 1, 2


def given_routing(expert_ids: "Tensor", weights: "Tensor") -> Arguments:
    """Routing for CUTLASS and CuTe DSL: int32 ids and float32 weights, [tokens, top_k]."""
    return {"token_selected_experts": expert_ids, "token_final_scales": weights}


def routed(expert_ids: "Tensor", weights: "Tensor") -> Arguments:
    """Routing for trtllm-gen's routed functions: the pair of int32 ids and float32 weights.

    Packed ids, the other form, hold weights in bfloat16; SGLang hands in the pair where its own
    top-k made it.
    """
    return {"topk_ids": (expert_ids, weights)}


def from_logits(logits: "Tensor") -> Arguments:
    """Routing for trtllm-gen's plain functions: logits [tokens, experts]."""
    return {"routing_logits": logits}


def cutlass(
    *,
    weights: "tuple[Tensor, Tensor]",
    quant_scales: "list[Tensor]",
    output_dtype: "torch.dtype",
    biases: "tuple[Tensor, Tensor] | None" = None,
    swiglu: Arguments | None = None,
    use_deepseek_fp8_block_scale: bool = False,
    use_mxfp8_act_scaling: bool = False,
) -> Arguments:
    """What `cutlass_fused_moe` is given beside the batch (``input``, ``input_sf``, routing).

    Args:
        weights: of both products, [up, gate] above one another in the first.
        quant_scales: a list whose meaning depends on the scheme; see `cutlass`.
        output_dtype: bfloat16.
        biases: of both products in ``output_dtype``, the first one's [up, gate] too.
        swiglu: ``swiglu_alpha``, ``swiglu_beta``, ``swiglu_limit``, float32 [experts] each.
        use_deepseek_fp8_block_scale: scales of 128x128 blocks.
        use_mxfp8_act_scaling: activations are MXFP8.
    """
    first, second = weights
    arguments: Arguments = {
        "fc1_expert_weights": first,
        "fc2_expert_weights": second,
        "output_dtype": output_dtype,
        "quant_scales": quant_scales,
        "use_deepseek_fp8_block_scale": use_deepseek_fp8_block_scale,
        "use_mxfp8_act_scaling": use_mxfp8_act_scaling,
        "activation_type": SWIGLU_TYPE,
        **(swiglu or {}),
    }
    if biases is not None:
        arguments["fc1_expert_biases"], arguments["fc2_expert_biases"] = biases
    return arguments


def trtllm(geometry: Geometry, *, width: int) -> Arguments:
    """What all of trtllm-gen's functions are given alike; ``width`` is the padded one."""
    return {
        "num_experts": geometry.experts,
        "top_k": geometry.top_k,
        "intermediate_size": width,
        "local_expert_offset": 0,
        "local_num_experts": geometry.experts,
        "activation_type": SWIGLU_TYPE,
    }


def trtllm_method(choice: RoutingChoice) -> Arguments:
    """How a plain function routes (the bias comes on top)."""
    return {
        "n_group": choice.n_group,
        "topk_group": choice.topk_group,
        "routed_scaling_factor": choice.routed_scaling_factor,
        "routing_method_type": choice.method,
    }


def trtllm_no_method(*, fp4: bool) -> Arguments:
    """The same arguments for a routed function, which doesn't use them but checks the method."""
    return {
        "n_group": None,
        "topk_group": None,
        "routed_scaling_factor": None if fp4 else 1.0,
        "routing_method_type": RENORMALIZE if fp4 else TOP_K,
    }


def trtllm_weights(
    first: "Tensor", second: "Tensor", *, scales: "tuple[Tensor, Tensor] | None" = None
) -> Arguments:
    """Both products' weights, with their block scales where there are some."""
    arguments: Arguments = {"gemm1_weights": first, "gemm2_weights": second}
    if scales is not None:
        arguments["gemm1_weights_scale"], arguments["gemm2_weights_scale"] = scales
    return arguments


def trtllm_swiglu(
    *, alpha: "Tensor | None", beta: "Tensor | None", limit: "Tensor | None"
) -> Arguments:
    """The activation's parameters, float32 [experts] each."""
    return {"gemm1_alpha": alpha, "gemm1_beta": beta, "gemm1_clamp_limit": limit}


def trtllm_fp4(
    *,
    biases: "tuple[Tensor, Tensor] | None",
    output_scales: "tuple[Tensor, Tensor, Tensor] | None",
) -> Arguments:
    """What only the FP4 functions take.

    Args:
        biases: of both products, float32, in the order of the weights' rows.
        output_scales: of up, of gate, of the second product; float32 [experts] each.
    """
    first_bias, second_bias = biases if biases is not None else (None, None)
    up, gate, second = output_scales if output_scales is not None else (None, None, None)
    return {
        "gemm1_bias": first_bias,
        "gemm2_bias": second_bias,
        "output1_scale_scalar": up,
        "output1_scale_gate_scalar": gate,
        "output2_scale_scalar": second,
    }


def trtllm_fp4_scale_layout() -> Arguments:
    """That activations' block scales are in row-major order, the only one that is taken."""
    return {"hidden_states_scale_layout": LINEAR_SCALES}


def trtllm_valid_sizes(*, hidden: int, width: int) -> Arguments:
    """The sizes without padding."""
    return {"valid_hidden_size": hidden, "valid_intermediate_size": width}


def trtllm_fp8_block(*, mx: bool) -> Arguments:
    """Which kind of block scales: DeepSeek's (weights as they are), or MX (shuffled)."""
    return {
        "use_shuffled_weight": mx,
        "weight_layout": MAJOR_K,
        "fp8_quantization_type": MX_FP8 if mx else DEEPSEEK_FP8,
    }


def trtllm_fp8(*, output_scales: "tuple[Tensor, Tensor, Tensor]") -> Arguments:
    """What only the functions for FP8 with a scale per tensor take: scales as in `trtllm_fp4`."""
    up, gate, second = output_scales
    return {
        "output1_scales_scalar": up,
        "output1_scales_gate_scalar": gate,
        "output2_scales_scalar": second,
        "use_routing_scales_on_input": False,
    }


def trtllm_bf16() -> Arguments:
    """What only the bfloat16 functions take."""
    return {"use_shuffled_weight": True, "weight_layout": BLOCK_MAJOR_K}


def cute_dsl_wrapper(geometry: Geometry, *, device: str) -> Arguments:
    """What `CuteDslMoEWrapper` is made with: as SGLang does, with the kernels' FP4 activations."""
    return {
        "num_experts": geometry.experts,
        "top_k": geometry.top_k,
        "hidden_size": geometry.hidden_size,
        "intermediate_size": geometry.expert_width,
        "use_cuda_graph": True,
        "num_local_experts": geometry.experts,
        "local_expert_offset": 0,
        "device": device,
        "activation_type": SWIGLU_TYPE,
        "quant_mode": "w4a4",
    }


def cute_dsl_run(
    *,
    weights: "tuple[Tensor, Tensor]",
    scales: "tuple[Tensor, Tensor]",
    alphas: "tuple[Tensor, Tensor]",
    fc2_input_scale: "Tensor",
) -> Arguments:
    """What `CuteDslMoEWrapper.run` is given beside the batch (``x``, ``x_sf``, routing)."""
    return {
        "w1_weight": weights[0],
        "w1_weight_sf": scales[0],
        "w1_alpha": alphas[0],
        "fc2_input_scale": fc2_input_scale,
        "w2_weight": weights[1],
        "w2_weight_sf": scales[1],
        "w2_alpha": alphas[1],
    }
