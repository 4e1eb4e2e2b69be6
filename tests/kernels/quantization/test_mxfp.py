"""MXFP4 and MXFP8 against blocks worked out by hand, and what must hold of any tensor."""

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from autotune.errors import InputError
from autotune.kernels.quantization import mxfp

few = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 2**31)
Through = Callable[[Tensor], Tensor]


def gaussian(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def block_of(*values: float) -> Tensor:
    x = torch.zeros(1, 32)
    x[0, : len(values)] = torch.tensor(values)
    return x


def fp4(x: Tensor) -> Tensor:
    return mxfp.dequantize_mxfp4(mxfp.quantize_mxfp4(x))


def fp4_up(x: Tensor) -> Tensor:
    return mxfp.dequantize_mxfp4(mxfp.quantize_mxfp4(x, scale_rule="up"))


def fp8(x: Tensor) -> Tensor:
    return mxfp.dequantize_mxfp8(mxfp.quantize_mxfp8(x))


def fp8_up(x: Tensor) -> Tensor:
    return mxfp.dequantize_mxfp8(mxfp.quantize_mxfp8(x, scale_rule="up"))


EACH = pytest.mark.parametrize("through", [fp4, fp4_up, fp8, fp8_up])


def test_a_block_of_mxfp4_by_hand() -> None:
    """amax 15: floor(log2 15) - 2 = 1, code 128, scale 2; 15 / 2 saturates at 6, so 12."""
    stored = mxfp.quantize_mxfp4(block_of(15.0, -5.0, 0.4, 1.0))
    assert stored.scales.tolist() == [[128]]
    # 6 (7); -2.5, a tie, -> -2 (12); 0.2 -> 0; 0.5 (1).
    assert stored.codes[0, :2].tolist() == [0xC7, 0x10]
    assert mxfp.dequantize_mxfp4(stored)[0, :4].tolist() == [12.0, -4.0, 0.0, 1.0]
    # Up: 15 / 6 = 2.5, so 4, and 15 / 4 = 3.75 is 4.
    up = mxfp.quantize_mxfp4(block_of(15.0, -5.0, 0.4, 1.0), scale_rule="up")
    assert up.scales.tolist() == [[129]]
    assert mxfp.dequantize_mxfp4(up)[0, :4].tolist() == [16.0, -4.0, 0.0, 0.0]


def test_a_block_of_mxfp8_by_hand() -> None:
    """amax 1000: floor(log2 1000) - 8 = 1, scale 2; 500 saturates at 448, so 896."""
    stored = mxfp.quantize_mxfp8(block_of(1000.0, -3.3))
    assert stored.scales.tolist() == [[128]]
    # 1.65 lies nearest to 1.625.
    assert mxfp.dequantize_mxfp8(stored)[0, :2].tolist() == [896.0, -3.25]
    up = mxfp.quantize_mxfp8(block_of(1000.0, -3.3), scale_rule="up")
    assert up.scales.tolist() == [[129]]
    assert mxfp.dequantize_mxfp8(up)[0, :2].tolist() == [1024.0, -3.25]


@pytest.mark.parametrize("rule", ["floor", "up"])
def test_the_elements_largest_number_needs_no_scale(rule: mxfp.ScaleRule) -> None:
    assert mxfp.quantize_mxfp4(block_of(6.0), scale_rule=rule).scales.tolist() == [[127]]
    assert mxfp.quantize_mxfp8(block_of(448.0), scale_rule=rule).scales.tolist() == [[127]]


def test_a_bit_more_than_the_largest_number_saturates_or_doubles_the_scale() -> None:
    more = torch.nextafter(torch.tensor(6.0), torch.tensor(7.0)).item()
    assert mxfp.quantize_mxfp4(block_of(more)).scales.tolist() == [[127]]
    assert mxfp.quantize_mxfp4(block_of(more), scale_rule="up").scales.tolist() == [[128]]


def test_shapes_and_types() -> None:
    x = gaussian(0, 2, 3, 96).bfloat16()
    four, eight = mxfp.quantize_mxfp4(x), mxfp.quantize_mxfp8(x)
    assert (four.codes.shape, four.codes.dtype) == ((2, 3, 48), torch.uint8)
    assert (eight.values.shape, eight.values.dtype) == ((2, 3, 96), torch.float8_e4m3fn)
    for scales in (four.scales, eight.scales):
        assert (scales.shape, scales.dtype) == ((2, 3, 3), torch.uint8)
    assert fp4(x).shape == fp8(x).shape == (2, 3, 96)
    assert fp4(x).dtype == fp8(x).dtype == torch.float32


@few
@given(seeds)
def test_the_specifications_rule_is_in_the_scales(seed: int) -> None:
    x = gaussian(seed, 4, 64) * 10
    amax = x.abs().unflatten(-1, (2, 32)).amax(-1).double()
    exponent = torch.floor(torch.log2(amax)).int()
    assert torch.equal(mxfp.quantize_mxfp4(x).scales.int(), exponent - 2 + 127)
    assert torch.equal(mxfp.quantize_mxfp8(x).scales.int(), exponent - 8 + 127)


@EACH
@few
@given(seed=seeds, power=st.integers(-20, 20))
def test_signs_and_powers_of_two_pass_through(through: Through, seed: int, power: int) -> None:
    x = gaussian(seed, 2, 64)
    rounded = through(x)
    assert torch.equal(through(-x), -rounded)
    assert torch.equal(through(x * 2.0**power), rounded * 2.0**power)


@EACH
@few
@given(seed=seeds)
def test_quantizing_what_was_dequantized_changes_no_value(through: Through, seed: int) -> None:
    once = through(gaussian(seed, 2, 64))
    assert torch.equal(through(once), once)


@few
@given(seeds)
def test_the_specifications_scales_are_kept_as_well(seed: int) -> None:
    four = mxfp.quantize_mxfp4(gaussian(seed, 2, 64))
    again = mxfp.quantize_mxfp4(mxfp.dequantize_mxfp4(four))
    assert torch.equal(again.scales, four.scales) and torch.equal(again.codes, four.codes)


# Of a block's largest magnitude: half a step of the top binade, or what saturation takes.
@pytest.mark.parametrize(
    ("through", "share"), [(fp4, 2 / 8), (fp4_up, 1 / 5), (fp8, 64 / 512), (fp8_up, 1 / 16)]
)
@few
@given(seed=seeds)
def test_no_error_is_above_its_share(through: Through, share: float, seed: int) -> None:
    x = gaussian(seed, 4, 64)
    error = (through(x) - x).abs().unflatten(-1, (2, 32)).amax(-1)
    largest = x.abs().unflatten(-1, (2, 32)).amax(-1)
    assert bool((error <= share * largest * 1.0001).all())


@few
@given(seeds)
def test_up_saturates_nothing(seed: int) -> None:
    x = gaussian(seed, 2, 64)
    amax = x.abs().unflatten(-1, (2, 32)).amax(-1)
    for scales, largest in (
        (mxfp.quantize_mxfp4(x, scale_rule="up").scales, 6.0),
        (mxfp.quantize_mxfp8(x, scale_rule="up").scales, 448.0),
    ):
        reach = largest * 2.0 ** (scales.double() - 127)
        assert bool((amax <= reach).all()) and bool((amax > reach / 2).all())


@EACH
def test_zeros_stay_zeros(through: Through) -> None:
    x = torch.zeros(2, 64)
    x[1, 40] = 4.0
    assert through(x).flatten().nonzero().tolist() == [[104]]
    assert through(torch.zeros(0, 32)).shape == (0, 32)


@EACH
def test_a_last_axis_that_is_no_multiple_is_refused(through: Through) -> None:
    with pytest.raises(InputError, match=r"MXFP.*multiple of 32.*\[2, 48\].*pad.*64"):
        through(torch.zeros(2, 48))


@EACH
def test_values_without_a_scale_are_refused(through: Through) -> None:
    with pytest.raises(InputError, match="NaN or infinity"):
        through(block_of(1.0, float("inf")))
