"""Every call binds against the real functions, with what their docstrings say of tensors."""

import importlib
import inspect
import re
from typing import Any

import pytest
import torch

from autotune.kernels.backends.flashinfer import calls, inputs, rules
from autotune.kernels.spec import GPT_OSS_SWIGLU
from tests.kernels.backends.flashinfer.small import (
    ROUTING_RULES,
    Quantizers,
    layer_and_batch,
    spec,
)
from tests.kernels.backends.flashinfer.test_emulation import (
    PAIRS,
    arguments,
    prepared,
)

flashinfer = pytest.importorskip("flashinfer")

E, H, W, T, K = 4, 256, 128, 6, 2


@pytest.fixture(autouse=True)
def quantizers(monkeypatch: pytest.MonkeyPatch) -> Quantizers:
    found = Quantizers()
    monkeypatch.setattr(inputs, "flashinfer", lambda: found.library)
    return found


def bind(function: str, constructor: dict[str, Any] | None, given: dict[str, Any]) -> None:
    found = getattr(importlib.import_module("flashinfer.fused_moe"), function)
    if constructor is not None:
        inspect.signature(inspect.unwrap(found.__init__)).bind(None, **constructor)
        inspect.signature(inspect.unwrap(found.run)).bind(None, **given)
        return
    inspect.signature(inspect.unwrap(found)).bind(**given)


@pytest.mark.parametrize(("backend", "scheme"), PAIRS)
def test_binds(backend: str, scheme: str) -> None:
    layer, batch = layer_and_batch(spec())
    kernel = prepared(backend, layer, scheme)
    given = arguments(kernel, batch)
    bind(kernel.kernel.function, kernel.kernel.constructor, given)
    assert given.get("tune_max_num_tokens", 8) == 8


@pytest.mark.parametrize("rule", ROUTING_RULES)
@pytest.mark.parametrize("scheme", ["bf16", "fp8", "fp8_block", "nvfp4"])
def test_binds_with_each_routing(rule: str, scheme: str) -> None:
    layer, batch = layer_and_batch(spec(experts=16, routing=ROUTING_RULES[rule]))
    kernel = prepared("flashinfer_trtllm", layer, scheme)
    given = arguments(kernel, batch)
    bind(kernel.kernel.function, None, given)
    assert given["routing_logits"].shape == (T, 16)
    bias = given["routing_bias"]
    assert (bias is not None) == ROUTING_RULES[rule].correction_bias
    assert bias is None or (bias.dtype == torch.float32 and bias.shape == (16,))


@pytest.mark.parametrize(
    "backend", ["flashinfer_cutlass", "flashinfer_trtllm", "flashinfer_trtllm_routed"]
)
def test_binds_with_padding_biases_and_parameters(backend: str) -> None:
    of = spec(hidden=352, width=96, activation=GPT_OSS_SWIGLU, expert_bias=True)
    layer, batch = layer_and_batch(of)
    kernel = prepared(backend, layer, "mxfp4")
    given = arguments(kernel, batch)
    bind(kernel.kernel.function, None, given)
    if backend != "flashinfer_cutlass":
        assert (given["valid_hidden_size"], given["valid_intermediate_size"]) == (352, 96)
        assert given["gemm1_bias"].shape == (E, 256) and given["gemm2_bias"].shape == (E, 384)
        assert given["gemm1_weights"].shape == (E, 256, 512 // 2)
        assert given["gemm2_weights"].shape == (E, 384, 128 // 2)
        assert given["intermediate_size"] == 128
        assert given["hidden_states"].shape == (T, 512)


@pytest.mark.parametrize(("backend", "scheme"), PAIRS)
def test_a_misspelt_argument_would_be_found(backend: str, scheme: str) -> None:
    layer, batch = layer_and_batch(spec())
    kernel = prepared(backend, layer, scheme)
    given = arguments(kernel, batch)
    name = next(iter(given))
    given[f"{name}_"] = given.pop(name)
    with pytest.raises(TypeError, match="argument"):
        bind(kernel.kernel.function, kernel.kernel.constructor, given)


@pytest.mark.parametrize(("backend", "scheme"), PAIRS)
def test_quantizers_bind(backend: str, scheme: str, quantizers: Quantizers) -> None:
    layer, batch = layer_and_batch(spec())
    arguments(prepared(backend, layer, scheme), batch)
    for name, positional, keywords in quantizers.calls:
        function = flashinfer
        for part in name.split("."):
            function = getattr(function, part)
        inspect.signature(inspect.unwrap(function)).bind(*positional, **keywords)
    quantized = scheme not in ("bf16", "fp8")
    in_kernel = backend == "flashinfer_cutlass" and scheme in ("nvfp4", "fp8_block")
    assert bool(quantizers.calls) == (quantized and not in_kernel)


_BF16, _FP8, _U8, _F32 = torch.bfloat16, torch.float8_e4m3fn, torch.uint8, torch.float32
_TRTLLM_TENSORS = {
    "bf16": {
        "hidden_states": (_BF16, (T, H)),
        "gemm1_weights": (_BF16, (E, H // 64, 2 * W, 64)),
        "gemm2_weights": (_BF16, (E, W // 64, H, 64)),
    },
    "fp8": {
        "hidden_states": (_FP8, (T, H)),
        "gemm1_weights": (_FP8, (E, 2 * W, H)),
        "gemm2_weights": (_FP8, (E, H, W)),
        "output1_scales_scalar": (_F32, (E,)),
        "output1_scales_gate_scalar": (_F32, (E,)),
        "output2_scales_scalar": (_F32, (E,)),
    },
    "fp8_block": {
        "hidden_states": (_FP8, (T, H)),
        "hidden_states_scale": (_F32, (H // 128, T)),
        "gemm1_weights": (_FP8, (E, 2 * W, H)),
        "gemm1_weights_scale": (_F32, (E, 2 * W // 128, H // 128)),
        "gemm2_weights": (_FP8, (E, H, W)),
        "gemm2_weights_scale": (_F32, (E, H // 128, W // 128)),
    },
    "nvfp4": {
        "hidden_states": (_U8, (T, H // 2)),
        "hidden_states_scale": (_FP8, (T, H // 16)),
        "gemm1_weights": (_U8, (E, 2 * W, H // 2)),
        "gemm1_weights_scale": (_FP8, (E, 2 * W, H // 16)),
        "gemm2_weights": (_U8, (E, H, W // 2)),
        "gemm2_weights_scale": (_FP8, (E, H, W // 16)),
        "output1_scale_scalar": (_F32, (E,)),
        "output1_scale_gate_scalar": (_F32, (E,)),
        "output2_scale_scalar": (_F32, (E,)),
    },
    "mxfp4": {
        "hidden_states": (_FP8, (T, H)),
        "hidden_states_scale": (_FP8, (T, H // 32)),
        "gemm1_weights": (_U8, (E, 2 * W, H // 2)),
        "gemm1_weights_scale": (_FP8, (E, 2 * W, H // 32)),
        "gemm2_weights": (_U8, (E, H, W // 2)),
        "gemm2_weights_scale": (_FP8, (E, H, W // 32)),
    },
    "mxfp8": {
        "hidden_states": (_FP8, (T, H)),
        "hidden_states_scale": (_U8, (T, H // 32)),
        "gemm1_weights": (_FP8, (E, 2 * W, H)),
        "gemm1_weights_scale": (_U8, (E, 2 * W, H // 32)),
        "gemm2_weights": (_FP8, (E, H, W)),
        "gemm2_weights_scale": (_U8, (E, H, W // 32)),
    },
}


@pytest.mark.parametrize("backend", ["flashinfer_trtllm", "flashinfer_trtllm_routed"])
@pytest.mark.parametrize("scheme", _TRTLLM_TENSORS)
def test_trtllm_tensors(backend: str, scheme: str) -> None:
    layer, batch = layer_and_batch(spec())
    given = arguments(prepared(backend, layer, scheme), batch)
    for name, (dtype, shape) in _TRTLLM_TENSORS[scheme].items():
        found = given[name]
        assert (found.dtype, tuple(found.shape)) == (dtype, shape), name
        assert found.is_contiguous(), name
    if backend == "flashinfer_trtllm":
        assert given["routing_logits"].dtype == (_BF16 if scheme == "mxfp4" else _F32)
        assert torch.equal(given["routing_logits"].float(), batch.logits)
    else:
        ids, weights = given["topk_ids"]
        assert (ids.dtype, weights.dtype) == (torch.int32, torch.float32)
        assert ids.shape == weights.shape == (T, K)


@pytest.mark.parametrize(
    ("scheme", "weights", "scales"),
    [
        ("bf16", (_BF16, H), []),
        ("fp8", (_FP8, H), [(_F32, (E,)), (_F32, ()), (_F32, (E,)), (_F32, ())]),
        (
            "fp8_block",
            (_FP8, H),
            [(_F32, (E, 2 * W // 128, H // 128)), (_F32, (E, H // 128, W // 128))],
        ),
        (
            "nvfp4",
            (torch.int64, H // 16),
            [
                (_F32, ()),
                (torch.int32, (E, 2 * W, H // 16 // 4)),
                (_F32, (E,)),
                (_F32, ()),
                (torch.int32, (E, H, W // 16 // 4)),
                (_F32, (E,)),
            ],
        ),
        (
            "mxfp4",
            (torch.int64, H // 16),
            [
                (torch.int32, (E, 2 * W, H // 32 // 4)),
                (_F32, (E,)),
                (torch.int32, (E, H, W // 32 // 4)),
                (_F32, (E,)),
            ],
        ),
        (
            "mxfp8",
            (_FP8, H),
            [
                (torch.int32, (E, 2 * W, H // 32 // 4)),
                (_F32, (E,)),
                (torch.int32, (E, H, W // 32 // 4)),
                (_F32, (E,)),
            ],
        ),
    ],
)
def test_cutlass_tensors(scheme: str, weights: Any, scales: Any) -> None:
    """What the binding checks: dtypes by which it knows the scheme, and scales' shapes."""
    layer, batch = layer_and_batch(spec())
    given = arguments(prepared("flashinfer_cutlass", layer, scheme), batch)
    first = given["fc1_expert_weights"]
    assert (first.dtype, tuple(first.shape)) == (weights[0], (E, 2 * W, weights[1]))
    found = [(one.dtype, tuple(one.shape)) for one in given["quant_scales"]]
    assert found == scales
    assert given["output_dtype"] == _BF16
    assert given["token_selected_experts"].dtype == torch.int32


def test_numbers_of_the_real_enums() -> None:
    from flashinfer.tllm_enums import (
        ActivationType,
        Fp8QuantizationType,
        RoutingMethodType,
        SfLayout,
        WeightLayout,
    )

    assert ActivationType.Swiglu == rules.SWIGLU_TYPE
    assert (
        RoutingMethodType.Default,
        RoutingMethodType.Renormalize,
        RoutingMethodType.DeepSeekV3,
        RoutingMethodType.TopK,
        RoutingMethodType.SigmoidRenorm,
        RoutingMethodType.MiniMax2,
        RoutingMethodType.Sigmoid,
    ) == (
        rules.DEFAULT,
        rules.RENORMALIZE,
        rules.DEEPSEEK_V3,
        rules.TOP_K,
        rules.SIGMOID_RENORM,
        rules.MINIMAX2,
        rules.SIGMOID,
    )
    assert SfLayout.layout_linear == calls.LINEAR_SCALES
    assert (WeightLayout.MajorK, WeightLayout.BlockMajorK) == (calls.MAJOR_K, calls.BLOCK_MAJOR_K)
    assert Fp8QuantizationType.DeepSeekFp8 == calls.DEEPSEEK_FP8
    assert Fp8QuantizationType.MxFp8 == calls.MX_FP8


def test_architectures_are_the_librarys() -> None:
    from flashinfer.fused_moe import api

    assert rules.BLACKWELL == api._TRTLLM_ROUTED_ARCHS == api._TRTLLM_ROUTED_FP8_ARCHS
    assert rules.SINCE_ADA == api._CUTLASS_BF16_ARCHS == api._CUTLASS_FP8_ARCHS
    assert rules.HOPPER == api._CUTLASS_FP8_BLOCK_ARCHS
    assert rules.BLACKWELL_AND_LATER == api._CUTLASS_NVFP4_ARCHS == api._CUTLASS_MXFP8_MXFP4_ARCHS
    assert rules.BLACKWELL == api._CUTLASS_MXFP8_ARCHS


def test_tiers_are_the_compiled_ones() -> None:
    """The routing kernels' (experts, top-k) as the library's source lists them."""
    from flashinfer.jit import env

    source = (
        env.FLASHINFER_INCLUDE_DIR / "flashinfer/trtllm/fused_moe/RoutingCustomPolicy.cuh"
    ).read_text()
    for method, pair in {
        rules.DEFAULT: "SoftmaxPreprocess, NoOpPostprocess",
        rules.RENORMALIZE: "NoOpPreprocess, SoftmaxPostprocess",
        rules.SIGMOID_RENORM: "SigmoidPreprocess, SumNormalizePostprocess",
        rules.MINIMAX2: "SigmoidBiasPreprocess, ScaledSumNormalizePostprocess",
    }.items():
        text = source.split(f"struct PolicyTraits<{pair}>")[1].split("};")[0]
        tiers = [(int(e), int(k)) for e, k in re.findall(r"Tier<(\d+), (\d+)>", text)]
        (largest,) = rules._TIERS[method]
        assert largest in tiers
        assert all(e <= largest[0] and k <= largest[1] for e, k in tiers)
