"""How FlashInfer's kernels want weights and block scales laid out: bytes are moved, none change.

Checkpoints, and our `Layer`, have an expert's gate rows above its up rows. FlashInfer speaks of
``[up, gate]`` (also ``[X1, X2]``: linear, gate), so everything begins with `up_above_gate`. Then:

- **CUTLASS**: nothing more; block scales in the 128x4 layout, an expert after the other.
- **trtllm-gen**: rows of up and gate alternate (`alternating_rows`), rows are shuffled within
  blocks of 32 for the epilogue's transposed output (`shuffled_rows`), block scales with them and
  then into the 128x4 layout; bfloat16 weights also in blocks of 128 bytes along K (`k_blocks`).
- **CuTe DSL**: 64 rows of up, 64 of gate, and so on (`grouped_rows`); block scales in the 128x4
  layout, seen in six axes (`mma_view`).

Where a size isn't what a kernel's tiles need, weights are padded with zeros, halves apart
(`Padding`), and block scales with the number 1.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from autotune.kernels.quantization.packing import swizzle_128x4

_SHUFFLE_ROWS = 32
_CUTE_DSL_GROUP = 64
_K_BLOCK_BYTES = 128
_OUTPUT_MULTIPLE = 128


@dataclass(frozen=True)
class Padding:
    """The sizes that a kernel's tensors get.

    Attributes:
        hidden: the layer's own hidden size.
        width: its own expert width.
        hidden_in: the columns of the first product's weights, and of its input.
        hidden_out: the rows of the second product's weights.
        width_padded: the columns of the second, and half of the rows of the first.
    """

    hidden: int
    width: int
    hidden_in: int
    hidden_out: int
    width_padded: int

    @property
    def is_needed(self) -> bool:
        """Whether anything is padded."""
        return (self.hidden_in, self.hidden_out, self.width_padded) != (
            self.hidden,
            self.hidden,
            self.width,
        )


def trtllm_padding(hidden: int, width: int) -> Padding:
    """Return what trtllm-gen's block-scaled kernels need: the sizes of `pad_trtllm_moe_weights`.

    The kernels need a width of a multiple of 128 and a hidden size of a multiple of 256 (128 is
    refused, or gives wrong results). What isn't is padded: hidden to a multiple of 512, while the
    second product has a multiple of 128 rows.
    """
    if hidden % 256 == 0 and width % 128 == 0:
        return Padding(hidden, width, hidden, hidden, width)
    return Padding(
        hidden=hidden,
        width=width,
        hidden_in=_up(hidden, 512),
        hidden_out=_up(hidden, _OUTPUT_MULTIPLE),
        width_padded=_up(width, 128),
    )


def cutlass_padding(hidden: int, width: int) -> Padding:
    """Return what CUTLASS's MX kernels need: multiples of 128."""
    return Padding(hidden, width, _up(hidden, 128), _up(hidden, 128), _up(width, 128))


def _up(size: int, multiple: int) -> int:
    return math.ceil(size / multiple) * multiple


def padded(values: Tensor, *, rows: int, columns: int, fill: int = 0) -> Tensor:
    """One-byte ``values`` [experts, rows, columns] with more rows and columns of ``fill``."""
    added = (0, columns - values.shape[2], 0, rows - values.shape[1])
    if not any(added):
        return values
    return torch.nn.functional.pad(values.view(torch.uint8), added, value=fill).view(values.dtype)


def padded_halves(values: Tensor, *, half: int, columns: int, fill: int = 0) -> Tensor:
    """`padded`, for two halves of rows that each become ``half`` rows."""
    halves = values.chunk(2, dim=1)
    return torch.cat([padded(part, rows=half, columns=columns, fill=fill) for part in halves], 1)


def up_above_gate(values: Tensor, *, dim: int = 1) -> Tensor:
    """Swap the halves of ``dim``: gate above up, and back again."""
    gate, up = values.chunk(2, dim=dim)
    return torch.cat([up, gate], dim=dim)


def alternating_rows(rows: int) -> Tensor:
    """Which row comes where when two halves alternate: 0, rows / 2, 1, rows / 2 + 1, ..."""
    return torch.arange(rows).reshape(2, -1).T.flatten()


def shuffled_rows(rows: int) -> Tensor:
    """Which row comes where in the order of trtllm-gen's epilogue (tiles of 128 rows).

    In each block of 32 the row at place ``p`` is ``p % 8 * 4 + p // 8``.
    """
    place = torch.arange(_SHUFFLE_ROWS)
    order = place % 8 * 4 + place // 8
    starts = torch.arange(0, rows, _SHUFFLE_ROWS)
    return (starts[:, None] + order).flatten()


def first_product_rows(rows: int) -> Tensor:
    """Which row of [up, gate] comes where in trtllm-gen's first weights."""
    return alternating_rows(rows)[shuffled_rows(rows)]


def taken_rows(values: Tensor, order: Tensor) -> Tensor:
    """``values`` [experts, rows, ...] with its rows in that order, in any one-byte dtype."""
    return values[:, order.to(values.device)].contiguous()


def grouped_rows(rows: int) -> Tensor:
    """Which row of [up, gate] comes where in CuTe DSL's first weights: 64 of each in turn."""
    return torch.arange(rows).reshape(2, -1, _CUTE_DSL_GROUP).transpose(0, 1).flatten()


def swizzled(scales: Tensor) -> Tensor:
    """Block scales [experts, rows, columns], one byte each, in the 128x4 layout.

    Returns:
        uint8 [experts, rows up to a multiple of 128, columns up to one of 4].
    """
    experts, rows, columns = scales.shape
    flat = torch.stack([swizzle_128x4(each.view(torch.uint8)) for each in scales])
    return flat.reshape(experts, _up(rows, 128), _up(columns, 4))


def k_blocks(weights: Tensor) -> Tensor:
    """bfloat16 [experts, rows, columns] as [experts, columns / 64, rows, 64]: 128 bytes a block."""
    values = _K_BLOCK_BYTES // weights.element_size()
    return weights.unflatten(-1, (-1, values)).transpose(1, 2).contiguous()


def mma_view(swizzled_scales: Tensor) -> Tensor:
    """See 128x4 scales [experts, rows, columns] in the six axes of CuTe DSL.

    They are [32, 4, row tiles, 4, column tiles, experts]. It stays a view: the kernels want the
    strides of the layout beneath.
    """
    experts, rows, columns = swizzled_scales.shape
    tiles = swizzled_scales.view(experts, rows // 128, columns // 4, 32, 4, 4)
    return tiles.permute(3, 4, 1, 5, 2, 0)
