"""What is refused, and why; nothing heavy is needed to say so."""

import subprocess
import sys
from importlib import util

import pytest

from autotune.engines.base import Support
from autotune.kernels.backends.flashinfer import rules
from autotune.kernels.backends.flashinfer.registry import FLASHINFER_BACKENDS
from autotune.kernels.backends.protocol import Backend, Device, EngineBackend
from autotune.kernels.model_layer import DEEPSEEK, MINIMAX, RENORMALIZE, SOFTMAX
from autotune.kernels.spec import Activation, LayerSpec, RoutingRule
from tests.kernels.backends.flashinfer.small import (
    B200,
    CPU,
    DEEPSEEK_R1,
    GPT_OSS,
    H200,
    MINIMAX_M2,
    ROUTING_RULES,
    SCHEMES,
    THOR,
    geometry,
    problem,
    spec,
)

CUTLASS, TRTLLM, ROUTED, CUTE_DSL = FLASHINFER_BACKENDS


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda name: object())


@pytest.mark.parametrize("backend", FLASHINFER_BACKENDS, ids=lambda backend: backend.name)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_processor_computes_none(backend: Backend, scheme: str) -> None:
    found = backend.supports(problem(MINIMAX_M2, scheme, CPU))
    assert not found.ok
    assert "needs an NVIDIA GPU" in found.reason or "NVFP4 alone" in found.reason


def test_asking_imports_nothing_heavy() -> None:
    lines = (
        "import sys",
        "from autotune.kernels.backends.flashinfer.registry import FLASHINFER_BACKENDS as found",
        "from tests.kernels.backends.flashinfer.rules_only import PROBLEMS",
        "[one.supports(problem) for one in found for problem in PROBLEMS]",
        "assert not {'torch', 'flashinfer'} & set(sys.modules)",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    found = TRTLLM.supports(problem(MINIMAX_M2, "nvfp4"))
    assert found.reason == "FlashInfer isn't installed: pip install flashinfer-python"


@pytest.mark.parametrize(
    ("backend", "scheme", "device", "ok"),
    [
        (CUTLASS, "bf16", H200, True),
        (CUTLASS, "fp8", H200, True),
        (CUTLASS, "fp8_block", H200, True),
        (CUTLASS, "fp8_block", B200, False),
        (CUTLASS, "nvfp4", H200, False),
        (CUTLASS, "nvfp4", THOR, True),
        (CUTLASS, "mxfp8", THOR, False),
        (TRTLLM, "nvfp4", H200, False),
        (TRTLLM, "bf16", THOR, False),
        (ROUTED, "fp8_block", H200, False),
        (CUTE_DSL, "nvfp4", H200, False),
        (CUTE_DSL, "nvfp4", B200, True),
        (CUTE_DSL, "bf16", B200, False),
    ],
)
def test_gpus(backend: Backend, scheme: str, device: Device, ok: bool) -> None:
    found = backend.supports(problem(MINIMAX_M2, scheme, device))
    assert found.ok == ok
    if not ok and scheme != "bf16":
        assert "needs a GPU of SM" in found.reason and device.name in found.reason


@pytest.mark.parametrize("backend", FLASHINFER_BACKENDS, ids=lambda backend: backend.name)
@pytest.mark.parametrize("of", [MINIMAX_M2, DEEPSEEK_R1], ids=["MiniMax-M2.7", "DeepSeek-R1"])
def test_nvfp4_models_on_b200(backend: Backend, of: LayerSpec) -> None:
    assert backend.supports(problem(of, "nvfp4")) == Support(True)


def test_gpt_oss_is_mxfp4_alone() -> None:
    for backend in (CUTLASS, TRTLLM, ROUTED):
        assert backend.supports(problem(GPT_OSS, "mxfp4")).ok
    assert "biases" in TRTLLM.supports(problem(GPT_OSS, "nvfp4")).reason
    assert "plain SwiGLU only" in CUTE_DSL.supports(problem(GPT_OSS, "nvfp4")).reason
    assert (
        "multiple of 128, not 2880" in CUTLASS.supports(problem(GPT_OSS, "fp8_block", H200)).reason
    )


@pytest.mark.parametrize(
    ("backend", "scheme", "hidden", "width", "part"),
    [
        (TRTLLM, "fp8_block", 512, 192, "expert width of a multiple of 128, not 192"),
        (TRTLLM, "bf16", 320, 128, "hidden size of a multiple of 128, not 320"),
        (TRTLLM, "nvfp4", 512, 200, "multiple of 16, not 200"),
        (ROUTED, "mxfp4", 512, 48, "multiple of 32, not 48"),
        (CUTE_DSL, "nvfp4", 512, 96, "multiple of 64, not 96"),
        (CUTLASS, "nvfp4", 96, 64, "multiple of 64, not 96"),
        (CUTLASS, "bf16", 100, 64, "multiple of 8, not 100"),
    ],
)
def test_sizes(backend: Backend, scheme: str, hidden: int, width: int, part: str) -> None:
    found = backend.supports(problem(spec(hidden=hidden, width=width), scheme))
    assert not found.ok and part in found.reason


def test_gelu() -> None:
    gelu = spec(activation=Activation(function="gelu"))
    for backend in FLASHINFER_BACKENDS:
        assert "SwiGLU only, not with gelu" in backend.supports(problem(gelu, "nvfp4")).reason


def test_fp8_per_tensor_in_trtllm_has_no_activation_parameters() -> None:
    clamped = spec(activation=Activation(limit=7.0))
    assert "no alpha, limit or offset" in TRTLLM.supports(problem(clamped, "fp8")).reason
    assert TRTLLM.supports(problem(clamped, "mxfp8")).ok


@pytest.mark.parametrize(
    ("rule", "method", "groups", "factor"),
    [
        ("softmax", 0, (None, None), None),
        ("renormalize", 1, (None, None), None),
        ("minimax", 7, (None, None), 1.0),
        ("groups", 2, (4, 2), 2.5),
        ("scaled", 2, (1, 1), 2.5),
        ("sigmoid", 8, (None, None), None),
        ("sigmoid, normalized", 6, (None, None), None),
    ],
)
def test_methods(
    rule: str, method: int, groups: tuple[int | None, int | None], factor: float | None
) -> None:
    choice = rules.routing_choice(ROUTING_RULES[rule])
    assert isinstance(choice, rules.RoutingChoice)
    assert (choice.method, (choice.n_group, choice.topk_group)) == (method, groups)
    assert choice.routed_scaling_factor == factor


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        (RoutingRule(scoring="softmax", correction_bias=True), "softmax scores with a correction"),
        (RoutingRule(scoring="softmax", groups=4, top_groups=2), "softmax scores and groups"),
        (RoutingRule(scoring="softmax", scaling_factor=16.0), "leaves out the scaling factor"),
        (RoutingRule(scoring="sigmoid", scaling_factor=2.0), "leaves out the scaling factor"),
        (RoutingRule(scoring="sigmoid", groups=4, top_groups=2), "needs a correction bias"),
        (RoutingRule(scoring="sigmoid", correction_bias=True, normalize=False), "normalized"),
        (
            RoutingRule(
                scoring="sigmoid", correction_bias=True, groups=4, top_groups=2, group_score="best"
            ),
            "two best",
        ),
    ],
)
def test_rules_without_a_method(rule: RoutingRule, part: str) -> None:
    of = spec(experts=32, routing=rule)
    assert part in TRTLLM.supports(problem(of, "nvfp4")).reason
    assert ROUTED.supports(problem(of, "nvfp4")).ok


@pytest.mark.parametrize(
    ("rule", "experts", "top_k", "part"),
    [
        (SOFTMAX, 512, 8, "8 of 256 experts, not for 8 of 512"),
        (SOFTMAX, 128, 10, "not for 10 of 128"),
        (RENORMALIZE, 512, 33, "not for 33 of 512"),
        (MINIMAX, 2048, 8, "not for 8 of 2048"),
        (DEEPSEEK, 512, 8, "at most 32 experts a group, not 64"),
        (DEEPSEEK, 256, 10, "top-k of at most 8 for 256 experts, not 10"),
        (
            RoutingRule(scoring="sigmoid", correction_bias=True, groups=16, top_groups=4),
            256,
            8,
            "at most 4 of at most 8 groups, not 4 of 16",
        ),
    ],
)
def test_counts(rule: RoutingRule, experts: int, top_k: int, part: str) -> None:
    assert part in str(rules.routing_problem(rule, geometry(512, 128, experts, top_k)))


def test_top_k_above_what_a_given_routing_may_have() -> None:
    found = ROUTED.supports(problem(spec(experts=64, top_k=40), "nvfp4"))
    assert "top-k of at most 32 of 2048 experts, not for 40 of 64" in found.reason


def test_block_fp8_checks_more() -> None:
    six = spec(experts=6)
    assert "multiple of 4 experts, not 6" in ROUTED.supports(problem(six, "fp8_block")).reason
    assert ROUTED.supports(problem(six, "nvfp4")).ok
    scaled = spec(experts=64, top_k=10, routing=ROUTING_RULES["scaled"])
    assert "at most 8 for 64" in TRTLLM.supports(problem(scaled, "fp8_block")).reason
    assert TRTLLM.supports(problem(scaled, "nvfp4")).ok


def test_names() -> None:
    assert [backend.name for backend in FLASHINFER_BACKENDS] == [
        "flashinfer_cutlass",
        "flashinfer_trtllm",
        "flashinfer_trtllm_routed",
        "flashinfer_cutedsl",
    ]
    assert [backend.routes for backend in FLASHINFER_BACKENDS] == [False, True, False, False]
    assert EngineBackend("sglang", "flashinfer_trtllm_routed") in ROUTED.stands_for
    assert not any(backend.emulates("nvfp4") for backend in FLASHINFER_BACKENDS)


def test_memory_grows_with_tokens() -> None:
    for backend in FLASHINFER_BACKENDS:
        asked = problem(MINIMAX_M2, "nvfp4")
        few, many = (backend.working_bytes(asked, tokens=tokens) for tokens in (1, 4096))
        assert 0 < few < many
