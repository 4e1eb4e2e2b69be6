"""How a layer sweep is told in words: its layer, its device, its timing."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from autotune.kernels.ranking import CONFIDENCE
from autotune.kernels.schema import KernelRun, Roof
from autotune.kernels.spec import Activation, RoutingRule
from autotune.report.numbers import figure, percent


@dataclass(frozen=True)
class RateUnit:
    """A unit of operations a second: ``factor`` units to an operation a second."""

    name: str
    factor: float


def flops_unit(flops_per_s: Iterable[float]) -> RateUnit:
    """Return TFLOP/s, or GFLOP/s where nothing reaches a tenth of the former."""
    largest = max((value for value in flops_per_s if pd.notna(value)), default=0.0)
    return RateUnit("TFLOP/s", 1e-12) if largest >= 1e11 else RateUnit("GFLOP/s", 1e-9)


def layer_words(run: KernelRun) -> tuple[str, str]:
    """Return the two lines that say which layer was computed, and on what."""
    config, layer = run.config, run.config.layer
    sizes = layer.geometry
    whose = f"MoE layer of {config.architecture}" if config.architecture else "MoE layer"
    return (
        f"{whose}: hidden {sizes.hidden_size}, width {sizes.expert_width}, {sizes.experts} "
        f"experts, top-{sizes.top_k}; {config.scheme}; {run.device.name} ({run.device.arch})",
        f"routing: {rule_words(layer.routing)}; activation: {activation_words(layer.activation)}"
        f"{', with biases' if layer.expert_bias else ''}; tokens over experts: "
        f"{config.distribution}; seed {config.seed}",
    )


def rule_words(rule: RoutingRule) -> str:
    """Return a routing rule in a few words."""
    words: list[str] = [rule.scoring]
    if rule.correction_bias:
        words.append("correction bias")
    if rule.groups > 1:
        words.append(f"{rule.top_groups} of {rule.groups} groups")
    words.append("renormalized" if rule.normalize else "not renormalized")
    if rule.scaling_factor != 1.0:
        words.append(f"times {rule.scaling_factor:g}")
    return ", ".join(words)


def activation_words(activation: Activation) -> str:
    """Return a gated activation in a few words."""
    words = f"gated {activation.function}"
    if activation.alpha != 1.0:
        words += f", alpha {activation.alpha:g}"
    if activation.limit is not None:
        words += f", limit {activation.limit:g}"
    return words


def roof_words(roof: Roof, unit: RateUnit) -> str:
    """Return a device's roof with where it comes from."""
    return (
        f"roof: {figure(roof.flops_per_s * unit.factor)} {unit.name}, "
        f"{figure(roof.bytes_per_s * 1e-9)} GB/s ({roof.source})"
    )


def timing_words(run: KernelRun, timed: pd.DataFrame) -> str:
    """Return how calls were timed, what an interval is, and n."""
    rounds = sorted({int(n) for n in timed["rounds"].dropna()})
    n = f"n = {rounds[0]}" if len(rounds) == 1 else f"n = {rounds[0]} to {rounds[-1]}"
    cache = ", L2 emptied before each call" if run.config.cold_cache else ""
    return (
        f"latency: geometric mean of the rounds' medians, bars {percent(CONFIDENCE)} Student's t, "
        f"{n} rounds{cache}"
    )
