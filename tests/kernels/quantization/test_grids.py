"""The grids against their definitions, torch's own types and a search for the nearest number."""

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from autotune.kernels.quantization.grids import (
    E2M1_MAX,
    E4M3_MAX,
    from_e2m1_codes,
    from_ue8m0,
    round_e4m3,
    to_e2m1_codes,
    to_e4m3,
    to_ue8m0,
)

values = st.floats(-1000, 1000, width=32)
few = settings(max_examples=100, deadline=None)


def e2m1_by_definition(code: int) -> float:
    """Sign, two bits of exponent with bias 1, one bit of mantissa, subnormal at exponent 0."""
    sign, exponent, mantissa = code >> 3, (code >> 1) & 3, code & 1
    magnitude = 2.0 ** (exponent - 1) * (1 + mantissa / 2) if exponent else mantissa / 2
    return -magnitude if sign else magnitude


def e4m3_by_definition(code: int) -> float:
    """Sign, four bits of exponent with bias 7, three of mantissa; all ones is NaN."""
    sign, exponent, mantissa = code >> 7, (code >> 3) & 15, code & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    magnitude = 2.0 ** (exponent - 7) * (1 + mantissa / 8) if exponent else 2.0**-6 * mantissa / 8
    return -magnitude if sign else magnitude


def nearest(x: float, grid: list[float]) -> float:
    """The nearest of a grid in the order of its codes; on a tie, the one of the even code."""
    distances = [abs(x - number) for number in grid]
    ties = [code for code, distance in enumerate(distances) if distance == min(distances)]
    return grid[next((code for code in ties if code % 2 == 0), ties[0])]


E2M1_GRID = [e2m1_by_definition(code) for code in range(16)]
E4M3_GRID = [e4m3_by_definition(code) for code in range(127)]


def scalar(x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float32)


def test_every_e2m1_code_is_the_number_of_its_definition_and_comes_back() -> None:
    codes = torch.arange(16, dtype=torch.uint8)
    decoded = from_e2m1_codes(codes)
    assert decoded.tolist() == E2M1_GRID
    assert decoded.dtype == torch.float32
    assert torch.equal(to_e2m1_codes(decoded), codes)
    assert max(E2M1_GRID) == E2M1_MAX


@few
@given(st.one_of(values, st.sampled_from([i / 8 for i in range(-64, 65)])))
def test_e2m1_takes_the_nearest_number_and_the_even_code_on_a_tie(x: float) -> None:
    rounded = float(from_e2m1_codes(to_e2m1_codes(scalar(x))))
    assert rounded == math.copysign(nearest(abs(x), E2M1_GRID[:8]), x)


def test_e2m1_ties_go_to_the_even_mantissa_and_large_values_to_6() -> None:
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    assert from_e2m1_codes(to_e2m1_codes(ties)).tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    assert from_e2m1_codes(to_e2m1_codes(-ties)).tolist() == [-0.0, -1, -1, -2, -2, -4, -4]
    beyond = torch.tensor([6.1, 7.0, 1e30, math.inf])
    assert to_e2m1_codes(beyond).tolist() == [7] * 4
    assert to_e2m1_codes(-beyond).tolist() == [15] * 4


def test_what_rounds_to_zero_keeps_its_sign() -> None:
    assert to_e2m1_codes(torch.tensor([0.0, -0.0, 0.1, -0.1])).tolist() == [0, 8, 0, 8]


def test_every_e4m3_code_is_what_torch_takes_it_for() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    by_torch = codes.view(torch.float8_e4m3fn).float()
    by_definition = torch.tensor([e4m3_by_definition(code) for code in range(256)])
    assert torch.equal(by_torch.nan_to_num(nan=-1), by_definition.nan_to_num(nan=-1))
    finite = torch.isfinite(by_torch)
    assert int((~finite).sum()) == 2
    assert torch.equal(to_e4m3(by_torch[finite]).view(torch.uint8), codes[finite])
    assert max(E4M3_GRID) == E4M3_MAX


@few
@given(st.one_of(values, st.floats(-0.03125, 0.03125, width=32)))
def test_e4m3_takes_the_nearest_number(x: float) -> None:
    assert float(round_e4m3(scalar(x))) == math.copysign(nearest(abs(x), E4M3_GRID), x)


def test_e4m3_ties_go_to_the_even_code() -> None:
    """Between each two neighbours, subnormal ones included."""
    grid = torch.tensor(E4M3_GRID)
    middles = (grid[1:] + grid[:-1]) / 2
    expected = [E4M3_GRID[code if code % 2 == 0 else code + 1] for code in range(126)]
    assert round_e4m3(middles).tolist() == expected
    assert round_e4m3(-middles).tolist() == [-number for number in expected]


@pytest.mark.parametrize("beyond", [448.1, 464.0, 465.0, 480.0, 1e9, math.inf])
def test_e4m3_saturates(beyond: float) -> None:
    assert float(round_e4m3(scalar(beyond))) == 448.0
    assert float(round_e4m3(scalar(-beyond))) == -448.0


def test_e4m3_keeps_nan() -> None:
    assert math.isnan(float(round_e4m3(scalar(math.nan))))


def test_every_ue8m0_code_is_what_torch_takes_it_for() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    decoded = from_ue8m0(codes)
    by_torch = codes.view(torch.float8_e8m0fnu).float()
    assert torch.equal(decoded[:255], by_torch[:255])
    assert bool(decoded[255].isnan()) and bool(by_torch[255].isnan())
    assert decoded[:255].tolist() == [2.0 ** (code - 127) for code in range(255)]
    for up in (False, True):
        assert torch.equal(to_ue8m0(decoded[:255], up=up), codes[:255])


@few
@given(st.floats(2.0**-126, 2.0**127, width=32))
def test_ue8m0_takes_the_power_of_two_below_or_above(scale: float) -> None:
    below = float(from_ue8m0(to_ue8m0(scalar(scale))))
    above = float(from_ue8m0(to_ue8m0(scalar(scale), up=True)))
    assert below <= scale < 2 * below
    assert above / 2 < scale <= above


def test_ue8m0_saturates_at_both_ends() -> None:
    tiny, huge = torch.tensor([0.0, 2.0**-140]), torch.tensor([2.0**127 * 1.5])
    for up in (False, True):
        assert to_ue8m0(tiny, up=up).tolist() == [0, 0]
        assert to_ue8m0(huge, up=up).tolist() == [254]
