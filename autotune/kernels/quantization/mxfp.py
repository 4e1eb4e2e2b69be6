"""MXFP4 and MXFP8 (E4M3): 32 neighbours of the last axis share a power of two.

    value = element * 2^(scale code - 127)

of the OCP Microscaling Formats (MX) Specification v1.0. There are two usual ways to choose the
power, and both give valid tensors of the format:

- ``"floor"``: 2^(floor(log2(amax)) - emax), emax the exponent of the element's largest binade (2
  for E2M1, 8 for E4M3): section 6.3 of the specification. A block's largest values may then lie
  beyond the element's largest number (by up to a third for E2M1, a seventh for E4M3) and saturate.
- ``"up"``: the smallest power of two that keeps amax within the element's range: what FlashInfer's
  quantizers of activations do (NVIDIA's recipe: arXiv 2506.08027). Nothing saturates.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from autotune.kernels.quantization.blocks import split_blocks
from autotune.kernels.quantization.grids import (
    E2M1_MAX,
    E4M3_MAX,
    from_e2m1_codes,
    from_ue8m0,
    to_e2m1_codes,
    to_e4m3,
    to_ue8m0,
)
from autotune.kernels.quantization.packing import pack_nibbles, unpack_nibbles

BLOCK = 32
ScaleRule = Literal["floor", "up"]

_E2M1_EMAX = 2
_E4M3_EMAX = 8


@dataclass(frozen=True, eq=False)
class MXFP4Tensor:
    """A tensor [..., columns] in MXFP4.

    ``codes``: uint8 [..., columns / 2], two E2M1 codes a byte, the first in the low nibble.
    ``scales``: uint8 [..., columns / 32], UE8M0.
    """

    codes: Tensor
    scales: Tensor


@dataclass(frozen=True, eq=False)
class MXFP8Tensor:
    """``values`` float8_e4m3fn [..., columns]; ``scales`` uint8 [..., columns / 32], UE8M0."""

    values: Tensor
    scales: Tensor


def quantize_mxfp4(x: Tensor, *, scale_rule: ScaleRule = "floor") -> MXFP4Tensor:
    """``x`` in MXFP4; a block of zeros gets scale code 0.

    Raises:
        InputError: the last axis isn't a multiple of 32, or a value isn't finite.
    """
    blocks = split_blocks(x, BLOCK, "MXFP4")
    scales = _scales(blocks, scale_rule, emax=_E2M1_EMAX, largest=E2M1_MAX)
    codes = to_e2m1_codes(blocks / from_ue8m0(scales).unsqueeze(-1))
    return MXFP4Tensor(codes=pack_nibbles(codes.flatten(-2)), scales=scales)


def dequantize_mxfp4(stored: MXFP4Tensor) -> Tensor:
    """The float32 tensor [..., columns] that ``stored`` stands for."""
    return _times_scales(from_e2m1_codes(unpack_nibbles(stored.codes)), stored.scales)


def quantize_mxfp8(x: Tensor, *, scale_rule: ScaleRule = "floor") -> MXFP8Tensor:
    """``x`` in MXFP8 (E4M3); a block of zeros gets scale code 0.

    Raises:
        InputError: the last axis isn't a multiple of 32, or a value isn't finite.
    """
    blocks = split_blocks(x, BLOCK, "MXFP8")
    scales = _scales(blocks, scale_rule, emax=_E4M3_EMAX, largest=E4M3_MAX)
    values = to_e4m3(blocks / from_ue8m0(scales).unsqueeze(-1))
    return MXFP8Tensor(values=values.flatten(-2), scales=scales)


def dequantize_mxfp8(stored: MXFP8Tensor) -> Tensor:
    """The float32 tensor [..., columns] that ``stored`` stands for."""
    return _times_scales(stored.values.float(), stored.scales)


def _scales(blocks: Tensor, rule: ScaleRule, *, emax: int, largest: float) -> Tensor:
    amax = blocks.abs().amax(-1)
    if rule == "up":
        return to_ue8m0(amax / largest, up=True)
    return to_ue8m0(amax / 2.0**emax)


def _times_scales(values: Tensor, scales: Tensor) -> Tensor:
    blocks = values.unflatten(-1, (-1, BLOCK))
    return (blocks * from_ue8m0(scales).unsqueeze(-1)).flatten(-2)
