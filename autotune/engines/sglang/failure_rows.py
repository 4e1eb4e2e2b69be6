"""The table behind `failures`: which message of SGLang means which failure.

A new message is one more pattern here. The texts were read in SGLang 0.5.17, 0.5.20, 0.5.22
and 0.5.23; a comment names the file (relative to ``sglang/srt``) and, where a text isn't in all
four, the versions. `(*)`: in 0.5.17 the check lies in server_args.py.
"""

import re
from typing import NamedTuple

from autotune.records.schema import LaunchStatus

# How telling a row is: 0 a cause; 1 a cause or a peer's death seen from here; 2 only that one died.
CAUSE, PERHAPS, SYMPTOM = range(3)
OUT_OF_MEMORY = "out of memory"


class Row(NamedTuple):
    status: LaunchStatus
    kind: str
    pattern: re.Pattern[str]
    rank: int


def _row(status: LaunchStatus, kind: str, *patterns: str, rank: int = CAUSE) -> Row:
    return Row(status, kind, re.compile("|".join(patterns), re.DOTALL), rank)


# The first row whose pattern is found in a message names it. `.` crosses lines: bound it.
ROWS = (
    _row(
        "oom",
        OUT_OF_MEMORY,
        r"OutOfMemoryError|(?:CUDA|HIP) out of memory",  # torch
        r"CUDA (?:driver )?error: out of memory|CUBLAS_STATUS_ALLOC_FAILED",  # torch
        r"Cuda failure (?:\d+ )?'out of memory'",  # NCCL's last error: the buffers didn't fit
    ),
    _row(
        "oom",
        "no memory is left for the KV cache",
        r"Not enough memory\. Please try to increase",  # model_executor/pool_configurator.py
        r"leaves no room for the full",  # the same file, RuntimeError
        r"max_running_request is zero",  # managers/tp_worker.py, assert
    ),
    _row(
        "oom",
        "the KV cache ran full",
        r"(?:Prefill|Decode) out of memory\. Try to lower",  # mem_cache/allocation.py or common.py
        r"alloc_req_slots runs out of memory",  # the same
    ),
    _row(
        "oom",
        "out of host memory",
        r"Not enough host memory",  # mem_cache/pool_host/base.py
        r"\bMemoryError\b|DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory",
    ),
    _row(
        "launch_failed",
        "other processes hold memory of the GPUs",
        r"The memory capacity is unbalanced",  # distributed/bootstrap.py, RuntimeError
    ),
    _row(
        "unsupported",
        "no kernel for this GPU",
        r"no kernel image is available|cudaErrorNoKernelImageForDevice",  # CUDA
        r"\[sgl_kernel\] CRITICAL: Could not load",  # sgl_kernel/load_utils.py
        r"BackendSupportedError|does not support compute capability",  # flashinfer/utils.py
        r"RuntimeError: .{0,200}Unsupported architecture",  # flashinfer's trtllm-gen runners
        # layers/moe/moe_runner/runner.py (hpc_ops), arg_groups/mega_moe_hook.py (from 0.5.22),
        # layers/quantization/*, arg_groups/*: "requires an SM90 (Hopper) GPU", ...
        r"(?i:(?:requires?|needs) .{0,60}\b(?:SM ?\d|Hopper|Blackwell|compute capability))",
        r"(?i:only supported on .{0,60}\b(?:SM ?\d|Hopper|Blackwell|AMD GPUs))",
        r"(?i:not supported on .{0,20}\b(?:SM ?\d|Hopper|Blackwell|compute capability|this GPU))",
        r"out of resource: shared memory",  # triton/runtime/errors.py
        r"unavailable in this build",  # layers/moe/moe_runner/deep_gemm.py, assert (from 0.5.20)
        r"is not supported for the current GPU",  # model_loader/loader.py, ValueError
        r"SGLang only supports sm75",  # model_executor/model_runner_components/load_model_utils.py
    ),
    _row(
        "unsupported",
        "the a2a backend and the MoE runner don't go together",
        r"requires a fused func for a2a backend",  # layers/moe/moe_runner/runner.py
        r"(?:Pre|Post)-permute function for .{1,200} is not registered",  # .../moe_runner/base.py
        r"flashinfer_cutedsl supports moe_a2a_backend=",  # arg_groups/moe_hook.py (*), assert
        r"flashinfer_cutedsl (?:per-token|FP4 MoE only supports)",  # the same, ValueError
        # The same: a2a flashinfer's assertions (0.5.17 and 0.5.20 "is only supported with",
        # 0.5.22 "with --attn-dp-size", 0.5.23 "requires"), and its token budget.
        r"Flash[Ii]nfer MoE A2A (?:is|with|requires|per-rank)",
        # layers/moe/moe_runner/*.py and token_dispatcher/*.py, at the first batch
        r"FlashInfer A2A (?:\+|with an|runtime token)|pplx MoE A2A backend|Unsupported a2a backend",
        r"--flashinfer-a2a-dispatch-type .{0,10}requires",  # the same (from 0.5.20)
        r"DeepEP v2 (?:MoE|per-rank)|deepep_v2 requires",  # the same, runner.py (from 0.5.20)
        r"moe_a2a_backend='pplx' ",  # the same
        r"--moe-a2a-backend megamoe has no",  # arg_groups/mega_moe_hook.py (from 0.5.22)
    ),
    _row(
        "unsupported",
        "the MoE runner doesn't take this model or quantization",
        r"Invalid quantization '.{0,60}'\.\s+FlashInfer .{0,20}MOE ",  # arg_groups/moe_hook.py (*)
        # arg_groups/overrides.py, layers/quantization/nvfp4_online.py
        r"--quantization nvfp4_online (?:is supported|supports) ",
        r"utlass MoE is only supported with",  # moe_hook.py (ep_size), overrides.py (fp8, mxfp8)
        # layers/moe/moe_runner/*.py, layers/moe/fused_moe_triton/layer.py, layers/quantization/*
        r"hpc_ops was requested|hpc_ops (?:MoE runner backend )?(?:only|requires|runs|does)",
        r"Triton MoE runner does not support|moe_runner_backend=\w{1,40} (?:is not|on SM)",
        r"Unsupported moe_runner_backend|no MoeRunner for backend|supports moe_runner_backend=",
        r"does not support NVFP4 quantization with|is not supported for quantization method",
        r"DeepGEMM MegaMoE ",  # layers/moe/mega_moe.py (from 0.5.22): the model's widths
        r"is not divisible by\s+(?:weight quantization|min_thread|group_size)",  # the ranks' shares
        # What else is refused with the advice to take another runner.
        r"(?i:(?:use|another|drop|remove|with|need) --moe-runner-backend)",
        r"silu_mul_keep_fp32 is currently supported only by",  # the same (from 0.5.22)
        r"Unsupported runner backend: ",  # the same
        r"FlashInfer MegaMOE ",  # arg_groups/moe_hook.py, runner.py (from 0.5.20)
        r"No MoeRunnerBackend member|MoE runner backend .{1,80} is neither",  # layers/moe/utils.py
        r"does not match the quantization",  # configs/model_config.py, ValueError
        r"Invalid quantization method",  # layers/quantization/__init__.py
        r"Model architectures .{1,200} are not supported",  # models/registry.py
    ),
    _row(
        "unsupported",
        "the MoE runner doesn't take this expert parallel size",
        r"The expert parallel size must be 1 or the same",  # arg_groups/moe_hook.py (*), assert
    ),
    _row(
        "unsupported",
        "a kernel library is missing or broken",
        # layers/moe/token_dispatcher/*.py, layers/moe/flashinfer_trtllm_moe.py, ...
        r"^(?:ModuleNotFoundError|ImportError): (?i:.{0,200}?(?:cutlass|cutedsl|deep_?ep|deep_?gemm"
        r"|flash_?(?:infer|mla|attn)|hpc_ops|mooncake|sgl(?:ang)?_kernel|triton_kernels"
        r"|\b(?:aiter|humming|mori|nixl|pplx)))",
        r"backend requires flashinfer to be",  # layers/moe/moe_runner/flashinfer_cutlass.py
        # utils/common.py, assert_pkg_version; entrypoints/engine.py names the packages
        r"is less than the minimum required version|with minimum required version",
    ),
    _row(
        "launch_failed",
        "a kernel can't be compiled here",
        r"Ninja build failed|Could not find nvcc",  # flashinfer/jit/cpp_ext.py
        r"PTXASError|Error building extension",  # triton, torch
    ),
    _row(
        "unsupported",
        "this version doesn't know an argument's value",
        r": error: argument .{1,200}: invalid choice: ",  # argparse
    ),
    _row(
        "launch_failed",
        "the command line is refused",
        r"^(?:sglang(?: \w+)?|[\w.-]{1,60}\.py): error: ",  # argparse
    ),
    _row(
        "crashed",
        "a kernel crashed",
        r"an illegal memory access|illegal instruction|misaligned address",  # CUDA
        r"device-side assert triggered|unspecified launch failure",  # CUDA
    ),
    _row(
        "launch_failed",
        "the checkpoint can't be loaded",
        # transformers and huggingface_hub
        r"does not appear to have a file named|Repo id must (?:be in the form|use)",
        r"is not a local folder and is not a valid model|Unrecognized model in ",
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|RepositoryNotFoundError|GatedRepoError",
        r"gated repo|We couldn't connect to 'https://hugging|SafetensorError",
        r"Cannot find any model weights with",  # model_loader/loader.py, RuntimeError
    ),
    _row(
        "launch_failed",
        "a port is in use",
        r"\[Errno 98\]|(?i:address already in use)|EADDRINUSE",  # uvicorn, zmq, torch
        r" at \d{1,6} is not available in \d{1,6} seconds",  # utils/network.py, wait_port_available
        r"Could not bind port",  # utils/network.py
    ),
    _row(
        # Not launch_failed: only the hard watchdog ends a server, and that one starts when the
        # server is up; it guards the batches.
        "crashed",
        "a batch hung until the watchdog ended the server",
        r"\w watchdog timeout \(.{0,60}soft=False",  # utils/watchdog.py, logger.error
    ),
    _row(
        "launch_failed",
        "communication between the GPUs failed",
        r"NCCL (?:error|watchdog)|nccl\w{0,20}Error\b|ncclInvalid|Dist(?:Backend|Network)Error",
        r"Watchdog caught collective operation timeout|Process group watchdog thread",  # torch
        r"gloo/transport|TCPStore",  # torch: a peer hung up
        rank=PERHAPS,
    ),
    _row(
        "launch_failed",
        "capturing CUDA graphs failed",
        # model_executor/runner/{decode,prefill}_cuda_graph_runner.py, speculative/*
        r"Capture .{1,40} failed: ",
        r"stream is capturing|error during capture|cudaErrorStreamCapture",  # CUDA
    ),
    _row("crashed", "a CUDA call failed", r"CUDA (?:driver )?error|CUBLAS_STATUS_|cudaError"),
    # Its abort may follow a failure of NCCL that C++ has printed above it.
    _row("crashed", "a process crashed", r"Fatal Python error: ", rank=PERHAPS),
    _row(
        "oom",
        "a process was killed, as a host does that runs out of memory",
        # entrypoints/engine.py, _scheduler_died_error; utils/watchdog.py, SubprocessWatchdog;
        # managers/data_parallel_controller.py
        r"\(exit code: -9\)|crashed with exit code -9\b|terminated with -9\b",
        rank=SYMPTOM,
    ),
    _row(
        "crashed",
        "a process of the server died",
        r"\(exit code: -\d|crashed with exit code|terminated with -\d",  # the same
        r"SIGQUIT received",  # managers/tokenizer_manager.py, running_phase_sigquit_handler
        rank=SYMPTOM,
    ),
    _row(
        "launch_failed",
        "a process of the server ended during start-up",
        r"died during initialization|terminated with \d",  # the same
        r"Received sigquit from a child",  # entrypoints/engine.py, launch_phase_sigquit_handler
        r"Initialization failed\. Please see",  # entrypoints/engine.py, _wait_for_scheduler_ready
        r"other ranks that didn't finish loading",  # .../load_model_utils.py, ValueError
        rank=SYMPTOM,
    ),
)
