"""What kernels get wrong: each a small change of an honest one.

Some are of routing, some of the layer, some of how a scheme's values and scales are read.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch
from torch import Tensor

from autotune.kernels.quantization import fp8, mxfp, nvfp4
from autotune.kernels.quantization.packing import pack_nibbles, unpack_nibbles
from autotune.kernels.routing import Routing
from autotune.kernels.spec import SWIGLU, Activation, LayerSpec
from tests.kernels.kernel import Case, Kernel


@dataclass(frozen=True)
class Fault:
    """A fault: the output that a kernel with it gives, and the layers that can have it."""

    name: str
    output: Callable[[Case], Tensor]
    of: Callable[[LayerSpec], bool] = lambda _: True
    schemes: tuple[str, ...] = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "mxfp8")


def _with(**changes: Callable[[Kernel], Any]) -> Callable[[Case], Tensor]:
    """A kernel of which some parts are replaced by what is made of the honest ones."""

    def output(case: Case) -> Tensor:
        kernel = case.kernel
        return kernel.but(**{name: make(kernel) for name, make in changes.items()}).output()

    return output


def _rule(**changes: Any) -> Callable[[Case], Tensor]:
    return _with(rule=lambda kernel: msgspec.structs.replace(kernel.rule, **changes))


# Routing


def _without_bias(case: Case) -> Tensor:
    kernel = case.kernel
    rule = msgspec.structs.replace(kernel.rule, correction_bias=False)
    return kernel.but(rule=rule, correction_bias=None).output()


def _bias_in_the_weights(case: Case) -> Tensor:
    kernel = case.kernel
    assert kernel.correction_bias is not None
    ids = kernel.routing.expert_ids
    weights = (kernel.logits.sigmoid() + kernel.correction_bias).gather(-1, ids)
    weights = weights / weights.sum(dim=-1, keepdim=True) * kernel.rule.scaling_factor
    return kernel.output(Routing(expert_ids=ids, weights=weights))


def _rerouted(change: Callable[[Routing, Kernel], Routing]) -> Callable[[Case], Tensor]:
    return lambda case: case.kernel.output(change(case.kernel.routing, case.kernel))


def _neighbours(routing: Routing, kernel: Kernel) -> Routing:
    ids = (routing.expert_ids + 1) % len(kernel.down)
    return Routing(expert_ids=ids, weights=routing.weights)


def _one_token_elsewhere(routing: Routing, kernel: Kernel) -> Routing:
    ids = routing.expert_ids.clone()
    ids[-1] = (ids[-1] + 1) % len(kernel.down)
    return Routing(expert_ids=ids, weights=routing.weights)


def _weights_of_neighbours(routing: Routing, _: Kernel) -> Routing:
    return Routing(expert_ids=routing.expert_ids, weights=routing.weights.roll(1, dims=-1))


def _equal_weights(routing: Routing, _: Kernel) -> Routing:
    mean = routing.weights.mean(dim=-1, keepdim=True)
    return Routing(expert_ids=routing.expert_ids, weights=mean.expand_as(routing.weights))


# The layer


def _swapped(kernel: Kernel) -> Tensor:
    gate, up = kernel.gate_up.chunk(2, dim=1)
    return torch.cat([up, gate], dim=1)


def _interleaved(kernel: Kernel) -> Tensor:
    """Gate and up rows taken for interleaved ones."""
    gate, up = kernel.gate_up.chunk(2, dim=1)
    return torch.stack([gate, up], dim=2).flatten(1, 2)


def _read_transposed(kernel: Kernel) -> Tensor:
    experts, hidden, width = kernel.down.shape
    return kernel.down.reshape(experts, width, hidden).transpose(1, 2)


def _without_the_least_busy(kernel: Kernel) -> Tensor:
    """Of the experts that have a token, the one that has fewest computes zeros."""
    counts = kernel.routing.expert_ids.flatten().bincount(minlength=len(kernel.down))
    least = torch.where(counts > 0, counts, 10**9).argmin()
    down = kernel.down.clone()
    down[least] = 0.0
    return down


def _nan_for_one(case: Case) -> Tensor:
    output = case.kernel.output()
    output[len(output) // 2, 0] = torch.nan
    return output


def _last_token_left_out(case: Case) -> Tensor:
    output = case.kernel.output()
    output[-1] = 0.0
    return output


def _short_product(lost: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The last columns aren't added up, as where a size isn't a multiple of the tile."""

    def product(rows: Tensor, weight: Tensor) -> Tensor:
        return rows[:, :-lost] @ weight[:, :-lost].T

    return product


def bfloat16_product(step: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Sums kept in bfloat16 after each ``step`` columns."""

    def product(rows: Tensor, weight: Tensor) -> Tensor:
        total = torch.zeros(len(rows), len(weight), dtype=torch.bfloat16)
        for start in range(0, rows.shape[1], step):
            there = slice(start, start + step)
            total = (total.float() + rows[:, there] @ weight[:, there].T).bfloat16()
        return total.float()

    return product


def _activation(activation: Activation) -> Callable[[Case], Tensor]:
    return _with(activation=lambda _: activation)


def _is_gpt_oss(spec: LayerSpec) -> bool:
    return spec.activation != SWIGLU


def _has_bias(spec: LayerSpec) -> bool:
    return spec.routing.correction_bias


# Values and scales


def _stored(case: Case, change: Callable[[Any], Any]) -> Tensor:
    """Both weights quantized, changed as stored, dequantized, and computed with."""
    quantize, dequantize = {
        "fp8": (fp8.quantize, fp8.dequantize),
        "fp8_block": (fp8.quantize_blocks, fp8.dequantize_blocks),
        "nvfp4": (nvfp4.quantize, nvfp4.dequantize),
        "mxfp4": (mxfp.quantize_mxfp4, mxfp.dequantize_mxfp4),
        "mxfp8": (mxfp.quantize_mxfp8, mxfp.dequantize_mxfp8),
    }[case.scheme]
    gate_up, down = (
        dequantize(change(quantize(weights)))  # type: ignore[operator]
        for weights in (case.layer.gate_up, case.layer.down)
    )
    return case.kernel.but(gate_up=gate_up, down=down).output()


def _of_stored(change: Callable[[Any], Any]) -> Callable[[Case], Tensor]:
    return lambda case: _stored(case, change)


def _swapped_pairs(scales: Tensor, dim: int) -> Tensor:
    """Neighbours swapped: 1, 0, 3, 2, ..."""
    order = torch.arange(scales.shape[dim]).view(-1, 2).flip(1).flatten()
    return _indexed(scales, dim, order)


def _indexed(scales: Tensor, dim: int, order: Tensor) -> Tensor:
    # Torch doesn't index E4M3.
    plain = scales if scales.dtype == torch.float32 else scales.view(torch.uint8)
    return plain.index_select(dim, order).view(scales.dtype)


def _swap_columns(stored: Any) -> Any:
    return replace(stored, scales=_swapped_pairs(stored.scales, -1))


def _swap_rows(stored: Any) -> Any:
    return replace(stored, scales=_swapped_pairs(stored.scales, -2))


def _swap_nibbles(stored: Any) -> Any:
    pairs = unpack_nibbles(stored.codes).unflatten(-1, (-1, 2)).flip(-1)
    return replace(stored, codes=pack_nibbles(pairs.flatten(-2)))


def _one_power_more(stored: Any) -> Any:
    return replace(stored, scales=stored.scales + 1)


def _neighbours_scale(stored: Any) -> Any:
    name = "scale" if hasattr(stored, "scale") else "global_scale"
    return replace(stored, **{name: getattr(stored, name).roll(1)})


def _without_global_scale(stored: Any) -> Any:
    return replace(stored, global_scale=torch.ones_like(stored.global_scale))


def _first_scale_for_all(stored: Any) -> Any:
    order = torch.zeros(stored.scales.shape[-1], dtype=torch.int64)
    return replace(stored, scales=_indexed(stored.scales, -1, order))


_BLOCKS = ("fp8_block", "nvfp4", "mxfp4", "mxfp8")
_FP4, _MX, _OVERALL = ("nvfp4", "mxfp4"), ("mxfp4", "mxfp8"), ("fp8", "nvfp4")
FAULTS = (
    Fault("weights not renormalized", _rule(normalize=False), lambda s: s.routing.normalize),
    Fault("weights renormalized", _rule(normalize=True), lambda s: not s.routing.normalize),
    Fault("correction bias ignored", _without_bias, _has_bias),
    Fault("correction bias in the weights", _bias_in_the_weights, _has_bias),
    Fault(
        "scaling factor ignored",
        _rule(scaling_factor=1.0),
        lambda s: s.routing.scaling_factor != 1.0,
    ),
    Fault("groups ignored", _rule(groups=1, top_groups=1), lambda s: s.routing.groups > 1),
    Fault("experts off by one", _rerouted(_neighbours)),
    Fault("one token's experts off by one", _rerouted(_one_token_elsewhere)),
    Fault("weights of the wrong expert", _rerouted(_weights_of_neighbours)),
    Fault("equal weights", _rerouted(_equal_weights)),
    Fault("gate and up swapped", _with(gate_up=_swapped)),
    Fault("gate and up interleaved", _with(gate_up=_interleaved)),
    Fault("an expert's weights zero", _with(down=_without_the_least_busy)),
    Fault("weighted before the activation", _with(routing_first=lambda _: True)),
    Fault("NaN for one token", _nan_for_one),
    Fault("last token left out", _last_token_left_out),
    Fault("last 8 columns lost", _with(product=lambda _: _short_product(8))),
    Fault("last column lost", _with(product=lambda _: _short_product(1))),
    Fault("sums in bfloat16", _with(product=lambda _: bfloat16_product(1))),
    Fault("down read transposed", _with(down=_read_transposed)),
    Fault("plain SwiGLU", _activation(SWIGLU), _is_gpt_oss),
    Fault("alpha ignored", _activation(Activation(limit=7.0, up_offset=1.0)), _is_gpt_oss),
    Fault("offset ignored", _activation(Activation(alpha=1.702, limit=7.0)), _is_gpt_oss),
    Fault("limit ignored", _activation(Activation(alpha=1.702, up_offset=1.0)), _is_gpt_oss),
    Fault("GELU instead of SiLU", _activation(Activation(function="gelu"))),
    Fault("first bias ignored", _with(gate_up_bias=lambda _: None), lambda s: s.expert_bias),
    Fault("second bias ignored", _with(down_bias=lambda _: None), lambda s: s.expert_bias),
    Fault("scales of neighbouring blocks swapped", _of_stored(_swap_columns), schemes=_BLOCKS),
    Fault("scales of neighbouring rows swapped", _of_stored(_swap_rows), schemes=_BLOCKS),
    Fault("a row's first scale for all", _of_stored(_first_scale_for_all), schemes=_BLOCKS),
    Fault("halves of a byte swapped", _of_stored(_swap_nibbles), schemes=_FP4),
    Fault("scales a power of two off", _of_stored(_one_power_more), schemes=_MX),
    Fault("the neighbouring expert's scale", _of_stored(_neighbours_scale), schemes=_OVERALL),
    Fault("global scale dropped", _of_stored(_without_global_scale), schemes=("nvfp4",)),
)
