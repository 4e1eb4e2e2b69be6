"""Small layers, devices that aren't here, and stand-ins for the library's quantizers."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from autotune.decisions.schema import Geometry
from autotune.kernels.backends.protocol import Calibration, Device, Problem
from autotune.kernels.distribution import parse_distribution
from autotune.kernels.layer import Batch, Layer, seeded_batch, seeded_layer
from autotune.kernels.model_layer import DEEPSEEK, MINIMAX, RENORMALIZE, SOFTMAX
from autotune.kernels.quantization import fp8, mxfp, nvfp4
from autotune.kernels.quantization.packing import swizzle_128x4
from autotune.kernels.spec import GPT_OSS_SWIGLU, SWIGLU, Activation, LayerSpec, RoutingRule

CPU = Device(kind="cpu", name="a processor", arch="cpu-x86_64")
H200 = Device(kind="cuda", name="NVIDIA H200", arch="sm90", capability=(9, 0))
B200 = Device(kind="cuda", name="NVIDIA B200", arch="sm100", capability=(10, 0))
THOR = Device(kind="cuda", name="NVIDIA Thor", arch="sm110", capability=(11, 0))

CALIBRATION = Calibration(tokens_amax=4.0, activated_amax=6.0)
SCHEMES = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "mxfp8")


def geometry(hidden: int, width: int, experts: int, top_k: int) -> Geometry:
    return Geometry(hidden_size=hidden, expert_width=width, experts=experts, top_k=top_k)


MINIMAX_M2 = LayerSpec(geometry=geometry(3072, 1536, 256, 8), routing=MINIMAX)
DEEPSEEK_R1 = LayerSpec(geometry=geometry(7168, 2048, 256, 8), routing=DEEPSEEK)
GPT_OSS = LayerSpec(
    geometry=geometry(2880, 2880, 128, 4),
    routing=RENORMALIZE,
    activation=GPT_OSS_SWIGLU,
    expert_bias=True,
)


def problem(spec: LayerSpec, scheme: str, device: Device = B200) -> Problem:
    return Problem(spec=spec, scheme=scheme, device=device)


def spec(
    *,
    hidden: int = 256,
    width: int = 128,
    experts: int = 4,
    top_k: int = 2,
    routing: RoutingRule = RENORMALIZE,
    activation: Activation = SWIGLU,
    expert_bias: bool = False,
) -> LayerSpec:
    return LayerSpec(
        geometry=geometry(hidden, width, experts, top_k),
        routing=routing,
        activation=activation,
        expert_bias=expert_bias,
    )


def layer_and_batch(of: LayerSpec, *, tokens: int = 6) -> tuple[Layer, Batch]:
    device = torch.device("cpu")
    layer = seeded_layer(of, seed=5, device=device)
    batch = seeded_batch(
        layer, tokens=tokens, distribution=parse_distribution("uniform"), seed=5, device=device
    )
    return layer, batch


ROUTING_RULES = {
    "softmax": SOFTMAX,
    "renormalize": RENORMALIZE,
    "minimax": MINIMAX,
    "groups": RoutingRule(
        scoring="sigmoid", correction_bias=True, groups=4, top_groups=2, scaling_factor=2.5
    ),
    "scaled": RoutingRule(scoring="sigmoid", correction_bias=True, scaling_factor=2.5),
    "sigmoid": RoutingRule(scoring="sigmoid", normalize=False),
    "sigmoid, normalized": RoutingRule(scoring="sigmoid"),
}


class Quantizers:
    """The library's quantizers on a CPU, computed by our references; calls are written down.

    What each returns, and in which shape, is as the library documents it.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.library = SimpleNamespace(
            fp4_quantize=self._noted("fp4_quantize", _fp4_quantize),
            mxfp8_quantize=self._noted("mxfp8_quantize", _mxfp8_quantize),
            quantization=SimpleNamespace(
                per_token_group_quant_8bit=self._noted(
                    "quantization.per_token_group_quant_8bit", _group_quantize
                )
            ),
        )

    def _noted(self, name: str, function: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls.append((name, arguments, keywords))
            return function(*arguments, **keywords)

        return call


def _fp4_quantize(
    values: Tensor,
    global_scale: Tensor,
    *,
    sf_vec_size: int,
    sf_use_ue8m0: bool,
    is_sf_swizzled_layout: bool,
) -> tuple[Tensor, Tensor]:
    assert (sf_vec_size, sf_use_ue8m0, is_sf_swizzled_layout) == (16, False, False)
    found = nvfp4.quantize(values, global_scale=1.0 / float(global_scale))
    return found.codes, found.scales.view(torch.uint8)


def _mxfp8_quantize(
    values: Tensor, *, is_sf_swizzled_layout: bool, alignment: int
) -> tuple[Tensor, Tensor]:
    values = torch.nn.functional.pad(values, (0, -values.shape[1] % alignment))
    found = mxfp.quantize_mxfp8(values, scale_rule="up")
    flat = swizzle_128x4(found.scales) if is_sf_swizzled_layout else found.scales.flatten()
    return found.values, flat


def _group_quantize(
    values: Tensor, group_size: int, *, column_major_scales: bool, backend: str
) -> tuple[Tensor, Tensor]:
    assert (group_size, column_major_scales, backend) == (128, True, "cuda")
    found = fp8.quantize_groups(values)
    return found.values, found.scales.t().contiguous().t()
