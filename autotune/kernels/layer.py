"""One layer's weights and a batch of its inputs, drawn from a seed.

Weights are what a checkpoint would hold (bfloat16); how a kernel holds them is the backend's
affair. The same seed gives the same layer on the same kind of device.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from autotune.kernels.distribution import Distribution
from autotune.kernels.logits import draw_logits
from autotune.kernels.oracle import Expert
from autotune.kernels.routing import Routing, route
from autotune.kernels.spec import LayerSpec

# The correction biases of released checkpoints differ between experts by some tenths; with less,
# a kernel that ignores the bias would choose the same experts and not be found out. They have
# bounds: where two differ by 1, no sigmoid makes up for it, and one is never chosen without the
# other.
_BIAS_REACH = 0.3
# With a third of it, a kernel that leaves the second bias out would pass for one of NVFP4.
_EXPERT_BIAS_SPREAD = 0.3
_LARGEST_WEIGHTS_AT_ONCE = 2**26


@dataclass(frozen=True)
class Layer:
    """A MoE layer's weights as a checkpoint has them.

    Attributes:
        spec: what kind of layer it is.
        gate_up: bfloat16 [experts, 2 * width, hidden], an expert's gate rows above its up rows.
        down: bfloat16 [experts, hidden, width].
        gate_up_bias: float32 [experts, 2 * width], values that bfloat16 can hold, or ``None``.
        down_bias: float32 [experts, hidden], likewise.
        correction_bias: float32 [experts], likewise; there where the routing rule has one.
    """

    spec: LayerSpec
    gate_up: Tensor
    down: Tensor
    gate_up_bias: Tensor | None
    down_bias: Tensor | None
    correction_bias: Tensor | None

    def without_weights(self) -> "Layer":
        """The same layer for who only makes batches of it: no projection takes memory."""
        return replace(self, gate_up=self.gate_up.new_empty(0), down=self.down.new_empty(0))

    def expert(self, number: int, dtype: torch.dtype) -> Expert:
        """One expert's weights, for the oracle."""
        gate_up_bias, down_bias = self.expert_biases(number, dtype)
        return split_expert(
            self.gate_up[number].to(dtype),
            self.down[number].to(dtype),
            gate_up_bias=gate_up_bias,
            down_bias=down_bias,
        )

    def expert_biases(self, number: int, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """One expert's biases [2 * width] and [hidden], ``None`` where the layer has none."""
        if self.gate_up_bias is None or self.down_bias is None:
            return None, None
        return self.gate_up_bias[number].to(dtype), self.down_bias[number].to(dtype)


def split_expert(
    gate_up: Tensor, down: Tensor, *, gate_up_bias: Tensor | None, down_bias: Tensor | None
) -> Expert:
    """Part one expert's joined projections ([2 * width, hidden] and [2 * width])."""
    gate, up = gate_up.chunk(2)
    gate_bias, up_bias = gate_up_bias.chunk(2) if gate_up_bias is not None else (None, None)
    return Expert(
        gate=gate, up=up, down=down, gate_bias=gate_bias, up_bias=up_bias, down_bias=down_bias
    )


@dataclass(frozen=True)
class Batch:
    """What a layer is called with.

    Attributes:
        hidden_states: bfloat16 [tokens, hidden].
        logits: float32 [tokens, experts], values that bfloat16 can hold, so that a kernel which
            takes them in bfloat16 routes by the same numbers.
        routing: what the layer's rule makes of the logits: int64 ids and float32 weights.
    """

    hidden_states: Tensor
    logits: Tensor
    routing: Routing

    @property
    def tokens(self) -> int:
        return int(self.hidden_states.shape[0])


def seeded_layer(spec: LayerSpec, *, seed: int, device: torch.device) -> Layer:
    """Draw a layer's weights: Gaussian, each product keeping its input's size.

    The standard deviation of a weight is 1 / sqrt(number of inputs). Correction biases lie evenly
    between -0.3 and 0.3.
    """
    generator = torch.Generator(device).manual_seed(seed)
    sizes = spec.geometry
    experts, hidden, width = sizes.experts, sizes.hidden_size, sizes.expert_width

    def spread(shape: tuple[int, ...], amount: float) -> Tensor:
        return _rounded(_gaussian(shape, amount, generator))

    def even(shape: tuple[int, ...], reach: float) -> Tensor:
        drawn = torch.rand(shape, generator=generator, device=device)
        return _rounded((2 * drawn - 1) * reach)

    biased = spec.expert_bias
    return Layer(
        spec=spec,
        gate_up=_weights(experts, 2 * width, hidden, generator),
        down=_weights(experts, hidden, width, generator),
        gate_up_bias=spread((experts, 2 * width), _EXPERT_BIAS_SPREAD) if biased else None,
        down_bias=spread((experts, hidden), _EXPERT_BIAS_SPREAD) if biased else None,
        correction_bias=even((experts,), _BIAS_REACH) if spec.routing.correction_bias else None,
    )


def seeded_batch(
    layer: Layer, *, tokens: int, distribution: Distribution, seed: int, device: torch.device
) -> Batch:
    """Draw a batch whose routing follows ``distribution``.

    Raises:
        InputError: the distribution's recording can't be a choice of this layer's rule.
    """
    sizes = layer.spec.geometry
    # Batches of one seed and several sizes share no random numbers with one another.
    generator = torch.Generator(device).manual_seed(seed * 1_000_003 + tokens)
    hidden_states = _gaussian((tokens, sizes.hidden_size), 1.0, generator).to(torch.bfloat16)
    logits = draw_logits(
        layer.spec,
        distribution,
        tokens=tokens,
        correction_bias=layer.correction_bias,
        generator=generator,
    )
    bias = layer.correction_bias
    routing = route(
        logits.double(),
        layer.spec.routing,
        top_k=sizes.top_k,
        correction_bias=None if bias is None else bias.double(),
    )
    return Batch(
        hidden_states=hidden_states,
        logits=logits,
        routing=Routing(expert_ids=routing.expert_ids, weights=routing.weights.float()),
    )


def _weights(experts: int, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Draw bfloat16 weights [experts, rows, columns] without ever holding all in float32."""
    weights = torch.empty(experts, rows, columns, dtype=torch.bfloat16, device=generator.device)
    at_once = max(1, _LARGEST_WEIGHTS_AT_ONCE // (rows * columns))
    for part in weights.split(at_once):
        part.copy_(_gaussian(tuple(part.shape), columns**-0.5, generator))
    return weights


def _gaussian(shape: tuple[int, ...], spread: float, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, device=generator.device) * spread


def _rounded(values: Tensor) -> Tensor:
    return values.to(torch.bfloat16).float()
