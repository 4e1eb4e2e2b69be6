"""FP8 per tensor, per block and per group."""

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from autotune.errors import InputError
from autotune.kernels.quantization import fp8
from autotune.kernels.quantization.grids import round_e4m3

few = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 2**31)


def gaussian(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def through_tensor(x: Tensor) -> Tensor:
    return fp8.dequantize(fp8.quantize(x))


def through_blocks(x: Tensor) -> Tensor:
    return fp8.dequantize_blocks(fp8.quantize_blocks(x))


def through_groups(x: Tensor) -> Tensor:
    return fp8.dequantize_groups(fp8.quantize_groups(x))


Through = Callable[[Tensor], Tensor]
EACH = pytest.mark.parametrize("through", [through_tensor, through_blocks, through_groups])


def test_one_scale_a_tensor_and_one_an_expert() -> None:
    x = gaussian(0, 3, 5, 7) * torch.tensor([1.0, 50.0, 0.02])[:, None, None]
    stored = fp8.quantize(x)
    assert (stored.values.shape, stored.values.dtype) == ((3, 5, 7), torch.float8_e4m3fn)
    assert torch.equal(stored.scale, x.abs().amax((1, 2)) / 448)
    assert stored.values.float().abs().amax((1, 2)).tolist() == [448.0] * 3
    one = fp8.quantize(x[1])
    assert one.scale.shape == () and one.scale == stored.scale[1]
    assert torch.equal(fp8.dequantize(stored)[1], fp8.dequantize(one))


def test_a_static_scale_is_used_and_saturates() -> None:
    x = torch.tensor([[1.0, 1.06, 900.0, -900.0]])
    stored = fp8.quantize(x, scale=2.0)
    # 0.53 lies between 0.5 and 0.5625, a sixteenth apart.
    assert fp8.dequantize(stored).tolist() == [[1.0, 1.0, 896.0, -896.0]]
    with pytest.raises(InputError, match=r"FP8.*positive"):
        fp8.quantize(x, scale=0.0)


def test_each_block_has_its_own_scale_and_edges_may_be_ragged() -> None:
    x = gaussian(1, 2, 130, 300)
    x[0, :128, 128:256] *= 1000
    stored = fp8.quantize_blocks(x)
    assert stored.scales.shape == (2, 2, 3) and stored.scales.dtype == torch.float32
    for expert in range(2):
        for row in range(2):
            for column in range(3):
                rows, columns = (slice(128 * at, 128 * at + 128) for at in (row, column))
                block = x[expert, rows, columns]
                scale = block.abs().max() / 448
                assert stored.scales[expert, row, column] == scale
                expected = round_e4m3(block / scale) * scale
                assert torch.equal(fp8.dequantize_blocks(stored)[expert, rows, columns], expected)


def test_each_group_has_its_own_scale() -> None:
    x = gaussian(2, 3, 256) * torch.tensor([1.0, 1e-3]).repeat_interleave(128)
    stored = fp8.quantize_groups(x)
    assert stored.values.shape == (3, 256)
    assert torch.equal(stored.scales, x.abs().unflatten(-1, (2, 128)).amax(-1) / 448)
    group = x[1, 128:]
    scale = group.abs().max() / 448
    assert torch.equal(fp8.dequantize_groups(stored)[1, 128:], round_e4m3(group / scale) * scale)


@EACH
@few
@given(seed=seeds, power=st.integers(-20, 20))
def test_rounding_is_symmetric_scale_free_and_within_a_sixteenth(
    through: Through, seed: int, power: int
) -> None:
    x = gaussian(seed, 2, 128)
    rounded = through(x)
    assert torch.equal(through(-x), -rounded)
    assert torch.equal(through(x * 2.0**power), rounded * 2.0**power)
    # Half a step of 2^-3; below 2^-6 of 448 * scale, half of the even steps of 2^-9.
    smallest = float(x.abs().max()) / 448 * 2.0**-10
    assert bool(((rounded - x).abs() <= (x.abs() / 16).clamp_min(smallest) * 1.0001).all())


@EACH
@few
@given(seed=seeds)
def test_quantizing_what_was_dequantized_changes_nothing(through: Through, seed: int) -> None:
    once = through(gaussian(seed, 4, 128))
    assert torch.allclose(through(once), once, rtol=1e-6, atol=0)


@EACH
def test_zeros_stay_zeros(through: Through) -> None:
    x = torch.zeros(2, 128)
    assert not through(x).any()
    x[1, 5] = 3.0
    assert through(x).flatten().nonzero().tolist() == [[133]]


@EACH
def test_values_without_a_scale_are_refused(through: Through) -> None:
    x = torch.ones(1, 128)
    x[0, 3] = float("nan")
    with pytest.raises(InputError, match="NaN or infinity"):
        through(x)


def test_no_rows_are_no_problem() -> None:
    assert through_tensor(torch.zeros(0, 64)).shape == (0, 64)
    assert through_groups(torch.zeros(0, 128)).shape == (0, 128)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"1x128 groups.*multiple of 128.*\[2, 100\].*pad.*128"):
        fp8.quantize_groups(torch.zeros(2, 100))
    with pytest.raises(InputError, match="rows and columns"):
        fp8.quantize_blocks(torch.zeros(128))
