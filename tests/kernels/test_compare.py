"""How far an output lies from the oracle's: by hand, and what is told of broken ones."""

import math
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from autotune.kernels.compare import difference, judge
from autotune.kernels.quantization.tolerance import Tolerance
from autotune.kernels.schema import Numerics

_LIMITS = Tolerance(dequantized_rms=0.01, full_rms=0.05)
_TOKEN_LIMITS = Tolerance(dequantized_rms=0.02, full_rms=0.06)


def _judged(output: Tensor, expected: Tensor, *, full: Tensor | None = None) -> Numerics:
    tokens, hidden = expected.shape
    return judge(
        output,
        rows=torch.arange(tokens),
        shape=(tokens, hidden),
        dequantized=expected,
        full=expected if full is None else full,
        limits=_LIMITS,
        token_limits=_TOKEN_LIMITS,
    )


def _expected(tokens: int = 6, hidden: int = 64) -> Tensor:
    """What bfloat16 can hold, so that an exact output has no error."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(tokens, hidden, generator=generator).bfloat16().float()


def test_a_difference_by_hand() -> None:
    expected = torch.tensor([[3.0, 4.0], [0.0, 5.0]])
    output = torch.tensor([[3.0, 4.0], [1.0, 7.0]])
    found = difference(output, expected)
    # Squares: of the error 0 + 0 + 1 + 4, of the expected 9 + 16 + 0 + 25.
    assert found.relative_rms == pytest.approx(math.sqrt(5 / 50))
    assert found.cosine == pytest.approx((9 + 16 + 0 + 35) / math.sqrt(75 * 50))
    assert found.largest == pytest.approx(2 / math.sqrt(50 / 4))
    assert found.worst_token_rms == pytest.approx(math.sqrt(5 / 25))


def test_no_difference() -> None:
    found = difference(_expected(), _expected())
    assert (found.relative_rms, found.largest, found.worst_token_rms) == (0.0, 0.0, 0.0)
    assert found.cosine == pytest.approx(1.0)


def test_opposite_signs_and_nothing_at_all() -> None:
    opposite = difference(-_expected(), _expected())
    assert opposite.relative_rms == pytest.approx(2.0)
    assert opposite.cosine == pytest.approx(-1.0)
    nothing = difference(torch.zeros(6, 64), _expected())
    assert nothing.relative_rms == pytest.approx(1.0)
    assert nothing.cosine == 0.0


@given(st.floats(1e-6, 1e6), st.floats(1e-3, 1.0))
def test_a_difference_is_relative(size: float, error: float) -> None:
    """It is the same whatever the magnitude, and grows with the error."""
    expected = _expected().double()
    noise = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2)).double()
    one = difference(expected + error * noise, expected)
    other = difference(size * (expected + error * noise), size * expected)
    assert other.relative_rms == pytest.approx(one.relative_rms, rel=1e-9)
    assert other.worst_token_rms == pytest.approx(one.worst_token_rms, rel=1e-9)
    more = difference(expected + 2 * error * noise, expected)
    assert more.relative_rms == pytest.approx(2 * one.relative_rms, rel=1e-9)


def test_an_exact_output_is_right() -> None:
    found = _judged(_expected().bfloat16(), _expected())
    assert found.problem is None
    assert (found.tokens, found.tolerance, found.full_tolerance) == (6, 0.01, 0.05)


def test_the_limits_are_limits() -> None:
    """Right just below, wrong just above, for each of the two oracles."""
    expected = _expected()
    output = expected.bfloat16()
    for error, problem in ((0.0099, None), (0.0101, "the dequantized oracle")):
        found = _judged(output, expected / (1 + error))
        assert found.dequantized is not None
        assert found.dequantized.relative_rms == pytest.approx(error, rel=1e-4)
        assert (found.problem is None) == (problem is None)
        assert problem is None or problem in str(found.problem)
    for error, problem in ((0.0499, None), (0.0501, "the full-precision oracle")):
        found = _judged(output, expected, full=expected / (1 + error))
        assert (found.problem is None) == (problem is None)
        assert problem is None or problem in str(found.problem)


def test_one_wrong_token_among_many_is_found() -> None:
    """Over the whole batch it would be within the limit; a token's own is twice that of one."""
    expected = _expected(tokens=400)
    output = expected.bfloat16()
    for error, problem in ((0.039, None), (0.041, "the dequantized oracle is 0.041, 0.04 allowed")):
        scaled = expected.clone()
        scaled[123] /= 1 + error
        found = _judged(output, scaled)
        assert found.dequantized is not None and found.dequantized.relative_rms < 0.01
        assert (found.problem is None) == (problem is None)
        assert problem is None or f"one token's relative RMS to {problem}" == found.problem
    scaled = expected.clone()
    scaled[123] /= 1.121
    found = _judged(output, expected, full=scaled)
    assert "one token's relative RMS to the full-precision oracle" in str(found.problem)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [(0, 0), (5, 63)])
def test_what_is_not_finite_is_told(value: float, place: tuple[int, int]) -> None:
    output = _expected().bfloat16()
    output[place] = value
    found = _judged(output, _expected())
    assert found.problem == "1 of 384 values aren't finite"
    assert (found.dequantized, found.full) == (None, None)


def test_what_is_not_finite_is_told_of_tokens_that_are_not_compared() -> None:
    output = torch.zeros(8, 4, dtype=torch.bfloat16)
    output[1] = math.nan
    found = judge(
        output,
        rows=torch.tensor([0, 7]),
        shape=(8, 4),
        dequantized=torch.zeros(2, 4),
        full=torch.zeros(2, 4),
        limits=_LIMITS,
        token_limits=_TOKEN_LIMITS,
    )
    assert found.problem == "4 of 32 values aren't finite"
    assert found.tokens == 2


def test_only_the_rows_are_compared() -> None:
    expected = _expected()
    output = expected.bfloat16()
    output[3] = 0.0
    rows = torch.tensor([0, 1, 2, 4, 5])
    found = judge(
        output,
        rows=rows,
        shape=(6, 64),
        dequantized=expected[rows],
        full=expected[rows],
        limits=_LIMITS,
        token_limits=_TOKEN_LIMITS,
    )
    assert found.problem is None


@pytest.mark.parametrize("shape", [(6, 63), (5, 64), (64, 6), (1, 6, 64), (384,), (0, 64)])
def test_another_shape_is_told(shape: tuple[int, ...]) -> None:
    found = _judged(torch.zeros(shape, dtype=torch.bfloat16), _expected())
    assert found.problem == f"the output's shape is {shape}, not (6, 64)"


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.int32, torch.bool, torch.complex64]
)
def test_another_dtype_is_told(dtype: torch.dtype) -> None:
    """An engine would be given something else than it asked for."""
    found = _judged(_expected().to(dtype), _expected())
    assert found.problem == f"the output is {str(dtype).removeprefix('torch.')}, not bfloat16"


def _rolled(x: Tensor) -> Tensor:
    return x.roll(1, 0)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(torch.zeros_like, id="nothing"),
        pytest.param(torch.ones_like, id="ones"),
        pytest.param(torch.neg, id="negated"),
        pytest.param(lambda x: 1.02 * x, id="2 in 100 too large"),
        pytest.param(_rolled, id="the neighbour's token"),
        pytest.param(lambda x: x.roll(1, 1), id="the neighbour's value"),
        pytest.param(lambda x: x[:1].expand_as(x), id="the first token"),
        pytest.param(lambda x: x.flip(1), id="backwards"),
    ],
)
def test_what_is_far_off_is_wrong(broken: Any) -> None:
    found = _judged(broken(_expected()).bfloat16(), _expected())
    assert "relative RMS" in str(found.problem)


@pytest.mark.parametrize("largest", [0.0, 1e-30, 1.0, 3e38])
@pytest.mark.parametrize("tokens_of_zeros", [1, 6])
def test_a_verdict_on_zeros_can_be_recorded(largest: float, tokens_of_zeros: int) -> None:
    """Where the oracle gives exactly zero, all figures stay finite; JSON has no infinity."""
    expected = _expected()
    expected[:tokens_of_zeros] = 0.0
    output = expected.bfloat16()
    output[0, 0] = largest
    found = _judged(output, expected)
    assert (found.problem is None) == (largest == 0.0)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Numerics) == found
