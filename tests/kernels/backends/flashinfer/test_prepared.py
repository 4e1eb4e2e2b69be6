"""Binding a batch: the library is called, tuned first, and its answer cut to size."""

from typing import Any

import pytest
import torch

from autotune.kernels.backends.flashinfer import inputs
from tests.kernels.backends.flashinfer import emulation
from tests.kernels.backends.flashinfer.small import Quantizers, layer_and_batch, spec
from tests.kernels.backends.flashinfer.test_emulation import difference, expected, prepared

flashinfer = pytest.importorskip("flashinfer")


@pytest.fixture(autouse=True)
def quantizers(monkeypatch: pytest.MonkeyPatch) -> Quantizers:
    found = Quantizers()
    monkeypatch.setattr(inputs, "flashinfer", lambda: found.library)
    return found


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Put emulations in the functions' places; note of each call whether it is a tuning one."""
    from flashinfer import fused_moe
    from flashinfer.autotuner import AutoTuner

    calls: list[bool] = []

    def note() -> None:
        calls.append(bool(AutoTuner.get().is_tuning_mode))

    def cutlass(**given: Any) -> list[torch.Tensor]:
        note()
        return [emulation.cutlass(given).to(torch.bfloat16)]

    def routed(**given: Any) -> list[torch.Tensor]:
        note()
        found = emulation.trtllm("trtllm_fp4_block_scale_routed_moe", given)
        return [found.to(torch.bfloat16)]

    def bf16(**given: Any) -> torch.Tensor:
        note()
        return emulation.trtllm("trtllm_bf16_moe", given).to(torch.bfloat16)

    class Wrapper:
        def __init__(self, **given: Any) -> None:
            assert given["hidden_size"] == 256

        def run(self, **given: Any) -> torch.Tensor:
            note()
            return emulation.cute_dsl(given).to(torch.bfloat16)

    monkeypatch.setattr(fused_moe, "cutlass_fused_moe", cutlass)
    monkeypatch.setattr(fused_moe, "trtllm_fp4_block_scale_routed_moe", routed)
    monkeypatch.setattr(fused_moe, "trtllm_bf16_moe", bf16)
    monkeypatch.setattr(fused_moe, "CuteDslMoEWrapper", Wrapper)
    return calls


@pytest.mark.parametrize(
    ("backend", "scheme", "hidden"),
    [
        ("flashinfer_cutlass", "nvfp4", 256),
        ("flashinfer_cutlass", "mxfp8", 320),
        ("flashinfer_trtllm_routed", "nvfp4", 320),
        ("flashinfer_trtllm", "bf16", 256),
        ("flashinfer_cutedsl", "nvfp4", 256),
    ],
)
def test_bind(
    backend: str, scheme: str, hidden: int, called: list[bool], quantizers: Quantizers
) -> None:
    layer, batch = layer_and_batch(spec(hidden=hidden))
    call = prepared(backend, layer, scheme).bind(batch)
    assert called == [True]
    quantized = len(quantizers.calls)
    output = call()
    assert called == [True, False]
    # What an engine does in each forward pass is in the call.
    assert len(quantizers.calls) == 2 * quantized
    assert (output.dtype, output.shape) == (torch.bfloat16, (batch.tokens, hidden))
    assert output.is_contiguous()
    assert difference(output.double(), expected(layer, batch, scheme)) < 5e-3
