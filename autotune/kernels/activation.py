"""The experts' activations in torch; what they are called and their constants are `spec`."""

from torch import Tensor
from torch.nn import functional

from autotune.kernels.spec import Activation


def activate(gate: Tensor, up: Tensor, activation: Activation) -> Tensor:
    """Return ``f(alpha * gate) / alpha * (up + up_offset)`` of two equally shaped tensors."""
    if activation.limit is not None:
        gate = gate.clamp(max=activation.limit)
        up = up.clamp(min=-activation.limit, max=activation.limit)
    return _gated(gate, activation) * (up + activation.up_offset)


def _gated(gate: Tensor, activation: Activation) -> Tensor:
    if activation.alpha != 1.0:
        if activation.function == "silu":
            return gate * (activation.alpha * gate).sigmoid()
        return _function(activation.alpha * gate, activation) / activation.alpha
    return _function(gate, activation)


def _function(gate: Tensor, activation: Activation) -> Tensor:
    match activation.function:
        case "silu":
            return functional.silu(gate)
        case "gelu":
            return functional.gelu(gate)
        case "gelu_tanh":
            return functional.gelu(gate, approximate="tanh")
