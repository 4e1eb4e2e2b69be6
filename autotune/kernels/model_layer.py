"""Which MoE layer a model has: from config.json, or from a rule's short name.

Only what config.json and the architectures' published code say; an architecture that isn't listed
must be told its rule with ``--routing``. No torch.
"""

import reprlib
from collections.abc import Callable
from typing import Any

from autotune.decisions.schema import Geometry
from autotune.errors import UsageError
from autotune.kernels.spec import (
    GPT_OSS_SWIGLU,
    SWIGLU,
    Activation,
    GateFunction,
    LayerSpec,
    RoutingRule,
)

SOFTMAX = RoutingRule(scoring="softmax", normalize=False)
RENORMALIZE = RoutingRule(scoring="softmax", normalize=True)
MINIMAX = RoutingRule(scoring="sigmoid", correction_bias=True)
# DeepSeek-V3's and R1's: 8 groups of which 4 are kept, weights times 2.5.
DEEPSEEK = RoutingRule(
    scoring="sigmoid", correction_bias=True, groups=8, top_groups=4, scaling_factor=2.5
)
RULES = {
    "minimax": MINIMAX,
    "softmax": SOFTMAX,
    "deepseek": DEEPSEEK,
    "renormalize": RENORMALIZE,
}

_ACTIVATIONS: dict[str, GateFunction] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def named_rule(name: str) -> RoutingRule:
    """Return the rule of a short name.

    Raises:
        UsageError: there is none of that name.
    """
    try:
        return RULES[name]
    except KeyError:
        raise UsageError(f"--routing {name!r}: not one of {', '.join(RULES)}") from None


def layer_of(
    architecture: str, geometry: Geometry, sizes: dict[str, Any], *, routing: str | None
) -> LayerSpec:
    """Return the layer of an architecture.

    Args:
        architecture: its class name (``MiniMaxM2ForCausalLM``).
        geometry: its sizes.
        sizes: config.json's content, the language model's part of it.
        routing: a rule's short name that overrides the architecture's own.

    Raises:
        UsageError: nobody knows how the architecture routes and ``routing`` is ``None``, or a
            value in config.json can't be used.
    """
    if routing is not None:
        rule = named_rule(routing)
    elif (known := _ROUTING.get(architecture)) is not None:
        rule = known(sizes)
    else:
        raise UsageError(
            f"how {architecture} routes its tokens isn't known: say it with --routing "
            f"({', '.join(RULES)})"
        )
    is_gpt_oss = architecture == "GptOssForCausalLM"
    spec = LayerSpec(
        geometry=geometry,
        routing=rule,
        activation=_gpt_oss_activation(sizes) if is_gpt_oss else _activation(sizes),
        expert_bias=is_gpt_oss,
    )
    spec.check()
    return spec


def _minimax(_: dict[str, Any]) -> RoutingRule:
    return MINIMAX


def _deepseek_v3(sizes: dict[str, Any]) -> RoutingRule:
    # What a config leaves out is what DeepSeek-V3 itself has.
    return _grouped_sigmoid(sizes, default=DEEPSEEK)


def _ungrouped_sigmoid(sizes: dict[str, Any]) -> RoutingRule:
    return _grouped_sigmoid(sizes, default=MINIMAX)


def _grouped_sigmoid(sizes: dict[str, Any], *, default: RoutingRule) -> RoutingRule:
    return RoutingRule(
        scoring="sigmoid",
        correction_bias=True,
        normalize=_flag(sizes, "norm_topk_prob", default=True),
        groups=_count(sizes, "n_group", default=default.groups),
        top_groups=_count(sizes, "topk_group", default=default.top_groups),
        scaling_factor=_number(sizes, "routed_scaling_factor", default=default.scaling_factor),
    )


def _deepseek_v2(sizes: dict[str, Any]) -> RoutingRule:
    grouped = sizes.get("topk_method") == "group_limited_greedy"
    normalize = _flag(sizes, "norm_topk_prob", default=False)
    return RoutingRule(
        scoring="softmax",
        normalize=normalize,
        groups=_count(sizes, "n_group", default=1) if grouped else 1,
        top_groups=_count(sizes, "topk_group", default=1) if grouped else 1,
        group_score="best",
        scaling_factor=_number(sizes, "routed_scaling_factor", default=1.0),
    )


def _softmax(sizes: dict[str, Any]) -> RoutingRule:
    return RENORMALIZE if _flag(sizes, "norm_topk_prob", default=False) else SOFTMAX


def _always_renormalized(_: dict[str, Any]) -> RoutingRule:
    return RENORMALIZE


_ROUTING: dict[str, Callable[[dict[str, Any]], RoutingRule]] = {
    "MiniMaxM2ForCausalLM": _minimax,
    "DeepseekV2ForCausalLM": _deepseek_v2,
    "DeepseekV3ForCausalLM": _deepseek_v3,
    "Glm4MoeForCausalLM": _ungrouped_sigmoid,
    "KimiK2ForCausalLM": _deepseek_v3,
    "KimiK25ForConditionalGeneration": _deepseek_v3,
    "GptOssForCausalLM": _always_renormalized,
    "MixtralForCausalLM": _always_renormalized,
    "OlmoeForCausalLM": _softmax,
    "Qwen2MoeForCausalLM": _softmax,
    "Qwen3MoeForCausalLM": _softmax,
}


def _activation(sizes: dict[str, Any]) -> Activation:
    name = sizes.get("hidden_act", "silu")
    function = _ACTIVATIONS.get(name) if isinstance(name, str) else None
    if function is None:
        raise UsageError(
            f"config.json: hidden_act {_said(name)} isn't known: one of {', '.join(_ACTIVATIONS)}"
        )
    return SWIGLU if function == "silu" else Activation(function=function)


def _gpt_oss_activation(sizes: dict[str, Any]) -> Activation:
    return Activation(
        alpha=_number(sizes, "swiglu_alpha", default=GPT_OSS_SWIGLU.alpha),
        limit=_number(sizes, "swiglu_limit", default=7.0),
        up_offset=GPT_OSS_SWIGLU.up_offset,
    )


def _flag(sizes: dict[str, Any], key: str, *, default: bool) -> bool:
    value = sizes.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise UsageError(f"config.json: {key} must be true or false, not {_said(value)}")
    return value


def _count(sizes: dict[str, Any], key: str, *, default: int) -> int:
    value = sizes.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"config.json: {key} must be a whole number, not {_said(value)}")
    return value


def _number(sizes: dict[str, Any], key: str, *, default: float) -> float:
    value = sizes.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise UsageError(f"config.json: {key} must be above 0, not {_said(value)}")
    return float(value)


def _said(value: object) -> str:
    """What a message says of a value: a few characters, of however deep a list."""
    return reprlib.repr(value)[:40]
