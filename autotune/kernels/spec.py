"""What a MoE layer is, said in types: its sizes, its routing rule, its activation.

No torch is imported here, so that a plan can be made and a record read without it. What the rules
mean in numbers is `routing` and `activation`.
"""

from typing import Literal

import msgspec

from autotune.decisions.schema import Geometry
from autotune.errors import UsageError

Scoring = Literal["softmax", "sigmoid"]
# How a group of experts is scored: by its best expert, or by the sum of its two best.
GroupScore = Literal["best", "two_best"]
GateFunction = Literal["silu", "gelu", "gelu_tanh"]


class RoutingRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a token's router logits become experts and weights.

    Attributes:
        scoring: what turns logits into scores.
        correction_bias: whether a learned bias is added to the scores for the choice alone; the
            weights are the scores without it.
        normalize: whether the chosen scores are divided by their sum. Softmax over the chosen
            logits alone is the same as softmax over all, then this.
        groups: the experts form this many groups, of which only the best ``top_groups`` may be
            chosen from. 1 is no grouping.
        group_score: how groups are compared.
        scaling_factor: what the weights are multiplied by at the end.
    """

    scoring: Scoring
    correction_bias: bool = False
    normalize: bool = True
    groups: int = 1
    top_groups: int = 1
    group_score: GroupScore = "two_best"
    scaling_factor: float = 1.0

    def problem(self, geometry: Geometry) -> str | None:
        """Return the rule that ``geometry`` breaks, ``None`` if tokens can be routed."""
        experts, top_k = geometry.experts, geometry.top_k
        if top_k > experts:
            return f"top-k {top_k} is above the {experts} experts"
        if self.groups < 1 or experts % self.groups:
            return f"{experts} experts can't be split into {self.groups} equal groups"
        if not 1 <= self.top_groups <= self.groups:
            return f"{self.top_groups} groups can't be kept of {self.groups}"
        size = experts // self.groups
        if top_k > self.top_groups * size:
            return (
                f"top-k {top_k} is above the {self.top_groups * size} experts of the "
                f"{self.top_groups} groups that are kept"
            )
        if self.groups > 1 and self.group_score == "two_best" and size < 2:
            return f"groups of {size} expert have no two best"
        return None


class Activation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A gated activation: ``f(alpha * gate) / alpha * (up + up_offset)``.

    ``f`` is ``function``; with SiLU that is ``gate * sigmoid(alpha * gate)``. Where ``limit`` is
    given, gate is first held below ``limit`` and up between ``-limit`` and ``limit``.
    """

    function: GateFunction = "silu"
    alpha: float = 1.0
    limit: float | None = None
    up_offset: float = 0.0


SWIGLU = Activation()
# gpt-oss: https://github.com/openai/gpt-oss (torch/model.py, swiglu).
GPT_OSS_SWIGLU = Activation(alpha=1.702, limit=7.0, up_offset=1.0)


class LayerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One MoE layer without its router's projection and its shared experts.

    ``expert_bias`` says whether the experts' projections have biases, as gpt-oss's do.
    """

    geometry: Geometry
    routing: RoutingRule
    activation: Activation = SWIGLU
    expert_bias: bool = False

    def check(self) -> None:
        """Raise where no layer of this kind can exist.

        Raises:
            UsageError: the routing rule can't choose top-k of these experts.
        """
        problem = self.routing.problem(self.geometry)
        if problem is not None:
            raise UsageError(f"the layer can't be routed: {problem}: give another --geometry")
