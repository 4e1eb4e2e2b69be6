"""Our routing against SGLang's own, in plain torch; the kernel of it is in `test_interpreted`."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from autotune.decisions.schema import Geometry
from autotune.kernels.model_layer import DEEPSEEK, MINIMAX, RENORMALIZE, SOFTMAX
from autotune.kernels.routing import Routing, route
from autotune.kernels.spec import RoutingRule

from .routings import agree, by_sglang, clear, drawn, same_experts, selected

changed = msgspec.structs.replace

DEEPSEEK_V2 = RoutingRule(
    scoring="softmax",
    normalize=False,
    groups=8,
    top_groups=3,
    group_score="best",
    scaling_factor=16.0,
)
KIMI_K2 = RoutingRule(scoring="sigmoid", correction_bias=True, scaling_factor=2.827)
# Rules with experts and top-k of models that have them.
MODELS: dict[str, tuple[RoutingRule, int, int]] = {
    "OLMoE": (SOFTMAX, 64, 8),
    "Mixtral": (RENORMALIZE, 8, 2),
    "Qwen3-30B-A3B": (RENORMALIZE, 128, 8),
    "gpt-oss": (RENORMALIZE, 128, 4),
    "MiniMax-M2": (MINIMAX, 256, 8),
    "GLM-4.5": (changed(MINIMAX, scaling_factor=2.5), 160, 8),
    "Kimi-K2": (KIMI_K2, 384, 8),
    "DeepSeek-R1": (DEEPSEEK, 256, 8),
    "DeepSeek-V2": (DEEPSEEK_V2, 160, 6),
    "DeepSeek-V2-Lite": (changed(SOFTMAX, scaling_factor=1.0), 64, 6),
}
TOKENS = 256


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """SGLang's functions as they are written: they are compiled for a GPU."""
    with torch.compiler.set_stance("force_eager"):
        yield


def both(rule: RoutingRule, experts: int, top_k: int, *, seed: int) -> tuple[Routing, Routing]:
    logits, bias = drawn(rule, experts, tokens=TOKENS, seed=seed)
    among = clear(logits, rule, top_k=top_k, bias=bias)
    assert among.double().mean() > 0.95
    ours = route(logits[among], rule, top_k=top_k, correction_bias=bias)
    return ours, by_sglang(logits[among], rule, top_k=top_k, bias=bias)


def everywhere(routing: Routing) -> Tensor:
    return torch.ones(routing.expert_ids.shape[0], dtype=torch.bool)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", MODELS)
def test_a_models_tokens_go_where_sglang_sends_them(model: str, seed: int) -> None:
    ours, theirs = both(*MODELS[model], seed=seed)
    assert agree(ours, theirs, everywhere(ours))


WRONG: dict[str, tuple[str, Callable[[RoutingRule], RoutingRule]]] = {
    "normalized": ("OLMoE", lambda rule: changed(rule, normalize=True)),
    "not normalized": ("Qwen3-30B-A3B", lambda rule: changed(rule, normalize=False)),
    "sigmoid for softmax": ("Mixtral", lambda rule: changed(rule, scoring="sigmoid")),
    "softmax for sigmoid": ("MiniMax-M2", lambda rule: changed(rule, scoring="softmax")),
    "without a bias": ("MiniMax-M2", lambda rule: changed(rule, correction_bias=False)),
    "sigmoids not normalized": ("MiniMax-M2", lambda rule: changed(rule, normalize=False)),
    "without the factor": ("Kimi-K2", lambda rule: changed(rule, scaling_factor=1.0)),
    "without groups": ("DeepSeek-R1", lambda rule: changed(rule, groups=1, top_groups=1)),
    "fewer groups kept": ("DeepSeek-R1", lambda rule: changed(rule, top_groups=3)),
    "groups by their best": ("DeepSeek-R1", lambda rule: changed(rule, group_score="best")),
    "groups by two": ("DeepSeek-V2", lambda rule: changed(rule, group_score="two_best")),
    "other groups": ("DeepSeek-V2", lambda rule: changed(rule, groups=4)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_seen(name: str) -> None:
    model, wrong = WRONG[name]
    rule, experts, top_k = MODELS[model]
    logits, bias = drawn(rule, experts, tokens=TOKENS, seed=0)
    mistaken = wrong(rule)
    ours = route(
        logits, mistaken, top_k=top_k, correction_bias=bias if mistaken.correction_bias else None
    )
    theirs = by_sglang(logits, rule, top_k=top_k, bias=bias)
    assert not agree(ours, theirs, everywhere(ours))


def test_a_bias_in_the_weights_is_seen() -> None:
    """The experts are the same then, and only their weights tell."""
    rule, experts, top_k = MODELS["MiniMax-M2"]
    logits, bias = drawn(rule, experts, tokens=TOKENS, seed=0)
    assert bias is not None
    ours = route(logits, rule, top_k=top_k, correction_bias=bias)
    chosen = (logits.sigmoid() + bias).gather(1, ours.expert_ids)
    mistaken = Routing(ours.expert_ids, chosen / chosen.sum(-1, keepdim=True))
    theirs = by_sglang(logits, rule, top_k=top_k, bias=bias)
    among = clear(logits, rule, top_k=top_k, bias=bias)
    assert bool(same_experts(mistaken, theirs)[among].all())
    assert not agree(mistaken, theirs, among)


@pytest.mark.parametrize("model", ["Mixtral", "MiniMax-M2", "DeepSeek-R1"])
def test_another_expert_of_one_token_is_seen(model: str) -> None:
    ours, theirs = both(*MODELS[model], seed=0)
    unused = (set(range(MODELS[model][1])) - set(ours.expert_ids[5].tolist())).pop()
    ours.expert_ids[5, 0] = unused
    assert not agree(ours, theirs, everywhere(ours))


def test_scores_that_all_underflow() -> None:
    """Neither divides by zero."""
    rule, experts, top_k = MODELS["DeepSeek-R1"]
    logits, bias = drawn(rule, experts, tokens=4, seed=0)
    ours = route(logits - 200.0, rule, top_k=top_k, correction_bias=bias)
    theirs = by_sglang(logits - 200.0, rule, top_k=top_k, bias=bias)
    assert not ours.weights.any() and not theirs.weights.any()


SOURCES = ("softmax", "sigmoid", "biased sigmoid", "groups of softmax", "groups of biased sigmoid")


@st.composite
def problems(draw: st.DrawFn) -> tuple[RoutingRule, int, int]:
    """A rule that SGLang has a function for, and sizes that it can be asked for."""
    source = draw(st.sampled_from(SOURCES))
    groups = draw(st.integers(2, 8)) if source.startswith("groups") else 1
    experts = groups * draw(st.integers(2, 40))
    top_groups = draw(st.integers(1, groups))
    rule = RoutingRule(
        scoring="softmax" if "softmax" in source else "sigmoid",
        correction_bias="biased" in source,
        normalize=draw(st.booleans()),
        groups=groups,
        top_groups=top_groups,
        group_score="two_best" if "biased" in source else "best",
        scaling_factor=draw(st.sampled_from((1.0, 2.5, 16.0))),
    )
    top_k = draw(st.integers(1, min(12, top_groups * (experts // groups))))
    return rule, experts, top_k


@settings(deadline=None, max_examples=150)
@given(problem=problems(), seed=st.integers(0, 2**31), spread=st.sampled_from((0.1, 1.0, 3.0)))
def test_any_rule_and_size(problem: tuple[RoutingRule, int, int], seed: int, spread: float) -> None:
    rule, experts, top_k = problem
    assert rule.problem(Geometry(64, 64, experts, top_k)) is None
    logits, bias = drawn(rule, experts, tokens=16, seed=seed, spread=spread)
    among = clear(logits, rule, top_k=top_k, bias=bias)
    if not among.any():
        return
    ours = route(logits, rule, top_k=top_k, correction_bias=bias)
    theirs = by_sglang(logits, rule, top_k=top_k, bias=bias)
    assert agree(ours, theirs, among)


@pytest.mark.parametrize("name", ["biased_topk_impl", "kimi_k2_biased_topk_impl"])
def test_the_functions_for_a_bias_without_groups(name: str) -> None:
    """What a GPU without the fused router would run."""
    from sglang.srt.layers.moe import topk

    rule, experts, top_k = MODELS["Kimi-K2"]
    logits, bias = drawn(rule, experts, tokens=TOKENS, seed=1)
    weights, ids = getattr(topk, name)(
        torch.zeros(TOKENS, 8),
        logits,
        bias,
        topk=top_k,
        renormalize=True,
        routed_scaling_factor=rule.scaling_factor,
        apply_routed_scaling_factor_on_output=True,
    )
    ours = route(logits, rule, top_k=top_k, correction_bias=bias)
    among = clear(logits, rule, top_k=top_k, bias=bias)
    assert agree(ours, Routing(ids.long(), weights), among)


def routed_trtllm(rule: RoutingRule) -> Any:
    """What a layer with a softmax gets beside flashinfer_trtllm_routed."""
    from sglang.srt.layers.moe.topk import TopKConfig
    from sglang.srt.layers.moe.utils import MoeRunnerBackend

    return TopKConfig(
        top_k=8,
        renormalize=rule.normalize,
        scoring_func="softmax",
        runner_backend=MoeRunnerBackend.FLASHINFER_TRTLLM_ROUTED,
    )


def test_softmax_beside_the_routed_trtllm_kernel() -> None:
    """There SGLang 0.5.23 leaves the softmax out where nothing is normalized.

    The chosen logits themselves are the weights. Models whose weights aren't normalized are
    measured here by the rule that they were trained with.
    """
    logits, _ = drawn(RENORMALIZE, 128, tokens=TOKENS, seed=2)
    among = clear(logits, RENORMALIZE, top_k=8, bias=None)
    normalized = selected(logits, routed_trtllm(RENORMALIZE))
    assert agree(route(logits, RENORMALIZE, top_k=8), normalized, among)
    plain = selected(logits, routed_trtllm(SOFTMAX))
    assert bool(same_experts(route(logits, SOFTMAX, top_k=8), plain)[among].all())
    assert torch.equal(plain.weights, logits.gather(1, plain.expert_ids))
