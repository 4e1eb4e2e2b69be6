"""Static scales and what kernels multiply their results by, spelt out once.

With decoding scales (value = stored * scale) s_x of the input, s_a of the activated rows, and
s_1[e], s_2[e] of an expert's weights, a kernel that multiplies stored numbers must apply

- to gate and up before the activation: ``first[e] = s_1[e] * s_x``; what SGLang calls g1_alphas;
- to the activated rows, before they are stored again: ``1 / s_a``;
- to the second product: ``second[e] = s_2[e] * s_a``; g2_alphas.

trtllm-gen has one multiplier for gate, ``first[e]``, and one for up that takes in the step after
it, ``first[e] / s_a``. For NVFP4 each s is amax / (448 * 6), for FP8 amax / 448; SGLang, and the
quantizers, speak of the inverse as the global scale.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from autotune.kernels.backends.flashinfer.stored import StoredLayer
from autotune.kernels.backends.protocol import Calibration
from autotune.kernels.quantization.schemes import SCHEMES
from autotune.kernels.spec import Activation


@dataclass(frozen=True)
class Multipliers:
    """What a kernel multiplies by; tensors are float32 [experts].

    Attributes:
        tokens: s_x.
        activated: s_a.
        first: of gate and up.
        second: of the second product.
    """

    tokens: float
    activated: float
    first: Tensor
    second: Tensor

    @property
    def up_and_requantize(self) -> Tensor:
        """trtllm-gen's multiplier of up: ``first / s_a``."""
        return (self.first / self.activated).contiguous()

    @property
    def trtllm(self) -> tuple[Tensor, Tensor, Tensor]:
        """trtllm-gen's three: of up, of gate, of the second product."""
        return self.up_and_requantize, self.first, self.second


def multipliers(stored: StoredLayer, scheme: str, calibration: Calibration) -> Multipliers:
    """Return the multipliers of a scheme with static activation scales.

    Raises:
        ValueError: the scheme has none.
    """
    found = SCHEMES[scheme]
    tokens = found.activation_scale(calibration.tokens_amax)
    activated = found.activation_scale(calibration.activated_amax)
    if tokens is None or activated is None:
        raise ValueError(f"{scheme} has no static activation scales")
    return Multipliers(
        tokens=tokens,
        activated=activated,
        first=(stored.first.overall_scales() * tokens).contiguous(),
        second=(stored.second.overall_scales() * activated).contiguous(),
    )


@dataclass(frozen=True)
class Swiglu:
    """SwiGLU's parameters an expert, float32 [experts]; ``None`` where it is the plain one's."""

    alpha: Tensor | None
    beta: Tensor | None
    limit: Tensor | None


def swiglu(
    activation: Activation, *, experts: int, device: torch.device, dequantizes: Tensor | None = None
) -> Swiglu:
    """Return the parameters as the kernels take them.

    Args:
        activation: the layer's.
        experts: how many there are.
        device: where the tensors go.
        dequantizes: what gate and up are multiplied by, where a kernel clamps and offsets them
            before that (trtllm-gen's NVFP4): limit and offset are then divided by it. This is
            SGLang's reading; the library documents it for SwigluStep's limit.
    """

    def each(value: float | None, plain: float | None) -> Tensor | None:
        if value is None or value == plain:
            return None
        return torch.full((experts,), value, dtype=torch.float32, device=device)

    beta, limit = each(activation.up_offset, 0.0), each(activation.limit, None)
    if dequantizes is not None:
        beta = None if beta is None else beta / dequantizes
        limit = None if limit is None else limit / dequantizes
    return Swiglu(alpha=each(activation.alpha, 1.0), beta=beta, limit=limit)
