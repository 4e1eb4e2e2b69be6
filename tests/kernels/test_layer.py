"""Layers and batches from a seed: repeatable, of sensible size, and nothing shared by accident."""

import dataclasses

import pytest
import torch
from torch import Tensor

from autotune.kernels import layer as module
from autotune.kernels.layer import Batch, Layer, seeded_layer, split_expert
from autotune.kernels.oracle import moe_layer
from autotune.kernels.routing import route
from autotune.kernels.spec import GPT_OSS_SWIGLU
from tests.kernels.layers import CPU, RULES, layer_and_batch, layer_spec

_SPEC = layer_spec(routing=RULES["minimax"], expert_bias=True)
_LARGE = layer_spec(hidden=256, width=192, experts=16, routing=RULES["minimax"], expert_bias=True)


def _tensors(of: Layer | Batch) -> dict[str, Tensor]:
    values = {field.name: getattr(of, field.name) for field in dataclasses.fields(of)}
    if isinstance(of, Batch):
        values |= {"ids": of.routing.expert_ids, "weights": of.routing.weights}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def test_a_seed_gives_the_same_again() -> None:
    first, second = layer_and_batch(_SPEC, tokens=5), layer_and_batch(_SPEC, tokens=5)
    for one, other in zip(first, second, strict=True):
        found, again = _tensors(one), _tensors(other)
        assert len(found) >= 4
        for name in found:
            assert found[name].equal(again[name]), name


@pytest.mark.parametrize("seed", [0, 2**31])
def test_another_seed_gives_another(seed: int) -> None:
    first = layer_and_batch(_SPEC, tokens=5, seed=seed)
    second = layer_and_batch(_SPEC, tokens=5, seed=1)
    for one, other in zip(first, second, strict=True):
        found, another = _tensors(one), _tensors(other)
        for name in found:
            assert not found[name].equal(another[name]), name


def test_batches_of_two_sizes_share_no_token() -> None:
    layer, small = layer_and_batch(_SPEC, tokens=4)
    _, large = layer_and_batch(_SPEC, tokens=5)
    for name in ("hidden_states", "logits"):
        rows = [tuple(row) for one in (small, large) for row in _tensors(one)[name].tolist()]
        assert len(set(rows)) == 9
    assert layer.gate_up.flatten()[0] != small.hidden_states.flatten()[0]


def test_shapes_and_dtypes() -> None:
    layer, batch = layer_and_batch(_SPEC, tokens=5)
    found = {name: (tuple(x.shape), x.dtype) for name, x in _tensors(layer).items()}
    assert found == {
        "gate_up": ((8, 64, 64), torch.bfloat16),
        "down": ((8, 64, 32), torch.bfloat16),
        "gate_up_bias": ((8, 64), torch.float32),
        "down_bias": ((8, 64), torch.float32),
        "correction_bias": ((8,), torch.float32),
    }
    assert {name: (tuple(x.shape), x.dtype) for name, x in _tensors(batch).items()} == {
        "hidden_states": ((5, 64), torch.bfloat16),
        "logits": ((5, 8), torch.float32),
        "ids": ((5, 2), torch.int64),
        "weights": ((5, 2), torch.float32),
    }
    assert batch.tokens == 5


def test_a_layer_has_only_the_biases_of_its_kind() -> None:
    plain = seeded_layer(layer_spec(), seed=0, device=CPU)
    assert plain.gate_up_bias is plain.down_bias is plain.correction_bias is None
    assert plain.expert_biases(0, torch.float32) == (None, None)


def test_a_weights_size_keeps_that_of_its_input() -> None:
    layer, batch = layer_and_batch(_LARGE, tokens=64)
    assert float(layer.gate_up.float().std()) == pytest.approx(256**-0.5, rel=0.01)
    assert float(layer.down.float().std()) == pytest.approx(192**-0.5, rel=0.01)
    assert float(batch.hidden_states.float().std()) == pytest.approx(1.0, rel=0.02)
    for values in (layer.gate_up, layer.down, batch.hidden_states):
        assert abs(float(values.float().mean())) < 0.01 * float(values.float().std()) + 0.01
    gate = batch.hidden_states.float() @ layer.expert(0, torch.float32).gate.T
    assert float(gate.std()) == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("rule", RULES)
def test_an_output_has_neither_vanished_nor_exploded(rule: str) -> None:
    spec = layer_spec(hidden=128, width=96, experts=16, top_k=4, routing=RULES[rule])
    layer, batch = layer_and_batch(spec, tokens=32)
    output = moe_layer(batch.hidden_states, layer, batch.routing, spec.activation)
    size = float(output.square().mean().sqrt()) / spec.routing.scaling_factor
    assert 0.02 < size < 3


def test_biases_are_values_of_bfloat16() -> None:
    layer, _ = layer_and_batch(_LARGE, tokens=1)
    for name in ("gate_up_bias", "down_bias", "correction_bias"):
        values = _tensors(layer)[name]
        assert values.bfloat16().float().equal(values), name
    assert layer.gate_up_bias is not None
    assert float(layer.gate_up_bias.std()) == pytest.approx(0.3, rel=0.05)


def test_correction_biases_differ_by_tenths_within_bounds() -> None:
    """Two that differ by 1 would make one expert never be chosen without the other."""
    spec = layer_spec(hidden=8, width=8, experts=512, routing=RULES["minimax"])
    bias = seeded_layer(spec, seed=0, device=CPU).correction_bias
    assert bias is not None
    assert float(bias.abs().max()) < 0.31
    assert float(bias.std()) == pytest.approx(0.3 / 3**0.5, rel=0.1)


def test_parts_of_the_weights_are_drawn_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large layers are drawn a few experts at a time; none may repeat another."""
    monkeypatch.setattr(module, "_LARGEST_WEIGHTS_AT_ONCE", 3 * 64 * 64)
    layer = seeded_layer(layer_spec(experts=10), seed=0, device=CPU)
    firsts = {float(expert[0, 0]) for expert in layer.gate_up}
    assert len(firsts) == 10
    assert all(abs(float(expert.float().std()) * 8 - 1) < 0.1 for expert in layer.gate_up)


def test_an_expert_is_parted_into_its_projections() -> None:
    layer, _ = layer_and_batch(_SPEC, tokens=1)
    assert layer.gate_up_bias is not None and layer.down_bias is not None
    found = layer.expert(3, torch.float64)
    expected = {
        "gate": layer.gate_up[3, :32],
        "up": layer.gate_up[3, 32:],
        "down": layer.down[3],
        "gate_bias": layer.gate_up_bias[3, :32],
        "up_bias": layer.gate_up_bias[3, 32:],
        "down_bias": layer.down_bias[3],
    }
    for name, values in expected.items():
        assert getattr(found, name).equal(values.double()), name
    plain = split_expert(layer.gate_up[3], layer.down[3], gate_up_bias=None, down_bias=None)
    assert plain.gate_bias is plain.up_bias is plain.down_bias is None


@pytest.mark.parametrize("rule", RULES)
def test_a_batch_is_routed_by_its_layers_rule(rule: str) -> None:
    spec = layer_spec(experts=16, top_k=4, routing=RULES[rule], activation=GPT_OSS_SWIGLU)
    layer, batch = layer_and_batch(spec, tokens=9)
    bias = layer.correction_bias
    expected = route(
        batch.logits.double(),
        spec.routing,
        top_k=4,
        correction_bias=None if bias is None else bias.double(),
    )
    assert batch.routing.expert_ids.equal(expected.expert_ids)
    assert batch.routing.weights.equal(expected.weights.float())
    if spec.routing.normalize:
        total = batch.routing.weights.sum(dim=-1)
        torch.testing.assert_close(total, torch.full((9,), spec.routing.scaling_factor))
