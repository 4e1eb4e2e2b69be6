"""The oracle: a MoE layer in plain torch, to be read like a textbook and trusted.

It is slow on purpose: one expert after another, in float64 by default, no fused step. Every
backend is compared with it. It knows nothing of quantization: a caller that wants to know what a
quantized kernel should give hands in the weights that the kernel really holds and, as
`Roundings`, what the kernel does to activations between its two products.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from autotune.kernels.activation import activate
from autotune.kernels.routing import Routing
from autotune.kernels.spec import Activation

Rounding = Callable[[Tensor], Tensor]


def unchanged(values: Tensor) -> Tensor:
    """Round nothing."""
    return values


@dataclass(frozen=True)
class Roundings:
    """What a kernel does to activations that it multiplies in few bits.

    Attributes:
        tokens: applied to the layer's input, [tokens, hidden].
        activated: applied to what comes out of the activation, [rows, width].
    """

    tokens: Rounding = unchanged
    activated: Rounding = unchanged


EXACT = Roundings()


@dataclass(frozen=True)
class Expert:
    """One expert's weights.

    Attributes:
        gate: [width, hidden].
        up: [width, hidden].
        down: [hidden, width].
        gate_bias, up_bias: [width] or ``None``.
        down_bias: [hidden] or ``None``.
    """

    gate: Tensor
    up: Tensor
    down: Tensor
    gate_bias: Tensor | None = None
    up_bias: Tensor | None = None
    down_bias: Tensor | None = None


class Experts(Protocol):
    """Where the oracle gets an expert's weights, one at a time: all of them may not fit."""

    def expert(self, number: int, dtype: torch.dtype) -> Expert: ...


def moe_layer(
    hidden_states: Tensor,
    experts: Experts,
    routing: Routing,
    activation: Activation,
    *,
    roundings: Roundings = EXACT,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Return the layer's output, [tokens, hidden] in ``dtype``.

    ``output[t] = sum over t's experts e of weight[t, e] * down_e(activation(gate_e(x), up_e(x)))``

    Args:
        hidden_states: [tokens, hidden], of any floating dtype.
        experts: the weights.
        routing: each token's experts and their weights.
        activation: between the two products.
        roundings: what is done to activations on the way; nothing by default.
        dtype: what everything is computed in.
    """
    tokens = roundings.tokens(hidden_states.to(dtype)).to(dtype)
    weights = routing.weights.to(dtype)
    output = torch.zeros_like(tokens)
    for number in routing.expert_ids.unique().tolist():
        rows, slots = torch.where(routing.expert_ids == number)
        expert = experts.expert(number, dtype)
        gate = _linear(tokens[rows], expert.gate, expert.gate_bias)
        up = _linear(tokens[rows], expert.up, expert.up_bias)
        activated = roundings.activated(activate(gate, up, activation)).to(dtype)
        answer = _linear(activated, expert.down, expert.down_bias)
        output[rows] += weights[rows, slots, None] * answer
    return output


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = rows @ weight.T
    return product if bias is None else product + bias
