"""Routing: which experts a token goes to, and with what weights.

Written to be read, one step a line, in the dtype of the logits; kernels do the same in one pass.
Sources of the rules: softmax top-k, Mixtral (arXiv:2401.04088) and Qwen3 (arXiv:2505.09388);
sigmoid with a correction bias and groups, DeepSeek-V3 (arXiv:2412.19437, section 2.1.2);
MiniMax-M2 is the same without groups.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from autotune.kernels.spec import RoutingRule

# Keeps the division defined where all chosen scores underflow; DeepSeek-V3's value.
_EPSILON = 1e-20


@dataclass(frozen=True)
class Routing:
    """Each token's experts.

    Attributes:
        expert_ids: int64 [tokens, top_k], no expert twice in a row; the order has no meaning.
        weights: [tokens, top_k], what each expert's output is multiplied by.
    """

    expert_ids: Tensor
    weights: Tensor


def route(
    logits: Tensor, rule: RoutingRule, *, top_k: int, correction_bias: Tensor | None = None
) -> Routing:
    """Choose each token's experts.

    Args:
        logits: the router's output, [tokens, experts], floating.
        rule: how they are read.
        top_k: how many experts a token gets.
        correction_bias: [experts]; given exactly where the rule has one.
    """
    scores = _scores(logits, rule)
    choice = _choice_scores(scores, rule, correction_bias)
    choice = _without_other_groups(choice, rule)

    expert_ids = choice.topk(top_k, dim=-1).indices
    weights = scores.gather(-1, expert_ids)
    if rule.normalize:
        weights = weights / (weights.sum(dim=-1, keepdim=True) + _EPSILON)
    return Routing(expert_ids=expert_ids, weights=weights * rule.scaling_factor)


def choice_margin(
    logits: Tensor, rule: RoutingRule, *, top_k: int, correction_bias: Tensor | None = None
) -> Tensor:
    """Return by how much each token's choice is clear, [tokens], never negative.

    The score of the last chosen expert less that of the best one that isn't, and the same for
    groups; the smaller of the two. Where it is near the rounding of the scores, two honest
    implementations may choose differently. It is infinite where there is nothing to choose.
    """
    choice = _choice_scores(_scores(logits, rule), rule, correction_bias)
    margin = _gap(_without_other_groups(choice, rule), top_k)
    if rule.groups > 1:
        margin = torch.minimum(margin, _gap(_group_scores(choice, rule), rule.top_groups))
    return margin


def _scores(logits: Tensor, rule: RoutingRule) -> Tensor:
    if rule.scoring == "softmax":
        return logits.softmax(dim=-1)
    return logits.sigmoid()


def _choice_scores(scores: Tensor, rule: RoutingRule, correction_bias: Tensor | None) -> Tensor:
    if rule.correction_bias != (correction_bias is not None):
        raise ValueError("a correction bias is given exactly where the rule has one")
    return scores if correction_bias is None else scores + correction_bias


def _group_scores(choice: Tensor, rule: RoutingRule) -> Tensor:
    grouped = choice.unflatten(-1, (rule.groups, -1))
    best = 1 if rule.group_score == "best" else 2
    return grouped.topk(best, dim=-1).values.sum(dim=-1)


def _without_other_groups(choice: Tensor, rule: RoutingRule) -> Tensor:
    """Put the scores outside the best groups below all others."""
    if rule.groups == 1:
        return choice
    kept = _group_scores(choice, rule).topk(rule.top_groups, dim=-1).indices
    is_kept = torch.zeros(*choice.shape[:-1], rule.groups, dtype=torch.bool, device=choice.device)
    is_kept.scatter_(-1, kept, True)
    outside = ~is_kept.repeat_interleave(choice.shape[-1] // rule.groups, dim=-1)
    return choice.masked_fill(outside, float("-inf"))


def _gap(scores: Tensor, chosen: int) -> Tensor:
    if chosen >= scores.shape[-1]:
        return torch.full(scores.shape[:-1], float("inf"), dtype=scores.dtype, device=scores.device)
    best = scores.topk(chosen + 1, dim=-1).values
    return best[..., -2] - best[..., -1]
