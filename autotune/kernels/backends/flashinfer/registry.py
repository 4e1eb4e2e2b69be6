"""FlashInfer's backends. Importing it imports neither torch nor FlashInfer."""

from autotune.kernels.backends.flashinfer.cute_dsl import CuteDslBackend
from autotune.kernels.backends.flashinfer.cutlass import CutlassBackend
from autotune.kernels.backends.flashinfer.trtllm import TrtllmBackend
from autotune.kernels.backends.protocol import Backend, EngineBackend

FLASHINFER_BACKENDS: tuple[Backend, ...] = (
    CutlassBackend(),
    TrtllmBackend(
        "flashinfer_trtllm",
        stands_for=(
            EngineBackend("sglang", "flashinfer_trtllm"),
            # SGLang's name for the same path with MXFP4 weights, gpt-oss's.
            EngineBackend("sglang", "flashinfer_mxfp4"),
            EngineBackend("vllm", "flashinfer_trtllm"),
        ),
        routes=True,
    ),
    TrtllmBackend(
        "flashinfer_trtllm_routed",
        stands_for=(EngineBackend("sglang", "flashinfer_trtllm_routed"),),
        routes=False,
    ),
    CuteDslBackend(),
)
