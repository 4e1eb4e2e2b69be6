"""The three ways in which torch computes the layer; `torch_loops` says what they stand for.

Each takes hidden states bfloat16 [tokens, hidden], expert ids int64 and routing weights float32
[tokens, top_k], and the weights, and returns bfloat16 [tokens, hidden].
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.fx.experimental import _config as symbolic_shapes
from torch.nn import functional

from autotune.kernels.activation import activate
from autotune.kernels.oracle import Roundings
from autotune.kernels.spec import Activation


@dataclass(frozen=True)
class HeldWeights:
    """What torch multiplies with: bfloat16, joined as `autotune.kernels.layer.Layer` has them."""

    gate_up: Tensor
    down: Tensor
    gate_up_bias: Tensor | None
    down_bias: Tensor | None
    activation: Activation
    roundings: Roundings


Compute = Callable[[Tensor, Tensor, Tensor, HeldWeights], Tensor]


def eager(*, compiled: bool) -> Compute:
    """One expert after another, as a first implementation would.

    Which experts are hit is known on the host alone, so that only an expert can be compiled.
    """
    expert = _compiled(_one_expert) if compiled else _one_expert
    return partial(_eager, expert)


def batched(*, compiled: bool) -> Compute:
    """Gather each (token, expert) pair's weights, and multiply them all at once."""
    return _compiled(_batched) if compiled else _batched


def grouped(*, compiled: bool) -> Compute:
    """Sort the pairs by expert, and multiply each expert's rows with its weights in one call."""
    return _compiled(_grouped) if compiled else _grouped


def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compile for any number of tokens at once, one token included.

    Compilers aren't what is measured, but compiling is most of what a small sweep takes. So there
    is no second pass for sizes other than 1, and on a CPU, where each of several processes
    compiles little, no pool of compilers is started.
    """
    # A private name: where a release lacks it, compiling takes longer and no more.
    if hasattr(symbolic_shapes, "backed_size_oblivious"):
        symbolic_shapes.backed_size_oblivious = True
    options = None if torch.cuda.is_available() else {"compile_threads": 1}
    compiled: Callable[..., Tensor] = torch.compile(function, dynamic=True, options=options)
    return compiled


def _eager(
    expert: Callable[..., Tensor],
    hidden_states: Tensor,
    expert_ids: Tensor,
    routing_weights: Tensor,
    weights: HeldWeights,
) -> Tensor:
    tokens = weights.roundings.tokens(hidden_states).to(torch.bfloat16)
    output = torch.zeros(tokens.shape, dtype=torch.float32, device=tokens.device)
    for number in expert_ids.unique().tolist():
        rows, slots = torch.where(expert_ids == number)
        answer = expert(
            tokens[rows],
            weights.gate_up[number],
            weights.down[number],
            _row(weights.gate_up_bias, number),
            _row(weights.down_bias, number),
            weights.activation,
            weights.roundings.activated,
        )
        output.index_add_(0, rows, answer.float() * routing_weights[rows, slots, None])
    return output.to(torch.bfloat16)


def _one_expert(
    rows: Tensor,
    gate_up: Tensor,
    down: Tensor,
    gate_up_bias: Tensor | None,
    down_bias: Tensor | None,
    activation: Activation,
    rounding: Callable[[Tensor], Tensor],
) -> Tensor:
    gate, up = functional.linear(rows, gate_up, gate_up_bias).chunk(2, dim=-1)
    activated = rounding(activate(gate, up, activation)).to(torch.bfloat16)
    return functional.linear(activated, down, down_bias)


def _batched(
    hidden_states: Tensor, expert_ids: Tensor, routing_weights: Tensor, weights: HeldWeights
) -> Tensor:
    tokens = weights.roundings.tokens(hidden_states).to(torch.bfloat16)
    count, top_k = expert_ids.shape
    ids = expert_ids.flatten()
    rows = tokens.repeat_interleave(top_k, dim=0)
    joined = torch.bmm(weights.gate_up[ids], rows.unsqueeze(-1)).squeeze(-1)
    activated = _activated(joined, ids, weights)
    answer = torch.bmm(weights.down[ids], activated.unsqueeze(-1)).squeeze(-1)
    return _combined(_with_bias(answer, weights.down_bias, ids), routing_weights, count, top_k)


def _grouped(
    hidden_states: Tensor, expert_ids: Tensor, routing_weights: Tensor, weights: HeldWeights
) -> Tensor:
    tokens = weights.roundings.tokens(hidden_states).to(torch.bfloat16)
    count, top_k = expert_ids.shape
    ids, order = expert_ids.flatten().sort()
    experts = torch.arange(weights.gate_up.shape[0], device=ids.device)
    ends = torch.searchsorted(ids, experts, right=True).to(torch.int32)
    rows = tokens[order // top_k]
    joined = functional.grouped_mm(rows, weights.gate_up.transpose(-2, -1), offs=ends)
    activated = _activated(joined, ids, weights)
    answer = functional.grouped_mm(activated, weights.down.transpose(-2, -1), offs=ends)
    answer = _with_bias(answer, weights.down_bias, ids)
    unsorted = torch.empty_like(answer).index_copy(0, order, answer)
    return _combined(unsorted, routing_weights, count, top_k)


def _activated(joined: Tensor, ids: Tensor, weights: HeldWeights) -> Tensor:
    gate, up = _with_bias(joined, weights.gate_up_bias, ids).chunk(2, dim=-1)
    activated = activate(gate, up, weights.activation)
    return weights.roundings.activated(activated).to(torch.bfloat16)


def _combined(answers: Tensor, routing_weights: Tensor, count: int, top_k: int) -> Tensor:
    """Add up each token's experts: answers [tokens * top_k, hidden], in the tokens' order."""
    weighted = answers.float().unflatten(0, (count, top_k)) * routing_weights.unsqueeze(-1)
    return weighted.sum(dim=1).to(torch.bfloat16)


def _with_bias(rows: Tensor, bias: Tensor | None, ids: Tensor) -> Tensor:
    return rows if bias is None else rows + bias[ids]


def _row(bias: Tensor | None, number: int) -> Tensor | None:
    return None if bias is None else bias[number]
