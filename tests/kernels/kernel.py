"""A kernel in plain torch, taken apart: honest until something is replaced.

Unlike the oracle it computes in float32 and keeps in bfloat16 what most kernels keep in it; unlike
torch's backends its every part (tokens, weights, routing, activation) can be swapped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from autotune.kernels.activation import activate
from autotune.kernels.backends.protocol import Calibration
from autotune.kernels.compare import judge
from autotune.kernels.held import DequantizedExperts, calibrate, roundings, weights_as_held
from autotune.kernels.layer import Batch, Layer
from autotune.kernels.oracle import Rounding, moe_layer
from autotune.kernels.quantization.tolerance import tolerance
from autotune.kernels.routing import Routing, route
from autotune.kernels.schema import Numerics
from autotune.kernels.spec import Activation, LayerSpec, RoutingRule
from tests.kernels.layers import layer_and_batch

Product = Callable[[Tensor, Tensor], Tensor]


def kept(values: Tensor) -> Tensor:
    """What is left of values that are stored in bfloat16."""
    return values.bfloat16().float()


def float32_product(rows: Tensor, weight: Tensor) -> Tensor:
    """``rows @ weight.T``."""
    return rows @ weight.T


@dataclass(frozen=True)
class Kernel:
    """One layer's kernel with a batch, all in float32.

    Attributes:
        tokens: [tokens, hidden], rounded as the scheme says.
        logits: [tokens, experts].
        gate_up, down: as the scheme holds them.
        gate_up_bias, down_bias, correction_bias: as the layer has them.
        rule, top_k, activation: the layer's.
        activated: how activated values are rounded.
        product: how rows and weights are multiplied.
        routing_first: whether tokens are weighted before the activation.
        order: in which order experts are added up.
    """

    tokens: Tensor
    logits: Tensor
    gate_up: Tensor
    down: Tensor
    gate_up_bias: Tensor | None
    down_bias: Tensor | None
    correction_bias: Tensor | None
    rule: RoutingRule
    top_k: int
    activation: Activation
    activated: Rounding
    product: Product = float32_product
    routing_first: bool = False
    order: Callable[[list[int]], list[int]] = sorted

    @property
    def routing(self) -> Routing:
        """Each token's experts, in float32."""
        return route(self.logits, self.rule, top_k=self.top_k, correction_bias=self.correction_bias)

    def output(self, routing: Routing | None = None) -> Tensor:
        """bfloat16 [tokens, hidden]."""
        routing = routing or self.routing
        output = torch.zeros_like(self.tokens)
        for number in self.order(routing.expert_ids.unique().tolist()):
            rows, slots = torch.where(routing.expert_ids == number)
            weights = routing.weights[rows, slots, None]
            tokens = self.tokens[rows] * weights if self.routing_first else self.tokens[rows]
            joined = self.product(tokens, self.gate_up[number])
            if self.gate_up_bias is not None:
                joined = joined + self.gate_up_bias[number]
            gate, up = kept(joined).chunk(2, dim=-1)
            activated = kept(self.activated(activate(gate, up, self.activation)).float())
            answer = self.product(activated, self.down[number])
            if self.down_bias is not None:
                answer = answer + self.down_bias[number]
            output[rows] += kept(answer) if self.routing_first else kept(answer) * weights
        return output.bfloat16()

    def but(self, **changes: Any) -> Kernel:
        """The same kernel with something replaced."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Case:
    """A layer, a batch and a scheme, and what their oracles say."""

    layer: Layer
    batch: Batch
    scheme: str

    @property
    def spec(self) -> LayerSpec:
        return self.layer.spec

    @cached_property
    def calibration(self) -> Calibration:
        _, batch = layer_and_batch(self.spec, tokens=64)
        return calibrate(self.layer, batch)

    @cached_property
    def kernel(self) -> Kernel:
        """An honest one."""
        layer, batch = self.layer, self.batch
        gate_up, down = weights_as_held(layer, self.scheme, dtype=torch.float32)
        rounded = roundings(self.scheme, self.calibration)
        return Kernel(
            tokens=rounded.tokens(batch.hidden_states.float()).float(),
            logits=batch.logits,
            gate_up=gate_up,
            down=down,
            gate_up_bias=layer.gate_up_bias,
            down_bias=layer.down_bias,
            correction_bias=layer.correction_bias,
            rule=layer.spec.routing,
            top_k=layer.spec.geometry.top_k,
            activation=layer.spec.activation,
            activated=rounded.activated,
        )

    @cached_property
    def full(self) -> Tensor:
        """The oracle in full precision."""
        layer, batch = self.layer, self.batch
        return moe_layer(batch.hidden_states, layer, batch.routing, layer.spec.activation)

    @cached_property
    def dequantized(self) -> Tensor:
        """The oracle on what the scheme holds."""
        if self.scheme == "bf16":
            return self.full
        return moe_layer(
            self.batch.hidden_states,
            DequantizedExperts(self.layer, self.scheme),
            self.batch.routing,
            self.spec.activation,
            roundings=roundings(self.scheme, self.calibration),
        )

    def judged(self, output: Tensor) -> Numerics:
        """What the sweep says of an output."""
        tokens, sizes = self.batch.tokens, self.spec.geometry
        values = sizes.top_k * sizes.expert_width
        return judge(
            output,
            rows=torch.arange(tokens),
            shape=(tokens, sizes.hidden_size),
            dequantized=self.dequantized,
            full=self.full,
            limits=tolerance(self.scheme, values=tokens * values),
            token_limits=tolerance(self.scheme, values=values),
        )


def case(
    spec: LayerSpec, scheme: str, *, tokens: int, seed: int = 5, distribution: str = "uniform"
) -> Case:
    layer, batch = layer_and_batch(spec, tokens=tokens, seed=seed, distribution=distribution)
    return Case(layer=layer, batch=batch, scheme=scheme)
