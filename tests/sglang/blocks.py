"""What SGLang's models tell their top-k and their experts, found by building their MoE blocks.

The top-k, or the experts, is a stand-in that ends the building as soon as it is told its arguments.
"""

import importlib
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor


class Block(NamedTuple):
    """Where a model's MoE block is: its module in `sglang.srt.models`, and its class."""

    module: str
    name: str
    # Whether it is built from a config, and not from sizes alone.
    from_config: bool = True


BLOCKS = {
    "MiniMaxM2ForCausalLM": Block("minimax_m2", "MiniMaxM2MoE"),
    "DeepseekV2ForCausalLM": Block("deepseek_v2", "DeepseekV2MoE"),
    "DeepseekV3ForCausalLM": Block("deepseek_v2", "DeepseekV2MoE"),
    "Glm4MoeForCausalLM": Block("glm4_moe", "Glm4MoeSparseMoeBlock"),
    "GptOssForCausalLM": Block("gpt_oss", "GptOssSparseMoeBlock"),
    "MixtralForCausalLM": Block("mixtral", "MixtralMoE", from_config=False),
    "OlmoeForCausalLM": Block("olmoe", "OlmoeMoE", from_config=False),
    "Qwen2MoeForCausalLM": Block("qwen2_moe", "Qwen2MoeSparseMoeBlock"),
    "Qwen3MoeForCausalLM": Block("qwen3_moe", "Qwen3MoeSparseMoeBlock"),
}
_RANKS = {name: 0 for name in ("tp_rank", "moe_ep_rank", "moe_tp_rank", "attn_tp_rank")}


class _Told(Exception):
    """Ends the building of a block."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.arguments = arguments


class _Experts(torch.nn.Module):
    """Stands in for experts, of which blocks ask a little before they make their top-k."""

    should_fuse_routed_scaling_factor_in_topk = False
    runner_backend = None
    routing_method_type = None

    def __init__(self, **_: Any) -> None:
        super().__init__()


def _tell(**arguments: Any) -> None:
    raise _Told(arguments)


def topk_arguments(architecture: str, config: Any) -> dict[str, Any]:
    """What the model's block tells its `TopK`."""
    return _told(architecture, config, topk=_tell, experts=_Experts)


def experts_arguments(architecture: str, config: Any) -> dict[str, Any]:
    """What the model's block tells its experts, where it makes them after its top-k."""
    return _told(architecture, config, topk=_Experts, experts=_tell)


def _told(
    architecture: str, config: Any, *, topk: Callable[..., Any], experts: Callable[..., Any]
) -> dict[str, Any]:
    from sglang.srt.runtime_context import get_context, get_parallel

    block = BLOCKS[architecture]
    module = importlib.import_module(f"sglang.srt.models.{block.module}")
    sizes = {"num_experts": 8, "top_k": 2, "hidden_size": 64, "intermediate_size": 64}
    given = {"config": config} if block.from_config else sizes
    with (
        patch.object(module, "TopK", topk),
        patch.object(module, "get_moe_impl_class", lambda _: experts, create=True),
        get_context().override_server_args(),
        get_parallel().override(**_RANKS),
    ):
        try:
            getattr(module, block.name)(layer_id=0, **given)
        except _Told as told:
            return told.arguments
    raise AssertionError(f"{block.name} was built without what should end it")


def as_served(arguments: dict[str, Any], *, top_k: int, bias: Tensor | None) -> Any:
    """A `TopKConfig` of what a model told its `TopK`, with weights that hold the scaling factor.

    A server multiplies by it later where it isn't in the weights.
    """
    from sglang.srt.layers.moe.topk import TopKConfig

    has_bias = arguments.get("correction_bias") is not None
    assert has_bias == (bias is not None)
    names = {field.name for field in fields(TopKConfig)}
    kept = {name: value for name, value in arguments.items() if name in names}
    kept |= {"top_k": top_k, "correction_bias": bias, "torch_native": True}
    if arguments.get("routed_scaling_factor") is not None:
        kept["apply_routed_scaling_factor_on_output"] = True
    return TopKConfig(**kept)
