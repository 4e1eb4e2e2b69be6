from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autotune.engines.base import Failure
from autotune.engines.sglang.failure_rows import ROWS
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


def test_a_healthy_log_tells_of_no_failure() -> None:
    assert read_failure("") is None
    assert read_failure(HARMLESS) is None


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


@pytest.mark.parametrize("message", UNSUPPORTED)
@pytest.mark.parametrize("told_by", [scheduler, main_program])
def test_recognises_what_cannot_run(message: str, told_by: Callable[[str], str]) -> None:
    found = failure(HARMLESS + told_by(message) + SIGQUIT)
    assert found.status == "unsupported"
    assert message[:150] in found.reason


@pytest.mark.parametrize(
    "supports",
    [
        "FlashInfer Cutlass MOE supports only: 'modelopt_fp4', 'modelopt_fp8'",
        "FlashInfer CuteDSL MOE currently supports only: 'modelopt_fp4'",
        "FlashInfer TRTLLM MOE supports only: 'modelopt_fp4'",
        "FlashInfer TRTLLM routed MOE supports only: 'fp8', 'mxfp8'",
    ],
)
def test_a_refused_quantization_is_told_with_both_its_lines(supports: str) -> None:
    message = f"AssertionError: Invalid quantization 'awq'. \n{supports}, or bfloat16 (None)."
    found = failure(HARMLESS + main_program(message))
    assert found.status == "unsupported"
    assert found.reason == (
        "the MoE runner doesn't take this model or quantization: AssertionError: Invalid "
        f"quantization 'awq'. {supports}, or bfloat16 (None)."
    )


def test_a_kernel_package_that_cannot_load_spans_lines() -> None:
    message = (
        "ImportError: \n[sgl_kernel] CRITICAL: Could not load any common_ops library!\n\n"
        "Attempted locations:\n1. Architecture-specific pattern search: ...\n"
    )
    found = failure(scheduler(message))
    assert found.status == "unsupported" and "Could not load any common_ops" in found.reason


@pytest.mark.parametrize("program", ["sglang serve", "launch_server.py"])
def test_argparse_refusals(program: str) -> None:
    usage = f"usage: {program} [-h] --model-path MODEL_PATH\n                    [--nccl-port P]\n"
    choice = "argument --moe-runner-backend: invalid choice: 'x' (choose from 'auto', 'triton')"
    found = failure(f"{usage}{program}: error: {choice}\n")
    assert found.status == "unsupported" and found.reason.endswith(f": error: {choice}")
    for refused in ("unrecognized arguments: --bogus 1", "argument --tp: invalid int value: 'x'"):
        found = failure(f"{usage}{program}: error: {refused}\n")
        assert found.status == "launch_failed"
        assert found.reason == f"the command line is refused: {program}: error: {refused}"


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        (LOADING, " while loading the weights"),
        (POOLS, " while allocating the KV cache"),
        (START, ""),
        (SERVING + CAPTURE, " while serving"),  # a graph's replay
    ],
)
def test_out_of_memory_is_told_with_its_stage(frames: str, stage: str) -> None:
    found = failure(HARMLESS + scheduler(f"torch.OutOfMemoryError: {OOM}", frames=frames) + SIGQUIT)
    assert found.status == "oom"
    assert found.reason == f"out of memory{stage}: torch.OutOfMemoryError: {OOM}"


def capture_failed(first: str, then: str) -> str:
    chained = (
        f"{first}\n{DURING}Traceback (most recent call last):\n{START}"
        f"Exception: Capture cuda graph failed: {then}\n{POSSIBLE}"
    )
    return scheduler(chained, frames=CAPTURE) + SIGQUIT


def test_out_of_memory_at_graph_capture() -> None:
    found = failure(capture_failed(f"torch.OutOfMemoryError: {OOM}", OOM))
    assert found.status == "oom"
    assert (
        found.reason == f"out of memory while capturing CUDA graphs: torch.OutOfMemoryError: {OOM}"
    )
    # The first one counts, whatever the capture's end makes of it.
    found = failure(
        capture_failed(
            f"torch.OutOfMemoryError: {OOM}",
            "CUDA error: operation failed due to a previous error during capture",
        )
    )
    assert found.status == "oom"


def test_a_graph_capture_that_fails_otherwise_is_not_out_of_memory() -> None:
    for first, then, status in (
        ("RuntimeError: bad shape", "bad shape", "launch_failed"),
        (
            "RuntimeError: CUDA error: operation not permitted when stream is capturing",
            "CUDA error: operation not permitted when stream is capturing",
            "launch_failed",
        ),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "CUDA error: no kernel image is available for execution on the device",
            "unsupported",
        ),
    ):
        found = failure(capture_failed(first, then))
        assert found.status == status, found
        assert then in found.reason and "Possible" not in found.reason


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
            "Current value: mem_fraction_static=0.5",
            "no memory is left for the KV cache",
        ),
        (
            "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 9 "
            "tokens.",
            "the KV cache ran full",
        ),
        ("ValueError: Not enough host memory available. Requesting 90.00 GB", "out of host memory"),
        (f"{NCCL}Cuda failure 2 'out of memory'", "out of memory"),
    ],
)
def test_memory_that_runs_out_elsewhere(message: str, kind: str) -> None:
    found = failure(scheduler(message))
    assert found.status == "oom" and found.reason.startswith(f"{kind}: ")


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (scheduler(f"{NCCL}Cuda failure 999 'unknown error'"), "communication"),
        (
            scheduler(
                "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for "
                "details)"
            ),
            "communication",
        ),
        (
            "[rank1]:[E1202 10:00:00.000000000 ProcessGroupNCCL.cpp:685] [Rank 1] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, Timeout(ms)=600000)"
            " ran for 600011 milliseconds before timing out.\n",
            "communication",
        ),
        (
            "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  "
            "[PG ID 2 PG GUID 3 Rank 1] Process group watchdog thread terminated with exception: "
            "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4)\n"
            "Fatal Python error: Aborted\n",
            "communication",
        ),
        (
            "[2026-12-02 10:00:00] ERROR:    [Errno 98] error while attempting to bind on address "
            "('127.0.0.1', 30000): address already in use\n",
            "a port is in use",
        ),
        (
            main_program(
                "ValueError: nccl_port at 30001 is not available in 30 seconds. nccl_port is used "
                "by a process already. process.name()='python'"
            ),
            "a port is in use",
        ),
        (
            scheduler(
                "torch.distributed.DistNetworkError: The server socket has failed to listen on any "
                "local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, "
                "message: address already in use"
            ),
            "a port is in use",
        ),
        (
            main_program("OSError: /m does not appear to have a file named config.json. Checkout"),
            "the checkpoint",
        ),
        (
            scheduler("RuntimeError: Cannot find any model weights with `/m`", frames=LOADING),
            "the checkpoint",
        ),
        (
            scheduler("RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied"),
            "other processes",
        ),
        (scheduler("RuntimeError: Ninja build failed. Ninja output:\n..."), "a kernel can't be"),
    ],
)
def test_recognises_a_failed_launch(log: str, kind: str) -> None:
    found = failure(HARMLESS + log + SIGQUIT)
    assert found.status == "launch_failed" and found.reason.startswith(kind)


def test_a_missing_checkpoint_is_told_from_a_chain_of_exceptions() -> None:
    hub = f'  File "{PACKAGES}/transformers/utils/hub.py", line 537, in cached_files\n'
    message = "Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/nonexist/model'."
    log = (
        f"Traceback (most recent call last):\n{hub}huggingface_hub.errors.HFValidationError: "
        f"{message}\n{CAUSED}Traceback (most recent call last):\n{MAIN}{hub}OSError: {message}\n"
    )
    found = failure(HARMLESS + log)
    assert found.status == "launch_failed"
    assert found.reason.startswith("the checkpoint can't be loaded: huggingface_hub.errors.HFVal")


@pytest.mark.parametrize(
    "message",
    [
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\nCUDA kernel "
        "errors might be asynchronously reported at some other API call",
        "RuntimeError: CUDA error: device-side assert triggered",
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`",
    ],
)
def test_recognises_a_crash(message: str) -> None:
    found = failure(HARMLESS + scheduler(message, frames=SERVING))
    assert found.status == "crashed" and found.reason.endswith(message.partition("\n")[0])


def test_a_hang_that_the_watchdog_ends() -> None:
    log = (
        "[2026-12-02 10:00:00 TP0] Pyspy dump for PID 41:\n"
        'Thread 41 (active): "MainThread"\n    synchronize (torch/cuda/streams.py:231)\n'
        "[2026-12-02 10:00:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, "
        "self.soft=False)\n\n[2026-12-02 10:00:05] SIGQUIT received. signum=<Signals.SIGQUIT: 3>, "
        "frame=<frame at 0x7f>. It usually means one child failed.\n"
    )
    found = failure(HARMLESS + log)
    assert found.status == "crashed"
    assert found.reason.endswith(
        "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"
    )


DIED = "RuntimeError: Rank 0 scheduler died during initialization (exit code: {})."
DIED += " If exit code is -9 (SIGKILL), a common cause is the OS OOM killer."


@pytest.mark.parametrize(
    ("log", "status"),
    [
        (main_program(DIED.format(-9)), "oom"),
        (main_program(DIED.format(-11)), "crashed"),
        (main_program(DIED.format(1)), "launch_failed"),
        (
            "[2026-12-02 10:00:00] Subprocess scheduler_0 (pid=7) crashed with exit code -9. "
            "Triggering SIGQUIT for cleanup...\n",
            "oom",
        ),
        (
            "[2026-12-02 10:00:00 DP0] Scheduler or DataParallelController 7 terminated with -6\n",
            "crashed",
        ),
        (SIGQUIT, "launch_failed"),
        (
            "[2026-12-02 10:00:05] SIGQUIT received. signum=<Signals.SIGQUIT: 3>, frame=<f>. It "
            "usually means one child failed.\n",
            "crashed",
        ),
    ],
)
def test_a_death_without_a_cause_counts_only_alone(log: str, status: str) -> None:
    assert failure(HARMLESS + log).status == status
    cause = scheduler("ModuleNotFoundError: No module named 'deep_ep'")
    for both in (cause + log, log + cause):
        assert failure(both).status == "unsupported"


def test_the_first_cause_wins_over_later_ones_and_over_other_ranks() -> None:
    nccl = scheduler(f"{NCCL}Cuda failure 999 'unknown error'", rank=" TP1")
    oom = scheduler(f"torch.OutOfMemoryError: {OOM}", frames=LOADING, rank=" DP1 TP3 EP3")
    illegal = scheduler("RuntimeError: CUDA error: an illegal memory access was encountered")
    assert failure(oom + illegal + nccl).status == "oom"
    assert failure(illegal + SIGQUIT + oom).status == "crashed"
    assert failure(nccl + nccl + oom + SIGQUIT).status == "oom"


def test_an_exception_that_no_row_knows_is_told_as_it_is() -> None:
    nccl = scheduler(f"{NCCL}Cuda failure 999 'unknown error'", rank=" TP1")
    unknown = "KeyError: 'model.layers.0.mlp.experts.w13_weight'"
    found = failure(HARMLESS + scheduler(unknown, frames=LOADING) + nccl + SIGQUIT)
    assert found == Failure(
        status="launch_failed", reason=f"the server stopped on an exception: {unknown}"
    )
    assert failure(scheduler(unknown, frames=SERVING)).status == "crashed"
    assert read_failure(main_program("KeyboardInterrupt")) is None


def test_a_log_that_begins_inside_a_traceback() -> None:
    rest = f'duler.py", line 6362, in run\n{LOADING}torch.OutOfMemoryError: {OOM}\n\n'
    assert failure(rest + SIGQUIT).reason.startswith("out of memory while loading the weights: ")


def test_what_other_processes_print_is_no_part_of_a_message() -> None:
    unknown = f"Traceback (most recent call last):\n{MAIN}KeyError: 'w13'\n"
    watchdog = "[rank1]:[E1202 10:00:00.000000000 ProcessGroupNCCL.cpp:685] NCCL error\n"
    assert failure(unknown + watchdog).reason.endswith("on an exception: KeyError: 'w13'")
    assert failure(watchdog + unknown).reason.startswith("communication")
    thrown = "  what():  CUDA error: an illegal memory access was encountered\n"
    assert failure(thrown).status == "crashed"
    assert failure(f"Traceback (most recent call last):\n{MAIN}{thrown}").status == "crashed"


def test_torch_prefixes_and_lines_of_other_processes_between() -> None:
    log = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "<string>", line 1, in <module>\n'
        "[2026-12-02 10:00:00 TP2] Load weight begin. avail mem=100.00 GB\n"
        "Loading safetensors checkpoint shards:   0% Completed | 0/8 [00:00<?, ?it/s]\n"
        f"[rank1]: torch.OutOfMemoryError: {OOM}\n"
    )
    assert failure(log).status == "oom"


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 20_000_000,
        "[2026-12-02 10:00:00] server_args=" + "requires SM a." * 400_000,
        "a." * 2_500_000,
        "A" * 5_000_000,
        "x: error" * 600_000,
        scheduler("ImportError: " + "flashinfe requires SM " * 100) * 10_000,
        scheduler("ValueError: " + "Invalid quantization '' requires \n" * 300) * 1_000,
        scheduler("\n".join(["RuntimeError: Capture Pre-permute function for requires"] * 12))
        * 9_000,
        "Traceback (most recent call last):\n" * 500_000,
        HARMLESS * 3_000,
    ],
    ids=range(10),
)
def test_a_huge_log_is_read_to_its_end(text: str) -> None:
    """Hostile ones too: no pattern may go back and forth over them, or this never ends."""
    found = read_failure(text)
    assert found is None or len(found.reason) <= 300


def test_the_first_cause_counts_however_much_the_ranks_say_afterwards() -> None:
    cause = scheduler(f"torch.OutOfMemoryError: {OOM}")
    later = scheduler("RuntimeError: NCCL error: unhandled system error") * 8_000
    assert 2**20 < len(later) < 2**22 - len(cause)
    assert failure(cause + later).status == "oom"


FRAGMENTS = [
    *UNSUPPORTED,
    "Traceback (most recent call last):",
    "[2026-12-02 10:00:00 TP0] ",
    "Scheduler hit an exception: ",
    '  File "x.py", line 1, in <module>',
    DURING,
    NCCL,
    POSSIBLE,
    "\x1b[31m\u202e\ud800",
    "\r",
]


@given(st.text() | st.lists(st.sampled_from(FRAGMENTS) | st.text()).map("\n".join))
@example(scheduler("ValueError: \x1b[31m\u202e\ud800" + "x" * 2000))
def test_any_text_is_read_without_an_error(log: str) -> None:
    found = read_failure(log)
    if found is not None:
        assert found.reason.isprintable() and 0 < len(found.reason) <= 300


def test_every_kind_is_told_once() -> None:
    assert len({row.kind for row in ROWS}) == len(ROWS)
