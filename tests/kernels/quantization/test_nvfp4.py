"""NVFP4 against a block worked out by hand, and what must hold of any tensor."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from autotune.errors import InputError
from autotune.kernels.quantization.grids import from_e2m1_codes
from autotune.kernels.quantization.nvfp4 import BLOCK, LARGEST, dequantize, quantize
from autotune.kernels.quantization.packing import unpack_nibbles

few = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 2**31)


def gaussian(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_block_by_hand() -> None:
    """Global scale 0.5, largest magnitude 7.

    7 / 6 / 0.5 = 2.333, of E4M3's 2.25 and 2.5 the nearer is 2.25; so a step is 2.25 * 0.5 =
    1.125, and 7 / 1.125 = 6.22 saturates at 6, which stands for 6.75. -2.9 / 1.125 = -2.578 is
    coded -3; with the scale before its rounding it would be -2.9 / 1.1667 = -2.486, coded -2.
    """
    x = torch.zeros(1, 16)
    x[0, :6] = torch.tensor([7.0, -2.9, 1.125, 0.2, -0.2, 5.625])
    stored = quantize(x, global_scale=0.5)
    assert stored.scales.float().tolist() == [[2.25]]
    assert stored.global_scale.tolist() == 0.5
    # 7 -> 6 (7); -2.578 -> -3 (13); 1 -> 1 (2); 0.18 -> 0; -0.18 -> -0 (8); 5.0, a tie, -> 4 (6).
    assert stored.codes.tolist() == [[0xD7, 0x02, 0x68, 0, 0, 0, 0, 0]]
    expected = [6.75, -3.375, 1.125, 0.0, 0.0, 4.5]
    assert dequantize(stored)[0, :6].tolist() == expected


def test_shapes_and_types() -> None:
    stored = quantize(gaussian(0, 3, 5, 64).bfloat16())
    assert (stored.codes.shape, stored.codes.dtype) == ((3, 5, 32), torch.uint8)
    assert (stored.scales.shape, stored.scales.dtype) == ((3, 5, 4), torch.float8_e4m3fn)
    assert (stored.global_scale.shape, stored.global_scale.dtype) == ((3,), torch.float32)
    assert (dequantize(stored).shape, dequantize(stored).dtype) == ((3, 5, 64), torch.float32)
    assert quantize(gaussian(0, 5, 64)).global_scale.shape == ()


def test_the_default_global_scale_is_each_experts_own() -> None:
    x = gaussian(1, 3, 8, 32) * torch.tensor([1.0, 100.0, 0.01])[:, None, None]
    stored = quantize(x)
    assert torch.equal(stored.global_scale, x.abs().amax((1, 2)) / LARGEST)
    # The block with the expert's largest magnitude has the largest scale that there is.
    assert stored.scales.float().amax((1, 2)).tolist() == [448.0] * 3
    for expert in range(3):
        assert torch.equal(dequantize(stored)[expert], dequantize(quantize(x[expert])))


@few
@given(seeds)
def test_quantizing_what_was_dequantized_changes_nothing(seed: int) -> None:
    """Where block scales are normal numbers of E4M3: the largest value is then coded 6."""
    stored = quantize(gaussian(seed, 4, 64))
    again = quantize(dequantize(stored), global_scale=stored.global_scale)
    assert torch.equal(again.codes, stored.codes)
    assert torch.equal(again.scales.view(torch.uint8), stored.scales.view(torch.uint8))


@few
@given(seeds)
def test_each_value_is_the_nearest_that_its_rounded_scale_allows(seed: int) -> None:
    x = gaussian(seed, 2, 48)
    stored = quantize(x)
    step = (stored.scales.float() * stored.global_scale).repeat_interleave(BLOCK, -1)
    grid = from_e2m1_codes(torch.arange(16, dtype=torch.uint8)) * step.unsqueeze(-1)
    distances = (grid - x.unsqueeze(-1)).abs()
    error = (dequantize(stored) - x).abs()
    assert torch.allclose(error, distances.amin(-1), rtol=1e-4, atol=1e-6)


@few
@given(seeds)
def test_no_error_is_above_a_sixth_of_the_blocks_largest(seed: int) -> None:
    """Half of the widest step, 2 of 6, and 1/16 for the scale's own rounding."""
    x = gaussian(seed, 4, 64)
    error = (dequantize(quantize(x)) - x).abs().unflatten(-1, (-1, BLOCK)).amax(-1)
    largest = x.abs().unflatten(-1, (-1, BLOCK)).amax(-1)
    assert bool((error <= largest / 6 * (1 + 1 / 16) * 1.0001).all())


@few
@given(seeds, st.integers(-20, 20))
def test_signs_and_powers_of_two_pass_through(seed: int, power: int) -> None:
    x = gaussian(seed, 2, 32)
    rounded = dequantize(quantize(x))
    assert torch.equal(dequantize(quantize(-x)), -rounded)
    assert torch.equal(dequantize(quantize(x * 2.0**power)), rounded * 2.0**power)


def test_zeros_stay_zeros() -> None:
    assert not dequantize(quantize(torch.zeros(2, 3, 32))).any()
    x = gaussian(2, 2, 32)
    x[0, :16] = 0
    rounded = dequantize(quantize(x))
    assert not rounded[0, :16].any() and bool(rounded[0, 16:].any())
    assert bool(torch.isfinite(rounded).all())
    # Below half of the smallest block scale, 2^-9, there is nothing but zero either.
    x[0, :16] = 6 * 2.0**-10 * 0.99
    flushed = quantize(x, global_scale=1.0)
    assert not dequantize(flushed)[0, :16].any()
    assert not flushed.codes[0, :8].any()


def test_a_static_scale_that_is_too_small_saturates() -> None:
    x = torch.full((1, 16), 10000.0)
    assert dequantize(quantize(x, global_scale=1.0)).tolist() == [[LARGEST] * 16]


def test_no_rows_are_no_problem() -> None:
    assert dequantize(quantize(torch.zeros(0, 32))).shape == (0, 32)
    assert dequantize(quantize(torch.zeros(2, 0, 32))).shape == (2, 0, 32)


def test_codes_decode_as_the_grid_says() -> None:
    stored = quantize(gaussian(3, 1, 16))
    values = from_e2m1_codes(unpack_nibbles(stored.codes))
    assert torch.equal(dequantize(stored), values * (stored.scales.float() * stored.global_scale))


@pytest.mark.parametrize("shape", [(4, 24), (4, 0), ()])
def test_a_last_axis_that_is_no_multiple_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"NVFP4.*multiple of 16.*pad"):
        quantize(torch.zeros(shape))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_global_scale_that_is_no_positive_number_is_refused(bad: float) -> None:
    with pytest.raises(InputError, match=r"global scale.*positive"):
        quantize(torch.ones(1, 16), global_scale=bad)


def test_a_scale_an_expert_needs_experts() -> None:
    scales = torch.tensor([1.0, 2.0])
    assert quantize(torch.ones(2, 1, 16), global_scale=scales).global_scale.shape == (2,)
    with pytest.raises(InputError, match="must be one positive number"):
        quantize(torch.ones(2, 16), global_scale=scales)
    with pytest.raises(InputError, match="or one an expert"):
        quantize(torch.ones(3, 1, 16), global_scale=scales)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_without_a_scale_are_refused(bad: float) -> None:
    x = torch.ones(1, 16)
    x[0, 3] = bad
    with pytest.raises(InputError, match="NaN or infinity"):
        quantize(x)
