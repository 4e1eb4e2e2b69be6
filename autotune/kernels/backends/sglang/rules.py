"""What SGLang 0.5.23's Triton MoE takes, and in what words it says no: pure rules, no torch.

Each rule names where it comes from, so that it can be looked up again with another version. A rule
answers with the reason why a problem can't be computed, or ``None``.

- schemes: `TritonMoeQuantInfo` and `TritonRunnerCore` in `srt/layers/moe/moe_runner/triton.py`;
- architectures: Triton's NVIDIA backend has E4M3 since SM89, tensor cores bfloat16 since SM80;
- activations: `_fused_moe_kernel_sequence` in `moe_runner/triton_utils/fused_moe.py`;
- sizes: `run_activation` in `kernels/jit/csrc/elementwise/activation.cuh`, `per_token_group_quant`,
  and `moe_align_kernel.cu`.
"""

from importlib.util import find_spec

from autotune.decisions.schema import Geometry
from autotune.kernels.backends.protocol import Device
from autotune.kernels.scheme_names import SCALE_BLOCKS
from autotune.kernels.spec import SWIGLU, Activation

# The oldest architecture by scheme.
FIRST_ARCH = {"bf16": 80, "fp8": 89, "fp8_block": 89}
_NO_KERNEL = {
    "nvfp4": "SGLang's Triton runner has no FP4",
    "mxfp4": "SGLang's triton backend turns MXFP4 weights into bfloat16 before it multiplies",
    "mxfp8": "SGLang's Triton runner has no MXFP8 on NVIDIA GPUs",
}
# Values of bfloat16 in the widest load of the activation's kernel: 32 bytes since Blackwell.
_BLACKWELL, _VECTOR_OF_BLACKWELL, _VECTOR = 100, 16, 8
# moe_align_block_size counts one more, for pairs that are filtered out.
_MOST_EXPERTS = 8191
# What must be there, and what it comes with.
_PACKAGES = {"sglang": "sglang", "triton": "triton", "sgl_kernel": "sglang-kernel"}


def scheme_problem(scheme: str, name: str) -> str | None:
    """Return why the backend called ``name`` has no kernel for ``scheme``."""
    if scheme in FIRST_ARCH:
        return None
    return f"{name} doesn't compute {scheme}: {_NO_KERNEL.get(scheme, 'SGLang has no such kernel')}"


def device_problem(device: Device, first_arch: int, what: str) -> str | None:
    """Return why ``what`` can't run on ``device``: it needs a GPU of ``first_arch`` or later."""
    needed = f"an NVIDIA GPU of SM{first_arch} or later"
    if device.capability is None:
        return f"{what} needs {needed}, and there is none: this is {device.kind}"
    if arch_number(device.capability) < first_arch:
        return f"{what} needs {needed}, and this is SM{arch_number(device.capability)}"
    return None


def arch_number(capability: tuple[int, int]) -> int:
    """Return 90 for SM90."""
    major, minor = capability
    return major * 10 + minor


def activation_problem(activation: Activation, what: str) -> str | None:
    """Return why the activation can't be had.

    With an alpha there must be a limit, and up is offset by 1, whatever else is asked for. A limit
    without an alpha is another activation there: it holds SiLU's result, not the gate before it.
    """
    if activation.function != "silu":
        if activation == Activation(function=activation.function):
            return None
        return f"{what} takes alpha, limit or offset with SiLU only"
    if activation == SWIGLU or (activation.limit is not None and activation.up_offset == 1.0):
        return None
    return f"{what} takes plain SwiGLU, or alpha and limit together with an offset of 1"


def size_problem(geometry: Geometry, scheme: str, device: Device, what: str) -> str | None:
    """Return which size the kernels can't take."""
    hidden, width = geometry.hidden_size, geometry.expert_width
    block = SCALE_BLOCKS[scheme]
    if hidden % block or width % block:
        return (
            f"{what} needs a hidden size and an expert width of multiples of {block}, "
            f"not {hidden} and {width}"
        )
    is_blackwell = device.capability is not None and arch_number(device.capability) >= _BLACKWELL
    vector = _VECTOR_OF_BLACKWELL if is_blackwell else _VECTOR
    if width % vector:
        return (
            f"the activation's kernel needs an expert width of a multiple of {vector}, not {width}"
        )
    if geometry.experts > _MOST_EXPERTS:
        return (
            f"moe_align_block_size sorts by at most {_MOST_EXPERTS} experts, not {geometry.experts}"
        )
    return None


def installed_problem() -> str | None:
    """Return which package isn't installed, if one isn't. None is imported."""
    for module, package in _PACKAGES.items():
        if find_spec(module) is None:
            return f"{module} isn't installed: pip install {package}"
    return None
