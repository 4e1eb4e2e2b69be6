"""What FlashInfer 0.7.4 takes, and in what words it says no: pure rules, no torch.

Each rule names where it comes from in the library, so that it can be looked up again with another
version. A rule answers with the reason why a problem can't be computed, or ``None``.

- architectures: the lists of `flashinfer/fused_moe/api.py` and the guards in `runners.py`;
- routing: `RoutingMethodType`, `csrc/fused_moe/trtllm_backend/trtllm_fused_moe_routing_runner.cu`,
  the compiled tiers in `RoutingCustomPolicy.cuh`, and the checks of the launchers;
- sizes: the checks of the bindings, `pad_trtllm_moe_weights`, the runners, the CuTe-DSL kernels.
"""

import msgspec

from autotune.decisions.schema import Geometry
from autotune.engines.base import Support
from autotune.kernels.backends.protocol import Device
from autotune.kernels.spec import SWIGLU, Activation, LayerSpec, RoutingRule

# flashinfer.tllm_enums.RoutingMethodType
DEFAULT, RENORMALIZE, DEEPSEEK_V3, TOP_K, SIGMOID_RENORM, MINIMAX2, SIGMOID = 0, 1, 2, 5, 6, 7, 8
# flashinfer.tllm_enums.ActivationType.Swiglu
SWIGLU_TYPE = 3

BLACKWELL = (100, 103, 107)
BLACKWELL_AND_LATER = (100, 103, 107, 110, 120, 121)
SINCE_ADA = (89, 90, *BLACKWELL_AND_LATER)
HOPPER = (90,)

# Which (experts, top-k) the routing kernels are compiled for, largest of each shape only.
_TIERS = {
    DEFAULT: ((256, 8),),
    RENORMALIZE: ((2048, 32),),
    SIGMOID_RENORM: ((256, 8),),
    SIGMOID: ((256, 8),),
    MINIMAX2: ((1024, 32),),
}
_MOST_GROUPS, _MOST_TOP_GROUPS, _MOST_IN_GROUP, _MOST_GROUPED_EXPERTS = 8, 4, 32, 512
_EXPERTS_OF_TOP_K_8, _MOST_TOP_K_BEYOND = 384, 22


class RoutingChoice(msgspec.Struct, frozen=True, kw_only=True):
    """How the library is told to route: the arguments of its functions of the same names."""

    method: int
    n_group: int | None = None
    topk_group: int | None = None
    routed_scaling_factor: float | None = None


def support(*problems: str | None) -> Support:
    """Return the first problem as the reason, or that there is none."""
    for problem in problems:
        if problem is not None:
            return Support(False, problem)
    return Support(True)


def device_problem(device: Device, archs: tuple[int, ...], what: str) -> str | None:
    """Return why ``what`` can't run on ``device``: it needs a GPU of one of ``archs``."""
    needed = ", ".join(f"SM{arch}" for arch in archs)
    if device.capability is None:
        return f"{what} needs an NVIDIA GPU ({needed}), and there is none: this is {device.kind}"
    major, minor = device.capability
    found = major * 10 + minor
    if found not in archs:
        return f"{what} needs a GPU of {needed}, and this is SM{found} ({device.name})"
    return None


def installed_problem() -> str | None:
    """Return that FlashInfer isn't installed, if so. It isn't imported."""
    from importlib.util import find_spec

    if find_spec("flashinfer") is None:
        return "FlashInfer isn't installed: pip install flashinfer-python"
    return None


def activation_problem(activation: Activation, *, parameters: bool, what: str) -> str | None:
    """Return why the activation can't be had.

    Args:
        activation: the layer's.
        parameters: whether ``what`` takes alpha, limit and offset, as gpt-oss needs them.
        what: the function and scheme.
    """
    if activation.function != "silu":
        return f"{what} is called with SwiGLU only, not with {activation.function}"
    if activation != SWIGLU and not parameters:
        return f"{what} takes plain SwiGLU only: no alpha, limit or offset"
    return None


def bias_problem(spec: LayerSpec, *, taken: bool, what: str) -> str | None:
    """Return that the experts' projections have biases which ``what`` isn't given, if so."""
    if spec.expert_bias and not taken:
        return f"{what} isn't given biases of the experts' projections"
    return None


def multiple_problem(geometry: Geometry, *, hidden: int, width: int, what: str) -> str | None:
    """Return which size isn't the multiple that ``what`` needs."""
    if geometry.hidden_size % hidden:
        return f"{what} needs a hidden size of a multiple of {hidden}, not {geometry.hidden_size}"
    if geometry.expert_width % width:
        return f"{what} needs an expert width of a multiple of {width}, not {geometry.expert_width}"
    return None


def routing_choice(rule: RoutingRule) -> RoutingChoice | str:
    """Return how the library routes by ``rule``, or the reason why it can't.

    Only the methods with a bias multiply by the scaling factor; the others leave it out silently.
    """
    if rule.scoring == "softmax":
        return _softmax_choice(rule)
    if not rule.correction_bias:
        return _sigmoid_choice(rule)
    if not rule.normalize:
        return "no RoutingMethodType has sigmoid scores with a bias that aren't normalized"
    if rule.groups > 1:
        if rule.group_score != "two_best":
            return "RoutingMethodType DeepSeekV3 compares groups by their two best experts only"
        return RoutingChoice(
            method=DEEPSEEK_V3,
            n_group=rule.groups,
            topk_group=rule.top_groups,
            routed_scaling_factor=rule.scaling_factor,
        )
    if rule.scaling_factor == 1.0:
        return RoutingChoice(method=MINIMAX2, routed_scaling_factor=1.0)
    # MiniMax2 is documented with a factor of 1; DeepSeekV3 of one group is the same kernel.
    return RoutingChoice(
        method=DEEPSEEK_V3,
        n_group=1,
        topk_group=1,
        routed_scaling_factor=rule.scaling_factor,
    )


def _softmax_choice(rule: RoutingRule) -> RoutingChoice | str:
    if rule.correction_bias:
        return "no RoutingMethodType has softmax scores with a correction bias"
    if rule.groups > 1:
        return "no RoutingMethodType has softmax scores and groups of experts"
    if rule.scaling_factor != 1.0:
        return f"softmax routing leaves out the scaling factor, here {rule.scaling_factor:g}"
    return RoutingChoice(method=RENORMALIZE if rule.normalize else DEFAULT)


def _sigmoid_choice(rule: RoutingRule) -> RoutingChoice | str:
    if rule.groups > 1:
        return "RoutingMethodType DeepSeekV3 (groups of experts) needs a correction bias"
    if rule.scaling_factor != 1.0:
        return (
            "sigmoid routing without a bias leaves out the scaling factor, "
            f"here {rule.scaling_factor:g}"
        )
    return RoutingChoice(method=SIGMOID_RENORM if rule.normalize else SIGMOID)


def routing_problem(rule: RoutingRule, geometry: Geometry) -> str | None:
    """Return why the library can't route by ``rule`` from logits."""
    choice = routing_choice(rule)
    if isinstance(choice, str):
        return choice
    if choice.method == DEEPSEEK_V3 and rule.groups > 1:
        return _grouped_problem(rule, geometry)
    # DeepSeekV3 with one group runs MiniMax2's kernel.
    return _tier_problem(geometry, MINIMAX2 if choice.method == DEEPSEEK_V3 else choice.method)


def given_routing_problem(geometry: Geometry) -> str | None:
    """Return why the library can't sort tokens of a given routing by expert."""
    return _tier_problem(geometry, RENORMALIZE)


def _tier_problem(geometry: Geometry, method: int) -> str | None:
    experts, top_k = geometry.experts, geometry.top_k
    tiers = _TIERS[method]
    if any(experts <= most_experts and top_k <= most for most_experts, most in tiers):
        return None
    compiled = " or ".join(f"{most} of {most_experts}" for most_experts, most in tiers)
    return (
        f"the routing kernel (RoutingMethodType {method}) is compiled for a top-k of at most "
        f"{compiled} experts, not for {top_k} of {experts}"
    )


def _most_top_k_problem(geometry: Geometry) -> str | None:
    most = 8 if geometry.experts <= _EXPERTS_OF_TOP_K_8 else _MOST_TOP_K_BEYOND
    if geometry.top_k > most:
        return (
            f"RoutingMethodType DeepSeekV3 takes a top-k of at most {most} for "
            f"{geometry.experts} experts, not {geometry.top_k}"
        )
    return None


def _grouped_problem(rule: RoutingRule, geometry: Geometry) -> str | None:
    experts, groups = geometry.experts, rule.groups
    name = "RoutingMethodType DeepSeekV3"
    if experts > _MOST_GROUPED_EXPERTS or experts % 4:
        return (
            f"{name} takes at most {_MOST_GROUPED_EXPERTS} experts, a multiple of 4, not {experts}"
        )
    if groups > _MOST_GROUPS or rule.top_groups > _MOST_TOP_GROUPS:
        return (
            f"{name} keeps at most {_MOST_TOP_GROUPS} of at most {_MOST_GROUPS} groups, "
            f"not {rule.top_groups} of {groups}"
        )
    if experts // groups > _MOST_IN_GROUP:
        return f"{name} takes at most {_MOST_IN_GROUP} experts a group, not {experts // groups}"
    if geometry.top_k >= rule.top_groups * (experts // groups):
        return f"{name} needs more experts in the kept groups than the top-k {geometry.top_k}"
    return _most_top_k_problem(geometry)


def block_fp8_problem(spec: LayerSpec, *, routes: bool) -> str | None:
    """Return what the launcher of block-scaled FP8 checks on top of the others.

    Args:
        spec: the layer.
        routes: whether the library routes, so that it is told the layer's method.
    """
    geometry = spec.geometry
    if geometry.experts % 4:
        return f"block-scaled FP8 needs a multiple of 4 experts, not {geometry.experts}"
    if geometry.experts <= geometry.top_k:
        return f"block-scaled FP8 needs more experts than the top-k {geometry.top_k}"
    if not routes:
        return None
    choice = routing_choice(spec.routing)
    if isinstance(choice, str) or choice.method != DEEPSEEK_V3:
        return None
    return _most_top_k_problem(geometry)
