"""Logs of failed SGLang launches, put together as SGLang prints them."""

from autotune.engines.base import Failure
from autotune.engines.sglang.failures import read_failure

PACKAGES = "/opt/venv/lib/python3.12/site-packages"
SRT = f"{PACKAGES}/sglang/srt"
# Frames as Python prints them: where an exception passed through, innermost last.
START = f'  File "{SRT}/managers/scheduler.py", line 6362, in run_scheduler_process\n'
SERVING = f'{START}  File "{SRT}/managers/scheduler.py", line 2061, in event_loop_overlap\n'
LOADING = f'{START}  File "{SRT}/model_executor/model_runner.py", line 1270, in load_model\n'
POOLS = f'{START}  File "{SRT}/model_executor/model_runner.py", line 980, in alloc_memory_pool\n'
CAPTURE = (
    f'  File "{SRT}/model_executor/runner/decode_cuda_graph_runner.py", line 601, in __init__\n'
    "    self.capture()\n"
)
MAIN = (
    '  File "<frozen runpy>", line 198, in _run_module_as_main\n'
    '  File "<frozen runpy>", line 88, in _run_code\n'
    f'  File "{PACKAGES}/sglang/launch_server.py", line 84, in <module>\n'
)
SIGQUIT = (
    "[2026-12-02 10:00:09] Received sigquit from a child process. It usually means the child "
    "failed.\n"
)
OOM = (
    "CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 139.80 GiB of "
    "which 101.00 MiB is free."
)
NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/"
    "NCCLUtils.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version "
    "2.27.7\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
)
POSSIBLE = (
    "Possible solutions:\n"
    "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)\n"
    "3. disable decode CUDA graph by --cuda-graph-backend-decode=disabled. (Not recommended. Huge "
    "performance loss)\n"
    "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose \n"
)
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
# All from logger calls of SGLang 0.5.23 that a server survives.
HARMLESS = f"""\
[2026-12-02 09:59:00] server_args=ServerArgs(model_path='/models/CUDA out of memory', nccl_port=None, moe_runner_backend='triton', chat_template='ValueError: Address already in use', watchdog_timeout=300, soft_watchdog_timeout=None)
[2026-12-02 09:59:01 TP0] Init torch distributed begin.
[2026-12-02 09:59:01 TP0] sglang is using nccl==2.27.7
[2026-12-02 09:59:01 TP0] Setup Custom allreduce failed with CUDA error: invalid argument. To silence this warning, specify --disable-custom-all-reduce explicitly.
[2026-12-02 09:59:01 TP0] [AR] All-reduce call path: NCCL (custom AR disabled)
[2026-12-02 09:59:02 TP0] The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=100.0, local_gpu_memory=139.0, local_gpu_memory * 0.9=125.1
[2026-12-02 09:59:02 TP0] Failed to import from custom_ar with ImportError('libcudart.so.12: cannot open shared object file')
[2026-12-02 09:59:03 TP0] PyMscclpp is unavailable because its dependencies failed to import: No module named 'flashinfer'
[2026-12-02 09:59:03 TP0] If you hit GPU OOM issue, please adjust the memory fraction
[2026-12-02 09:59:03] Port 30000 is already in use, trying port 30001
[2026-12-02 09:59:04] The port 30001 is in use, but we could not find the process that uses it.
[2026-12-02 09:59:04 TP0] Watchdog Scheduler initialized.
[2026-12-02 09:59:04 TP0] Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)
[2026-12-02 09:59:05] Failed to execute general plugin: autotune
Traceback (most recent call last):
  File "{SRT}/plugins/__init__.py", line 130, in load_plugins
    func()
ModuleNotFoundError: No module named 'deep_ep'
[2026-12-02 09:59:06] post-warmup freeze_gc failed
Traceback (most recent call last):
  File "{SRT}/entrypoints/http_server.py", line 2565, in _wait_and_warmup
requests.exceptions.ConnectionError: Broken pipe: CUDA error: an illegal memory access
[2026-12-02 09:59:06] retract_decode: aborted last request 12 due to OOM
[2026-12-02 09:59:07] INFO:     127.0.0.1:41000 - "POST /generate HTTP/1.1" 500
[2026-12-02 09:59:07] ERROR:    Exception in ASGI application
Traceback (most recent call last):
  File "/opt/venv/lib/python3.12/site-packages/uvicorn/protocols/http/h11_impl.py", line 403, in run_asgi
torch.OutOfMemoryError: {OOM}

[rank0]:[W1202 09:59:08.000000000 ProcessGroupNCCL.cpp:1524] Warning: WARNING: destroy_process_group() was not called before program exit, NCCL error
/opt/venv/lib/python3.12/site-packages/torch/cuda/__init__.py:235: UserWarning: GPU with CUDA capability sm_61: no kernel image is available
Loading safetensors checkpoint shards: 100% Completed | 8/8 [00:01<00:00,  5.33it/s]
"""  # noqa: E501


def scheduler(message: str, *, frames: str = START, rank: str = " TP0") -> str:
    """What managers/scheduler.py, run_scheduler_process, logs of an exception."""
    return (
        f"[2026-12-02 10:00:00{rank}] Scheduler hit an exception: "
        f"Traceback (most recent call last):\n{frames}{message}\n\n"
    )


def main_program(message: str) -> str:
    return f"Traceback (most recent call last):\n{MAIN}{message}\n"


def failure(log: str) -> Failure:
    found = read_failure(log)
    assert found is not None, log
    assert found.reason.isprintable() and len(found.reason) <= 300
    return found


# Messages of launches that can't work.
UNSUPPORTED = [
    "NotImplementedError: Runner backend MoeRunnerBackend.FLASHINFER_TRTLLM_ROUTED requires a "
    "fused func for a2a backend deepep, but none is registered.",
    "AssertionError: Pre-permute function for deepep_normal to triton is not registered",
    "AssertionError: The expert parallel size must be 1 or the same as the tensor parallel size",
    "AssertionError: flashinfer_cutedsl supports moe_a2a_backend='none', 'deepep', or "
    "'flashinfer', got 'mooncake'.",
    "AssertionError: FP8/MXFP8 Cutlass MoE is only supported with ep_size == 1",
    "ValueError: --quantization nvfp4_online is supported only on NVIDIA Blackwell SM100/SM103 "
    "GPUs.",
    "ValueError: --quantization nvfp4_online supports only --moe-runner-backend flashinfer_trtllm "
    "or flashinfer_trtllm_routed, or flashinfer_cutedsl; ...",
    "ValueError: --moe-runner-backend hpc_ops requires an SM90 (Hopper) GPU (the HPC-Ops kernels "
    "ship sm90a only), got sm100.",
    "ValueError: --moe-runner-backend hpc_ops was requested, but this MoE layer's quantization "
    "method selected the 'triton' runner (hpc_ops only supports FP8 ...",
    "ValueError: FlashInfer MegaMOE currently supports only MXFP8, ModelOpt NVFP4, ...",
    "ValueError: FlashInfer MegaMOE currently requires an SM100-family CUDA device for all "
    "supported quantization formats.",
    "AssertionError: Flashinfer MoE A2A requires --attn-dp-size equal to --tp-size, except for "
    "Muse Spark TP4/EP4 or TP8/EP8 prefill sequence parallelism.",
    "AssertionError: Flashinfer MoE A2A is only supported with dp_size == tp_size and "
    "--enable-dp-attention",
    "ValueError: DeepEP v2 MoE currently supports only --moe-runner-backend deep_gemm. Got 'a'.",
    "NotImplementedError: Triton MoE runner does not support NVIDIA MXFP8; use "
    "--moe-runner-backend deep_gemm (or flashinfer_trtllm/cutlass).",
    "NotImplementedError: moe_runner_backend=cutlass is not supported for NVFP4 MoE.",
    "NotImplementedError: TRT-LLM per-tensor FP8 cannot consume materialized routing. Use "
    "--moe-runner-backend triton for this router.",
    "ValueError: The input_size of down's weight = 96 is not divisible by weight quantization "
    "block_k = 128.",
    "RuntimeError: flashinfer_cutlass MoE runner backend requires flashinfer to be installed.",
    "TypeError: FlashInfer A2A + DeepGEMM requires a BF16 dispatch payload, got torch.float8.",
    "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
    "flashinfer.utils.BackendSupportedError: trtllm_fp4_block_scale_moe does not support compute "
    "capability 90; supported compute capabilities: [100, 103]",
    "RuntimeError: Error in function 'TllmGenFmhaRunner' at /workspace/include/flashinfer/trtllm/"
    "fmha/fmhaRunner.cuh:30: Unsupported architecture",
    "ValueError: The quantization method mxfp4 is not supported for the current GPU. Minimum "
    "capability: 90. Current capability: 80.",
    "ModuleNotFoundError: No module named 'deep_gemm'",
    "ImportError: DeepEP is not available. Please install DeepEP package from "
    "https://github.com/deepseek-ai/deepep.",
    "ImportError: Can't import trtllm_fp8_block_scale_moe from flashinfer. Please check flashinfer "
    "version.",
    "Exception: flashinfer_python is installed with version 0.6.0, which is less than the minimum "
    "required version 0.7.2. Please uninstall the old version and ...",
]
