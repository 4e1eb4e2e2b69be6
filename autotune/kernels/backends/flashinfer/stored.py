"""A layer's weights in a scheme's formats, as plain tensors, before any kernel's layout.

An expert at a time, so that no float32 copy of all weights is ever held. The numbers are those of
`autotune.kernels.quantization`, hence the same that the oracle computes with.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from autotune.kernels.backends.flashinfer.layouts import up_above_gate
from autotune.kernels.layer import Layer
from autotune.kernels.quantization import fp8, mxfp, nvfp4


@dataclass(frozen=True)
class Stored:
    """Weights of all experts.

    Attributes:
        values: bfloat16 or float8_e4m3fn [experts, rows, columns], or uint8 with two FP4 codes a
            byte [experts, rows, columns / 2].
        scales: block scales in row-major order, [experts, rows or rows / 128, columns / block], or
            ``None`` where there are none.
        overall: float32 [experts], what everything is multiplied by, or ``None``.
    """

    values: Tensor
    scales: Tensor | None = None
    overall: Tensor | None = None

    def block_scales(self) -> Tensor:
        """The block scales of a scheme that has some."""
        return _there(self.scales, "block scales")

    def overall_scales(self) -> Tensor:
        """The overall scales of a scheme that has some."""
        return _there(self.overall, "overall scales")


def _there(value: Tensor | None, what: str) -> Tensor:
    if value is None:
        raise ValueError(f"this scheme has no {what}")
    return value


@dataclass(frozen=True)
class StoredLayer:
    """Both projections; ``first`` has an expert's up rows above its gate rows."""

    first: Stored
    second: Stored


def stored_layer(layer: Layer, scheme: str) -> StoredLayer:
    """Quantize a layer's weights; the layer is left as it is."""
    store = _STORES[scheme]
    first = _each(layer.gate_up, lambda one: store(up_above_gate(one)))
    return StoredLayer(first=first, second=_each(layer.down, store))


def _each(weights: Tensor, store: Callable[[Tensor], Stored]) -> Stored:
    parts = [store(weights[number : number + 1]) for number in range(weights.shape[0])]

    def together(tensors: list[Tensor | None]) -> Tensor | None:
        present = [one for one in tensors if one is not None]
        return torch.cat(present) if present else None

    return Stored(
        values=torch.cat([part.values for part in parts]),
        scales=together([part.scales for part in parts]),
        overall=together([part.overall for part in parts]),
    )


def _bf16(weights: Tensor) -> Stored:
    return Stored(weights)


def _fp8(weights: Tensor) -> Stored:
    found = fp8.quantize(weights)
    return Stored(found.values, overall=found.scale)


def _fp8_block(weights: Tensor) -> Stored:
    found = fp8.quantize_blocks(weights)
    return Stored(found.values, scales=found.scales)


def _nvfp4(weights: Tensor) -> Stored:
    found = nvfp4.quantize(weights)
    return Stored(found.codes, scales=found.scales, overall=found.global_scale)


def _mxfp4(weights: Tensor) -> Stored:
    found = mxfp.quantize_mxfp4(weights)
    return Stored(found.codes, scales=found.scales)


def _mxfp8(weights: Tensor) -> Stored:
    found = mxfp.quantize_mxfp8(weights)
    return Stored(found.values, scales=found.scales)


_STORES: dict[str, Callable[[Tensor], Stored]] = {
    "bf16": _bf16,
    "fp8": _fp8,
    "fp8_block": _fp8_block,
    "nvfp4": _nvfp4,
    "mxfp4": _mxfp4,
    "mxfp8": _mxfp8,
}
