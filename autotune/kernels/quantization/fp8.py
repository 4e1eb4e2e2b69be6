"""FP8: E4M3 values with float32 scales, per tensor, per 128x128 block or per 1x128 group.

    value = e4m3 * scale,  scale = amax / 448

- per tensor (``quantize``): one scale, or one an expert; static if the caller gives it.
- per block (``quantize_blocks``): weights, and per group (``quantize_groups``): activations, as
  DeepSeek-V3 does (arXiv 2412.19437, section 3.3.2).

Scales here are plain float32. Kernels that round them up to powers of two (DeepGEMM on Blackwell)
or that keep amax above a floor (1e-4, 1e-10) differ from this where they do.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from autotune.errors import InputError
from autotune.kernels.quantization.blocks import (
    beside,
    finite_float32,
    scale_or_one,
    split_blocks,
    tensor_scale,
)
from autotune.kernels.quantization.grids import E4M3_MAX, to_e4m3

BLOCK = 128


@dataclass(frozen=True, eq=False)
class FP8Tensor:
    """``values`` float8_e4m3fn; ``scale`` float32 [], or [experts] for [experts, rows, columns]."""

    values: Tensor
    scale: Tensor


@dataclass(frozen=True, eq=False)
class FP8BlockTensor:
    """``values`` float8_e4m3fn [..., rows, columns]; ``scales`` float32 of its 128x128 blocks.

    ``scales``: [..., ceil(rows / 128), ceil(columns / 128)].
    """

    values: Tensor
    scales: Tensor


@dataclass(frozen=True, eq=False)
class FP8GroupTensor:
    """``values`` float8_e4m3fn [..., columns]; ``scales`` float32 [..., columns / 128]."""

    values: Tensor
    scales: Tensor


def quantize(x: Tensor, *, scale: float | Tensor | None = None) -> FP8Tensor:
    """``x`` with one ``scale`` (default: amax / 448, an expert's own); saturates at 448 * scale.

    Raises:
        InputError: a value isn't finite, or the given scale is no positive number.
    """
    values = finite_float32(x, "FP8")
    overall = tensor_scale(values, scale, largest=E4M3_MAX, format_name="FP8")
    return FP8Tensor(values=to_e4m3(values / beside(overall, values)), scale=overall)


def dequantize(stored: FP8Tensor) -> Tensor:
    """The float32 tensor that ``stored`` stands for."""
    return stored.values.float() * beside(stored.scale, stored.values)


def quantize_blocks(weight: Tensor) -> FP8BlockTensor:
    """``weight`` [..., rows, columns] with a scale for each 128x128 block; edges may be ragged.

    Raises:
        InputError: fewer than two axes, or a value isn't finite.
    """
    if weight.dim() < 2:
        raise InputError(
            f"FP8 in 128x128 blocks needs rows and columns, but the shape is {list(weight.shape)}:"
            " quantize activations in groups instead"
        )
    values = finite_float32(weight, "FP8 in 128x128 blocks")
    rows, columns = values.shape[-2:]
    padding = (0, -columns % BLOCK, 0, -rows % BLOCK)
    padded = torch.nn.functional.pad(values, padding)
    row_blocks, column_blocks = math.ceil(rows / BLOCK), math.ceil(columns / BLOCK)
    blocks = padded.unflatten(-1, (column_blocks, BLOCK)).unflatten(-3, (row_blocks, BLOCK))
    scales = scale_or_one(blocks.abs().amax((-3, -1)), E4M3_MAX)
    return FP8BlockTensor(values=to_e4m3(values / _of_each_value(scales, values)), scales=scales)


def dequantize_blocks(stored: FP8BlockTensor) -> Tensor:
    """The float32 tensor that ``stored`` stands for."""
    return stored.values.float() * _of_each_value(stored.scales, stored.values)


def quantize_groups(x: Tensor) -> FP8GroupTensor:
    """``x`` [..., columns] with a scale for each 128 neighbours of the last axis.

    Raises:
        InputError: the last axis isn't a multiple of 128, or a value isn't finite.
    """
    groups = split_blocks(x, BLOCK, "FP8 in 1x128 groups")
    scales = scale_or_one(groups.abs().amax(-1), E4M3_MAX)
    return FP8GroupTensor(values=to_e4m3(groups / scales.unsqueeze(-1)).flatten(-2), scales=scales)


def dequantize_groups(stored: FP8GroupTensor) -> Tensor:
    """The float32 tensor that ``stored`` stands for."""
    groups = stored.values.float().unflatten(-1, (-1, BLOCK))
    return (groups * stored.scales.unsqueeze(-1)).flatten(-2)


def _of_each_value(scales: Tensor, values: Tensor) -> Tensor:
    """The scale of each value's 128x128 block, in the shape of ``values``."""
    rows, columns = values.shape[-2:]
    spread = scales.repeat_interleave(BLOCK, -2).repeat_interleave(BLOCK, -1)
    return spread[..., :rows, :columns]
