"""FlashInfer's own pure-Python references, given our arguments, give the oracle's answer.

The library keeps them to check traces of its functions with. They read shuffled and swizzled
tensors by the library's own means. They leave activated rows unquantized, hence so does the
oracle here. For SwiGLU most of them take weights before any shuffling; for SwigluStep (SwiGLU
whose SiLU is capped) they take what the kernels take. With a cap that nothing reaches, the two
activations are one, which is how the shuffled forms are checked.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from autotune.kernels.backends.flashinfer import inputs
from autotune.kernels.backends.flashinfer.layouts import up_above_gate
from autotune.kernels.held import DequantizedExperts, roundings
from autotune.kernels.layer import Batch, Layer
from autotune.kernels.oracle import Roundings, moe_layer
from autotune.kernels.quantization import mxfp, nvfp4
from autotune.kernels.quantization.packing import swizzle_128x4
from autotune.kernels.quantization.schemes import SCHEMES
from tests.kernels.backends.flashinfer.small import (
    CALIBRATION,
    ROUTING_RULES,
    Quantizers,
    layer_and_batch,
    spec,
)
from tests.kernels.backends.flashinfer.test_emulation import arguments, difference, prepared

pytest.importorskip("flashinfer")

_STEP = 7
_NEVER_REACHED = 1e30
# The references add up in float32 and answer in bfloat16.
_NEAR = 5e-3


@pytest.fixture(autouse=True)
def quantizers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Quantizers()
    monkeypatch.setattr(inputs, "flashinfer", lambda: found.library)


@pytest.fixture
def references() -> Any:
    from flashinfer.trace.templates import moe

    return moe


def expected(layer: Layer, batch: Batch, scheme: str) -> Tensor:
    return moe_layer(
        batch.hidden_states,
        DequantizedExperts(layer, scheme),
        batch.routing,
        layer.spec.activation,
        roundings=Roundings(tokens=roundings(scheme, CALIBRATION).tokens),
    )


def as_step(given: dict[str, Any]) -> dict[str, Any]:
    limit = torch.full((given["num_experts"],), _NEVER_REACHED)
    plain = {"gemm1_alpha": None, "gemm1_beta": None, "gemm1_clamp_limit": limit}
    return {**given, **plain, "activation_type": _STEP}


@pytest.mark.parametrize(
    ("scheme", "reference"),
    [
        ("bf16", "_trtllm_bf16_routed_moe_reference"),
        ("mxfp8", "_trtllm_fp8_block_scale_routed_moe_reference"),
        ("nvfp4", "_trtllm_fp4_block_scale_routed_moe_reference"),
    ],
)
def test_trtllm_routed(references: Any, scheme: str, reference: str) -> None:
    layer, batch = layer_and_batch(spec())
    given = as_step(arguments(prepared("flashinfer_trtllm_routed", layer, scheme), batch))
    found = getattr(references, reference)(**given)
    assert difference(found.double(), expected(layer, batch, scheme)) < _NEAR


@pytest.mark.parametrize(
    ("rule", "reference"),
    [("softmax", "default"), ("renormalize", "renormalize"), ("groups", "ds"), ("scaled", "ds")],
)
def test_fp8_block_with_routing(references: Any, rule: str, reference: str) -> None:
    """The plain function: its routing, its blocks' order, up before gate."""
    layer, batch = layer_and_batch(spec(experts=16, top_k=3, routing=ROUTING_RULES[rule]))
    given = arguments(prepared("flashinfer_trtllm", layer, "fp8_block"), batch)
    name = f"_trtllm_fp8_block_scale_moe_{reference}_routing_reference"
    found = getattr(references, name)(**given)
    assert difference(found.double(), expected(layer, batch, "fp8_block")) < _NEAR


def test_fp8_with_routing(references: Any) -> None:
    """Of the routed function the reference reads packed ids only; of the plain one, softmax."""
    layer, batch = layer_and_batch(spec(routing=ROUTING_RULES["softmax"]))
    given = as_step(arguments(prepared("flashinfer_trtllm", layer, "fp8"), batch))
    found = references._trtllm_fp8_per_tensor_scale_moe_reference(**given)
    assert difference(found.double(), expected(layer, batch, "fp8")) < _NEAR


def test_nvfp4_with_routing(references: Any) -> None:
    layer, batch = layer_and_batch(spec(experts=16, top_k=3, routing=ROUTING_RULES["groups"]))
    given = as_step(arguments(prepared("flashinfer_trtllm", layer, "nvfp4"), batch))
    found = references._trtllm_fp4_block_scale_moe_ds_routing_reference(**given)
    assert difference(found.double(), expected(layer, batch, "nvfp4")) < _NEAR


def test_a_wrong_order_would_be_found(references: Any) -> None:
    """The checks above can fail: gate above up, as checkpoints have it, isn't the oracle's."""
    layer, batch = layer_and_batch(spec())
    given = as_step(arguments(prepared("flashinfer_trtllm_routed", layer, "nvfp4"), batch))
    swapped = up_above_gate(layer.gate_up)
    layer.gate_up.copy_(swapped)
    found = references._trtllm_fp4_block_scale_routed_moe_reference(**given)
    assert difference(found.double(), expected(layer, batch, "nvfp4")) > 0.2


def test_cutlass_bf16(references: Any) -> None:
    layer, batch = layer_and_batch(spec())
    given = arguments(prepared("flashinfer_cutlass", layer, "bf16"), batch)
    found = references._cutlass_fused_moe_reference(**given)
    assert difference(found.double(), expected(layer, batch, "bf16")) < _NEAR


def test_cute_dsl(references: Any) -> None:
    """This reference doesn't scale activated rows, while w2_alpha undoes that scaling."""
    layer, batch = layer_and_batch(spec())
    kernel = prepared("flashinfer_cutedsl", layer, "nvfp4")
    given = arguments(kernel, batch)
    found = references._cute_dsl_fused_moe_reference(**given, num_experts=4, top_k=2)
    undone = found.double() * float(given["fc2_input_scale"])
    assert difference(undone, expected(layer, batch, "nvfp4")) < _NEAR


class TestPreparation:
    """The library's preparation of weights, where it runs without a GPU, makes the same tensors."""

    @staticmethod
    def sizes(layer: Layer) -> dict[str, int]:
        sizes = layer.spec.geometry
        return {
            "num_local_experts": sizes.experts,
            "hidden_size": sizes.hidden_size,
            "intermediate_size": sizes.expert_width,
        }

    @staticmethod
    def same(ours: Tensor, theirs: Tensor) -> bool:
        return ours.shape == theirs.shape and torch.equal(
            ours.view(torch.uint8), theirs.view(torch.uint8)
        )

    @pytest.fixture
    def prepare(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """The library's module, its quantizing kernels replaced by our references."""
        from flashinfer import fp4_quantization
        from flashinfer.fused_moe import prepare
        from flashinfer.quantization import fp4_quantization as fp4
        from flashinfer.quantization import fp8_quantization as fp8

        def fp4_quantize(
            flat: Tensor, *, sf_use_ue8m0: bool, is_sf_swizzled_layout: bool, **_: Any
        ) -> tuple[Tensor, Tensor]:
            # All experts come at once; a scale for each is what we store.
            weights = flat.unflatten(0, (4, -1))
            if sf_use_ue8m0:
                mx = mxfp.quantize_mxfp4(weights)
                codes, scales = mx.codes, mx.scales
            else:
                nv = nvfp4.quantize(weights)
                codes, scales = nv.codes, nv.scales.view(torch.uint8)
            codes, scales = codes.flatten(0, 1), scales.flatten(0, 1)
            return codes, swizzle_128x4(scales) if is_sf_swizzled_layout else scales

        def mxfp8_quantize(weights: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
            found = mxfp.quantize_mxfp8(weights)
            return found.values, found.scales

        monkeypatch.setattr(fp4_quantization, "fp4_quantize", fp4_quantize)
        monkeypatch.setattr(fp4, "block_scale_interleave", swizzle_128x4)
        monkeypatch.setattr(fp8, "mxfp8_quantize", mxfp8_quantize)
        return prepare

    @pytest.mark.parametrize("scheme", ["nvfp4", "mxfp4"])
    def test_trtllm_fp4(self, prepare: Any, scheme: str) -> None:
        from flashinfer.fused_moe import QuantConfig, QuantFormat

        layer, _ = layer_and_batch(spec())
        kinds = {
            "nvfp4": QuantConfig(weight=QuantFormat.NVFP4, activation=QuantFormat.NVFP4),
            "mxfp4": QuantConfig(weight=QuantFormat.MXFP4, activation=QuantFormat.MXFP8),
        }
        theirs = prepare.prepare_trtllm_fp4_weights(
            up_above_gate(layer.gate_up), layer.down, quant=kinds[scheme], **self.sizes(layer)
        )
        ours = prepared("flashinfer_trtllm", layer, scheme).kernel.fixed
        for product in (1, 2):
            for name in (f"gemm{product}_weights", f"gemm{product}_weights_scale"):
                assert ours[name].dtype == theirs[name].dtype
                assert self.same(ours[name], theirs[name]), name

    def test_trtllm_mxfp8(self, prepare: Any) -> None:
        from flashinfer.fused_moe import QuantConfig, QuantFormat

        layer, _ = layer_and_batch(spec())
        theirs = prepare.prepare_trtllm_fp8_block_weights(
            up_above_gate(layer.gate_up),
            layer.down,
            quant=QuantConfig(weight=QuantFormat.MXFP8, activation=QuantFormat.MXFP8),
            **self.sizes(layer),
        )
        ours = prepared("flashinfer_trtllm", layer, "mxfp8").kernel.fixed
        for name, tensor in theirs.items():
            assert ours[name].dtype == tensor.dtype and self.same(ours[name], tensor), name

    def test_trtllm_fp8_block(self, prepare: Any) -> None:
        from flashinfer.fused_moe import QuantConfig, QuantFormat

        layer, _ = layer_and_batch(spec())
        theirs = prepare.prepare_trtllm_fp8_block_weights(
            up_above_gate(layer.gate_up),
            layer.down,
            quant=QuantConfig(weight=QuantFormat.DeepSeekFp8, activation=QuantFormat.DeepSeekFp8),
            **self.sizes(layer),
        )
        ours = prepared("flashinfer_trtllm", layer, "fp8_block").kernel.fixed
        for name, tensor in theirs.items():
            assert ours[name].dtype == tensor.dtype
            torch.testing.assert_close(ours[name].float(), tensor.float())

    def test_trtllm_bf16(self, prepare: Any) -> None:
        layer, _ = layer_and_batch(spec())
        theirs = prepare.prepare_trtllm_bf16_weights(
            up_above_gate(layer.gate_up), layer.down, **self.sizes(layer)
        )
        ours = prepared("flashinfer_trtllm", layer, "bf16").kernel.fixed
        for name, tensor in theirs.items():
            assert self.same(ours[name], tensor), name

    @pytest.mark.parametrize("backend", ["flashinfer_trtllm", "flashinfer_cutlass"])
    def test_fp8_multipliers(self, prepare: Any, backend: str) -> None:
        layer, _ = layer_and_batch(spec())
        scale = SCHEMES["fp8"].activation_scale
        tokens, activated = scale(CALIBRATION.tokens_amax), scale(CALIBRATION.activated_amax)
        assert tokens is not None and activated is not None
        ours = prepared(backend, layer, "fp8").kernel.fixed
        make = (
            prepare.prepare_cutlass_fp8_per_tensor_weights
            if backend == "flashinfer_cutlass"
            else prepare.prepare_trtllm_fp8_per_tensor_weights
        )
        theirs = make(
            up_above_gate(layer.gate_up),
            layer.down,
            hidden_states_scale_global=1 / tokens,
            intermediate_scale_global=1 / activated,
            **self.sizes(layer),
        )
        if backend == "flashinfer_cutlass":
            names = (
                "fc1_dequant_scale",
                "fc2_act_quant_scale",
                "fc2_dequant_scale",
                "fc1_act_dequant_scale",
            )
            for our, name in zip(ours["quant_scales"], names, strict=True):
                torch.testing.assert_close(our, theirs[name])
            return
        for name in (
            "output1_scales_scalar",
            "output1_scales_gate_scalar",
            "output2_scales_scalar",
        ):
            torch.testing.assert_close(ours[name], theirs[name])
        # Their weights are multiplied by an inverse, ours divided: a last bit may differ.
        equal = ours["gemm1_weights"].float() == theirs["gemm1_weights"].float()
        assert equal.float().mean() > 0.999

    def test_cute_dsl(self, prepare: Any) -> None:
        from flashinfer.fused_moe import QuantConfig, QuantFormat

        layer, _ = layer_and_batch(spec())
        theirs = prepare.prepare_cute_dsl_weights(
            up_above_gate(layer.gate_up),
            layer.down,
            quant=QuantConfig(weight=QuantFormat.NVFP4, activation=QuantFormat.NVFP4),
            **self.sizes(layer),
        )
        ours = prepared("flashinfer_cutedsl", layer, "nvfp4").kernel.fixed
        for name in ("w1_weight", "w1_weight_sf", "w2_weight", "w2_weight_sf"):
            mine, other = ours[name], theirs[name]
            assert mine.shape == other.shape and mine.stride() == other.stride(), name
            assert torch.equal(mine.view(torch.uint8), other.view(torch.uint8)), name
