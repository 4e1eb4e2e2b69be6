"""A layer ready for SGLang's `fused_experts`, and how a batch becomes its call."""

import importlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autotune.kernels.backends.protocol import Calibration, Call
from autotune.kernels.backends.sglang import calls
from autotune.kernels.backends.sglang.calls import Arguments
from autotune.kernels.backends.sglang.weights import alternating, held, rows_alternate
from autotune.kernels.layer import Batch, Layer
from autotune.kernels.quantization.schemes import SCHEMES


@dataclass(frozen=True)
class PreparedTriton:
    """The protocol's `Prepared`.

    Attributes:
        fixed: what `fused_experts` is given for every batch, but for the config.
        config: what its `MoeRunnerConfig` is made with.
    """

    fixed: Arguments
    config: Arguments

    def bind(self, batch: Batch) -> Call:
        """Return the call; its first run compiles the kernels for the batch's tiles."""
        function = _sglang("moe_runner.triton_utils.fused_moe").fused_experts
        arguments: Arguments = {
            "hidden_states": batch.hidden_states.contiguous(),
            "topk_output": _sglang("topk").StandardTopKOutput(**calls.topk_output(batch)),
            "moe_runner_config": _sglang("moe_runner").MoeRunnerConfig(**self.config),
            **self.fixed,
        }

        def call() -> Tensor:
            output: Tensor = function(**arguments)
            return output

        return call


def _sglang(module: str) -> Any:
    """One of SGLang's MoE modules, imported on demand: it takes seconds."""
    return importlib.import_module(f"sglang.srt.layers.moe.{module}")


def prepared(layer: Layer, scheme: str, calibration: Calibration) -> PreparedTriton:
    """Turn a layer's weights into what the kernel takes; SGLang isn't needed for it."""
    alternate = rows_alternate(layer.spec.activation, scheme)
    gate_up = alternating(layer.gate_up) if alternate else layer.gate_up
    return PreparedTriton(
        fixed=calls.fused_experts(
            held(gate_up, scheme),
            held(layer.down, scheme),
            biases=_biases(layer, alternate=alternate),
            activation_scales=_activation_scales(scheme, calibration, layer.gate_up.device),
        ),
        config=calls.runner_config(layer.spec, rows_alternate=alternate),
    )


def _biases(layer: Layer, *, alternate: bool) -> tuple[Tensor, Tensor] | None:
    if layer.gate_up_bias is None or layer.down_bias is None:
        return None
    return (alternating(layer.gate_up_bias) if alternate else layer.gate_up_bias), layer.down_bias


def _activation_scales(
    scheme: str, calibration: Calibration, device: torch.device
) -> tuple[Tensor, Tensor] | None:
    """The static scales of a checkpoint, float32 []; ``None`` where scales are dynamic."""
    tokens, activated = (
        SCHEMES[scheme].activation_scale(amax)
        for amax in (calibration.tokens_amax, calibration.activated_amax)
    )
    if tokens is None or activated is None:
        return None

    def number(value: float) -> Tensor:
        return torch.tensor(value, dtype=torch.float32, device=device)

    return number(tokens), number(activated)
