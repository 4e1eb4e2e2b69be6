"""The oracle against transformers' own MoE blocks, and by hand."""

import copy
from typing import Any

import pytest
import torch
from transformers import AutoConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssMLP
from transformers.models.minimax_m2.modeling_minimax_m2 import MiniMaxM2SparseMoeBlock
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

from autotune.kernels.model_layer import layer_of
from autotune.kernels.oracle import Expert, Roundings, moe_layer
from autotune.kernels.routing import Routing, route
from autotune.kernels.spec import GPT_OSS_SWIGLU, SWIGLU
from autotune.model import facts_from_config

_HIDDEN, _WIDTH, _EXPERTS, _TOP_K, _TOKENS = 48, 40, 16, 4, 23
# Sums of a few dozen products in float32, against float64.
_FLOAT32 = 3e-6

_MODELS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "MiniMaxM2ForCausalLM": (
        "minimax_m2",
        MiniMaxM2SparseMoeBlock,
        {"intermediate_size": _WIDTH, "num_local_experts": _EXPERTS},
    ),
    "Qwen3MoeForCausalLM": (
        "qwen3_moe",
        Qwen3MoeSparseMoeBlock,
        {"moe_intermediate_size": _WIDTH, "num_experts": _EXPERTS, "norm_topk_prob": True},
    ),
    "MixtralForCausalLM": (
        "mixtral",
        MixtralSparseMoeBlock,
        {"intermediate_size": _WIDTH, "num_local_experts": _EXPERTS},
    ),
    "DeepseekV3ForCausalLM": (
        "deepseek_v3",
        DeepseekV3MoE,
        {
            "moe_intermediate_size": _WIDTH,
            "n_routed_experts": _EXPERTS,
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 2.5,
        },
    ),
    "GptOssForCausalLM": (
        "gpt_oss",
        GptOssMLP,
        {"intermediate_size": _WIDTH, "num_local_experts": _EXPERTS},
    ),
}


class _BlockExperts:
    """A transformers block's experts, each as the oracle reads it."""

    def __init__(self, block: Any) -> None:
        self._experts = block.experts

    def expert(self, number: int, dtype: torch.dtype) -> Expert:
        gate_up = self._experts.gate_up_proj[number].detach().to(dtype)
        down = self._experts.down_proj[number].detach().to(dtype)
        if hasattr(self._experts, "gate_up_proj_bias"):  # gpt-oss: transposed and interleaved
            bias = self._experts.gate_up_proj_bias[number].detach().to(dtype)
            return Expert(
                gate=gate_up[:, ::2].T,
                up=gate_up[:, 1::2].T,
                down=down.T,
                gate_bias=bias[::2],
                up_bias=bias[1::2],
                down_bias=self._experts.down_proj_bias[number].detach().to(dtype),
            )
        gate, up = gate_up.chunk(2)
        return Expert(gate=gate, up=up, down=down)


def _block(architecture: str, changes: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
    model_type, block_class, sizes = _MODELS[architecture]
    config = AutoConfig.for_model(
        model_type,
        hidden_size=_HIDDEN,
        num_experts_per_tok=_TOP_K,
        **(sizes | (changes or {})),
    )
    config.architectures = [architecture]
    block = block_class(config).eval()
    generator = torch.Generator().manual_seed(5)
    for tensor in [*block.parameters(), *block.buffers()]:
        tensor.data = torch.randn(tensor.shape, generator=generator) * 0.3
    return block, config.to_dict()


def _router(block: Any) -> Any:
    return block.router if hasattr(block, "router") else block.gate


def _correction_bias(block: Any) -> torch.Tensor | None:
    for owner in (block, _router(block)):
        if hasattr(owner, "e_score_correction_bias"):
            return owner.e_score_correction_bias.double()
    return None


def _answers(
    architecture: str, changes: dict[str, Any] | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return transformers' output and the oracle's, of the same layer and tokens."""
    block, config = _block(architecture, changes)
    if hasattr(block, "shared_experts"):  # beside the routed layer, and no part of it
        for weight in block.shared_experts.parameters():
            weight.data.zero_()
    hidden_states = torch.randn(1, _TOKENS, _HIDDEN, generator=torch.Generator().manual_seed(6))
    facts = facts_from_config(config, where="config.json")
    assert facts.geometry is not None
    spec = layer_of(architecture, facts.geometry, config, routing=None)
    with torch.no_grad():
        theirs = block(hidden_states)
        theirs = theirs[0] if isinstance(theirs, tuple) else theirs
        router, tokens = _router(block), hidden_states[0].double()
        logits = tokens @ router.weight.double().T
        if getattr(router, "bias", None) is not None:
            logits = logits + router.bias.double()
        routing = route(logits, spec.routing, top_k=_TOP_K, correction_bias=_correction_bias(block))
        ours = moe_layer(tokens, _BlockExperts(block), routing, spec.activation)
    return theirs.reshape(_TOKENS, _HIDDEN).double(), ours


def _relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("architecture", _MODELS)
def test_equals_transformers(architecture: str) -> None:
    theirs, ours = _answers(architecture)
    assert _relative(theirs, ours) < _FLOAT32


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        ("Qwen3MoeForCausalLM", {"norm_topk_prob": False}),
        ("DeepseekV3ForCausalLM", {"norm_topk_prob": False}),
        ("DeepseekV3ForCausalLM", {"n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0}),
        ("MixtralForCausalLM", {"hidden_act": "gelu"}),
        ("GptOssForCausalLM", {"swiglu_limit": 0.5, "swiglu_alpha": 1.2}),
    ],
)
def test_equals_transformers_with_other_settings(
    architecture: str, changes: dict[str, Any]
) -> None:
    theirs, ours = _answers(architecture, changes)
    assert _relative(theirs, ours) < _FLOAT32


def test_finds_a_block_that_swaps_gate_and_up() -> None:
    block, _ = _block("MixtralForCausalLM")
    swapped = copy.deepcopy(block)
    weights = swapped.experts.gate_up_proj
    weights.data = torch.cat([weights[:, _WIDTH:], weights[:, :_WIDTH]], dim=1)
    hidden_states = torch.randn(1, _TOKENS, _HIDDEN, generator=torch.Generator().manual_seed(6))
    with torch.no_grad():
        difference = _relative(swapped(hidden_states).double(), block(hidden_states).double())
    assert difference > 1000 * _FLOAT32


class _Two:
    """Two experts of one hidden value and width one: the first doubles, the second negates."""

    def expert(self, number: int, dtype: torch.dtype) -> Expert:
        one = torch.ones(1, 1, dtype=dtype)
        return Expert(gate=one, up=one, down=2 * one if number == 0 else -one)


def test_by_hand() -> None:
    hidden = torch.tensor([[1.0], [3.0]])
    routing = Routing(
        expert_ids=torch.tensor([[0, 1], [1, 0]]), weights=torch.tensor([[0.75, 0.25], [1.0, 0.0]])
    )
    output = moe_layer(hidden, _Two(), routing, SWIGLU)
    silu_1, silu_3 = 1 / (1 + 2.718281828459045**-1), 3 / (1 + 2.718281828459045**-3)
    expected = [[silu_1 * 1 * (0.75 * 2 - 0.25)], [-silu_3 * 3]]
    torch.testing.assert_close(output, torch.tensor(expected, dtype=torch.float64))


def test_gpt_oss_activation_by_hand() -> None:
    hidden = torch.tensor([[9.0]])  # gate is held at 7, up at 7
    routing = Routing(expert_ids=torch.tensor([[1]]), weights=torch.tensor([[1.0]]))
    output = moe_layer(hidden, _Two(), routing, GPT_OSS_SWIGLU)
    expected = -(7 / (1 + 2.718281828459045 ** (-1.702 * 7))) * (7 + 1)
    torch.testing.assert_close(output, torch.tensor([[expected]], dtype=torch.float64))


def test_roundings_are_applied_before_each_product() -> None:
    hidden = torch.tensor([[1.0]])
    routing = Routing(expert_ids=torch.tensor([[0]]), weights=torch.tensor([[1.0]]))
    rounded = moe_layer(
        hidden,
        _Two(),
        routing,
        SWIGLU,
        roundings=Roundings(tokens=lambda x: x * 3, activated=lambda x: x.round()),
    )
    assert rounded.item() == 2 * round(3 / (1 + 2.718281828459045**-3) * 3)
