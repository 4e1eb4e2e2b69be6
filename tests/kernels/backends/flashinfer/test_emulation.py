"""Prepared tensors, read as FlashInfer documents them, give the oracle's answer.

This is what finds gate and up swapped, a scale too many, block scales in another order.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from autotune.kernels.backends.flashinfer import inputs
from autotune.kernels.backends.flashinfer.prepared import PreparedKernel
from autotune.kernels.backends.flashinfer.registry import FLASHINFER_BACKENDS
from autotune.kernels.held import DequantizedExperts, roundings
from autotune.kernels.layer import Batch, Layer
from autotune.kernels.oracle import moe_layer
from autotune.kernels.spec import GPT_OSS_SWIGLU, LayerSpec
from tests.kernels.backends.flashinfer import emulation
from tests.kernels.backends.flashinfer.small import (
    B200,
    CALIBRATION,
    H200,
    ROUTING_RULES,
    SCHEMES,
    Quantizers,
    layer_and_batch,
    problem,
    spec,
)

BACKENDS = {backend.name: backend for backend in FLASHINFER_BACKENDS}
# Roundings of one number between two implementations' float32 and float64 steps.
_NEAR = 2e-3

PAIRS = [
    *(("flashinfer_cutlass", scheme) for scheme in SCHEMES),
    *(("flashinfer_trtllm", scheme) for scheme in SCHEMES),
    *(("flashinfer_trtllm_routed", scheme) for scheme in SCHEMES),
    ("flashinfer_cutedsl", "nvfp4"),
]


@pytest.fixture(autouse=True)
def quantizers(monkeypatch: pytest.MonkeyPatch) -> Quantizers:
    found = Quantizers()
    monkeypatch.setattr(inputs, "flashinfer", lambda: found.library)
    return found


def prepared(backend: str, layer: Layer, scheme: str) -> PreparedKernel:
    device = H200 if (backend, scheme) == ("flashinfer_cutlass", "fp8_block") else B200
    found = BACKENDS[backend].prepare(layer, problem(layer.spec, scheme, device), CALIBRATION)
    assert isinstance(found, PreparedKernel)
    return found


def arguments(kernel: PreparedKernel, batch: Batch) -> dict[str, Any]:
    return {**kernel.arguments(batch), **kernel.kernel.inputs(batch.hidden_states)}


def emulated(kernel: PreparedKernel, batch: Batch) -> Tensor:
    given = arguments(kernel, batch)
    if kernel.kernel.function == "cutlass_fused_moe":
        output = emulation.cutlass(given)
    elif kernel.kernel.function == "CuteDslMoEWrapper":
        output = emulation.cute_dsl(given)
    else:
        output = emulation.trtllm(kernel.kernel.function, given)
    return output[:, : kernel.kernel.hidden]


def expected(layer: Layer, batch: Batch, scheme: str) -> Tensor:
    return moe_layer(
        batch.hidden_states,
        DequantizedExperts(layer, scheme),
        batch.routing,
        layer.spec.activation,
        roundings=roundings(scheme, CALIBRATION),
    )


def difference(found: Tensor, wanted: Tensor) -> float:
    assert found.shape == wanted.shape
    return float((found - wanted).norm() / wanted.norm())


def check(backend: str, scheme: str, of: LayerSpec) -> None:
    layer, batch = layer_and_batch(of)
    found = emulated(prepared(backend, layer, scheme), batch)
    assert difference(found, expected(layer, batch, scheme)) < _NEAR


@pytest.mark.parametrize(("backend", "scheme"), PAIRS)
def test_the_oracles_answer(backend: str, scheme: str) -> None:
    check(backend, scheme, spec())


@pytest.mark.parametrize(("backend", "scheme"), PAIRS)
def test_swapped_halves_would_be_found(backend: str, scheme: str) -> None:
    """The same check fails for a layer whose gate and up are swapped."""
    layer, batch = layer_and_batch(spec())
    wanted = expected(layer, batch, scheme)
    gate, up = layer.gate_up.chunk(2, dim=1)
    layer.gate_up.copy_(torch.cat([up, gate], dim=1))
    assert difference(emulated(prepared(backend, layer, scheme), batch), wanted) > 0.2


@pytest.mark.parametrize("rule", ROUTING_RULES)
def test_routing_from_logits(rule: str) -> None:
    check("flashinfer_trtllm", "bf16", spec(experts=16, top_k=3, routing=ROUTING_RULES[rule]))


@pytest.mark.parametrize("backend", ["flashinfer_cutlass", "flashinfer_trtllm"])
@pytest.mark.parametrize("scheme", ["bf16", "fp8_block", "nvfp4", "mxfp4", "mxfp8"])
def test_gpt_oss_activation(backend: str, scheme: str) -> None:
    check(backend, scheme, spec(activation=GPT_OSS_SWIGLU))


@pytest.mark.parametrize(
    "backend", ["flashinfer_cutlass", "flashinfer_trtllm", "flashinfer_trtllm_routed"]
)
def test_gpt_oss_in_small_with_padding(backend: str) -> None:
    """Sizes that are no multiple of any tile; biases go through all of it."""
    check(
        backend,
        "mxfp4",
        spec(hidden=352, width=96, activation=GPT_OSS_SWIGLU, expert_bias=True),
    )


@pytest.mark.parametrize("scheme", ["nvfp4", "mxfp8"])
@pytest.mark.parametrize("backend", ["flashinfer_trtllm", "flashinfer_cutlass"])
def test_padding(backend: str, scheme: str) -> None:
    check(backend, scheme, spec(hidden=320, width=160))


def test_biases_in_cutlass_are_bfloat16() -> None:
    layer, batch = layer_and_batch(spec(activation=GPT_OSS_SWIGLU, expert_bias=True))
    kernel = prepared("flashinfer_cutlass", layer, "bf16")
    given = arguments(kernel, batch)
    assert given["fc1_expert_biases"].dtype == torch.bfloat16
    assert difference(emulated(kernel, batch), expected(layer, batch, "bf16")) < _NEAR


def test_a_wrong_multiplier_would_be_found() -> None:
    layer, batch = layer_and_batch(spec())
    kernel = prepared("flashinfer_trtllm_routed", layer, "nvfp4")
    fixed = kernel.kernel.fixed
    fixed["output1_scale_scalar"] = fixed["output1_scale_gate_scalar"]
    assert difference(emulated(kernel, batch), expected(layer, batch, "nvfp4")) > 0.2


def test_the_layer_is_left_as_it_is() -> None:
    layer, _ = layer_and_batch(spec())
    before = layer.gate_up.clone(), layer.down.clone()
    for backend, scheme in PAIRS:
        prepared(backend, layer, scheme)
    assert torch.equal(layer.gate_up, before[0]) and torch.equal(layer.down, before[1])
