"""Stored weights are the numbers that the oracle computes with; multipliers are as spelt out."""

import pytest
import torch

from autotune.kernels.backends.flashinfer.layouts import up_above_gate
from autotune.kernels.backends.flashinfer.scales import multipliers, swiglu
from autotune.kernels.backends.flashinfer.stored import Stored, stored_layer
from autotune.kernels.quantization import fp8, mxfp, nvfp4
from autotune.kernels.quantization.schemes import SCHEMES as FORMATS
from autotune.kernels.spec import GPT_OSS_SWIGLU, SWIGLU
from tests.kernels.backends.flashinfer.small import CALIBRATION, SCHEMES, layer_and_batch, spec


def numbers(stored: Stored, scheme: str) -> torch.Tensor:
    values = stored.values
    match scheme:
        case "fp8":
            return fp8.dequantize(fp8.FP8Tensor(values, stored.overall_scales()))
        case "fp8_block":
            return fp8.dequantize_blocks(fp8.FP8BlockTensor(values, stored.block_scales()))
        case "nvfp4":
            scales, overall = stored.block_scales(), stored.overall_scales()
            return nvfp4.dequantize(nvfp4.NVFP4Tensor(values, scales, overall))
        case "mxfp4":
            return mxfp.dequantize_mxfp4(mxfp.MXFP4Tensor(values, stored.block_scales()))
        case "mxfp8":
            return mxfp.dequantize_mxfp8(mxfp.MXFP8Tensor(values, stored.block_scales()))
    return values.float()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_stored_is_what_the_scheme_rounds_to(scheme: str) -> None:
    layer, _ = layer_and_batch(spec())
    stored = stored_layer(layer, scheme)
    rounded = FORMATS[scheme].round_weights
    assert torch.equal(numbers(stored.first, scheme), rounded(up_above_gate(layer.gate_up)))
    assert torch.equal(numbers(stored.second, scheme), rounded(layer.down))


@pytest.mark.parametrize(("scheme", "largest"), [("fp8", 448.0), ("nvfp4", 448.0 * 6)])
def test_multipliers(scheme: str, largest: float) -> None:
    layer, _ = layer_and_batch(spec())
    stored = stored_layer(layer, scheme)
    found = multipliers(stored, scheme, CALIBRATION)
    tokens = CALIBRATION.tokens_amax / largest
    activated = CALIBRATION.activated_amax / largest
    weights = layer.gate_up.float().abs().amax((1, 2)) / largest
    torch.testing.assert_close(found.first, weights * tokens)
    second = layer.down.float().abs().amax((1, 2)) / largest
    torch.testing.assert_close(found.second, second * activated)
    up, gate, down = found.trtllm
    torch.testing.assert_close(up * activated, gate)
    assert torch.equal(gate, found.first) and torch.equal(down, found.second)


def test_no_multipliers_without_static_scales() -> None:
    layer, _ = layer_and_batch(spec())
    with pytest.raises(ValueError, match="mxfp4 has no static"):
        multipliers(stored_layer(layer, "mxfp4"), "mxfp4", CALIBRATION)
    with pytest.raises(ValueError, match="no overall"):
        stored_layer(layer, "bf16").first.overall_scales()


def test_plain_swiglu_has_no_parameters() -> None:
    found = swiglu(SWIGLU, experts=4, device=torch.device("cpu"))
    assert (found.alpha, found.beta, found.limit) == (None, None, None)


def test_parameters_before_dequantization() -> None:
    by = torch.tensor([0.5, 0.25])
    found = swiglu(GPT_OSS_SWIGLU, experts=2, device=torch.device("cpu"), dequantizes=by)
    assert found.alpha is not None and found.beta is not None and found.limit is not None
    assert found.alpha.tolist() == pytest.approx([1.702, 1.702])
    assert found.beta.tolist() == [2.0, 4.0]
    assert found.limit.tolist() == [14.0, 28.0]
