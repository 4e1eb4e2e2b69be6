"""The schemes against the formats that they are made of."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from autotune.errors import InputError
from autotune.kernels.quantization import fp8, mxfp, nvfp4
from autotune.kernels.quantization.schemes import SCHEMES
from autotune.kernels.scheme_names import SCALE_BLOCKS, SCHEME_NAMES

EACH = pytest.mark.parametrize("name", SCHEMES)
EXPERTS, ROWS, COLUMNS = 3, 128, 256


def weights() -> Tensor:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(EXPERTS, ROWS, COLUMNS, generator=generator)
    return (x * torch.tensor([1.0, 0.1, 10.0])[:, None, None]).bfloat16()


def activations() -> Tensor:
    return torch.randn(7, COLUMNS, generator=torch.Generator().manual_seed(6)).bfloat16().float()


def bytes_of(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


# What a kernel would hold of the weights, but for one number an expert or a tensor.
HELD: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "bf16": lambda w: (w.bfloat16(),),
    "fp8": lambda w: (fp8.quantize(w).values,),
    "fp8_block": lambda w: (fp8.quantize_blocks(w).values, fp8.quantize_blocks(w).scales),
    "nvfp4": lambda w: (nvfp4.quantize(w).codes, nvfp4.quantize(w).scales),
    "mxfp4": lambda w: (mxfp.quantize_mxfp4(w).codes, mxfp.quantize_mxfp4(w).scales),
    "mxfp8": lambda w: (mxfp.quantize_mxfp8(w).values, mxfp.quantize_mxfp8(w).scales),
}
ROUNDED: dict[str, Callable[[Tensor], Tensor]] = {
    "bf16": lambda w: w.bfloat16().float(),
    "fp8": lambda w: fp8.dequantize(fp8.quantize(w)),
    "fp8_block": lambda w: fp8.dequantize_blocks(fp8.quantize_blocks(w)),
    "nvfp4": lambda w: nvfp4.dequantize(nvfp4.quantize(w)),
    "mxfp4": lambda w: mxfp.dequantize_mxfp4(mxfp.quantize_mxfp4(w)),
    "mxfp8": lambda w: mxfp.dequantize_mxfp8(mxfp.quantize_mxfp8(w)),
}


def mxfp8_up(x: Tensor) -> Tensor:
    return mxfp.dequantize_mxfp8(mxfp.quantize_mxfp8(x, scale_rule="up"))


SEEN: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "bf16": lambda x, _: x,
    "fp8": lambda x, scale: fp8.dequantize(fp8.quantize(x, scale=scale)),
    "fp8_block": lambda x, _: fp8.dequantize_groups(fp8.quantize_groups(x)),
    "nvfp4": lambda x, scale: nvfp4.dequantize(nvfp4.quantize(x, global_scale=scale)),
    "mxfp4": lambda x, _: mxfp8_up(x),
    "mxfp8": lambda x, _: mxfp8_up(x),
}


def test_there_is_a_scheme_of_every_name() -> None:
    assert tuple(SCHEMES) == SCHEME_NAMES
    assert all(scheme.name == name for name, scheme in SCHEMES.items())


@EACH
def test_weights_are_rounded_as_the_format_says(name: str) -> None:
    rounded = SCHEMES[name].round_weights(weights())
    assert rounded.dtype == torch.float32
    assert torch.equal(rounded, ROUNDED[name](weights()))


@EACH
def test_an_expert_alone_is_rounded_as_among_others(name: str) -> None:
    """The oracle takes experts one at a time."""
    together = SCHEMES[name].round_weights(weights())
    for expert in range(EXPERTS):
        one = slice(expert, expert + 1)
        assert torch.equal(SCHEMES[name].round_weights(weights()[one]), together[one])


@EACH
def test_activations_are_rounded_as_the_format_says(name: str) -> None:
    """With a scale from elsewhere: half of what these activations would choose."""
    x = activations()
    scale = SCHEMES[name].activation_scale(float(x.abs().max()) / 2)
    rounded = SCHEMES[name].round_activations(x, scale)
    assert (rounded.shape, rounded.dtype) == (x.shape, torch.float32)
    assert torch.equal(rounded, SEEN[name](x, scale))


@EACH
def test_a_byte_count_is_what_the_format_holds(name: str) -> None:
    held = bytes_of(*HELD[name](weights()))
    assert held == SCHEMES[name].weight_bytes * EXPERTS * ROWS * COLUMNS


def test_byte_counts_by_hand() -> None:
    assert {name: scheme.weight_bytes for name, scheme in SCHEMES.items()} == {
        "bf16": 2.0,
        "fp8": 1.0,
        "fp8_block": 1 + 4 / 16384,
        "nvfp4": 0.5625,
        "mxfp4": 0.53125,
        "mxfp8": 1.03125,
    }


def test_static_scales_let_the_largest_activation_just_fit() -> None:
    scales = {name: scheme.activation_scale(896.0) for name, scheme in SCHEMES.items()}
    assert scales.pop("fp8") == 2.0
    assert scales.pop("nvfp4") == pytest.approx(1 / 3)
    assert set(scales.values()) == {None}


@pytest.mark.parametrize("name", ["fp8", "nvfp4"])
def test_a_static_scale_of_activations_that_are_zero_can_be_used(name: str) -> None:
    scale = SCHEMES[name].activation_scale(0.0)
    assert not SCHEMES[name].round_activations(torch.zeros(2, COLUMNS), scale).any()


@pytest.mark.parametrize("name", ["bf16", "fp8_block", "mxfp4", "mxfp8"])
def test_dynamic_schemes_do_not_ask_for_a_scale(name: str) -> None:
    x, scheme = activations(), SCHEMES[name]
    assert torch.equal(scheme.round_activations(x, 17.0), scheme.round_activations(x, None))


@EACH
def test_sizes_must_be_multiples_of_what_shares_a_scale(name: str) -> None:
    block = SCALE_BLOCKS[name]
    scheme = SCHEMES[name]
    for columns in (block, 3 * block):
        assert scheme.round_activations(torch.ones(2, columns), 1.0).shape == (2, columns)
        assert scheme.round_weights(torch.ones(1, 2, columns)).shape == (1, 2, columns)
    if block > 1:
        with pytest.raises(InputError, match=f"multiple of {block}"):
            scheme.round_activations(torch.ones(2, block + 1), 1.0)


@EACH
def test_no_tokens_are_no_problem(name: str) -> None:
    """An expert may get none."""
    none = torch.zeros(0, COLUMNS)
    assert SCHEMES[name].round_activations(none, 1.0).shape == (0, COLUMNS)
