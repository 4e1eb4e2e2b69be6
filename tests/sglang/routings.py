"""SGLang's plain-torch routing under our rules' names, and how two routings are compared.

Its functions are compiled on a GPU; here they are run as they are written.
"""

from typing import Any

import torch
from torch import Tensor

from autotune.kernels.routing import Routing, choice_margin
from autotune.kernels.spec import RoutingRule

# Scores of float32 differ by some 1e-7 between implementations.
_CLEAR = 1e-6
# Top-k weights are sums and quotients of a few such numbers.
ROUNDING = 2e-6


def drawn(
    rule: RoutingRule, experts: int, *, tokens: int, seed: int, spread: float = 1.0
) -> tuple[Tensor, Tensor | None]:
    """Gaussian logits, float32 [tokens, experts], and the bias that the rule has."""
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(tokens, experts, generator=generator)
    bias = 0.6 * torch.rand(experts, generator=generator) - 0.3
    return logits, bias if rule.correction_bias else None


def by_sglang(logits: Tensor, rule: RoutingRule, *, top_k: int, bias: Tensor | None) -> Routing:
    """Route as a layer of SGLang's does whose `TopK` is told our rule."""
    from sglang.srt.layers.moe.topk import TopKConfig

    grouped = rule.groups > 1
    return selected(
        logits,
        TopKConfig(
            top_k=top_k,
            use_grouped_topk=grouped,
            num_expert_group=rule.groups if grouped else None,
            topk_group=rule.top_groups if grouped else None,
            renormalize=rule.normalize,
            correction_bias=bias,
            scoring_func=rule.scoring,
            routed_scaling_factor=rule.scaling_factor,
            apply_routed_scaling_factor_on_output=True,
            torch_native=True,
        ),
    )


def selected(logits: Tensor, config: Any) -> Routing:
    """What SGLang's `select_experts` chooses."""
    from sglang.srt.layers.moe.topk import select_experts

    with torch.compiler.set_stance("force_eager"):
        found = select_experts(torch.zeros(logits.shape[0], 8), logits, config, layer_id=0)
    return Routing(found.topk_ids.long(), found.topk_weights)


def clear(logits: Tensor, rule: RoutingRule, *, top_k: int, bias: Tensor | None) -> Tensor:
    """Which tokens' choices hang on no rounding, bool [tokens]."""
    return choice_margin(logits, rule, top_k=top_k, correction_bias=bias) > _CLEAR


def same_experts(ours: Routing, theirs: Routing) -> Tensor:
    """Which tokens go to the same experts, in whatever order, bool [tokens]."""
    return (ours.expert_ids.sort(-1).values == theirs.expert_ids.sort(-1).values).all(-1)


def relative_error(ours: Routing, theirs: Routing) -> float:
    """The largest relative difference of a weight, the experts being the same."""
    pairs = [one.weights.gather(1, one.expert_ids.argsort(-1)) for one in (ours, theirs)]
    return float((pairs[0] / pairs[1] - 1).abs().max())


def agree(ours: Routing, theirs: Routing, among: Tensor) -> bool:
    """Whether experts and weights are the same to float32's rounding, for the tokens ``among``."""
    ours, theirs = (Routing(one.expert_ids[among], one.weights[among]) for one in (ours, theirs))
    return bool(same_experts(ours, theirs).all()) and relative_error(ours, theirs) < ROUNDING
