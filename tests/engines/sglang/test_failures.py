"""Each kind of failure is told by what SGLang prints of it."""

from collections.abc import Callable

import pytest

from autotune.engines.sglang.failures import read_failure
from tests.engines.sglang.logs import (
    CAPTURE,
    CAUSED,
    DURING,
    HARMLESS,
    LOADING,
    MAIN,
    NCCL,
    OOM,
    PACKAGES,
    POOLS,
    POSSIBLE,
    SERVING,
    SIGQUIT,
    START,
    UNSUPPORTED,
    failure,
    main_program,
    scheduler,
)


def test_a_healthy_log_tells_of_no_failure() -> None:
    assert read_failure("") is None
    assert read_failure(HARMLESS) is None


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
