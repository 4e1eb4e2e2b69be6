"""How much work a call of the layer is, counted: what achieved TFLOP/s and GB/s are made of.

Counted from sizes and routing, not from what a kernel does: padding and recomputed values are a
kernel's own loss. No torch.
"""

import msgspec

from autotune.decisions.schema import Geometry


class Work(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The least that one call must compute and move.

    Attributes:
        flops: multiplications and additions of the three products; routing and activation are
            under one in a thousand and left out.
        bytes: weights of the experts that are hit, read once; input read and output written once.
            What passes between the products may stay on the chip and isn't counted.
        experts_hit: experts that got a token.
        busiest: the most tokens that one expert got.
    """

    flops: float
    bytes: float
    experts_hit: int
    busiest: int


def layer_work(
    geometry: Geometry,
    *,
    tokens: int,
    experts_hit: int,
    busiest: int,
    weight_bytes: float,
    activation_bytes: float = 2.0,
) -> Work:
    """Count one call's work.

    ``flops = 2 * 3 * tokens * top_k * hidden * width`` (gate, up and down, an addition to each
    multiplication); ``bytes = experts_hit * 3 * hidden * width * weight_bytes + 2 * tokens *
    hidden * activation_bytes``.

    Args:
        geometry: the layer's sizes.
        tokens: the batch.
        experts_hit: experts that got a token.
        busiest: the most tokens that one expert got.
        weight_bytes: of one weight, its share of the block scales included.
        activation_bytes: of one value that enters or leaves the layer (bfloat16: 2).
    """
    weights = 3 * geometry.hidden_size * geometry.expert_width
    return Work(
        flops=2.0 * tokens * geometry.top_k * weights,
        bytes=experts_hit * weights * weight_bytes
        + 2.0 * tokens * geometry.hidden_size * activation_bytes,
        experts_hit=experts_hit,
        busiest=busiest,
    )
