"""What rounding costs Gaussian values in blocks, by integration: no random number is drawn.

A block of n values is seen through its largest magnitude a, whose density is that of the largest
of n half-normal magnitudes; the other n - 1 are Gaussian, cut off at a. With q the format's
rounding once its scale is chosen for a,

    noise^2 = E_a[((q(a) - a)^2 + (n - 1) E[(q(x) - x)^2 | |x| < a]) / n]

and the variance is 1, so that the noise is the relative RMS error of a tensor.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

# Rounds magnitudes x [a, x] in blocks whose largest magnitudes are a [a, 1], in float64.
BlockRounding = Callable[[Tensor, Tensor], Tensor]

_LARGEST = torch.linspace(0.02, 6.0, 150, dtype=torch.float64)
_PER_BLOCK = 1000
# A scale's position between two powers of two is arbitrary: an average over the octave.
_OCTAVE = [2 ** ((k + 0.5) / 8) for k in range(8)]


def block_noise(rounding: BlockRounding, block: int) -> float:
    """The relative RMS error of Gaussian values, rounded in blocks of so many."""
    return math.sqrt(
        sum(_mean_square(rounding, block, deviation) for deviation in _OCTAVE) / len(_OCTAVE)
    )


def _mean_square(rounding: BlockRounding, block: int, deviation: float) -> float:
    """The same in squares, of values whose standard deviation is ``deviation``."""
    largest = _LARGEST[:, None]
    weight = block * _density(largest) * _below(largest) ** (block - 1)
    weight = weight / weight.sum()
    middles = (torch.arange(_PER_BLOCK, dtype=torch.float64) + 0.5) / _PER_BLOCK
    inner = largest * middles
    inner_weight = _density(inner) / _density(inner).sum(-1, keepdim=True)

    def error(x: Tensor) -> Tensor:
        return (rounding(x * deviation, largest * deviation) / deviation - x).square()

    rest = (error(inner) * inner_weight).sum(-1, keepdim=True)
    return float((weight * (error(largest) + (block - 1) * rest)).sum() / block)


def _density(x: Tensor) -> Tensor:
    """Of a half-normal magnitude."""
    return math.sqrt(2 / math.pi) * torch.exp(-x.square() / 2)


def _below(x: Tensor) -> Tensor:
    """How likely a half-normal magnitude is below ``x``."""
    return torch.erf(x / math.sqrt(2))


def float_grid(x: Tensor, *, mantissa_bits: int, smallest_exponent: int, largest: float) -> Tensor:
    """Nonnegative ``x`` to the nearest of a floating-point grid with subnormals, saturating.

    Written from the formats' definition, independent of the package's tables and casts.
    """
    exponent = torch.floor(torch.log2(x.clamp_min(2.0**-200))).clamp_min(smallest_exponent)
    step = 2.0 ** (exponent - mantissa_bits)
    return (torch.round(x / step) * step).clamp_max(largest)


def e2m1(x: Tensor) -> Tensor:
    return float_grid(x, mantissa_bits=1, smallest_exponent=0, largest=6.0)


def e4m3(x: Tensor) -> Tensor:
    return float_grid(x, mantissa_bits=3, smallest_exponent=-6, largest=448.0)


def nvfp4(x: Tensor, largest: Tensor) -> Tensor:
    scale = e4m3(largest / 6)
    return e2m1(x / scale) * scale


def mxfp4(x: Tensor, largest: Tensor) -> Tensor:
    scale = 2.0 ** (torch.floor(torch.log2(largest)) - 2)
    return e2m1(x / scale) * scale


def mxfp8(x: Tensor, largest: Tensor) -> Tensor:
    scale = 2.0 ** (torch.floor(torch.log2(largest)) - 8)
    return e4m3(x / scale) * scale


def mxfp8_up(x: Tensor, largest: Tensor) -> Tensor:
    scale = 2.0 ** torch.ceil(torch.log2(largest / 448))
    return e4m3(x / scale) * scale


def fp8(x: Tensor, largest: Tensor) -> Tensor:
    scale = largest / 448
    return e4m3(x / scale) * scale
