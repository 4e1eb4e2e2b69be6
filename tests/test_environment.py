import os
from pathlib import Path

import msgspec
import pytest

from autotune.environment import (
    Environment,
    Gpu,
    arch_of,
    device_of,
    kernel_libraries,
    kernel_variables,
    looks_secret,
    read_environment,
    read_gpus,
    usable_cores,
)

HERE = read_environment(
    {"HF_TOKEN": "hf_xyzzy", "VLLM_API_KEY": "hf_xyzzy", "OMP_NUM_THREADS": "2"}
)


def gpu(capability: str) -> Gpu:
    return Gpu(
        name="H200",
        compute_capability=capability,
        driver_version="580.1",
        memory="143771 MiB",
        max_sm_clock="1980 MHz",
    )


def machine(*capabilities: str, processor_arch: str = "x86_64") -> Environment:
    return msgspec.structs.replace(
        HERE, machine=processor_arch, gpus=tuple(gpu(capability) for capability in capabilities)
    )


@pytest.mark.parametrize(
    ("capability", "arch"),
    [("8.0", "sm80"), ("9.0", "sm90"), ("10.0", "sm100"), ("10.3", "sm103"), ("12.1", "sm121")],
)
def test_the_arch_of_a_gpu(capability: str, arch: str) -> None:
    assert arch_of(machine(capability), "cuda") == arch


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
def test_the_arch_of_a_processor(name: str) -> None:
    assert arch_of(machine("9.0", processor_arch=name), "cpu") == f"cpu-{name}"
    assert arch_of(machine(processor_arch=name), "cuda") == f"cpu-{name}"


def test_the_device_is_the_gpus_or_the_processor() -> None:
    assert device_of(machine("9.0", "9.0"), "cuda") == ("H200", 2)
    assert device_of(machine("9.0"), "cpu") == (HERE.processor, HERE.cores)


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "hf_token",
        "VLLM_API_KEY",
        "OPENAI_APIKEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "DB_PASSWD",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "SSH_PRIVATE_KEY_FILE",
        "SIGNING_KEY",
        "--api-key",
        "--hf-token=abc",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["VLLM_MAX_TOKENS", "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", "--max-new-tokens", ""]
)
def test_harmless_names_are_no_secrets(name: str) -> None:
    assert not looks_secret(name)


def test_picks_the_variables_that_steer_kernels() -> None:
    steering = {
        "SGLANG_USE_AITER": "1",
        "VLLM_USE_FLASHINFER_MOE_FP4": "1",
        "FLASHINFER_ALLREDUCE": "x",
        "TRTLLM_ENABLE_PDL": "0",
        "NCCL_ALGO": "Ring",
        "OMP_NUM_THREADS": "2",
        "DG_JIT_USE_RUNTIME_API": "1",
    }
    other = {
        "HOME": "/home/u",
        "PATH": "/bin",
        "VLLM_API_KEY": "hf_xyzzy",
        "SGLANG_HF_TOKEN": "hf_xyzzy",
        "VLLM_CACHE_DIR": "/tmp/x",
        "CUDA_HOME": "/usr/local/cuda",
        "MY_VLLM_FLAG": "1",
        "VLLM": "1",
    }
    assert kernel_variables(other | steering) == steering


@pytest.mark.parametrize(
    "name",
    [
        "SGLANG_PLUGINS",
        "SGLANG_RUN_ID",
        "SGLANG_CACHE_DIR",
        "SGLANG_HOST",
        "SGLANG_PORT",
        "SGLANG_LOGGING_CONFIG_PATH",
        "SGLANG_LOG_LEVEL",
        "SGLANG_DEBUG_MEMORY_POOL",
        "SGLANG_HEALTH_CHECK_TIMEOUT",
        "FLASHINFER_WORKSPACE_BASE",
        "FLASHINFER_LOGGING_LEVEL",
        "TRITON_CACHE_DIR",
        "CUDA_HOME",
        "CUDA_CACHE_PATH",
        "NCCL_DEBUG",
        "DG_JIT_CACHE_DIR",
        "VLLM_LOGS",
        # Ours say which backend is taken, not how its kernels run.
        "AUTOTUNE_DISABLE",
        "AUTOTUNE_STRICT",
        "AUTOTUNE_DECISIONS",
        "HF_HUB_OFFLINE",
        "SLURM_NODEID",
    ],
)
def test_where_files_are_and_who_runs_steers_no_kernel(name: str) -> None:
    assert kernel_variables({name: "1"}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "SGLANG_MOE_NVFP4_DISPATCH",
        "SGLANG_PLUGINS_X",
        "SGLANG_USE_CUTLASS_BACKEND_FOR_FP4_GEMM",
        "SGLANG_DEEPEP_BF16_DISPATCH",
        "FLASHINFER_DISABLE_JIT",
        "TRTLLM_GEN_BASE_X",
        "DEEPEP_NUM_SMS",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "NCCL_ALGO",
    ],
)
def test_what_steers_kernels_is_kept(name: str) -> None:
    assert kernel_variables({name: "1"}) == {name: "1"}


def test_the_fingerprint_holds_no_secret() -> None:
    assert HERE.kernel_variables == {"OMP_NUM_THREADS": "2"}
    assert b"xyzzy" not in msgspec.json.encode(HERE)


def test_the_fingerprint_tells_the_machine() -> None:
    assert HERE.processor and HERE.machine and HERE.system
    assert 1 <= HERE.cores == usable_cores() <= (os.cpu_count() or 1)
    assert HERE.memory_gib > 0
    assert HERE.packages["msgspec"]


def test_only_libraries_that_hold_kernels_are_in_the_scope() -> None:
    packages = {"torch": "2.13.0", "flashinfer-python": "0.7", "transformers": "5", "msgspec": "1"}
    environment = msgspec.structs.replace(HERE, packages=packages)
    assert kernel_libraries(environment.packages) == {"torch": "2.13.0", "flashinfer-python": "0.7"}


def fake_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_reads_what_nvidia_smi_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "NVIDIA H200, 9.0, 580.1, 143771 MiB, 1980 MHz"
    fake_smi(tmp_path, f"echo '{row}'; echo '{row}'", monkeypatch)
    assert read_gpus() == (gpu("9.0"), gpu("9.0"))


@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'", "true"])
def test_no_gpu_is_made_up(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, script, monkeypatch)
    assert read_gpus() == ()


def test_no_gpu_without_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_gpus() == ()
