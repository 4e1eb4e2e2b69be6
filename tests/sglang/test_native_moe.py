"""The oracle against SGLang's MoE in plain torch, which it runs where it has no other kernel.

No --moe-runner-backend stands for it, so that it is no backend here.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from autotune.kernels.backends.sglang.weights import alternating
from autotune.kernels.layer import Batch, Layer
from autotune.kernels.oracle import moe_layer
from autotune.kernels.spec import GPT_OSS_SWIGLU, SWIGLU, Activation, LayerSpec, RoutingRule
from tests.kernels.backends.flashinfer.small import layer_and_batch, spec

SCALED = RoutingRule(scoring="sigmoid", correction_bias=True, scaling_factor=2.5)


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    with torch.compiler.set_stance("force_eager"):
        yield


class Held(torch.nn.Module):
    """A layer with the attributes that SGLang's functions look for, in float64."""

    def __init__(self, layer: Layer) -> None:
        from sglang.srt.layers.moe.moe_runner import MoeRunnerConfig

        super().__init__()
        activation = layer.spec.activation
        has_alpha = activation.limit is not None
        self.num_experts = layer.spec.geometry.experts
        self.moe_runner_config = MoeRunnerConfig(
            activation=activation.function,
            gemm1_alpha=activation.alpha if has_alpha else None,
            gemm1_clamp_limit=activation.limit,
        )
        # Rows of gate and up alternate for this activation, as gpt-oss has them.
        ordered = alternating if has_alpha else _as_they_are
        self.w13_weight = ordered(layer.gate_up).double()
        self.w2_weight = layer.down.double()
        if layer.gate_up_bias is not None and layer.down_bias is not None:
            self.w13_weight_bias = ordered(layer.gate_up_bias).double()
            self.w2_weight_bias = layer.down_bias.double()


def _as_they_are(values: Tensor) -> Tensor:
    return values


def one_expert_after_another(held: Held, batch: Batch) -> Tensor:
    from sglang.srt.layers.moe.fused_moe_native import moe_forward_native

    found: Tensor = moe_forward_native(
        held, batch.hidden_states.double(), chosen(batch), held.moe_runner_config
    )
    return found


def all_at_once(held: Held, batch: Batch) -> Tensor:
    from sglang.srt.layers.moe.fused_moe_native import fused_moe_forward_native
    from sglang.srt.layers.moe.token_dispatcher import StandardDispatchOutput

    given = StandardDispatchOutput(batch.hidden_states.double(), None, chosen(batch))
    found: Tensor = fused_moe_forward_native(held, given).hidden_states
    return found


def chosen(batch: Batch) -> Any:
    from sglang.srt.layers.moe.topk import StandardTopKOutput

    return StandardTopKOutput(
        batch.routing.weights.double(), batch.routing.expert_ids, batch.logits
    )


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def difference(of: LayerSpec, function: Any, activation: Activation | None = None) -> float:
    layer, batch = layer_and_batch(of, tokens=9)
    expected = moe_layer(
        batch.hidden_states, layer, batch.routing, activation or layer.spec.activation
    )
    return relative(function(Held(layer), batch), expected)


@pytest.mark.parametrize("function", [one_expert_after_another, all_at_once])
@pytest.mark.parametrize(
    "of",
    [spec(), spec(experts=16, top_k=1), spec(experts=8, top_k=5, routing=SCALED)],
    ids=["two experts", "one", "five, scaled"],
)
def test_swiglu(of: LayerSpec, function: Any) -> None:
    assert difference(of, function) < 1e-12


def test_gelu() -> None:
    """One of SGLang's functions means the exact one by gelu, the other the approximation."""
    exact, approximate = Activation(function="gelu"), Activation(function="gelu_tanh")
    assert difference(spec(activation=exact), all_at_once) < 1e-12
    assert difference(spec(activation=exact), one_expert_after_another, approximate) < 1e-12


@pytest.mark.parametrize("expert_bias", [False, True])
def test_gpt_oss(expert_bias: bool) -> None:
    of = spec(activation=GPT_OSS_SWIGLU, expert_bias=expert_bias)
    assert difference(of, one_expert_after_another) < (1e-6 if expert_bias else 1e-12)


def test_a_difference_is_seen() -> None:
    of = spec(activation=GPT_OSS_SWIGLU)
    assert difference(of, one_expert_after_another, SWIGLU) > 0.1
    layer, batch = layer_and_batch(spec(), tokens=9)
    held = Held(layer)
    held.w13_weight = torch.cat(held.w13_weight.chunk(2, dim=1)[::-1], dim=1)
    expected = moe_layer(batch.hidden_states, layer, batch.routing, SWIGLU)
    assert relative(all_at_once(held, batch), expected) > 0.1


def test_no_backend_stands_for_it() -> None:
    from sglang.srt.arg_groups.choices import MOE_RUNNER_BACKEND_CHOICES

    assert "triton" in MOE_RUNNER_BACKEND_CHOICES
    assert not {"native", "torch", "torch_native", "cpu"} & set(MOE_RUNNER_BACKEND_CHOICES)
