"""Without a decision that fits, SGLang resolves what it resolves without the plugin: bit for bit.

Compared are every resolved value, and who declared what in which order.
"""

from pathlib import Path
from typing import Any

import pytest

from .decisions import put_decision
from .launches import Outcome, attempt, plugged_in, without_plugins
from .real import CHECKPOINTS, PLATFORMS, make_checkpoint

QUANTIZATIONS = (None, "fp8", "modelopt_fp4", "modelopt_fp8", "mxfp8", "nvfp4_online", "unquant")
# Launches of MiniMax-M2 with modelopt_fp4 on SM100 that aren't the decision's: what the line says.
OTHER_LAUNCHES: dict[str, dict[str, Any]] = {
    "tp is 8": {"tp_size": 8},
    "ep is 4": {"ep_size": 4},
    "dp is 2": {"dp_size": 2},
    "attention_dp is 2": {"attn_dp_size": 2},
    "attention_dp is 4": {"dp_size": 4, "enable_dp_attention": True},
    "dtype is float16": {"dtype": "float16"},
    "a2a_backend is flashinfer": {"moe_a2a_backend": "flashinfer", "attn_dp_size": 4},
    "a2a_backend is mori": {"moe_a2a_backend": "mori"},
    "a2a_backend is megamoe": {"moe_a2a_backend": "megamoe"},
    "enable_lora=true": {"enable_lora": True, "max_lora_rank": 8, "lora_target_modules": ["all"]},
    "speculative_algorithm=NGRAM": {"speculative_algorithm": "NGRAM"},
    "pp_size=2": {"pp_size": 2},
    "enable_eplb=true": {"enable_eplb": True},
    "ep_num_redundant_experts=8": {"ep_num_redundant_experts": 8},
    "disaggregation_mode=prefill": {"disaggregation_mode": "prefill"},
    "disaggregation_mode=decode": {"disaggregation_mode": "decode"},
    "disable_shared_experts_fusion=true": {"disable_shared_experts_fusion": True},
    "enable_deterministic_inference=true": {"enable_deterministic_inference": True},
    "enable_single_batch_overlap=true": {"enable_single_batch_overlap": True},
    "moe_dp_size=2": {"moe_dp_size": 2},
    "nnodes=2": {"nnodes": 2, "dist_init_addr": "127.0.0.1:1"},
}


def check_same(ours: Outcome, alone: Outcome) -> None:
    """The two launches came to the same, whatever that is."""
    assert ours.error == alone.error
    if alone.error is None:
        assert ours.declared == alone.declared
        assert ours.values == alone.values


def compare(arch: str, checkpoint: Path, decisions: Path | None, **arguments: Any) -> list[str]:
    """Check that a launch is untouched, and return what the plugin logged."""
    with without_plugins():
        alone = attempt(arch, checkpoint, **arguments)
    with plugged_in(decisions) as lines:
        check_same(attempt(arch, checkpoint, **arguments), alone)
    return lines


@pytest.mark.parametrize("arch", PLATFORMS)
@pytest.mark.parametrize("model", CHECKPOINTS)
def test_without_a_decision(model: str, arch: str, tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint", model)
    for quantization in QUANTIZATIONS:
        with without_plugins():
            alone = attempt(arch, checkpoint, quantization=quantization)
        with plugged_in(tmp_path) as lines:
            ours = attempt(arch, checkpoint, quantization=quantization)
        check_same(ours, alone)
        if lines or not alone.error:
            assert lines[0].startswith("autotune: no_decision ("), lines
            assert arch in lines[0] and str(tmp_path) in lines[0]


@pytest.mark.parametrize("model", CHECKPOINTS)
def test_another_models_decision(model: str, tmp_path: Path) -> None:
    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    if model == "minimax-m2":
        model = "qwen3-moe"
    checkpoint = make_checkpoint(tmp_path / "checkpoint", model)
    (line,) = compare("sm100", checkpoint, tmp_path / "decisions", quantization="modelopt_fp4")
    assert line.startswith("autotune: no_decision (")


@pytest.mark.parametrize("quantization", [None, "fp8", "modelopt_fp8", "modelopt_mixed", "mxfp8"])
def test_another_quantization(quantization: str | None, checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    (line,) = compare("sm100", checkpoint, tmp_path / "decisions", quantization=quantization)
    assert line.startswith(f"autotune: no_decision (MiniMaxM2ForCausalLM, {quantization or 'none'}")


@pytest.mark.parametrize("arch", ["sm90", "sm103", "sm110", "sm120"])
def test_another_arch(arch: str, checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    (line, *_) = compare(arch, checkpoint, tmp_path / "decisions", quantization="modelopt_fp4")
    assert line.startswith(f"autotune: no_decision (MiniMaxM2ForCausalLM, modelopt_fp4, {arch})")
    assert ("there is one for sm100" in line) is (arch == "sm103")


@pytest.mark.parametrize("arch", ["sm90", "sm110", "sm120"])
def test_an_arch_of_another_family_cannot_be_listed(
    arch: str, checkpoint: Path, tmp_path: Path
) -> None:
    put_decision(tmp_path, also_arch=(arch,), also_arch_reason="a test's")
    (line, *_) = compare(arch, checkpoint, tmp_path, quantization="modelopt_fp4")
    assert line.startswith("autotune: no_decision (")
    (line, *_) = compare("sm100", checkpoint, tmp_path, quantization="modelopt_fp4")
    assert line.startswith("autotune: invalid (") and f"also_arch lists {arch}" in line


@pytest.mark.parametrize(
    "change",
    [
        {"num_local_experts": 128},
        {"hidden_size": 6144},
        {"intermediate_size": 768},
        {"num_experts_per_tok": 4},
    ],
    ids=str,
)
def test_another_geometry(change: dict[str, int], tmp_path: Path) -> None:
    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    checkpoint = make_checkpoint(tmp_path / "checkpoint", **change)
    (line,) = compare("sm100", checkpoint, tmp_path / "decisions", quantization="modelopt_fp4")
    assert line.startswith("autotune: out_of_scope (") and "geometry is " in line


@pytest.mark.parametrize("told", OTHER_LAUNCHES)
def test_another_launch(told: str, checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    given = {"quantization": "modelopt_fp4", **OTHER_LAUNCHES[told]}
    lines = compare("sm100", checkpoint, tmp_path / "decisions", **given)
    assert lines and lines[0].startswith("autotune: out_of_scope ("), lines
    assert told in lines[0]


def test_adapters_are_lora(checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    given: dict[str, Any] = {"quantization": "modelopt_fp4", "lora_paths": ["one=/nowhere"]}
    (line,) = compare("sm100", checkpoint, tmp_path / "decisions", **given)
    assert line.startswith("autotune: out_of_scope (") and "enable_lora=true" in line


@pytest.mark.parametrize("told", OTHER_LAUNCHES)
def test_a_decision_of_that_launch_does_not_serve_the_plain_one(
    told: str, checkpoint: Path, tmp_path: Path
) -> None:
    name, _, value = told.replace(" is ", "=").partition("=")
    sizes = ("tp", "ep", "dp", "attention_dp")
    scope: dict[str, Any] = {name: int(value) if name in sizes else value}
    if name not in (*sizes, "dtype", "a2a_backend"):
        scope = {"engine_settings": scope}
    put_decision(tmp_path, backend="flashinfer_cutlass", **scope)
    (line,) = compare("sm100", checkpoint, tmp_path, quantization="modelopt_fp4")
    assert line.startswith("autotune: out_of_scope ("), line


def test_disabled(checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path, backend="flashinfer_cutlass")
    with without_plugins():
        alone = attempt("sm100", checkpoint, quantization="modelopt_fp4")
    for value in ("1", "true", " ON "):
        with plugged_in(tmp_path, AUTOTUNE_DISABLE=value) as lines:
            check_same(attempt("sm100", checkpoint, quantization="modelopt_fp4"), alone)
        (line,) = lines
        assert line.startswith("autotune: disabled (") and "AUTOTUNE_DISABLE is set" in line


@pytest.mark.parametrize("arch", ["sm100", "sm120"])
def test_an_explicit_choice(arch: str, checkpoint: Path, tmp_path: Path) -> None:
    """Each name but auto is kept, also the one that SGLang itself turns into auto."""
    from sglang.srt.server_args import MOE_RUNNER_BACKEND_CHOICES

    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    for backend in MOE_RUNNER_BACKEND_CHOICES:
        if backend == "auto":
            continue
        given = {"quantization": "modelopt_fp4", "moe_runner_backend": backend}
        lines = compare(arch, checkpoint, tmp_path / "decisions", **given)
        if backend == "megamoe" and arch == "sm120":
            assert not lines  # SGLang refuses it before its rules are asked.
            continue
        (line,) = lines
        assert line.startswith("autotune: explicit ("), line
        assert f"{backend} was asked for and is kept" in line
