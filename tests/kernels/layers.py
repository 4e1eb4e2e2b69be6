"""Small layers and batches, and the routing rules that there are."""

import torch

from autotune.decisions.schema import Geometry
from autotune.kernels.distribution import parse_distribution
from autotune.kernels.layer import Batch, Layer, seeded_batch, seeded_layer
from autotune.kernels.model_layer import MINIMAX, RENORMALIZE, SOFTMAX
from autotune.kernels.spec import SWIGLU, Activation, LayerSpec, RoutingRule

CPU = torch.device("cpu")
RULES = {
    "softmax": SOFTMAX,
    "renormalize": RENORMALIZE,
    "minimax": MINIMAX,
    # DeepSeek-V3's, with fewer groups.
    "groups": RoutingRule(
        scoring="sigmoid", correction_bias=True, groups=4, top_groups=2, scaling_factor=2.5
    ),
    # DeepSeek-V2's.
    "softmax groups": RoutingRule(
        scoring="softmax",
        normalize=False,
        groups=4,
        top_groups=2,
        group_score="best",
        scaling_factor=16.0,
    ),
    "sigmoid": RoutingRule(scoring="sigmoid", normalize=False),
}


def layer_spec(
    *,
    hidden: int = 64,
    width: int = 32,
    experts: int = 8,
    top_k: int = 2,
    routing: RoutingRule = RENORMALIZE,
    activation: Activation = SWIGLU,
    expert_bias: bool = False,
) -> LayerSpec:
    return LayerSpec(
        geometry=Geometry(hidden, width, experts, top_k),
        routing=routing,
        activation=activation,
        expert_bias=expert_bias,
    )


def layer_and_batch(
    spec: LayerSpec, *, tokens: int, seed: int = 5, distribution: str = "uniform"
) -> tuple[Layer, Batch]:
    layer = seeded_layer(spec, seed=seed, device=CPU)
    batch = seeded_batch(
        layer,
        tokens=tokens,
        distribution=parse_distribution(distribution),
        seed=seed,
        device=CPU,
    )
    return layer, batch
