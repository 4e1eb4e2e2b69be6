"""How kernels lay quantized values and block scales out in memory.

Two codes a byte, and the "128x4" layout of block scales that CUTLASS's block-scaled matrix
multiplications read and FlashInfer writes ("swizzled"). Only bytes are moved here: nothing is
rounded. Layouts that single kernels add on top (rows shuffled for a kernel's epilogue) aren't here.
"""

import math

import torch
from torch import Tensor

from autotune.errors import InputError

_TILE_ROWS = 128
_TILE_COLUMNS = 4
_INNER_ROWS = 32
_TILE_BYTES = _TILE_ROWS * _TILE_COLUMNS


def pack_nibbles(codes: Tensor) -> Tensor:
    """4-bit ``codes`` [..., columns] (uint8 0..15) two a byte, the first in the low nibble.

    Raises:
        InputError: an odd number of columns.
    """
    if codes.shape[-1] % 2:
        raise InputError(
            f"two 4-bit codes share a byte, but the shape {list(codes.shape)} ends in an odd"
            " number: pad the last axis with a zero"
        )
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack_nibbles(packed: Tensor) -> Tensor:
    """The codes [..., 2 * bytes] of ``packed`` [..., bytes]: ``pack_nibbles`` undone."""
    return torch.stack([packed & 0xF, packed >> 4], dim=-1).flatten(-2)


def swizzle_128x4(scales: Tensor) -> Tensor:
    """Block scales in the 128x4 layout.

    Rows are padded with zeros to a multiple of 128 and columns to one of 4. Tiles of 128 x 4
    scales follow each other, row of tiles by row of tiles; in its tile of 512 bytes the scale of
    (row, column) is at ``row % 32 * 16 + row % 128 // 32 * 4 + column % 4``.

    Args:
        scales: uint8 [rows, columns] or [experts, rows, columns]; columns counts scales.

    Returns:
        uint8 [bytes] or [experts, bytes].

    Raises:
        InputError: another dtype or number of axes.
    """
    _require_bytes(scales, axes=(2, 3))
    rows, columns = scales.shape[-2:]
    row_tiles, column_tiles = _tiles(rows, columns)
    padding = (0, column_tiles * _TILE_COLUMNS - columns, 0, row_tiles * _TILE_ROWS - rows)
    padded = torch.nn.functional.pad(scales, padding)
    split_rows = (row_tiles, _TILE_ROWS // _INNER_ROWS, _INNER_ROWS)
    # [..., row tile, row // 32, row % 32, column tile, column % 4]
    tiles = padded.unflatten(-1, (column_tiles, _TILE_COLUMNS)).unflatten(-3, split_rows)
    return tiles.movedim(-2, -4).transpose(-3, -2).flatten(-5).contiguous()


def unswizzle_128x4(flat: Tensor, rows: int, columns: int) -> Tensor:
    """The scales [rows, columns] that ``swizzle_128x4`` made ``flat`` of, without the padding.

    Args:
        flat: uint8 [bytes] or [experts, bytes].
        rows: rows of scales before padding.
        columns: scales in a row before padding.

    Returns:
        uint8 [rows, columns] or [experts, rows, columns].

    Raises:
        InputError: another dtype or number of axes, or not the bytes of so many rows and columns.
    """
    _require_bytes(flat, axes=(1, 2))
    row_tiles, column_tiles = _tiles(rows, columns)
    expected = row_tiles * column_tiles * _TILE_BYTES
    if flat.shape[-1] != expected:
        raise InputError(
            f"scales of {rows} rows and {columns} columns take {expected} bytes in the 128x4"
            f" layout, but the shape is {list(flat.shape)}: check rows and columns (columns counts"
            " scales, not values)"
        )
    inner = (row_tiles, column_tiles, _INNER_ROWS, _TILE_ROWS // _INNER_ROWS, _TILE_COLUMNS)
    tiles = flat.unflatten(-1, inner).transpose(-3, -2).movedim(-4, -2)
    return tiles.flatten(-2).flatten(-4, -2)[..., :rows, :columns].contiguous()


def _tiles(rows: int, columns: int) -> tuple[int, int]:
    return math.ceil(rows / _TILE_ROWS), math.ceil(columns / _TILE_COLUMNS)


def _require_bytes(scales: Tensor, *, axes: tuple[int, int]) -> None:
    if scales.dtype != torch.uint8 or scales.dim() not in axes:
        raise InputError(
            f"the 128x4 layout takes a uint8 tensor of {axes[0]} or {axes[1]} axes, not"
            f" {scales.dtype} of shape {list(scales.shape)}: view one-byte scales with"
            " .view(torch.uint8)"
        )
