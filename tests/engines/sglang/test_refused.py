"""What the SGLang engine refuses before a launch is spent."""

import json
from typing import Any

import msgspec
import pytest

from autotune.config import SweepConfig
from autotune.engines.base import Support
from autotune.engines.sglang.table import read_catalog
from tests.engines.conformance import candidate_of, make_target
from tests.engines.sglang.builders import (
    ENGINE,
    make_config,
)

# -- what is refused before a launch


def support(
    backend: str, *, arch: str = "sm100", config: SweepConfig | None = None, **changes: Any
) -> Support:
    asked = config or make_config(**changes)
    candidate = msgspec.structs.replace(candidate_of(asked), name=backend, backend=backend)
    target = msgspec.structs.replace(make_target("cuda"), arch=arch)
    return ENGINE.supports(candidate, config=asked, target=target)


SPANNING = 'tp = 4\nep = 4\na2a_backend = "{}"'


@pytest.mark.parametrize(
    ("backend", "changes"),
    [
        ("auto", {}),
        ("triton", {}),
        ("flashinfer_cutlass", {"quantization": "modelopt_fp4"}),
        ("flashinfer_trtllm_routed", {"quantization": "modelopt_fp4", "parallel": "tp = 4"}),
        ("flashinfer_cutedsl", {"quantization": "modelopt_fp4"}),
        ("deep_gemm", {"quantization": "fp8", "parallel": SPANNING.format("deepep")}),
        ("auto", {"quantization": "fp8", "parallel": SPANNING.format("megamoe")}),
    ],
)
def test_what_may_work_is_tried(backend: str, changes: dict[str, str]) -> None:
    assert support(backend, **changes) == Support(True)


@pytest.mark.parametrize(
    ("backend", "changes", "words"),
    [
        ("triton", {"quantization": "modelopt_fp4"}, ("modelopt_fp4", "triton")),
        ("flashinfer_trtllm", {"arch": "sm90"}, ("sm100", "sm90")),
        ("hpc_ops", {"quantization": "fp8"}, ("sm90", "sm100")),
        (
            "flashinfer_cutlass",
            {"quantization": "modelopt_fp4", "parallel": "tp = 8\nep = 2"},
            ("ep = 1 or tp", "not 2"),
        ),
        # Resolution lets it pass; the runner itself refuses it.
        (
            "flashinfer_trtllm_routed",
            {"quantization": "modelopt_fp4", "parallel": SPANNING.format("deepep")},
            ("no fused function", "deepep"),
        ),
        ("triton", {"parallel": SPANNING.format("deepep")}, ("no conversion", "deepep_normal")),
        (
            "triton",
            {"parallel": SPANNING.format("deepep_v2"), "quantization": "fp8"},
            ("deep_gemm", "triton"),
        ),
        (
            "deep_gemm",
            {"parallel": SPANNING.format("deepep") + '\na2a_mode = "fastest"'},
            ("--deepep-mode", "fastest"),
        ),
        ("auto", {"parallel": 'a2a_backend = "pigeons"'}, ("pigeons", "no all-to-all backend")),
        ("brand_new", {}, ("brand_new", "no MoE runner")),
    ],
)
def test_what_is_known_to_fail_is_refused(
    backend: str, changes: dict[str, str], words: tuple[str, ...]
) -> None:
    refused = support(backend, **changes)
    assert not refused.ok
    assert all(word in refused.reason for word in words), refused.reason


def test_an_extra_backend_is_tried() -> None:
    assert support("brand_new", engine='extra_backends = ["brand_new"]') == Support(True)
    # Whoever lists a known one says that this installation has another of that name.
    config = make_config(
        engine='extra_backends = ["triton"]', quantization="modelopt_fp4", candidates='["triton"]',
        reference="triton",
    )  # fmt: skip
    assert support("triton", config=config) == Support(True)


@pytest.mark.parametrize("a2a", [name for name, row in read_catalog().a2a.items() if row.spans_tp])
@pytest.mark.parametrize("backend", ["auto", "brand_new"])
def test_a_spanning_all_to_all_needs_ep_to_be_said(a2a: str, backend: str) -> None:
    """SGLang would raise it: the decision would be for a size that nobody ran."""
    engine = 'extra_backends = ["brand_new"]'
    refused = support(backend, engine=engine, parallel=f'tp = 4\nep = 2\na2a_backend = "{a2a}"')
    assert not refused.ok
    assert refused.reason.endswith("set parallel.ep = 4")


def test_replicas_and_attention_groups_exclude_each_other() -> None:
    refused = support("auto", parallel="tp = 4\ndp = 2\nattention_dp = 2")
    assert not refused.ok and "dp" in refused.reason and "attention_dp" in refused.reason


@pytest.mark.parametrize(
    ("a2a", "groups", "ok"),
    [
        ("flashinfer", 1, False),
        ("flashinfer", 2, False),
        ("flashinfer", 4, True),
        ("flashinfer_megamoe", 2, False),
        ("pplx", 1, False),
        ("pplx", 2, True),
        ("deepep", 1, True),
        ("deepep", 2, True),
    ],
)
def test_an_all_to_all_backend_may_need_attention_groups(a2a: str, groups: int, ok: bool) -> None:
    parallel = SPANNING.format(a2a) + f"\nattention_dp = {groups}"
    answer = support("auto", parallel=parallel)
    assert answer.ok == ok, answer.reason
    assert ok or "parallel.attention_dp = " in answer.reason


RESERVED = {
    "--model-path /m": "model.path",
    "--model=/m": "model.path",
    "--quantization fp8": "model.quantization",
    "--dtype bfloat16": "engine.dtype",
    "--device cpu": "engine.device",
    "--tp-size 2": "parallel.tp",
    "--tp 2": "parallel.tp",
    "--tensor-parallel-size=2": "parallel.tp",
    "--ep 2": "parallel.ep",
    "--ep-size 2": "parallel.ep",
    "--dp 2": "parallel.dp",
    "--dp-size=2": "parallel.dp",
    "--attn-dp-size 2": "parallel.attention_dp",
    "--enable-dp-attention": "parallel.attention_dp",
    "--moe-a2a-backend deepep": "parallel.a2a_backend",
    "--moe-a2a deepep": "parallel.a2a_backend",
    "--deepep-mode normal": "parallel.a2a_mode",
    "--flashinfer-a2a-dispatch-type bf16": "parallel.a2a_mode",
    "--moe-runner-backend triton": "candidates",
    "--moe-runner triton": "candidates",
    "--nnodes 2": "parallel.nodes",
    "--node-rank 0": "engine.node_rank_variable",
    "--dist-init-addr a:1": "engine.coordinator",
    "--port 1": "a free port is taken",
    "--host 0.0.0.0": "this machine only",
    "--served-model-name x": "a name of its own",
}


@pytest.mark.parametrize(("given", "key"), RESERVED.items())
@pytest.mark.parametrize("whose", ["engine", "candidate"])
def test_a_reserved_flag_is_refused_with_its_key(given: str, key: str, whose: str) -> None:
    words = json.dumps(given.split())
    if whose == "engine":
        config = make_config(engine=f"arguments = {words}")
    else:
        config = make_config(candidates=f'[{{ backend = "auto", arguments = {words} }}]')
    refused = support("auto", config=config)
    assert not refused.ok
    assert given.split()[0].partition("=")[0] in refused.reason and key in refused.reason


@pytest.mark.parametrize(
    "flag",
    [
        "--mem-fraction-static",
        "--deepep-config",
        "--model-loader-extra-config",
        "--dist-timeout",
        "--ep-num-redundant-experts",
        "--attention-backend",
        "--pp-size",
    ],
)
def test_other_flags_are_let_through(flag: str) -> None:
    assert support("auto", engine=f'arguments = ["{flag}", "1"]') == Support(True)


def test_a_file_of_arguments_is_refused() -> None:
    """SGLang merges the file before the command line, so that it may set what is reserved."""
    assert not support("auto", engine='arguments = ["--config", "server.yaml"]').ok
