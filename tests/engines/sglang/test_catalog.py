import ast
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.engines.sglang import catalog as catalog_module
from autotune.engines.sglang import table as table_module
from autotune.engines.sglang.catalog import effective_ep, refusal
from autotune.engines.sglang.table import Claim, read_catalog

CATALOG = read_catalog()
NVFP4_RUNNERS = [
    "flashinfer_trtllm_routed",
    "flashinfer_cutlass",
    "flashinfer_cutedsl",
    "flashinfer_trtllm",
]


def ask(backend: str, **given: Any) -> str | None:
    asked: dict[str, Any] = {
        "quantization": "modelopt_fp4",
        "arch": "sm100",
        "a2a_backend": "none",
        "a2a_mode": None,
        "tp": 4,
        "ep": 1,
        "engine_version": "0.5.23",
    }
    return refusal(CATALOG, backend=backend, **{**asked, **given})


@pytest.mark.parametrize(
    ("backend", "given", "reason"),
    [
        ("no_such", {}, "no_such is no MoE runner of SGLang 0.5.17 to 0.5.23"),
        ("triton", {"a2a_backend": "no_such"}, "no_such is no all-to-all backend of SGLang"),
        (
            "flashinfer_trtllm_routed",
            {"a2a_backend": "deepep", "ep": 4},
            "SGLang registers no fused function for flashinfer_trtllm_routed with a2a_backend "
            "deepep (layers/moe/moe_runner/runner.py: MoeRunner)",
        ),
        (
            "triton",
            {"quantization": "fp8", "a2a_backend": "deepep", "a2a_mode": "low_latency", "ep": 4},
            "SGLang registers no conversion to triton of what a2a_backend deepep puts out "
            "(deepep_ll)",
        ),
        ("flashinfer_cutlass", {"quantization": "fp8"}, "or none, not fp8 (arg_groups/moe_hook.py"),
        ("flashinfer_trtllm", {"arch": "sm90"}, "runs on sm100 or sm103, not on sm90"),
        ("flashinfer_trtllm", {"arch": "sm120"}, "runs on sm100 or sm103, not on sm120"),
        ("hpc_ops", {"quantization": "fp8"}, "hpc_ops runs on sm90, not on sm100"),
        (
            "flashinfer_cutedsl",
            {"a2a_backend": "deepep", "a2a_mode": "normal", "ep": 4},
            "flashinfer_cutedsl with a2a_backend deepep takes mode auto or low_latency, not normal",
        ),
        ("cutlass", {"quantization": "fp8", "ep": 4}, "cutlass with fp8 needs ep = 1, not 4"),
        ("flashinfer_cutlass", {"tp": 8, "ep": 2}, "needs ep = 1 or tp, not 2"),
        (
            "deep_gemm",
            {"quantization": "fp8", "a2a_backend": "deepep", "tp": 8, "ep": 2},
            "SGLang raises ep from 2 to tp = 8 with a2a_backend deepep",
        ),
        ("triton", {}, "modelopt_fp4 takes the runner marlin, "),
        ("marlin", {"quantization": "none"}, "SGLang would run its triton runner"),
        (
            "triton",
            {"quantization": "mxfp8"},
            "SGLang would replace it by flashinfer_trtllm",
        ),
        ("megamoe", {"a2a_backend": "deepep", "ep": 4}, "megamoe stands for a2a_backend megamoe"),
        ("megamoe", {}, "SGLang raises ep from 1 to tp = 4 with a2a_backend megamoe"),
        ("triton", {"a2a_mode": "normal"}, "a2a_backend none has no mode"),
        (
            "deep_gemm",
            {"quantization": "fp8", "a2a_backend": "mooncake", "ep": 4},
            "--deepep-mode takes low_latency, not auto",
        ),
        ("auto", {"quantization": "nvfp4_online", "arch": "sm90"}, "not on sm90"),
        (
            "flashinfer_trtllm_routed",
            {"engine_version": "0.5.22", "quantization": "minimax_m3_nvfp4"},
            "not minimax_m3_nvfp4",
        ),
    ],
)
def test_refuses_what_the_sources_speak_against(
    backend: str, given: dict[str, Any], reason: str
) -> None:
    said = ask(backend, **given)
    assert said is not None
    assert reason in said


@pytest.mark.parametrize("arch", ["sm100", "sm103"])
@pytest.mark.parametrize("ep", [1, 4])
@pytest.mark.parametrize("backend", NVFP4_RUNNERS)
def test_nothing_speaks_against_nvfp4_on_blackwell(backend: str, arch: str, ep: int) -> None:
    assert ask(backend, arch=arch, ep=ep) is None


@pytest.mark.parametrize(
    ("backend", "given"),
    [
        ("auto", {}),
        ("auto", {"a2a_backend": "flashinfer", "ep": 4}),
        ("triton", {"quantization": "none", "arch": "sm90", "ep": 2}),
        ("deep_gemm", {"quantization": "fp8", "a2a_backend": "deepep", "ep": 4}),
        ("flashinfer_cutedsl", {"a2a_backend": "deepep", "ep": 4}),
        ("flashinfer_trtllm", {"arch": None}),
        # FP8 attention with NVFP4 experts goes by this name.
        ("flashinfer_cutedsl", {"quantization": "fp8"}),
        # Experts and exchange are one kernel: the runner's registers aren't asked.
        (
            "flashinfer_trtllm_routed",
            {"quantization": "minimax_m3_nvfp4", "a2a_backend": "megamoe", "ep": 4},
        ),
        ("triton", {"quantization": "w4afp8", "arch": "sm90", "a2a_backend": "deepep", "ep": 4}),
        ("triton", {"quantization": "mxfp8", "arch": "gfx950"}),
    ],
)
def test_what_nothing_speaks_against_is_tried(backend: str, given: dict[str, Any]) -> None:
    assert ask(backend, **given) is None


def test_a_release_is_only_refused_what_is_claimed_for_it() -> None:
    given = {"a2a_backend": "flashinfer", "ep": 4}
    assert ask("flashinfer_trtllm", **given) is None
    older = ask("flashinfer_trtllm", engine_version="0.5.17", **given)
    assert older is not None
    assert "flashinfer_cutedsl or flashinfer_trtllm_routed, not flashinfer_trtllm" in older
    # Somewhere between these two it came: nobody looked where.
    assert ask("flashinfer_trtllm", engine_version="0.5.18", **given) is None
    assert ask("flashinfer_trtllm", arch="sm90", engine_version="0.4.9") is None
    assert ask("flashinfer_trtllm", arch="sm90", engine_version="who knows") is None


def test_a_runner_must_be_in_the_release() -> None:
    asked = {"quantization": "mxfp8", "a2a_backend": "flashinfer_megamoe", "ep": 4}
    assert ask("flashinfer_megamoe", **asked) is None
    said = ask("flashinfer_megamoe", engine_version="0.5.17", **asked)
    assert said is not None
    assert said.startswith("SGLang 0.5.17 has no flashinfer_megamoe")
    assert ask("flashinfer_megamoe", engine_version="0.5.19", **asked) is None


def test_a_reason_tells_a_newer_release_what_was_read() -> None:
    for release in ("0.5.24", "0.5.24.dev3+g12ab", "v1.0"):
        said = ask("flashinfer_trtllm", arch="sm90", engine_version=release)
        assert said is not None
        assert said.endswith("_moe_runner_backend_quant_constraints in 0.5.23)")
    assert ask("flashinfer_trtllm", arch="sm90", engine_version="0.5.23.post1") == ask(
        "flashinfer_trtllm", arch="sm90", engine_version=None
    )


def test_effective_ep() -> None:
    assert effective_ep(CATALOG, a2a_backend="deepep", ep=1, tp=8) == 8
    assert effective_ep(CATALOG, a2a_backend="none", ep=2, tp=8) == 2
    assert effective_ep(CATALOG, a2a_backend="no_such", ep=2, tp=8) == 2


names = st.text(max_size=20)
sizes = st.integers(min_value=-1, max_value=64)


@given(
    backend=st.sampled_from(["auto", *CATALOG.runners]) | names,
    quantization=st.sampled_from(["none", "fp8", "mxfp8", "modelopt_fp4", "nvfp4_online"]) | names,
    arch=st.none() | st.sampled_from(["sm90", "sm100", "sm120"]) | names,
    a2a_backend=st.sampled_from(list(CATALOG.a2a)) | names,
    a2a_mode=st.none() | st.sampled_from(["auto", "normal", "low_latency", "direct"]) | names,
    tp=sizes,
    ep=sizes,
    engine_version=st.none() | st.sampled_from([*CATALOG.read, "0.5.18", "0.6"]) | names,
)
def test_refusal_never_raises(**asked: Any) -> None:
    said = refusal(CATALOG, **asked)
    assert said is None or said.strip()


@given(
    backend=st.sampled_from(list(CATALOG.runners)),
    a2a_backend=st.sampled_from(list(CATALOG.a2a)),
    engine_version=st.sampled_from(["0.5.16", "0.1", "", "main"]),
)
def test_nothing_is_claimed_for_releases_never_read(
    backend: str, a2a_backend: str, engine_version: str
) -> None:
    said = ask(backend, a2a_backend=a2a_backend, ep=3, engine_version=engine_version)
    # What a name stands for isn't a claim about a release.
    assert said is None or "stands for" in said


def claims() -> list[Claim]:
    rows: list[Claim] = [*CATALOG.runners.values(), *CATALOG.a2a.values(), *CATALOG.rules]
    for row in (*CATALOG.runners.values(), *CATALOG.a2a.values()):
        rows += row.rules
    return rows


def test_every_claim_names_its_source_and_releases_that_were_read() -> None:
    assert len(claims()) > 80
    for row in claims():
        path, _, symbol = row.source.partition(": ")
        assert path.endswith(".py"), row
        assert symbol.isidentifier(), row
        assert {row.since, row.until} <= {None, *CATALOG.read}, row
    for runner in CATALOG.runners.values():
        assert {*runner.fused.values(), *runner.permutes.values()} <= set(CATALOG.read)
        assert set(runner.fused) <= set(CATALOG.a2a)


def test_rules_name_runners_and_all_to_all_backends_that_there_are() -> None:
    for row in (*CATALOG.runners.values(), *CATALOG.a2a.values()):
        for rule in (*row.rules, *CATALOG.rules):
            assert set(rule.runners) <= set(CATALOG.runners)
            assert {*rule.a2a, *rule.when_a2a} <= set(CATALOG.a2a)
            asked = (rule.quantizations, rule.not_quantizations, rule.archs, rule.a2a)
            assert any((*asked, rule.modes, rule.runners, rule.ep)), rule


def test_a_misspelt_key_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `sorce`"):
        msgspec.convert({"sorce": "x.py: y", "source": "x.py: y"}, Claim)


@pytest.mark.parametrize("module", [catalog_module, table_module])
def test_a_server_can_import_it(module: Any) -> None:
    """A serving plugin imports these two: nothing heavier may come with them."""
    for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = getattr(node, "module", None) or node.names[0].name
            assert origin.split(".")[0] in {"collections", "functools", "msgspec", "pathlib"} | {
                "re",
                "typing",
            } or origin in {"autotune.decisions.request", "autotune.engines.sglang.table"}
