"""Layers of published configs, of hostile ones, and what a routing rule can choose."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from autotune.decisions.schema import Geometry
from autotune.errors import AutotuneError, UsageError
from autotune.kernels import model_layer
from autotune.kernels.model_layer import RULES, layer_of, named_rule
from autotune.kernels.routing import route
from autotune.kernels.spec import SWIGLU, LayerSpec, RoutingRule
from autotune.model import facts_from_config
from tests.kernels.published import PUBLISHED


@pytest.mark.parametrize("model", PUBLISHED)
def test_the_layer_of_a_published_config(model: str) -> None:
    config, expected = PUBLISHED[model]
    facts = facts_from_config(config, where="config.json")
    assert facts.geometry is not None
    assert layer_of(facts.architecture, facts.geometry, config, routing=None) == expected


@pytest.mark.parametrize("architecture", model_layer._ROUTING)
def test_each_known_architecture_has_a_layer_without_further_keys(architecture: str) -> None:
    """A config that leaves out what its architecture's own configuration class fills in."""
    spec = layer_of(architecture, Geometry(256, 128, 64, 6), {}, routing=None)
    assert spec.routing.problem(spec.geometry) is None
    assert (spec.activation == SWIGLU) == (architecture != "GptOssForCausalLM")


@pytest.mark.parametrize("name", RULES)
def test_a_named_rule_overrides_the_architecture(name: str) -> None:
    geometry = Geometry(256, 128, 64, 6)
    assert named_rule(name) == RULES[name]
    for architecture in ("MixtralForCausalLM", "NobodyKnowsForCausalLM"):
        assert layer_of(architecture, geometry, {}, routing=name).routing == RULES[name]


def test_an_unknown_name_or_architecture_is_told_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="--routing 'top1': not one of minimax, softmax"):
        named_rule("top1")
    with pytest.raises(UsageError, match=r"NobodyKnowsForCausalLM routes .* --routing"):
        layer_of("NobodyKnowsForCausalLM", Geometry(256, 128, 64, 6), {}, routing=None)


@pytest.mark.parametrize(
    ("architecture", "sizes", "told"),
    [
        ("DeepseekV3ForCausalLM", {"n_group": 0}, "n_group must be a whole number"),
        ("DeepseekV3ForCausalLM", {"n_group": True}, "n_group must be a whole number"),
        ("DeepseekV3ForCausalLM", {"n_group": 8.0}, "n_group must be a whole number"),
        ("DeepseekV3ForCausalLM", {"topk_group": "4"}, "topk_group must be a whole number"),
        ("DeepseekV3ForCausalLM", {"n_group": 7}, "can't be split into 7 equal groups"),
        ("DeepseekV3ForCausalLM", {"topk_group": 9}, "9 groups can't be kept of 8"),
        ("DeepseekV3ForCausalLM", {"n_group": 64, "topk_group": 8}, "have no two best"),
        ("DeepseekV3ForCausalLM", {"n_group": 32, "topk_group": 1}, "top-k 6 is above"),
        ("DeepseekV3ForCausalLM", {"routed_scaling_factor": 0}, "must be above 0"),
        ("DeepseekV3ForCausalLM", {"routed_scaling_factor": float("nan")}, "must be above 0"),
        ("DeepseekV3ForCausalLM", {"routed_scaling_factor": 10**400}, "must be above 0"),
        ("Qwen3MoeForCausalLM", {"norm_topk_prob": 1}, "must be true or false"),
        ("MixtralForCausalLM", {"hidden_act": "relu"}, "hidden_act 'relu' isn't known"),
        ("MixtralForCausalLM", {"hidden_act": ["silu"]}, "hidden_act .* isn't known"),
        ("GptOssForCausalLM", {"swiglu_limit": -7.0}, "swiglu_limit must be above 0"),
    ],
)
def test_a_bad_value_is_told_by_its_key(
    architecture: str, sizes: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        layer_of(architecture, Geometry(256, 128, 64, 6), sizes, routing=None)


_KEYS = (
    "hidden_act",
    "n_group",
    "norm_topk_prob",
    "routed_scaling_factor",
    "scoring_func",
    "swiglu_alpha",
    "swiglu_limit",
    "topk_group",
    "topk_method",
)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1, 8)
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["silu", "gelu", "group_limited_greedy"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    st.sampled_from([*model_layer._ROUTING, "NobodyKnowsForCausalLM"]) | st.text(),
    st.builds(
        Geometry,
        st.integers(1, 2**31),
        st.integers(1, 2**31),
        st.sampled_from([1, 2, 8, 64, 160, 256]),
        st.integers(1, 8),
    ),
    st.dictionaries(st.sampled_from(_KEYS) | st.text(), _values),
    st.none() | st.sampled_from(list(RULES)) | st.text(),
)
@example("MixtralForCausalLM", Geometry(1, 1, 1, 1), {"hidden_act": None}, None)
def test_any_config_gives_a_layer_that_routes_or_is_refused(
    architecture: str, geometry: Geometry, sizes: dict[str, Any], routing: str | None
) -> None:
    try:
        spec = layer_of(architecture, geometry, sizes, routing=routing)
    except AutotuneError as error:
        assert str(error)
        return
    assert spec.geometry == geometry
    assert _can_choose(spec.routing, geometry)
    assert 0 < spec.routing.scaling_factor < float("inf")
    assert spec.activation.limit is None or 0 < spec.activation.limit < float("inf")


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("key", ["hidden_act", "n_group", "norm_topk_prob"])
def test_a_value_too_deep_to_print_is_refused(key: str) -> None:
    """json.loads reads lists that are nested deeper than str() writes."""
    with pytest.raises(UsageError, match=key):
        layer_of(
            "DeepseekV3ForCausalLM", Geometry(256, 128, 64, 6), {key: _nested(5000)}, routing=None
        )


def _can_choose(rule: RoutingRule, geometry: Geometry) -> bool:
    """Whether top-k experts can be chosen whichever groups a token's logits prefer, by trying."""
    experts = list(range(geometry.experts))
    if rule.groups < 1 or rule.top_groups < 1:
        return False
    if len({len(experts[start :: rule.groups]) for start in range(rule.groups)}) != 1:
        return False  # the groups' sizes differ
    size = len(experts[:: rule.groups])
    if size == 0:
        return False
    if rule.groups > 1 and rule.group_score == "two_best" and size < 2:
        return False
    groups = [experts[start : start + size] for start in range(0, len(experts), size)]
    if len(groups) > 12:  # too many combinations to try; all groups are alike
        return rule.top_groups <= rule.groups and geometry.top_k <= size * rule.top_groups
    choices = [set().union(*kept) for kept in itertools.combinations(groups, rule.top_groups)]
    return bool(choices) and all(len(choice) >= geometry.top_k for choice in choices)


@st.composite
def _rules(draw: st.DrawFn) -> RoutingRule:
    return RoutingRule(
        scoring=draw(st.sampled_from(["softmax", "sigmoid"])),
        groups=draw(st.integers(-1, 9)),
        top_groups=draw(st.integers(-1, 9)),
        group_score=draw(st.sampled_from(["best", "two_best"])),
    )


@given(_rules(), st.integers(1, 24), st.integers(1, 24), st.integers(0, 2**31))
def test_the_problem_of_a_rule_is_what_can_be_chosen(
    rule: RoutingRule, experts: int, top_k: int, seed: int
) -> None:
    geometry = Geometry(8, 8, experts, top_k)
    problem = rule.problem(geometry)
    assert (problem is None) == _can_choose(rule, geometry)
    if problem is not None:
        with pytest.raises(UsageError, match="can't be routed"):
            LayerSpec(geometry=geometry, routing=rule).check()
        return
    logits = torch.randn(5, experts, generator=torch.Generator().manual_seed(seed))
    chosen = route(logits.double(), rule, top_k=top_k)
    size = experts // rule.groups
    for row in chosen.expert_ids.tolist():
        assert len(set(row)) == top_k
        assert len({expert // size for expert in row}) <= rule.top_groups
    assert chosen.weights.isfinite().all()
