"""What a kernel of a quantization scheme really holds and sees: dequantized weights, roundings.

This is where a layer meets a scheme: the oracle is run on it, so that a backend isn't blamed for
what its format loses.
"""

import torch
from torch import Tensor

from autotune.kernels.backends.protocol import Calibration
from autotune.kernels.layer import Batch, Layer, split_expert
from autotune.kernels.oracle import EXACT, Expert, Rounding, Roundings, moe_layer
from autotune.kernels.quantization.schemes import SCHEMES

# A checkpoint's maker looks at far more tokens than are run here, and a batch shall not saturate
# where theirs wouldn't. Floating-point values lose nothing by a scale that is twice as large.
_HEADROOM = 2.0


class DequantizedExperts:
    """A layer's experts after quantizing and dequantizing, one at a time, for the oracle."""

    def __init__(self, layer: Layer, scheme: str) -> None:
        self._layer = layer
        self._scheme = scheme

    def expert(self, number: int, dtype: torch.dtype) -> Expert:
        layer = self._layer
        one = slice(number, number + 1)
        gate_up, down = (
            SCHEMES[self._scheme].round_weights(weights[one])[0].to(dtype)
            for weights in (layer.gate_up, layer.down)
        )
        gate_up_bias, down_bias = layer.expert_biases(number, dtype)
        return split_expert(gate_up, down, gate_up_bias=gate_up_bias, down_bias=down_bias)


def weights_as_held(layer: Layer, scheme: str, *, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return gate_up and down as the scheme holds them, rounded to ``dtype``.

    An expert at a time, so that only the result needs room beside the layer.
    """
    if scheme == "bf16" and dtype == torch.bfloat16:
        return layer.gate_up, layer.down
    return _each(layer.gate_up, scheme, dtype), _each(layer.down, scheme, dtype)


def _each(weights: Tensor, scheme: str, dtype: torch.dtype) -> Tensor:
    held = torch.empty_like(weights, dtype=dtype)
    for number in range(weights.shape[0]):
        one = slice(number, number + 1)
        held[one] = SCHEMES[scheme].round_weights(weights[one]).to(dtype)
    return held


def roundings(scheme: str, calibration: Calibration) -> Roundings:
    """Return what a kernel of ``scheme`` does to activations before each of its products."""
    if scheme == "bf16":
        return EXACT
    return Roundings(
        tokens=_rounding(scheme, calibration.tokens_amax),
        activated=_rounding(scheme, calibration.activated_amax),
    )


def _rounding(scheme: str, amax: float) -> Rounding:
    found = SCHEMES[scheme]
    scale = found.activation_scale(amax)

    def rounding(values: Tensor) -> Tensor:
        return found.round_activations(values.float(), scale)

    return rounding


def calibrate(layer: Layer, batch: Batch) -> Calibration:
    """Find the largest magnitudes that static activation scales are made of.

    As a checkpoint's maker does: a batch is run in full precision, and what passes is looked at.
    Twice the largest magnitudes that were seen, for the tokens that weren't.
    """
    seen = [0.0]

    def look(values: Tensor) -> Tensor:
        seen.append(float(values.abs().max()))
        return values

    moe_layer(
        batch.hidden_states,
        layer,
        batch.routing,
        layer.spec.activation,
        roundings=Roundings(activated=look),
        dtype=torch.float32,
    )
    return Calibration(
        tokens_amax=_HEADROOM * float(batch.hidden_states.abs().max()),
        activated_amax=_HEADROOM * max(seen),
    )
