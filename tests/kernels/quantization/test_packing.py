"""The order of nibbles and of block scales, by hand and undone."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from autotune.errors import InputError
from autotune.kernels.quantization.packing import (
    pack_nibbles,
    swizzle_128x4,
    unpack_nibbles,
    unswizzle_128x4,
)

few = settings(max_examples=50, deadline=None)


def random_bytes(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def test_the_first_code_is_the_low_nibble() -> None:
    codes = torch.tensor([[0x1, 0x2, 0xF, 0x0], [0x8, 0x7, 0x3, 0xC]], dtype=torch.uint8)
    assert pack_nibbles(codes).tolist() == [[0x21, 0x0F], [0x78, 0xC3]]


@few
@given(st.lists(st.integers(0, 255), min_size=1, max_size=20))
def test_unpacking_undoes_packing(packed: list[int]) -> None:
    stored = torch.tensor([packed], dtype=torch.uint8)
    codes = unpack_nibbles(stored)
    assert codes.shape == (1, 2 * len(packed))
    assert int(codes.max()) < 16
    assert torch.equal(pack_nibbles(codes), stored)


def test_an_odd_number_of_codes_is_refused() -> None:
    with pytest.raises(InputError, match=r"\[2, 3\].*odd.*pad"):
        pack_nibbles(torch.zeros(2, 3, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("row", "column", "index"),
    [
        (0, 0, 0),
        (0, 3, 3),
        (1, 0, 16),
        (31, 3, 31 * 16 + 3),
        (32, 0, 4),
        (97, 2, 16 + 3 * 4 + 2),
        (127, 3, 511),
        (0, 4, 512),  # the next tile along the row
        (128, 0, 2 * 512),  # the next row of tiles, of which each holds two
        (200, 5, 3 * 512 + 8 * 16 + 2 * 4 + 1),
    ],
)
def test_where_a_scale_lies(row: int, column: int, index: int) -> None:
    """200 rows of 7 scales are two rows of two tiles; indices are worked out by hand."""
    scales = torch.zeros(201, 7, dtype=torch.uint8)
    scales[row, column] = 99
    flat = swizzle_128x4(scales)
    assert flat.shape == (2 * 2 * 512,)
    assert flat.nonzero().flatten().tolist() == [index]


@few
@given(st.integers(1, 300), st.integers(1, 13))
def test_the_layout_is_the_formula_and_can_be_undone(rows: int, columns: int) -> None:
    scales = random_bytes(rows, columns)
    flat = swizzle_128x4(scales)
    row, column = torch.arange(rows)[:, None], torch.arange(columns)
    tile = row // 128 * ((columns + 3) // 4) + column // 4
    index = tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4
    assert torch.equal(flat[index], scales)
    padding = torch.ones_like(flat, dtype=torch.bool)
    padding[index.flatten()] = False
    assert not flat[padding].any()
    assert torch.equal(unswizzle_128x4(flat, rows, columns), scales)


def test_experts_follow_each_other() -> None:
    scales = random_bytes(3, 130, 6)
    flat = swizzle_128x4(scales)
    assert flat.shape == (3, 2 * 2 * 512)
    for expert in range(3):
        assert torch.equal(flat[expert], swizzle_128x4(scales[expert]))
    assert torch.equal(unswizzle_128x4(flat, 130, 6), scales)


def test_other_types_and_shapes_are_refused() -> None:
    with pytest.raises(InputError, match=r"uint8.*float8_e4m3fn.*view"):
        swizzle_128x4(torch.zeros(4, 4).to(torch.float8_e4m3fn))
    with pytest.raises(InputError, match=r"2 or 3 axes.*\[4\]"):
        swizzle_128x4(torch.zeros(4, dtype=torch.uint8))
    with pytest.raises(InputError, match=r"128 rows and 5 columns take 1024 bytes.*\[512\]"):
        unswizzle_128x4(torch.zeros(512, dtype=torch.uint8), 128, 5)
