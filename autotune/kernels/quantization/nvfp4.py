"""NVFP4: E2M1 values, an E4M3 scale for each 16 of them, and a float32 scale for all.

    value = e2m1 * block scale * global scale

as NVIDIA describes it (cuDNN's documentation of block scaling, "NVFP4"; "Introducing NVFP4 for
Efficient and Accurate Low-Precision Inference", NVIDIA technical blog, 2025). This is the usual
recipe: block scales from the block's largest magnitude, without a search for better ones and
without two-dimensional blocks. The global scale here is the one that *decodes*; FlashInfer's
quantizer takes its inverse, and calls that the global scale.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from autotune.kernels.quantization.blocks import beside, split_blocks, tensor_scale
from autotune.kernels.quantization.grids import (
    E2M1_MAX,
    E4M3_MAX,
    from_e2m1_codes,
    to_e2m1_codes,
    to_e4m3,
)
from autotune.kernels.quantization.packing import pack_nibbles, unpack_nibbles

BLOCK = 16
# With it, the block that holds the tensor's largest magnitude gets E4M3's largest scale.
LARGEST = E2M1_MAX * E4M3_MAX


@dataclass(frozen=True, eq=False)
class NVFP4Tensor:
    """A tensor [..., columns] in NVFP4.

    ``codes``: uint8 [..., columns / 2], two E2M1 codes a byte, the first in the low nibble.
    ``scales``: float8_e4m3fn [..., columns / 16], none negative.
    ``global_scale``: float32 [], or [experts] where the tensor is [experts, rows, columns].
    """

    codes: Tensor
    scales: Tensor
    global_scale: Tensor


def quantize(x: Tensor, *, global_scale: float | Tensor | None = None) -> NVFP4Tensor:
    """``x`` in NVFP4; ``global_scale`` (decoding) defaults to amax / (6 * 448), an expert's own.

    Each value is coded with the block scale *after* its rounding to E4M3, so that this rounding
    costs range or resolution but is no error of its own. Where a block scale rounds to zero
    (all zeros, or values below the global scale's reach) the block is zeros.

    Raises:
        InputError: the last axis isn't a multiple of 16, a value isn't finite, or a bad scale.
    """
    blocks = split_blocks(x, BLOCK, "NVFP4")
    overall = tensor_scale(
        blocks.flatten(-2), global_scale, largest=LARGEST, format_name="NVFP4's global scale"
    )
    amax = blocks.abs().amax(-1)
    scales = to_e4m3(amax / E2M1_MAX / beside(overall, amax))
    step = (scales.float() * beside(overall, amax)).unsqueeze(-1)
    # Infinity where the step is zero: the quotient is then a zero that keeps its sign.
    codes = to_e2m1_codes(blocks / torch.where(step > 0, step, torch.inf))
    return NVFP4Tensor(codes=pack_nibbles(codes.flatten(-2)), scales=scales, global_scale=overall)


def dequantize(stored: NVFP4Tensor) -> Tensor:
    """The float32 tensor [..., columns] that ``stored`` stands for."""
    step = stored.scales.float() * beside(stored.global_scale, stored.scales)
    values = from_e2m1_codes(unpack_nibbles(stored.codes)).unflatten(-1, (-1, BLOCK))
    return (values * step.unsqueeze(-1)).flatten(-2)
