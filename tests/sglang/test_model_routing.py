"""Tokens of a model are routed here as SGLang's implementation of the model has it."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig

from autotune.decisions.schema import Geometry
from autotune.kernels.model_layer import layer_of
from autotune.kernels.routing import Routing, route
from autotune.kernels.spec import LayerSpec, RoutingRule

from .blocks import BLOCKS, as_served, experts_arguments, topk_arguments
from .routings import agree, clear, drawn, selected

EXPERTS, TOP_K, TOKENS = 64, 6, 64
GEOMETRY = Geometry(hidden_size=64, expert_width=64, experts=EXPERTS, top_k=TOP_K)
# What config.json of released checkpoints says of routing.
RELEASED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "MiniMax-M2": (
        "MiniMaxM2ForCausalLM",
        "minimax_m2",
        {"scoring_func": "sigmoid", "use_routing_bias": True},
    ),
    "DeepSeek-V2": (
        "DeepseekV2ForCausalLM",
        "deepseek_v2",
        {
            "topk_method": "group_limited_greedy",
            "scoring_func": "softmax",
            "norm_topk_prob": False,
            "n_group": 8,
            "topk_group": 3,
            "routed_scaling_factor": 16.0,
        },
    ),
    "DeepSeek-V2-Lite": (
        "DeepseekV2ForCausalLM",
        "deepseek_v2",
        {
            "topk_method": "greedy",
            "scoring_func": "softmax",
            "norm_topk_prob": False,
            "n_group": 1,
            "topk_group": 1,
            "routed_scaling_factor": 1.0,
        },
    ),
    "DeepSeek-R1": (
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        {
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "norm_topk_prob": True,
            "n_group": 8,
            "topk_group": 4,
            "routed_scaling_factor": 2.5,
        },
    ),
    "Kimi-K2": (
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        {
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "norm_topk_prob": True,
            "n_group": 1,
            "topk_group": 1,
            "routed_scaling_factor": 2.827,
        },
    ),
    "GLM-4.5": (
        "Glm4MoeForCausalLM",
        "glm4_moe",
        {"norm_topk_prob": True, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 2.5},
    ),
    "gpt-oss": ("GptOssForCausalLM", "gpt_oss", {"swiglu_limit": 7.0}),
    "Mixtral": ("MixtralForCausalLM", "mixtral", {}),
    "OLMoE": ("OlmoeForCausalLM", "olmoe", {"norm_topk_prob": False}),
    "Qwen2-57B-A14B": ("Qwen2MoeForCausalLM", "qwen2_moe", {"norm_topk_prob": False}),
    "Qwen3-30B-A3B": ("Qwen3MoeForCausalLM", "qwen3_moe", {"norm_topk_prob": True}),
    "Qwen3 without norm_topk_prob": ("Qwen3MoeForCausalLM", "qwen3_moe", {}),
    "GLM-4.5 without its routing": ("Glm4MoeForCausalLM", "glm4_moe", {}),
}
# Where SGLang reads less of a config than we do, or more. No released checkpoint is among them.
DIFFERENT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "OLMoE with normalized weights": ("OlmoeForCausalLM", "olmoe", {"norm_topk_prob": True}),
    "DeepSeek-V2 with groups that aren't used": (
        "DeepseekV2ForCausalLM",
        "deepseek_v2",
        {**RELEASED["DeepSeek-V2"][2], "topk_method": "greedy"},
    ),
}


def spec_of(architecture: str, sizes: dict[str, Any]) -> LayerSpec:
    return layer_of(architecture, GEOMETRY, sizes, routing=None)


def config_of(model_type: str, sizes: dict[str, Any]) -> Any:
    """What SGLang is given of a config.json: missing values are transformers' defaults."""
    config = AutoConfig.for_model(model_type, **sizes)
    if config.num_experts_per_tok is None:
        config.num_experts_per_tok = TOP_K
    return config


def both(architecture: str, model_type: str, sizes: dict[str, Any]) -> tuple[Routing, Routing]:
    rule: RoutingRule = spec_of(architecture, sizes).routing
    logits, bias = drawn(rule, EXPERTS, tokens=TOKENS, seed=4)
    logits = logits[clear(logits, rule, top_k=TOP_K, bias=bias)]
    told = topk_arguments(architecture, config_of(model_type, sizes))
    return (
        route(logits, rule, top_k=TOP_K, correction_bias=bias),
        selected(logits, as_served(told, top_k=TOP_K, bias=bias)),
    )


def everywhere(routing: Routing) -> torch.Tensor:
    return torch.ones(routing.expert_ids.shape[0], dtype=torch.bool)


@pytest.mark.parametrize("model", RELEASED)
def test_a_released_model(model: str) -> None:
    ours, theirs = both(*RELEASED[model])
    assert agree(ours, theirs, everywhere(ours))


def test_each_architecture_is_among_them() -> None:
    assert {architecture for architecture, _, _ in RELEASED.values()} == set(BLOCKS)


@pytest.mark.parametrize("case", DIFFERENT)
def test_a_config_that_sglang_reads_otherwise(case: str) -> None:
    """We read these as transformers does."""
    ours, theirs = both(*DIFFERENT[case])
    assert not agree(ours, theirs, everywhere(ours))


def test_a_model_without_its_routing_bias() -> None:
    """SGLang leaves MiniMax-M2's bias out where a config says so; released ones don't."""
    config = config_of("minimax_m2", {"scoring_func": "sigmoid", "use_routing_bias": False})
    assert topk_arguments("MiniMaxM2ForCausalLM", config)["correction_bias"] is None
    assert spec_of("MiniMaxM2ForCausalLM", {"use_routing_bias": False}).routing.correction_bias


def test_kimi_k25_is_deepseek_v3_within() -> None:
    from sglang.srt.models import deepseek_v2, kimi_k25

    assert kimi_k25.DeepseekV3ForCausalLM is deepseek_v2.DeepseekV3ForCausalLM
    values = RELEASED["Kimi-K2"][2]
    assert (
        spec_of("KimiK25ForConditionalGeneration", values).routing
        == spec_of("DeepseekV3ForCausalLM", values).routing
    )


def test_gpt_osss_alpha_has_another_name_there() -> None:
    sizes = {"swiglu_alpha": 2.0}
    assert spec_of("GptOssForCausalLM", sizes).activation.alpha == 2.0
    for name, alpha in (("swiglu_alpha", 1.702), ("hidden_act_alpha", 2.0)):
        config = config_of("gpt_oss", {name: 2.0})
        assert experts_arguments("GptOssForCausalLM", config)["gemm1_alpha"] == alpha


def test_gpt_osss_activation() -> None:
    for limit in (7.0, 5.0):
        sizes = {"swiglu_limit": limit, "swiglu_alpha": 1.702}
        spec = spec_of("GptOssForCausalLM", sizes)
        told = experts_arguments("GptOssForCausalLM", config_of("gpt_oss", sizes))
        assert told["activation"] == spec.activation.function
        assert told["gemm1_alpha"] == spec.activation.alpha
        assert told["gemm1_clamp_limit"] == spec.activation.limit
        assert told["with_bias"] == spec.expert_bias
