"""What a kernel of a scheme holds and sees, and how static scales are found."""

import dataclasses

import pytest
import torch

from autotune.kernels.backends.protocol import Calibration
from autotune.kernels.held import DequantizedExperts, calibrate, roundings, weights_as_held
from autotune.kernels.layer import seeded_layer
from autotune.kernels.oracle import EXACT
from autotune.kernels.quantization.schemes import SCHEMES
from autotune.kernels.quantization.tolerance import _NOISE
from autotune.kernels.spec import GPT_OSS_SWIGLU, SWIGLU, Activation
from tests.kernels.layers import CPU, layer_and_batch, layer_spec

EACH = pytest.mark.parametrize("scheme", SCHEMES)
QUANTIZED = pytest.mark.parametrize("scheme", [name for name in SCHEMES if name != "bf16"])
STATIC = [name for name, scheme in SCHEMES.items() if scheme.largest is not None]
DYNAMIC = [name for name in SCHEMES if name not in STATIC and name != "bf16"]

_SPEC = layer_spec(hidden=256, width=128, experts=3, expert_bias=True)
_CALIBRATION = Calibration(tokens_amax=4.0, activated_amax=6.0)


@EACH
def test_the_oracle_and_backends_hold_the_same(scheme: str) -> None:
    """One quantizes an expert at a time in the oracle's dtype, the other all into bfloat16."""
    layer = seeded_layer(_SPEC, seed=0, device=CPU)
    gate_up, down = weights_as_held(layer, scheme, dtype=torch.float32)
    for number in range(3):
        expert = DequantizedExperts(layer, scheme).expert(number, torch.float64)
        assert torch.cat([expert.gate, expert.up]).equal(gate_up[number].double())
        assert expert.down.equal(down[number].double())
        plain = layer.expert(number, torch.float64)
        for name in ("gate_bias", "up_bias", "down_bias"):
            assert getattr(expert, name).equal(getattr(plain, name))


def test_bfloat16_is_held_as_it_is_without_a_copy() -> None:
    layer = seeded_layer(_SPEC, seed=0, device=CPU)
    gate_up, down = weights_as_held(layer, "bf16", dtype=torch.bfloat16)
    assert gate_up is layer.gate_up and down is layer.down
    wide, _ = weights_as_held(layer, "bf16", dtype=torch.float32)
    assert wide.equal(layer.gate_up.float())


@QUANTIZED
def test_quantized_weights_are_off_by_the_schemes_noise(scheme: str) -> None:
    layer = seeded_layer(_SPEC, seed=0, device=CPU)
    held = weights_as_held(layer, scheme, dtype=torch.float32)
    for found, exact in zip(held, (layer.gate_up.float(), layer.down.float()), strict=True):
        error = float((found - exact).norm() / exact.norm())
        assert error == pytest.approx(_NOISE[scheme].weights, rel=0.1)


@QUANTIZED
def test_an_expert_is_quantized_by_itself(scheme: str) -> None:
    """A thousand times larger neighbour changes nothing."""
    layer = seeded_layer(_SPEC, seed=0, device=CPU)
    loud = dataclasses.replace(layer, gate_up=layer.gate_up.clone())
    loud.gate_up[1] *= 1000
    before, _ = weights_as_held(layer, scheme, dtype=torch.float32)
    after, _ = weights_as_held(loud, scheme, dtype=torch.float32)
    assert after[0].equal(before[0]) and after[2].equal(before[2])
    assert not after[1].equal(before[1])


@QUANTIZED
def test_the_layer_is_left_as_it_is(scheme: str) -> None:
    layer = seeded_layer(_SPEC, seed=0, device=CPU)
    weights_as_held(layer, scheme, dtype=torch.bfloat16)
    assert layer.gate_up.equal(seeded_layer(_SPEC, seed=0, device=CPU).gate_up)


def test_bfloat16_rounds_no_activation() -> None:
    assert roundings("bf16", _CALIBRATION) is EXACT


@QUANTIZED
def test_activations_are_off_by_the_schemes_noise(scheme: str) -> None:
    values = torch.randn(64, 256, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = roundings(scheme, _CALIBRATION)
    for rounding in (found.tokens, found.activated):
        error = float((rounding(values) - values).norm() / values.norm())
        assert error == pytest.approx(_NOISE[scheme].activations, rel=0.2)


@pytest.mark.parametrize("scheme", STATIC)
def test_a_static_scale_saturates_at_what_was_calibrated(scheme: str) -> None:
    """Each of the two roundings at its own magnitude."""
    found = roundings(scheme, _CALIBRATION)
    # All alike: NVFP4's block scales are then the largest that E4M3 has.
    loud = torch.full((1, 16), 100.0)
    assert float(found.tokens(loud).max()) == pytest.approx(4.0, rel=0.01)
    assert float(found.activated(loud).max()) == pytest.approx(6.0, rel=0.01)


@pytest.mark.parametrize("scheme", DYNAMIC)
def test_a_dynamic_scale_follows_the_values(scheme: str) -> None:
    values = torch.randn(4, 256, generator=torch.Generator().manual_seed(0))
    found = roundings(scheme, _CALIBRATION)
    assert found.tokens(values).equal(found.activated(values))
    torch.testing.assert_close(found.tokens(values * 1024), found.tokens(values) * 1024)


@pytest.mark.parametrize("activation", [SWIGLU, GPT_OSS_SWIGLU], ids=["SwiGLU", "gpt-oss"])
@pytest.mark.parametrize("expert_bias", [False, True])
def test_calibration_by_hand(activation: Activation, expert_bias: bool) -> None:
    """Every token's every expert, one value after another."""
    spec = layer_spec(activation=activation, expert_bias=expert_bias)
    layer, batch = layer_and_batch(spec, tokens=7)
    largest = 0.0
    for token, experts in zip(
        batch.hidden_states.float(), batch.routing.expert_ids.tolist(), strict=True
    ):
        for number in experts:
            joined = layer.gate_up[number].float() @ token
            if layer.gate_up_bias is not None:
                joined = joined + layer.gate_up_bias[number]
            gate, up = joined[:32], joined[32:]
            if activation is GPT_OSS_SWIGLU:
                gate, up = gate.clamp(max=7.0), up.clamp(-7.0, 7.0) + 1
                activated = gate / (1 + torch.exp(-1.702 * gate)) * up
            else:
                activated = gate / (1 + torch.exp(-gate)) * up
            largest = max(largest, float(activated.abs().max()))
    found = calibrate(layer, batch)
    # Twice what was seen, for what wasn't.
    assert found.tokens_amax == 2 * float(batch.hidden_states.abs().max())
    assert found.activated_amax == pytest.approx(2 * largest, rel=1e-5)
