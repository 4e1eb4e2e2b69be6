"""How far a backend's output lies from the oracle's, and whether that is right.

A formula and two limits. What limits are right for a scheme is
`autotune.kernels.quantization.tolerance`.
"""

import torch
from torch import Tensor

from autotune.kernels.quantization.tolerance import Tolerance
from autotune.kernels.schema import Difference, Numerics

# Of thousands of tokens that were computed right, none had an error as large as what is allowed for
# a batch of that one alone. At twice that, one of its experts is wrong or missing.
_WORST_TOKEN = 2.0
# No layer's output is so small. What is divided by it stays a number that JSON can say.
_SMALLEST = 1e-30


def difference(output: Tensor, expected: Tensor) -> Difference:
    """Compare two tensors [tokens, hidden], in float64.

    ``relative_rms = sqrt(sum((o - e)^2) / sum(e^2))``.
    """
    output, expected = output.double(), expected.double()
    error = output - expected
    size = expected.square().mean().sqrt().clamp_min(_SMALLEST)
    token_sizes = expected.square().mean(dim=-1).sqrt().clamp_min(_SMALLEST)
    cosine = torch.nn.functional.cosine_similarity(output.flatten(), expected.flatten(), dim=0)
    return Difference(
        relative_rms=float(error.square().mean().sqrt() / size),
        cosine=float(cosine),
        largest=float(error.abs().max() / size),
        worst_token_rms=float((error.square().mean(dim=-1).sqrt() / token_sizes).max()),
    )


def judge(
    output: Tensor,
    *,
    rows: Tensor,
    shape: tuple[int, int],
    dequantized: Tensor,
    full: Tensor,
    limits: Tolerance,
    token_limits: Tolerance,
) -> Numerics:
    """Compare a backend's output with both oracles.

    Wrong is: another shape or dtype, a value anywhere that isn't finite, a relative RMS above its
    tolerance, or a single token far above it.

    Args:
        output: bfloat16 [tokens, hidden], what the backend gave.
        rows: the tokens that the oracles computed.
        shape: what the output's shape must be.
        dequantized: [rows, hidden], the oracle on what the kernel holds.
        full: [rows, hidden], the oracle in full precision.
        limits: the largest relative RMS to each.
        token_limits: the same of a batch of one token.
    """
    problem = _broken(output, shape)
    to_dequantized = to_full = None
    if problem is None:
        compared = output[rows.to(output.device)].cpu()
        to_dequantized, to_full = difference(compared, dequantized), difference(compared, full)
        problem = _too_far(
            to_dequantized,
            limits.dequantized_rms,
            _WORST_TOKEN * token_limits.dequantized_rms,
            "the dequantized oracle",
        ) or _too_far(
            to_full,
            limits.full_rms,
            _WORST_TOKEN * token_limits.full_rms,
            "the full-precision oracle",
        )
    return Numerics(
        tokens=len(rows),
        dequantized=to_dequantized,
        full=to_full,
        tolerance=limits.dequantized_rms,
        full_tolerance=limits.full_rms,
        problem=problem,
    )


def _broken(output: Tensor, shape: tuple[int, int]) -> str | None:
    if tuple(output.shape) != shape:
        return f"the output's shape is {tuple(output.shape)}, not {shape}"
    if output.dtype != torch.bfloat16:
        return f"the output is {_name(output.dtype)}, not bfloat16"
    count = int((~output.isfinite()).sum())
    return f"{count} of {output.numel()} values aren't finite" if count else None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _too_far(found: Difference, allowed: float, token_allowed: float, what: str) -> str | None:
    if not found.relative_rms <= allowed:
        return f"relative RMS {found.relative_rms:.3g} to {what}, {allowed:.3g} allowed"
    if not found.worst_token_rms <= token_allowed:
        return (
            f"one token's relative RMS to {what} is {found.worst_token_rms:.3g}, "
            f"{token_allowed:.3g} allowed"
        )
    return None
