"""Router logits that make a routing rule spread tokens over experts as asked for.

A correction bias changes none of that: as in a trained model, the logits make up for it. No
token's choice hangs on a rounding: a backend that chooses otherwise has another rule, not another
precision.
"""

import torch
from torch import Tensor

from autotune.errors import InputError
from autotune.kernels.distribution import Distribution, check_recording
from autotune.kernels.routing import choice_margin, route
from autotune.kernels.spec import LayerSpec, RoutingRule

# Float32 scores differ between implementations by some 1e-7, approximated exponentials by 1e-6.
_SMALLEST_MARGIN = 1e-5
_MOST_DRAWS = 200
# How far scores of sigmoids keep from 0 and 1, where bfloat16 logits tell them apart badly.
_FROM_FLAT = 0.01


def draw_logits(
    spec: LayerSpec,
    distribution: Distribution,
    *,
    tokens: int,
    correction_bias: Tensor | None,
    generator: torch.Generator,
) -> Tensor:
    """Draw router logits, float32 [tokens, experts], of values that bfloat16 can hold.

    Raises:
        InputError: a recorded choice can't be one of the layer's rule, or the exponent is so large
            that the scores of most experts are zero.
    """
    if distribution.kind == "replay":
        chosen = recorded_choices(spec, distribution, tokens=tokens).to(generator.device)
        logits = _logits_that_choose(chosen, spec, correction_bias, generator)
        if not _chooses(logits, chosen, spec, correction_bias):
            raise InputError(
                f"--distribution {distribution.text}: the layer's rule can't choose these experts "
                "together (their groups are too many): replay a recording of the same model"
            )
        return logits
    wanted = _wanted(spec.geometry.experts, distribution.exponent, generator)
    logits = _drawn(wanted, tokens, correction_bias, generator)
    for _ in range(_MOST_DRAWS):
        unclear = _margin(logits, spec, correction_bias) < _SMALLEST_MARGIN
        count = int(unclear.sum())
        if count == 0:
            return logits
        logits[unclear] = _drawn(wanted, count, correction_bias, generator)
    raise InputError(
        f"--distribution {distribution.text}: no logits were found that choose clearly: "
        "give a smaller exponent"
    )


def _wanted(experts: int, exponent: float, generator: torch.Generator) -> Tensor:
    """How much each expert is wanted, as logarithms; which one is most wanted is drawn."""
    ranks = torch.randperm(experts, generator=generator, device=generator.device) + 1
    return -exponent * ranks.float().log()


def _drawn(
    wanted: Tensor, tokens: int, correction_bias: Tensor | None, generator: torch.Generator
) -> Tensor:
    """Add Gumbel noise: the largest k are then k draws without replacement (Gumbel-top-k).

    Shifted to a mean of zero, so that a sigmoid of them isn't flat; that keeps their order. With a
    correction bias it is the biased scores that have this order.
    Source: Kool, van Hoof and Welling, "Stochastic beams and where to find them", 2019.
    """
    shape = (tokens, wanted.numel())
    uniform = torch.rand(shape, generator=generator, device=generator.device).clamp_(1e-6, 1 - 1e-6)
    logits = wanted - (-uniform.log()).log()
    if correction_bias is None:
        logits -= logits.mean(dim=-1, keepdim=True)
    else:
        lowest, highest = logits.aminmax(dim=-1, keepdim=True)
        # A single expert has no range.
        places = (logits - lowest) / (highest - lowest).clamp_min(1e-6)
        logits = _with_biased_scores(places, correction_bias)
    return logits.to(torch.bfloat16).float()


def _with_biased_scores(places: Tensor, correction_bias: Tensor) -> Tensor:
    """Return logits whose sigmoids plus bias lie at ``places``, 0 to 1, of what all can reach.

    A sigmoid is between 0 and 1, so that all experts can have a biased score between the largest
    bias and the smallest plus 1. Where there is no such score, what comes out isn't as asked for.
    """
    bottom, top = correction_bias.max() + _FROM_FLAT, correction_bias.min() + 1 - _FROM_FLAT
    scores = bottom + places * (top - bottom) - correction_bias
    return scores.clamp(_FROM_FLAT / 2, 1 - _FROM_FLAT / 2).logit()


def _margin(logits: Tensor, spec: LayerSpec, correction_bias: Tensor | None) -> Tensor:
    bias = None if correction_bias is None else correction_bias.double()
    return choice_margin(
        logits.double(), spec.routing, top_k=spec.geometry.top_k, correction_bias=bias
    )


def recorded_choices(spec: LayerSpec, distribution: Distribution, *, tokens: int) -> Tensor:
    """Return the recording's experts for ``tokens`` tokens, int64 [tokens, top_k].

    Raises:
        InputError: a token's experts aren't top-k different ones of the layer's.
    """
    check_recording(spec, distribution)
    rows = distribution.recording
    return torch.tensor([rows[number % len(rows)] for number in range(tokens)])


def _logits_that_choose(
    chosen: Tensor, spec: LayerSpec, correction_bias: Tensor | None, generator: torch.Generator
) -> Tensor:
    """Put chosen experts well above the others, and groups that are kept above the rest.

    Without regard to whether the rule can keep as many groups as hold a chosen expert.
    """
    shape = (chosen.shape[0], spec.geometry.experts)
    noise = torch.rand(shape, generator=generator, device=generator.device)
    is_chosen = torch.zeros(shape, dtype=torch.bool, device=chosen.device)
    is_chosen.scatter_(-1, chosen, True)
    beside = _in_kept_groups(is_chosen, spec.routing, generator)
    if spec.routing.scoring == "softmax":
        logits = torch.where(is_chosen, 3 + 2 * noise, torch.where(beside, noise, noise - 3))
    else:
        places = torch.where(
            is_chosen, 0.8 + 0.2 * noise, torch.where(beside, 0.4 + 0.2 * noise, 0.2 * noise)
        )
        bias = torch.zeros_like(places[0]) if correction_bias is None else correction_bias
        logits = _with_biased_scores(places, bias)
    return logits.to(torch.bfloat16).float()


def _in_kept_groups(is_chosen: Tensor, rule: RoutingRule, generator: torch.Generator) -> Tensor:
    """Return which experts are in a group that shall be kept, [tokens, experts].

    Those are the groups with a chosen expert; where they are fewer than the rule keeps, further
    ones, so that no token's groups hang on a rounding.
    """
    has_one = is_chosen.unflatten(-1, (rule.groups, -1)).any(dim=-1)
    lots = torch.rand(has_one.shape, generator=generator, device=generator.device)
    kept = has_one.scatter(-1, (lots + has_one).topk(rule.top_groups, dim=-1).indices, True)
    return kept.repeat_interleave(is_chosen.shape[-1] // rule.groups, dim=-1)


def _chooses(
    logits: Tensor, chosen: Tensor, spec: LayerSpec, correction_bias: Tensor | None
) -> bool:
    bias = None if correction_bias is None else correction_bias.double()
    routing = route(logits.double(), spec.routing, top_k=chosen.shape[1], correction_bias=bias)
    same = routing.expert_ids.sort(dim=-1).values.equal(chosen.sort(dim=-1).values)
    return same and bool((_margin(logits, spec, correction_bias) >= _SMALLEST_MARGIN).all())
