"""What the kernel is given stands for the numbers that the oracle computes with."""

from typing import Any

import pytest
import torch
from torch import Tensor

from autotune.kernels.backends.sglang.prepared import PreparedTriton, prepared
from autotune.kernels.backends.sglang.weights import alternating
from autotune.kernels.held import DequantizedExperts
from autotune.kernels.layer import Layer
from autotune.kernels.spec import GPT_OSS_SWIGLU, SWIGLU, Activation
from tests.kernels.backends.flashinfer.small import CALIBRATION, layer_and_batch, spec

SCHEMES = ("bf16", "fp8", "fp8_block")
E, H, W, T, K = 4, 256, 128, 6, 2


def made(
    scheme: str, activation: Activation = SWIGLU, *, expert_bias: bool = False
) -> tuple[Layer, PreparedTriton]:
    of = spec(activation=activation, expert_bias=expert_bias)
    layer, _ = layer_and_batch(of)
    return layer, prepared(layer, scheme, CALIBRATION)


def numbers(values: Tensor, scale: Tensor | None, block_shape: list[int] | None) -> Tensor:
    """Multiply out the scales as the kernel does, element by element."""
    result = values.double()
    if scale is None:
        return result
    if block_shape is None:
        assert scale.shape == values.shape[:1]
        return result * scale.double()[:, None, None]
    rows, columns = torch.arange(values.shape[1]), torch.arange(values.shape[2])
    return result * scale.double()[:, rows // block_shape[0]][:, :, columns // block_shape[1]]


def halves(rows: Tensor, *, alternate: bool) -> tuple[Tensor, Tensor]:
    """Gate and up, as the activation's function takes them apart."""
    if alternate:
        return rows[:, ::2], rows[:, 1::2]
    return rows[:, : rows.shape[1] // 2], rows[:, rows.shape[1] // 2 :]


@pytest.mark.parametrize("activation", [SWIGLU, GPT_OSS_SWIGLU], ids=["swiglu", "gpt-oss"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_weights_are_what_the_scheme_holds(scheme: str, activation: Activation) -> None:
    layer, found = made(scheme, activation)
    given, alternate = found.fixed, found.config.get("gate_up_interleaved", False)
    assert alternate == (activation == GPT_OSS_SWIGLU and scheme != "fp8_block")
    block_shape = given.get("block_shape")
    joined = numbers(given["w1"], given.get("w1_scale"), block_shape)
    gate, up = halves(joined, alternate=alternate)
    down = numbers(given["w2"], given.get("w2_scale"), block_shape)
    experts = DequantizedExperts(layer, scheme)
    for number in range(E):
        expected = experts.expert(number, torch.float64)
        # Scales are multiplied in float32 there, which rounds.
        for ours, oracles in (
            (gate[number], expected.gate),
            (up[number], expected.up),
            (down[number], expected.down),
        ):
            torch.testing.assert_close(ours, oracles, rtol=2e-7, atol=0)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_swapped_halves_would_be_found(scheme: str) -> None:
    layer, found = made(scheme)
    joined = numbers(found.fixed["w1"], found.fixed.get("w1_scale"), found.fixed.get("block_shape"))
    gate, up = halves(joined, alternate=False)
    expected = DequantizedExperts(layer, scheme).expert(0, torch.float64)
    assert (up[0] - expected.gate).abs().max() > 0.01
    assert (gate[0] - expected.up).abs().max() > 0.01


_BF16, _FP8, _F32 = torch.bfloat16, torch.float8_e4m3fn, torch.float32
_EXPECTED: dict[str, dict[str, tuple[Any, tuple[int, ...]]]] = {
    "bf16": {"w1": (_BF16, (E, 2 * W, H)), "w2": (_BF16, (E, H, W))},
    "fp8": {
        "w1": (_FP8, (E, 2 * W, H)),
        "w2": (_FP8, (E, H, W)),
        "w1_scale": (_F32, (E,)),
        "w2_scale": (_F32, (E,)),
        "a1_scale": (_F32, ()),
        "a2_scale": (_F32, ()),
    },
    "fp8_block": {
        "w1": (_FP8, (E, 2 * W, H)),
        "w2": (_FP8, (E, H, W)),
        "w1_scale": (_F32, (E, 2 * W // 128, H // 128)),
        "w2_scale": (_F32, (E, H // 128, W // 128)),
    },
}
_FLAGS = {
    "bf16": {},
    "fp8": {"use_fp8_w8a8": True},
    "fp8_block": {"use_fp8_w8a8": True, "block_shape": [128, 128]},
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tensors(scheme: str) -> None:
    _, found = made(scheme)
    tensors = {name: one for name, one in found.fixed.items() if isinstance(one, Tensor)}
    found_tensors = {name: (one.dtype, tuple(one.shape)) for name, one in tensors.items()}
    assert found_tensors == _EXPECTED[scheme]
    assert all(one.is_contiguous() for one in tensors.values())
    others = {name: one for name, one in found.fixed.items() if name not in tensors}
    assert others == _FLAGS[scheme]


def test_static_scales() -> None:
    _, found = made("fp8")
    assert float(found.fixed["a1_scale"]) == pytest.approx(CALIBRATION.tokens_amax / 448)
    assert float(found.fixed["a2_scale"]) == pytest.approx(CALIBRATION.activated_amax / 448)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("activation", [SWIGLU, GPT_OSS_SWIGLU], ids=["swiglu", "gpt-oss"])
def test_biases_lie_as_their_rows_do(activation: Activation, scheme: str) -> None:
    layer, found = made(scheme, activation, expert_bias=True)
    assert layer.gate_up_bias is not None and layer.down_bias is not None
    first, second = found.fixed["b1"], found.fixed["b2"]
    assert first.dtype == second.dtype == torch.float32
    gate, up = halves(first, alternate=found.config.get("gate_up_interleaved", False))
    assert torch.equal(torch.cat([gate, up], dim=1), layer.gate_up_bias)
    assert torch.equal(second, layer.down_bias)


def test_alternating_rows() -> None:
    joined = torch.tensor([[1, 2, 3, 10, 20, 30]])
    assert alternating(joined).tolist() == [[1, 10, 2, 20, 3, 30]]


def test_the_layer_is_left_as_it_is() -> None:
    of = spec(activation=GPT_OSS_SWIGLU, expert_bias=True)
    layer, _ = layer_and_batch(of)
    again, _ = layer_and_batch(of)
    for scheme in SCHEMES:
        prepared(layer, scheme, CALIBRATION)
    assert torch.equal(layer.gate_up, again.gate_up) and torch.equal(layer.down, again.down)


def test_the_runners_config() -> None:
    _, plain = made("bf16")
    assert plain.config == {
        "num_experts": E,
        "num_local_experts": E,
        "hidden_size": H,
        "intermediate_size_per_partition": W,
        "top_k": K,
        "activation": "silu",
        "inplace": False,
    }
    _, gpt_oss = made("bf16", GPT_OSS_SWIGLU)
    assert (gpt_oss.config["gemm1_alpha"], gpt_oss.config["gemm1_clamp_limit"]) == (1.702, 7.0)
    assert made("bf16", Activation(function="gelu_tanh"))[1].config["activation"] == "gelu_tanh"
