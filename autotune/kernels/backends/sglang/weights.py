"""A layer's weights as SGLang's Triton MoE holds them.

``w13`` [experts, 2 * width, hidden] and ``w2`` [experts, hidden, width], row-major. The gate rows
are above the up rows, as checkpoints have them: `silu_and_mul` takes the first half for the gate.
Only for gpt-oss's activation do the rows of gate and up alternate, gate first, as its checkpoints
have them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from autotune.kernels.quantization import fp8
from autotune.kernels.spec import Activation


@dataclass(frozen=True)
class Held:
    """One projection of all experts.

    Attributes:
        values: bfloat16 or float8_e4m3fn [experts, rows, columns].
        scale: float32: ``None`` with bfloat16, [experts] where an expert has one,
            [experts, rows / 128, columns / 128] where blocks have.
    """

    values: Tensor
    scale: Tensor | None


def held(weights: Tensor, scheme: str) -> Held:
    """Quantize one projection [experts, rows, columns], an expert at a time."""
    quantize = _QUANTIZE[scheme]
    if quantize is None:
        return Held(weights, None)
    values = torch.empty_like(weights, dtype=torch.float8_e4m3fn)
    scales = []
    for number in range(weights.shape[0]):
        one = slice(number, number + 1)
        values[one], scale = quantize(weights[one])
        scales.append(scale)
    return Held(values, torch.cat(scales))


def alternating(joined: Tensor) -> Tensor:
    """Turn [experts, gate rows then up rows, ...] into gate, up, gate, up, ..."""
    return torch.stack(joined.chunk(2, dim=1), dim=2).flatten(1, 2).contiguous()


def rows_alternate(activation: Activation, scheme: str) -> bool:
    """Whether the rows of gate and up alternate.

    Not where blocks of rows share a scale: a block would then be half of each, and hold other
    numbers than the scheme says. SGLang takes the halves one above the other, too.
    """
    return activation.limit is not None and scheme != "fp8_block"


def _fp8(weights: Tensor) -> tuple[Tensor, Tensor]:
    found = fp8.quantize(weights)
    return found.values, found.scale


def _fp8_block(weights: Tensor) -> tuple[Tensor, Tensor]:
    found = fp8.quantize_blocks(weights)
    return found.values, found.scales


_QUANTIZE: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]] | None] = {
    "bf16": None,
    "fp8": _fp8,
    "fp8_block": _fp8_block,
}
