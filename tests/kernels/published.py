"""Released models: what their config.json says of the MoE layer, and the layer that it is."""

from typing import Any

from autotune.decisions.schema import Geometry
from autotune.kernels.spec import Activation, LayerSpec, RoutingRule

PUBLISHED: dict[str, tuple[dict[str, Any], LayerSpec]] = {
    "MiniMax-M2": (
        {
            "architectures": ["MiniMaxM2ForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 3072,
            "intermediate_size": 1536,
            "num_experts_per_tok": 8,
            "num_local_experts": 256,
            "scoring_func": "sigmoid",
            "use_routing_bias": True,
        },
        LayerSpec(
            geometry=Geometry(3072, 1536, 256, 8),
            routing=RoutingRule(scoring="sigmoid", correction_bias=True, normalize=True),
        ),
    ),
    "DeepSeek-V3 and R1": (
        {
            "architectures": ["DeepseekV3ForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 7168,
            "intermediate_size": 18432,
            "moe_intermediate_size": 2048,
            "n_group": 8,
            "n_routed_experts": 256,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_experts_per_tok": 8,
            "routed_scaling_factor": 2.5,
            "scoring_func": "sigmoid",
            "topk_group": 4,
            "topk_method": "noaux_tc",
        },
        LayerSpec(
            geometry=Geometry(7168, 2048, 256, 8),
            routing=RoutingRule(
                scoring="sigmoid",
                correction_bias=True,
                normalize=True,
                groups=8,
                top_groups=4,
                group_score="two_best",
                scaling_factor=2.5,
            ),
        ),
    ),
    "DeepSeek-V2": (
        {
            "architectures": ["DeepseekV2ForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 5120,
            "intermediate_size": 12288,
            "moe_intermediate_size": 1536,
            "n_group": 8,
            "n_routed_experts": 160,
            "norm_topk_prob": False,
            "num_experts_per_tok": 6,
            "routed_scaling_factor": 16.0,
            "scoring_func": "softmax",
            "topk_group": 3,
            "topk_method": "group_limited_greedy",
        },
        LayerSpec(
            geometry=Geometry(5120, 1536, 160, 6),
            routing=RoutingRule(
                scoring="softmax",
                normalize=False,
                groups=8,
                top_groups=3,
                group_score="best",
                scaling_factor=16.0,
            ),
        ),
    ),
    "DeepSeek-V2-Lite": (
        {
            "architectures": ["DeepseekV2ForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 2048,
            "moe_intermediate_size": 1408,
            "n_group": 1,
            "n_routed_experts": 64,
            "norm_topk_prob": False,
            "num_experts_per_tok": 6,
            "routed_scaling_factor": 1.0,
            "topk_group": 1,
            "topk_method": "greedy",
        },
        LayerSpec(
            geometry=Geometry(2048, 1408, 64, 6),
            routing=RoutingRule(scoring="softmax", normalize=False, group_score="best"),
        ),
    ),
    "Kimi-K2": (
        {
            "architectures": ["DeepseekV3ForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 7168,
            "moe_intermediate_size": 2048,
            "n_group": 1,
            "n_routed_experts": 384,
            "norm_topk_prob": True,
            "num_experts_per_tok": 8,
            "routed_scaling_factor": 2.827,
            "topk_group": 1,
        },
        LayerSpec(
            geometry=Geometry(7168, 2048, 384, 8),
            routing=RoutingRule(scoring="sigmoid", correction_bias=True, scaling_factor=2.827),
        ),
    ),
    "GLM-4.5": (
        {
            "architectures": ["Glm4MoeForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 5120,
            "intermediate_size": 12288,
            "moe_intermediate_size": 1536,
            "n_group": 1,
            "n_routed_experts": 160,
            "norm_topk_prob": True,
            "num_experts_per_tok": 8,
            "routed_scaling_factor": 2.5,
            "topk_group": 1,
        },
        LayerSpec(
            geometry=Geometry(5120, 1536, 160, 8),
            routing=RoutingRule(scoring="sigmoid", correction_bias=True, scaling_factor=2.5),
        ),
    ),
    "gpt-oss-120b": (
        {
            "architectures": ["GptOssForCausalLM"],
            "experts_per_token": 4,
            "hidden_act": "silu",
            "hidden_size": 2880,
            "intermediate_size": 2880,
            "num_experts_per_tok": 4,
            "num_local_experts": 128,
            "swiglu_limit": 7.0,
        },
        LayerSpec(
            geometry=Geometry(2880, 2880, 128, 4),
            routing=RoutingRule(scoring="softmax", normalize=True),
            activation=Activation(function="silu", alpha=1.702, limit=7.0, up_offset=1.0),
            expert_bias=True,
        ),
    ),
    "Qwen3-30B-A3B": (
        {
            "architectures": ["Qwen3MoeForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "norm_topk_prob": True,
            "num_experts": 128,
            "num_experts_per_tok": 8,
        },
        LayerSpec(
            geometry=Geometry(2048, 768, 128, 8),
            routing=RoutingRule(scoring="softmax", normalize=True),
        ),
    ),
    "Qwen2-57B-A14B": (
        {
            "architectures": ["Qwen2MoeForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "moe_intermediate_size": 2560,
            "norm_topk_prob": False,
            "num_experts": 64,
            "num_experts_per_tok": 8,
        },
        LayerSpec(
            geometry=Geometry(3584, 2560, 64, 8),
            routing=RoutingRule(scoring="softmax", normalize=False),
        ),
    ),
    "OLMoE-1B-7B": (
        {
            "architectures": ["OlmoeForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 2048,
            "intermediate_size": 1024,
            "norm_topk_prob": False,
            "num_experts": 64,
            "num_experts_per_tok": 8,
        },
        LayerSpec(
            geometry=Geometry(2048, 1024, 64, 8),
            routing=RoutingRule(scoring="softmax", normalize=False),
        ),
    ),
    "Mixtral-8x7B": (
        {
            "architectures": ["MixtralForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_experts_per_tok": 2,
            "num_local_experts": 8,
        },
        LayerSpec(
            geometry=Geometry(4096, 14336, 8, 2),
            routing=RoutingRule(scoring="softmax", normalize=True),
        ),
    ),
}
