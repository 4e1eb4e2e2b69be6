"""What `interpreted` computes: small layers and routers, by name."""

from autotune.kernels.model_layer import DEEPSEEK, MINIMAX, RENORMALIZE, SOFTMAX
from autotune.kernels.spec import GPT_OSS_SWIGLU, Activation, LayerSpec, RoutingRule
from tests.kernels.backends.flashinfer.small import spec

TOKENS = 7
# Not a single expert a token: SGLang's way without CUDA then sums up what nothing wrote.
_GPT_OSS = spec(activation=GPT_OSS_SWIGLU, expert_bias=True)
# Sizes that tiles don't divide.
_RAGGED = spec(hidden=200, width=88)
LAYERS: dict[str, tuple[LayerSpec, str]] = {
    "bf16": (spec(), "bf16"),
    "bf16, sizes that tiles don't divide": (_RAGGED, "bf16"),
    "bf16, scaled": (
        spec(
            experts=8,
            top_k=3,
            routing=RoutingRule(scoring="sigmoid", correction_bias=True, scaling_factor=2.5),
        ),
        "bf16",
    ),
    "bf16, gelu": (spec(activation=Activation(function="gelu")), "bf16"),
    "bf16, gelu_tanh": (spec(activation=Activation(function="gelu_tanh")), "bf16"),
    "bf16, gpt-oss": (_GPT_OSS, "bf16"),
    "fp8": (spec(), "fp8"),
    "fp8, gpt-oss": (_GPT_OSS, "fp8"),
    "fp8_block": (spec(width=256), "fp8_block"),
    "fp8_block, gpt-oss": (_GPT_OSS, "fp8_block"),
}
# Those in which SGLang is told how the rows of gate and up lie.
BREAKABLE = ("bf16, gpt-oss", "fp8_block, gpt-oss")
ROUTERS: dict[str, tuple[RoutingRule, int, int]] = {
    "softmax": (SOFTMAX, 64, 8),
    "renormalize": (RENORMALIZE, 128, 8),
    "minimax": (MINIMAX, 256, 8),
    "deepseek": (DEEPSEEK, 256, 8),
    "kimi": (RoutingRule(scoring="sigmoid", correction_bias=True, scaling_factor=2.827), 384, 8),
}
