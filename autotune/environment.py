"""The fingerprint of where a run was measured: machine, GPU, versions, kernel-steering variables.

It is evidence beside the figures and fills in a decision's scope. Names of variables that look
like secrets are left out, whatever they hold.
"""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

import autotune
from autotune.decisions.arch import device_label
from autotune.decisions.scope import PLATFORM_VARIABLES

# What decides which kernels exist and how they are chosen.
_PACKAGES = (
    "deep-ep",
    "deep-gemm",
    "flashinfer-python",
    "msgspec",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-cutlass-dsl",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "sgl-kernel",
    "sglang",
    "sglang-kernel",
    "tensorrt-llm",
    "tokenizers",
    "torch",
    "transformers",
    "triton",
    "vllm",
)
# The ones among them that hold MoE kernels themselves: part of a decision's scope.
_KERNEL_LIBRARIES = (
    "deep-gemm",
    "flashinfer-python",
    "nvidia-cutlass-dsl",
    "sgl-kernel",
    "sglang-kernel",
    "torch",
    "triton",
)
# Variables that steer kernels: a backend measured under one setting isn't measured under another.
_KERNEL_VARIABLE = re.compile(
    r"USE_TRITON_W8A8_FP8_KERNEL|CK_MOE|(SGLANG|SGL|VLLM|FLASHINFER|TRTLLM|TLLM|NCCL|NVSHMEM|CUDA|CUBLAS|CUTLASS|CUTE_DSL|TILELANG|TORCHINDUCTOR|TRITON|TORCH|PYTORCH"
    r"|OMP|MKL|OPENBLAS|GOMP|KMP|HIP|AITER|DEEPEP|DEEP|DG)_[A-Z0-9_]+"
)
_SECRET = re.compile(
    r"(?<!PER_)TOKEN$|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE|_KEY$|AUTHORIZATION|COOKIE|^BEARER",
    re.I,
)
# Of those, the ones that say where files are, what is logged, who runs or which release an image
# holds, not how kernels run. SGLang's import sets DG_JIT_USE_NVRTC, from a variable of its own.
_PLACE = re.compile(
    r"_(HOME|PATH|DIR|CACHE|CACHE_DIR|ROOT|BASE|FOLDER|URL|HOST|ADDR|PORT|PREFIX|PLUGINS|RUN_ID)$"
    r"|_LOG(GING|S)?(_|$)|_DEBUG(_|$)|_HEALTH_|_WATCHDOG|_VERSION(_CHECK)?$"
    r"|^(CUDA|HIP)_(VISIBLE_DEVICES|DEVICE_ORDER)$|^DG_JIT_USE_NVRTC$"
)
# A place after all that steers: the tile sizes of the Triton MoE kernels lie there.
_STEERING_PLACES = frozenset({"SGLANG_MOE_CONFIG_DIR"})
_GPU_QUERY = ("name", "compute_cap", "driver_version", "memory.total", "clocks.max.sm")
_QUERY_TIMEOUT_S = 20.0

# Another machine or chip runs other kernels; a processor does where it is what computes.
_HARD = re.compile(r"machine|gpus(\..*)?|processor")
_SOFT_OF_A_GPU = re.compile(r"gpus\.\d+\.(driver_version|memory|max_sm_clock)")
_PROCESSOR = "processor"

Weight = Literal["hard", "soft"]


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One NVIDIA GPU as nvidia-smi reports it."""

    name: str
    compute_capability: str
    driver_version: str
    memory: str
    max_sm_clock: str


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run was measured."""

    autotune_version: str
    python_version: str
    system: str
    machine: str
    processor: str
    cores: int
    memory_gib: float
    gpus: tuple[Gpu, ...]
    packages: dict[str, str]
    kernel_variables: dict[str, str]


def read_environment(environ: Mapping[str, str]) -> Environment:
    """Take the fingerprint of this machine and this Python environment."""
    return Environment(
        autotune_version=autotune.__version__,
        python_version=platform.python_version(),
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        processor=processor_name(),
        cores=usable_cores(),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        gpus=read_gpus(),
        packages=installed_versions(_PACKAGES),
        kernel_variables=kernel_variables(environ),
    )


def arch_of(environment: Environment, device: str) -> str:
    """Return the arch: ``sm90`` and the like on a GPU, ``cpu-x86_64`` and the like on a CPU."""
    if device == "cuda" and environment.gpus:
        return "sm" + environment.gpus[0].compute_capability.replace(".", "")
    return f"cpu-{environment.machine}"


def device_of(environment: Environment, device: str) -> tuple[str, int]:
    """Return the device's name and how many there are: GPUs, or the processor and its cores."""
    if device == "cuda" and environment.gpus:
        return environment.gpus[0].name, len(environment.gpus)
    return environment.processor, environment.cores


def kernel_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Pick the variables that steer kernels; secrets and mere file locations are left out."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if _KERNEL_VARIABLE.fullmatch(name)
        and not looks_secret(name)
        and (name in _STEERING_PLACES or not _PLACE.search(name))
    }


def looks_secret(name: str) -> bool:
    """Whether an environment variable or a command-line flag is named like a secret."""
    return _SECRET.search(name.lstrip("-").replace("-", "_").partition("=")[0]) is not None


def kernel_libraries(packages: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the versions of the libraries that hold MoE kernels, here or among ``packages``."""
    found = installed_versions(_KERNEL_LIBRARIES) if packages is None else packages
    return {name: found[name] for name in _KERNEL_LIBRARIES if name in found}


def weight_of(what: str, *, on_cpu: bool) -> Weight:
    """Say whether a difference can change which kernels run, as a server's start-up weighs it.

    Hard are another chip or kind of machine, and variables that steer kernels but for those of the
    platform under the engine; versions, drivers, clocks and counts are soft.
    """
    if what.startswith("kernel_variables."):
        name = what.removeprefix("kernel_variables.")
        return "soft" if name.startswith(PLATFORM_VARIABLES) else "hard"
    if what == _PROCESSOR:
        return "hard" if on_cpu else "soft"
    if _SOFT_OF_A_GPU.fullmatch(what):
        return "soft"
    return "hard" if _HARD.fullmatch(what) else "soft"


def read_gpus() -> tuple[Gpu, ...]:
    """Ask nvidia-smi for the GPUs; none where it isn't installed or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    query = [program, f"--query-gpu={','.join(_GPU_QUERY)}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            query, capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = [line.split(", ") for line in answer.stdout.splitlines()]
    return tuple(
        Gpu(
            name=device_label(row[0]),
            compute_capability=row[1],
            driver_version=row[2],
            memory=row[3],
            max_sm_clock=row[4],
        )
        for row in rows
        if len(row) == len(_GPU_QUERY)
    )


def processor_name() -> str:
    """The processor's name as the system tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    for key in ("model name", "CPU part", "cpu model"):
        match = re.search(rf"^{key}\s*:\s*(.+)$", text, re.M)
        if match:
            return match[1].strip()
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the installed versions of these distributions; absent ones are left out."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
