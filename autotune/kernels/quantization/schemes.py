"""The quantization schemes by name: what becomes of weights, and of activations on their way.

A scheme ties formats together as kernels combine them: NVFP4 weights meet NVFP4 activations,
MXFP4 weights meet MXFP8 ones. The formats themselves are the modules beside this one.

| scheme | weights | activations |
|---|---|---|
| bf16 | bfloat16 | bfloat16 |
| fp8 | E4M3, a scale an expert and projection | E4M3, one static scale |
| fp8_block | E4M3, float32 scales of 128x128 blocks | E4M3, float32 scales of 1x128 groups |
| nvfp4 | E2M1, E4M3 scales of 16, a global scale an expert | the same, one static global scale |
| mxfp4 | E2M1, UE8M0 scales of 32 | MXFP8 |
| mxfp8 | E4M3, UE8M0 scales of 32 | MXFP8 |
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from autotune.kernels.quantization import fp8, mxfp, nvfp4
from autotune.kernels.quantization.grids import E4M3_MAX

# A tensor, and a static scale where the scheme has one.
ActivationRounding = Callable[[Tensor, float | None], Tensor]


@dataclass(frozen=True)
class Scheme:
    """One scheme.

    Attributes:
        name: what it is called everywhere.
        round_weights: [experts, rows, columns] of any floating dtype to float32 values that the
            scheme can hold: quantized and dequantized.
        round_activations: the same for activations [..., columns], given the static scale.
        largest: what amax is divided by for a static scale; ``None`` where scales are dynamic.
        weight_bytes: of one weight, its share of the block scales included.
    """

    name: str
    round_weights: Callable[[Tensor], Tensor]
    round_activations: ActivationRounding
    largest: float | None
    weight_bytes: float

    def activation_scale(self, amax: float) -> float | None:
        """Return the static scale for activations of that largest magnitude, if there is one."""
        return None if self.largest is None else max(amax, 1e-12) / self.largest


def _bf16(values: Tensor) -> Tensor:
    return values.to(torch.bfloat16).float()


def _bf16_activations(values: Tensor, _: float | None) -> Tensor:
    return _bf16(values)


def _fp8_activations(values: Tensor, scale: float | None) -> Tensor:
    return fp8.dequantize(fp8.quantize(values, scale=scale))


def _fp8_group_activations(values: Tensor, _: float | None) -> Tensor:
    return fp8.dequantize_groups(fp8.quantize_groups(values))


def _nvfp4_activations(values: Tensor, scale: float | None) -> Tensor:
    return nvfp4.dequantize(nvfp4.quantize(values, global_scale=scale))


def _mxfp8_activations(values: Tensor, _: float | None) -> Tensor:
    # Quantizers of activations keep the largest value in range, see `mxfp`.
    return mxfp.dequantize_mxfp8(mxfp.quantize_mxfp8(values, scale_rule="up"))


_SCHEMES = (
    Scheme("bf16", _bf16, _bf16_activations, None, 2.0),
    Scheme("fp8", lambda w: fp8.dequantize(fp8.quantize(w)), _fp8_activations, E4M3_MAX, 1.0),
    Scheme(
        "fp8_block",
        lambda w: fp8.dequantize_blocks(fp8.quantize_blocks(w)),
        _fp8_group_activations,
        None,
        1.0 + 4.0 / fp8.BLOCK**2,
    ),
    Scheme(
        "nvfp4",
        lambda w: nvfp4.dequantize(nvfp4.quantize(w)),
        _nvfp4_activations,
        nvfp4.LARGEST,
        0.5 + 1.0 / nvfp4.BLOCK,
    ),
    Scheme(
        "mxfp4",
        lambda w: mxfp.dequantize_mxfp4(mxfp.quantize_mxfp4(w)),
        _mxfp8_activations,
        None,
        0.5 + 1.0 / mxfp.BLOCK,
    ),
    Scheme(
        "mxfp8",
        lambda w: mxfp.dequantize_mxfp8(mxfp.quantize_mxfp8(w)),
        _mxfp8_activations,
        None,
        1.0 + 1.0 / mxfp.BLOCK,
    ),
)
SCHEMES = {scheme.name: scheme for scheme in _SCHEMES}
