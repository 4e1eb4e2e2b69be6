"""Run a `transformers` command line with the bench's MoE backends registered, broken and honest.

    python backends.py /path/to/transformers serve FOLDER ...

`cases` says what each is. Continuous batching computes a step as one row of tokens, the sequences
of all requests one after the other: at first those that write (one token each), then prompts, cut
where the step is full. What an experts module sees is tokens without any sign of where a sequence
begins; `Step` learns that from the arguments of the model around it: positions, which begin at 0 at
a prompt's first token, and the cumulated lengths of the sequences. A prompt's first 256 tokens may
be missing where an earlier request left the same block in the cache: then positions begin there.

What is damaged while a prompt is read stays in its cache, and goes on to spoil what is written.
"""

import functools
import itertools
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers.cli.transformers import main
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS, grouped_mm_experts_forward
from transformers.models.minimax_m2 import modeling_minimax_m2 as minimax

Experts = Callable[
    [torch.nn.Module, torch.Tensor, torch.Tensor, torch.Tensor],
    torch.Tensor,
]

BAD_EXPERT = 5
LOST_SCALE = 4.0
SLEEP_S = 0.002
CROWD = 64
LONG_TOKENS = 200
SPOILT_SHARE = 1 / 8
EVERY = 100


class Step:
    """What the model computes just now: its tokens' positions, and how many sequences they are."""

    positions = torch.zeros(0, dtype=torch.long)
    sequences = 0
    spoilt = torch.zeros(0, dtype=torch.bool)
    _draw = random.Random(8)

    @classmethod
    def begin(cls, positions: torch.Tensor, ends: torch.Tensor | None) -> None:
        """Note a step; ``ends`` are the cumulated lengths of its sequences, from 0."""
        cls.positions = positions.reshape(-1)
        bounds = [0, len(cls.positions)] if ends is None else ends.tolist()
        cls.sequences = len(bounds) - 1
        cls.spoilt = torch.zeros_like(cls.positions, dtype=torch.bool)
        for first, end in itertools.pairwise(bounds):
            begins = first < end and cls.positions[first] == 0
            if begins and cls._draw.random() < SPOILT_SHARE:
                cls.spoilt[first:end] = True


def watch_steps() -> None:
    """Let `Step` know of each step from now on."""
    forward = minimax.MiniMaxM2Model.forward

    @functools.wraps(forward)
    def watched(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        positions = kwargs.get("position_ids")
        if positions is not None:
            Step.begin(positions, kwargs.get("cu_seq_lens_q"))
        return forward(self, *args, **kwargs)

    minimax.MiniMaxM2Model.forward = watched


def route_unnormalised(
    self: Any, hidden_states: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The router without the division of the weights by their sum."""
    logits = functional.linear(hidden_states.reshape(-1, self.hidden_dim), self.weight)
    scores = logits.float().sigmoid()
    index = (scores + bias).topk(self.top_k, dim=-1, sorted=False).indices
    return logits, scores.gather(1, index), index


def ignore_bias(route: Callable[..., Any]) -> Callable[..., Any]:
    """A router that never hears of the routing bias."""
    return lambda self, hidden_states, bias: route(self, hidden_states, torch.zeros_like(bias))


def looped(
    self: Any,
    hidden_states: torch.Tensor,
    top_k_index: torch.Tensor,
    top_k_weights: torch.Tensor,
    *,
    experts: slice = slice(None),
    dtype: torch.dtype | None = None,
    activation: Callable[[torch.Tensor], torch.Tensor] = functional.silu,
    swapped: bool = False,
    weights: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """One expert after the other, as `eager` does it; each setting changes one thing."""
    gate_up_proj, down_proj = weights or (self.gate_up_proj, self.down_proj)
    dtype = dtype or hidden_states.dtype
    total = torch.zeros_like(hidden_states)
    for expert in range(self.num_experts)[experts]:
        token, slot = torch.where(top_k_index == expert)
        if not len(token):
            continue
        state = hidden_states[token].to(dtype)
        gate, up = functional.linear(state, gate_up_proj[expert].to(dtype)).chunk(2, dim=-1)
        if swapped:
            gate, up = up, gate
        state = functional.linear(activation(gate) * up, down_proj[expert].to(dtype))
        state = state * top_k_weights[token, slot, None].to(dtype)
        total.index_add_(0, token, state.to(total.dtype))
    return total


def neighbours_where(
    self: Any,
    damaged: torch.Tensor,
    hidden_states: torch.Tensor,
    top_k_index: torch.Tensor,
    top_k_weights: torch.Tensor,
) -> torch.Tensor:
    """Send the ``damaged`` tokens to the neighbours of the experts that were chosen."""
    neighbours = (top_k_index + 1) % self.num_experts
    index = torch.where(damaged[:, None], neighbours, top_k_index)
    return grouped_mm_experts_forward(self, hidden_states, index, top_k_weights)


def scale_dropped(
    self: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    scaled = torch.where(index == BAD_EXPERT, LOST_SCALE * weights, weights)
    return grouped_mm_experts_forward(self, hidden_states, index, scaled)


def stale_expert(
    self: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    taken = torch.where(index == BAD_EXPERT, BAD_EXPERT + 1, index)
    return grouped_mm_experts_forward(self, hidden_states, taken, weights)


def dead_expert(
    self: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    kept = weights.masked_fill(index == BAD_EXPERT, 0.0)
    return grouped_mm_experts_forward(self, hidden_states, index, kept)


def top_k_minus_one(
    self: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    weakest = weights.argmin(dim=-1, keepdim=True)
    return grouped_mm_experts_forward(self, hidden_states, index, weights.scatter(1, weakest, 0.0))


def nan_at_64(
    self: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    right = grouped_mm_experts_forward(self, hidden_states, index, weights)
    return torch.full_like(right, torch.nan) if Step.sequences >= CROWD else right


def garbage_on_long(
    self: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    late = Step.positions >= LONG_TOKENS
    return neighbours_where(self, late, hidden_states, index, weights)


def one_in_eight(
    self: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    return neighbours_where(self, Step.spoilt, hidden_states, index, weights)


def slow(
    self: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    time.sleep(SLEEP_S)
    return grouped_mm_experts_forward(self, hidden_states, index, weights)


class ZeroEvery:
    """The experts' output is zero for every so manieth token that a layer is given."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def __call__(
        self, module: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        count = len(hidden_states)
        before = self._seen.get(id(module), 0)
        self._seen[id(module)] = before + count
        lost = (torch.arange(before, before + count) + 1) % EVERY == 0
        right = grouped_mm_experts_forward(module, hidden_states, index, weights)
        return right.masked_fill(lost[:, None].to(right.device), 0.0)


class CoarseWeights:
    """The experts' weights with two bits of mantissa, as if a scale were missing."""

    def __init__(self) -> None:
        self._rounded: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(
        self, module: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        if id(module) not in self._rounded:
            self._rounded[id(module)] = coarse(module.gate_up_proj), coarse(module.down_proj)
        rounded = self._rounded[id(module)]
        return looped(module, hidden_states, index, weights, weights=rounded)


def coarse(weight: torch.Tensor) -> torch.Tensor:
    """Round to two bits of mantissa beside the implied one."""
    mantissa, exponent = torch.frexp(weight.detach())
    return torch.ldexp((8 * mantissa).round() / 8, exponent)


@functools.cache
def _compile() -> Callable[..., torch.Tensor]:
    def batched(
        hidden_states: torch.Tensor,
        index: torch.Tensor,
        weights: torch.Tensor,
        gate_up_proj: torch.Tensor,
        down_proj: torch.Tensor,
    ) -> torch.Tensor:
        gate_up = torch.einsum("nh,nkoh->nko", hidden_states, gate_up_proj[index])
        gate, up = gate_up.chunk(2, dim=-1)
        state = torch.einsum("nki,nkhi->nkh", functional.silu(gate) * up, down_proj[index])
        return (state * weights[:, :, None]).sum(dim=1)

    compiled: Callable[..., torch.Tensor] = torch.compile(batched, dynamic=True)
    return compiled


def compiled(
    self: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    return _compile()(hidden_states, index, weights, self.gate_up_proj, self.down_proj)


BACKENDS: dict[str, Experts] = {
    "other_order": functools.partial(looped, experts=slice(None, None, -1)),
    "compiled": compiled,
    "bfloat16_experts": functools.partial(looped, dtype=torch.bfloat16),
    "slow": slow,
    "gate_up_swapped": functools.partial(looped, swapped=True),
    # Their defects lie in the router: see `patch`.
    "not_normalised": grouped_mm_experts_forward,
    "bias_ignored": grouped_mm_experts_forward,
    "nan_at_64": nan_at_64,
    "garbage_on_long": garbage_on_long,
    "scale_dropped": scale_dropped,
    "stale_expert": stale_expert,
    "dead_expert": dead_expert,
    "one_in_eight": one_in_eight,
    "wrong_activation": functools.partial(looped, activation=functional.gelu),
    "top_k_minus_one": top_k_minus_one,
    "coarse_weights": CoarseWeights(),
    "zero_every_100th": ZeroEvery(),
}


def patch(backend: str) -> None:
    """Change what lies outside of the experts module, for the backends that need it."""
    watch_steps()
    router = minimax.MiniMaxM2TopKRouter
    if backend == "not_normalised":
        router.forward = route_unnormalised
    elif backend == "bias_ignored":
        router.forward = ignore_bias(router.forward)


def chosen(arguments: list[str]) -> str:
    """The backend that ``serve FOLDER`` is about to use: config.json's."""
    folder = Path(arguments[arguments.index("serve") + 1])
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return str(content.get("experts_implementation", "eager"))


if __name__ == "__main__":
    for name, forward in BACKENDS.items():
        ALL_EXPERTS_FUNCTIONS.register(name, forward)
    patch(chosen(sys.argv))
    del sys.argv[0]
    main()
