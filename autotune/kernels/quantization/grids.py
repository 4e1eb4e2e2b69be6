"""The number grids that quantized tensors are written in: E2M1, E4M3 and UE8M0.

A grid is a finite set of numbers and a rule for rounding to it. What turns a grid into a tensor
format (blocks, scales) is in the modules beside this one. Everything here is plain torch, on any
device, and made to be read next to the definitions, not to be fast:

- E2M1 and UE8M0 (there: E8M0): OCP Microscaling Formats (MX) Specification v1.0. UE8M0 is a power
  of two, 2^(code - 127); code 255 is NaN.
- E4M3: OCP 8-bit Floating Point Specification (OFP8) v1.0; largest number 448, no infinities.

Rounding is to the nearest number of the grid, ties to the even code, and what lies beyond the
largest number becomes the largest: so does the hardware's ``cvt.rn.satfinite``.
"""

import torch
from torch import Tensor

E2M1_MAX = 6.0
E4M3_MAX = 448.0
UE8M0_BIAS = 127

E2M1_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_E2M1_SIGN = 0b1000
_UE8M0_LARGEST = 254
_UE8M0_NAN = 255
_FLOAT32_MANTISSA_BITS = 23


def to_e2m1_codes(x: Tensor) -> Tensor:
    """The E2M1 code of each value of ``x``: uint8 0..15 of the same shape, bit 3 is the sign.

    A negative value that rounds to zero keeps its sign (code 8), as hardware does. NaN has no
    code in this grid: callers must not pass it.
    """
    magnitude = x.abs()
    codes = torch.zeros_like(magnitude, dtype=torch.uint8)
    for code in range(1, len(E2M1_MAGNITUDES)):
        midpoint = (E2M1_MAGNITUDES[code - 1] + E2M1_MAGNITUDES[code]) / 2
        # The lowest bit of a code is its mantissa, so a tie goes up only to an even code.
        reaches = magnitude >= midpoint if code % 2 == 0 else magnitude > midpoint
        codes += reaches.to(torch.uint8)
    return codes + _E2M1_SIGN * torch.signbit(x).to(torch.uint8)


def from_e2m1_codes(codes: Tensor) -> Tensor:
    """The float32 values of E2M1 ``codes`` (uint8 0..15), of the same shape."""
    magnitudes = torch.tensor(E2M1_MAGNITUDES, dtype=torch.float32, device=codes.device)
    return torch.cat([magnitudes, -magnitudes])[codes.long()]


def to_e4m3(x: Tensor) -> Tensor:
    """``x`` as torch.float8_e4m3fn: nearest, ties to even, saturating at +-448; NaN stays NaN."""
    # Without the clamp, what torch makes of values beyond 448 depends on its version: 448 or NaN.
    return x.float().clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)


def round_e4m3(x: Tensor) -> Tensor:
    """The E4M3 number that ``to_e4m3`` rounds each value of ``x`` to, as float32."""
    return to_e4m3(x).float()


def to_ue8m0(scale: Tensor, *, up: bool = False) -> Tensor:
    """The UE8M0 code (uint8) of the largest power of two <= ``scale``; ``up``: the smallest >= it.

    Saturates at both ends: zero and what is below 2^-127 get code 0, what is above 2^127 gets 254.
    ``scale`` must be finite and not negative.
    """
    mantissa, exponent = torch.frexp(scale.float())  # scale = mantissa * 2^exponent, in [0.5, 1)
    power = exponent - 1
    if up:
        power = power + (mantissa > 0.5).int()
    codes = torch.where(mantissa == 0, 0, power + UE8M0_BIAS)
    return codes.clamp(0, _UE8M0_LARGEST).to(torch.uint8)


def from_ue8m0(codes: Tensor) -> Tensor:
    """2^(code - 127) as float32 for each UE8M0 code; NaN for code 255."""
    # The code is float32's own exponent field, except at 0, where 2^-127 is a subnormal number.
    bits = codes.int() << _FLOAT32_MANTISSA_BITS
    bits = torch.where(codes == 0, 1 << (_FLOAT32_MANTISSA_BITS - 1), bits)
    values: Tensor = bits.to(torch.int32).view(torch.float32)
    return torch.where(codes == _UE8M0_NAN, torch.nan, values)
