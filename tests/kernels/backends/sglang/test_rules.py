"""What is refused, and why; nothing heavy is needed to say so."""

import subprocess
import sys

import pytest

from autotune.kernels.backends.protocol import Device, EngineBackend
from autotune.kernels.backends.sglang import rules
from autotune.kernels.backends.sglang.triton_moe import TritonBackend
from autotune.kernels.registry import find_backend
from autotune.kernels.spec import GPT_OSS_SWIGLU, Activation, LayerSpec
from tests.kernels.backends.flashinfer.small import (
    B200,
    CPU,
    DEEPSEEK_R1,
    GPT_OSS,
    H200,
    MINIMAX_M2,
    SCHEMES,
    THOR,
    problem,
    spec,
)

TRITON = TritonBackend()
A100 = Device(kind="cuda", name="NVIDIA A100", arch="sm80", capability=(8, 0))
ADA = Device(kind="cuda", name="NVIDIA L40S", arch="sm89", capability=(8, 9))
TURING = Device(kind="cuda", name="NVIDIA T4", arch="sm75", capability=(7, 5))


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "find_spec", lambda name: object())


def test_asking_imports_nothing_heavy() -> None:
    subprocess.run([sys.executable, "-m", "tests.kernels.backends.sglang.rules_only"], check=True)


def test_it_is_registered_for_sglangs_name() -> None:
    found = find_backend("sglang_triton")
    assert found.stands_for == (EngineBackend("sglang", "triton"),)
    assert not found.routes
    assert not any(found.emulates(scheme) for scheme in SCHEMES)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_processor_computes_none(scheme: str) -> None:
    found = TRITON.supports(problem(MINIMAX_M2, scheme, CPU))
    assert not found.ok
    assert "needs an NVIDIA GPU" in found.reason or "doesn't compute" in found.reason


@pytest.mark.parametrize("missing", ["sglang", "triton", "sgl_kernel"])
def test_not_installed(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "find_spec", lambda name: None if name == missing else object())
    found = TRITON.supports(problem(MINIMAX_M2, "bf16"))
    assert found.reason.startswith(f"{missing} isn't installed: pip install ")


@pytest.mark.parametrize(
    ("scheme", "device", "reason"),
    [
        ("bf16", A100, ""),
        ("bf16", TURING, "SM80 or later, and this is SM75"),
        ("fp8", ADA, ""),
        ("fp8", A100, "SM89 or later, and this is SM80"),
        ("fp8", H200, ""),
        ("fp8_block", A100, "SM89 or later, and this is SM80"),
        ("fp8_block", H200, ""),
        ("fp8_block", B200, ""),
        ("fp8_block", THOR, ""),
        ("nvfp4", B200, "doesn't compute nvfp4"),
        ("mxfp4", B200, "turns MXFP4 weights into bfloat16"),
        ("mxfp8", B200, "no MXFP8 on NVIDIA GPUs"),
    ],
)
@pytest.mark.parametrize("of", [MINIMAX_M2, DEEPSEEK_R1], ids=["minimax", "deepseek"])
def test_schemes_and_architectures(of: LayerSpec, scheme: str, device: Device, reason: str) -> None:
    found = TRITON.supports(problem(of, scheme, device))
    assert found.ok == (not reason)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("activation", "reason"),
    [
        (Activation(), ""),
        (Activation(function="gelu"), ""),
        (Activation(function="gelu_tanh"), ""),
        (GPT_OSS_SWIGLU, ""),
        (Activation(alpha=1.0, limit=7.0, up_offset=1.0), ""),
        (Activation(limit=7.0), "alpha and limit together with an offset of 1"),
        (Activation(alpha=1.702, up_offset=1.0), "alpha and limit together"),
        (Activation(alpha=1.702, limit=7.0), "an offset of 1"),
        (Activation(up_offset=1.0), "an offset of 1"),
        (Activation(function="gelu", limit=7.0), "with SiLU only"),
    ],
)
def test_activations(activation: Activation, reason: str) -> None:
    found = TRITON.supports(problem(spec(activation=activation), "bf16"))
    assert found.ok == (not reason)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("scheme", "hidden", "width", "device", "reason"),
    [
        ("bf16", 200, 8, H200, ""),
        ("bf16", 200, 12, H200, "a multiple of 8, not 12"),
        ("bf16", 200, 8, B200, "a multiple of 16, not 8"),
        ("fp8", 200, 24, ADA, ""),
        ("fp8_block", 192, 128, H200, "multiples of 128, not 192 and 128"),
        ("fp8_block", 256, 192, H200, "multiples of 128, not 256 and 192"),
        ("fp8_block", 256, 128, H200, ""),
    ],
)
def test_sizes(scheme: str, hidden: int, width: int, device: Device, reason: str) -> None:
    found = TRITON.supports(problem(spec(hidden=hidden, width=width), scheme, device))
    assert found.ok == (not reason)
    assert reason in found.reason


def test_most_experts() -> None:
    assert TRITON.supports(problem(spec(experts=8191), "bf16")).ok
    found = TRITON.supports(problem(spec(experts=8192), "bf16"))
    assert "at most 8191 experts, not 8192" in found.reason


def test_gpt_oss_with_biases() -> None:
    assert TRITON.supports(problem(GPT_OSS, "bf16", H200)).ok


def test_memory_grows_with_tokens() -> None:
    few, many = (
        TRITON.working_bytes(problem(MINIMAX_M2, "bf16"), tokens=tokens) for tokens in (1, 1024)
    )
    # At least both products' outputs.
    assert few > 2 * 8 * (3072 + 2 * 1536)
    assert many == 1024 * few
