"""What is made of the input in each forward pass, by FlashInfer's own quantizers.

Each returns a function of bfloat16 hidden states [tokens, hidden] whose result holds the kernel's
arguments. FlashInfer is imported when that function is made, not with this module.
"""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autotune.kernels.quantization.grids import E4M3_MAX

Inputs = Callable[[Tensor], dict[str, Any]]

_FP8_GROUP = 128


def flashinfer() -> Any:
    """The library, imported on demand: it takes seconds."""
    return importlib.import_module("flashinfer")


def as_they_are(name: str) -> Inputs:
    """bfloat16 hidden states under ``name``."""
    return lambda hidden_states: {name: hidden_states}


def nvfp4_rows(names: tuple[str, str], *, scale: float, hidden_in: int) -> Inputs:
    """NVFP4 with block scales in row-major order.

    ``fp4_quantize`` takes the inverse of the global scale that decodes. Arguments: codes uint8
    [tokens, hidden_in / 2] and scales float8_e4m3fn [tokens, hidden_in / 16].
    """
    quantize = flashinfer().fp4_quantize
    values_name, scales_name = names
    inverse: Tensor | None = None

    def make(hidden_states: Tensor) -> dict[str, Any]:
        nonlocal inverse
        if inverse is None:
            inverse = torch.full((1,), 1.0 / scale, device=hidden_states.device)
        tokens, hidden = hidden_states.shape
        if hidden != hidden_in:
            hidden_states = torch.nn.functional.pad(hidden_states, (0, hidden_in - hidden))
        codes, scales = quantize(
            hidden_states,
            inverse,
            sf_vec_size=16,
            sf_use_ue8m0=False,
            is_sf_swizzled_layout=False,
        )
        return {
            values_name: codes.reshape(tokens, hidden_in // 2),
            scales_name: scales.view(torch.float8_e4m3fn).reshape(tokens, hidden_in // 16),
        }

    return make


def mxfp8_rows(names: tuple[str, str], *, hidden_in: int, scale_dtype: torch.dtype) -> Inputs:
    """MXFP8 with block scales in row-major order, columns padded to ``hidden_in``.

    Arguments: float8_e4m3fn [tokens, hidden_in] and UE8M0 scales [tokens, hidden_in / 32], which
    some functions want to be called float8_e4m3fn, others uint8.
    """
    quantize = flashinfer().mxfp8_quantize
    values_name, scales_name = names

    def make(hidden_states: Tensor) -> dict[str, Any]:
        values, scales = quantize(hidden_states, is_sf_swizzled_layout=False, alignment=hidden_in)
        tokens = hidden_states.shape[0]
        return {
            values_name: values,
            scales_name: scales.view(scale_dtype).reshape(tokens, hidden_in // 32),
        }

    return make


def mxfp8_swizzled(names: tuple[str, str], *, hidden_in: int) -> Inputs:
    """MXFP8 with block scales in the 128x4 layout."""
    quantize = flashinfer().mxfp8_quantize
    values_name, scales_name = names

    def make(hidden_states: Tensor) -> dict[str, Any]:
        hidden = hidden_states.shape[1]
        if hidden != hidden_in:
            hidden_states = torch.nn.functional.pad(hidden_states, (0, hidden_in - hidden))
        values, scales = quantize(hidden_states, is_sf_swizzled_layout=True, alignment=32)
        return {values_name: values, scales_name: scales}

    return make


def fp8_groups(names: tuple[str, str]) -> Inputs:
    """E4M3 with a float32 scale for each 128 neighbours: scales [hidden / 128, tokens]."""
    quantize = flashinfer().quantization.per_token_group_quant_8bit
    values_name, scales_name = names

    def make(hidden_states: Tensor) -> dict[str, Any]:
        values, scales = quantize(
            hidden_states, _FP8_GROUP, column_major_scales=True, backend="cuda"
        )
        return {values_name: values, scales_name: scales.t()}

    return make


def fp8_static(name: str, *, scale: float) -> Inputs:
    """E4M3 with one static scale.

    FlashInfer has no quantizer of this kind, and engines bring their own: on a GPU this one is
    compiled to a single kernel.
    """
    inverse = 1.0 / scale

    def quantize(values: Tensor) -> Tensor:
        return (values.float() * inverse).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)

    chosen: Callable[[Tensor], Tensor] | None = None

    def make(hidden_states: Tensor) -> dict[str, Any]:
        nonlocal chosen
        if chosen is None:
            on_gpu = hidden_states.is_cuda
            chosen = torch.compile(quantize, dynamic=True) if on_gpu else quantize
        return {name: chosen(hidden_states)}

    return make
