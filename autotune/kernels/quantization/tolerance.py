"""How far an honest backend may lie from the oracle, from the theory of rounding.

**Rounding.** Below, r is the relative RMS error that rounding causes, sqrt(E[error^2] / E[x^2]).
A value s * 2^e, 1 <= s < 2, written with m bits after the binary point has an error that is spread
evenly over a step of 2^(e - m), with the mean square step^2 / 12: relative to the value's square,
2^-2m / (12 s^2). Over values that spread over many binades, or over scales, s lies log-evenly,
where E[1 / s^2] = (1 - 1/4) / (2 ln 2) = 0.541. Hence (as Widrow and Kollar, "Quantization Noise",
2008, chapter 12, whose 0.180 * 2^-2p for p = m + 1 bits is this in squares)

    r(m) = 2^-m sqrt(0.541 / 12) = 0.212 * 2^-m

the textbook's 2^-(m + 1) / sqrt(3) times 0.736. bfloat16: r(7) = 0.0017; E4M3: r(3) = 0.0265, as
long as values stay within its normal range and don't saturate, which a scale from amax sees to.

E2M1 has too few binades for that: below 1 its steps are even, and where its top lies depends on the
block's largest value. There, r is the integral over the density of the largest of n Gaussian
magnitudes, and over the rest below it, each rounded as the format says:

- NVFP4 (16 values, largest to 6, the scale rounded to E4M3; NVIDIA's "Introducing NVFP4"): 0.095.
- MXFP4 weights (32 values, the specification's power of two): 0.116. The largest values of a block
  saturate where amax / scale lies between 6 and 8.
- MXFP8 weights by the same rule saturate between 448 and 512: 0.030 instead of 0.0265.

Heavier tails cost NVFP4 nothing (0.091 to 0.093 for Laplace and Student-t weights), but saturation
costs more with them: 0.126 for MXFP4 with Laplace weights, 0.141 with Student's t of 3 degrees.

**A product** ``y = W x`` of independent terms keeps relative errors: those of W and x add up in
squares, e1^2 = r_w^2 + r_x^2. **The activation** ``silu(g) * u`` passes both factors' errors on:
u's as it is, g's times sqrt(E[silu'(g)^2] / E[silu(g)^2]), which is 1.03 for g of variance 1, so
e2^2 = 2.07 e1^2. **The second product** adds r_a^2 of the activated values and r_w^2 of its
weights, the output r(7)^2. So the full-precision oracle is missed by

    full^2 = 2.07 (r_w^2 + r_x^2) + r_a^2 + r_w^2 + r(7)^2

**The dequantized oracle** holds the same weights and rounds the same inputs, so what remains is
arithmetic: gate, up, activated, an expert's answer and the sum are bfloat16 somewhere in most
kernels, (2.07 + 3) r(7)^2. In few bits there is one thing more: a value that is off by d relative
to the oracle's before its rounding is rounded to another step q with probability |d| / q, and is
then off by q: in the mean square E|d| q, with q = sqrt(12) r_a and E|d| = 0.8 d. And where the
block's scale is rounded too, it flips likewise, and takes its values' roundings with it. (The many
small values of a product of Gaussians lie where E2M1's steps are even and |d| is small, which makes
this a quarter too large for NVFP4; powers of two as scales put bfloat16 values onto ties of E4M3,
which makes it a sixth too small for MXFP4 and MXFP8.)

The limits are these expectations times a factor: `_ROOM`, `_FULL_ROOM`. Those are of many values.
A token of a small layer has few, of which one or two may flip and carry the whole error: among
thousands of single tokens with n activated values each, the largest error was sqrt(1 + c / n) times
the limit, c = `_FLIPPED`, and c = `_FEW` against full precision, for n from 64 up. Layers of
released models have n > 5000 for one token, which is 1.14 and less. Errors of a wrong kernel
are of another order (a swapped gate and up, an ignored bias, a wrong scale: 0.3 and more), so the
room costs little.
"""

import math
from dataclasses import dataclass

# How many times the expected error is still right. Inputs aren't Gaussian everywhere, kernels sum
# in other orders and take exponentials approximately; none of that doubles an error.
_ROOM = 3.0
# Beyond the error of the format itself no kernel should lose much more: a smaller factor does.
# Measured with Gaussian to Student-t weights (3 degrees): 0.9 to 1.3 times the expectation.
_FULL_ROOM = 1.5
# How much a single value may weigh among few; c in the text above.
_FLIPPED, _FEW = 1500.0, 300.0

_ACTIVATION_GAIN = 2.07
# E[|d|] / sqrt(E[d^2]) of a Gaussian.
_MEAN_OF_ABSOLUTE = math.sqrt(2 / math.pi)


def rounding_error(mantissa_bits: int) -> float:
    """Return r(m), the relative RMS error of rounding to that many bits."""
    return 2.0**-mantissa_bits * math.sqrt(3 / (8 * math.log(2)) / 12)


@dataclass(frozen=True)
class Tolerance:
    """Relative RMS errors: to the oracle on dequantized weights, and to that in full precision."""

    dequantized_rms: float
    full_rms: float


@dataclass(frozen=True)
class _Noise:
    """r of weights, of activations, and of the rounding of an activation block's own scale.

    The last is 0 where scales are powers of two, between which E4M3's grid is the same, and where
    they are float32, which moves a little with the values and is among their own d.
    """

    weights: float
    activations: float
    scale: float = 0.0


_BFLOAT16 = rounding_error(7)
_E4M3 = rounding_error(3)
_NVFP4 = 0.0951
_MXFP4_SATURATING = 0.1155
_MXFP8_SATURATING = 0.0299
_NOISE = {
    "bf16": _Noise(_BFLOAT16, _BFLOAT16),
    "fp8": _Noise(_E4M3, _E4M3),
    "fp8_block": _Noise(_E4M3, _E4M3),
    "nvfp4": _Noise(_NVFP4, _NVFP4, scale=_E4M3),
    "mxfp4": _Noise(_MXFP4_SATURATING, _E4M3),
    "mxfp8": _Noise(_MXFP8_SATURATING, _E4M3),
}


def expected_error(scheme: str) -> Tolerance:
    """Return the errors that theory expects of an honest backend of ``scheme``.

    Raises:
        KeyError: there is no such scheme.
    """
    noise = _NOISE[scheme]
    arithmetic = (_ACTIVATION_GAIN + 3) * _BFLOAT16**2
    if scheme == "bf16":
        # Weights and inputs are bfloat16 from the start: nothing is lost but in the arithmetic.
        return Tolerance(math.sqrt(arithmetic), math.sqrt(arithmetic))
    products = noise.weights**2 + noise.activations**2
    full = (_ACTIVATION_GAIN + 1) * products + _BFLOAT16**2
    return Tolerance(math.sqrt(arithmetic + _flips(noise)), math.sqrt(full))


def _flips(noise: _Noise) -> float:
    """Return the mean square of activated values being rounded to other steps than the oracle's."""
    before = _MEAN_OF_ABSOLUTE * math.sqrt(_ACTIVATION_GAIN + 1) * _BFLOAT16
    flips = before * math.sqrt(12) * noise.activations
    if noise.scale:
        # Two roundings of the same value to different steps differ by twice the mean square.
        flips += before / (math.sqrt(12) * noise.scale) * 2 * noise.activations**2
    return flips


def tolerance(scheme: str, *, values: int | None = None) -> Tolerance:
    """Return the largest errors that count as right.

    Args:
        scheme: its name.
        values: how many activated values the compared tokens have, tokens * top-k * width; ``None``
            for so many that errors are what is expected of them.

    Raises:
        KeyError: there is no such scheme.
    """
    expected = expected_error(scheme)
    if scheme == "bf16":
        # Nothing flips: each value's error is small, and errors of few values are as of many.
        return Tolerance(_ROOM * expected.dequantized_rms, _ROOM * expected.full_rms)
    flipped, few = (1.0, 1.0) if values is None else (_more(_FLIPPED, values), _more(_FEW, values))
    return Tolerance(
        _ROOM * expected.dequantized_rms * flipped, _FULL_ROOM * expected.full_rms * few
    )


def _more(constant: float, values: int) -> float:
    return math.sqrt(1 + constant / values)
