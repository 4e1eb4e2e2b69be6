"""The plugin in the real SGLang: what `auto` becomes, and what follows from it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.decisions import DecisionKey, Geometry
from autotune.engines.sglang.catalog import refusal
from autotune.engines.sglang.table import read_catalog
from autotune.errors import AutotuneError

from .decisions import put_decision
from .launches import Outcome, attempt, plugged_in, without_plugins
from .real import make_checkpoint, resolve_on, resolved, sources

PlugIn = Callable[..., None]
Lines = Callable[[], list[str]]
OURS = "AutotunePlugin.measured_moe_backend"
RULE = "_minimax_m2_overrides"
FITTING = [
    name
    for name in read_catalog().runners
    if refusal(
        read_catalog(),
        backend=name,
        quantization="modelopt_fp4",
        arch="sm100",
        a2a_backend="none",
        a2a_mode=None,
        tp=4,
        ep=1,
        engine_version="0.5.23",
    )
    is None
    and name != "megamoe"
]


@pytest.fixture
def publish() -> Iterator[Callable[[Any], Any]]:
    """Publish arguments as a server's process does; returns what its MoE layers read."""
    from sglang.srt import runtime_context

    def published(server_args: Any) -> Any:
        runtime_context.publish(server_args, role="test")
        return runtime_context.get_exec().moe

    yield published
    runtime_context.reset_context()


def fp4(checkpoint: Path, **arguments: Any) -> Outcome:
    return attempt("sm100", checkpoint, quantization="modelopt_fp4", **arguments)


def test_a_measured_backend_beats_the_hard_coded_rule(
    checkpoint: Path, plug_in: PlugIn, lines: Lines, tmp_path: Path
) -> None:
    file = put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    plug_in(tmp_path / "decisions")
    server_args = resolve_on("sm100", checkpoint, quantization="modelopt_fp4")
    assert resolved(server_args, "moe_runner_backend") == "flashinfer_cutlass"
    assert sources(server_args, "moe_runner_backend") == [RULE, OURS]
    (line,) = lines()
    assert line.startswith("autotune: applied (MiniMaxM2ForCausalLM, modelopt_fp4, sm100): ")
    assert str(file) in line
    assert "in place of flashinfer_trtllm_routed (the rule _minimax_m2_overrides)" in line


def test_the_same_backend_as_the_hard_coded_rule(checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path, backend="flashinfer_trtllm_routed")
    with plugged_in(tmp_path) as lines:
        ours = fp4(checkpoint)
    assert ours.backend == "flashinfer_trtllm_routed"
    assert sources(ours.server_args, "moe_runner_backend") == [RULE, OURS]
    (line,) = lines
    assert line.endswith("; the rule _minimax_m2_overrides says the same")


@pytest.mark.parametrize("backend", FITTING)
def test_what_follows(
    backend: str, checkpoint: Path, tmp_path: Path, publish: Callable[[Any], Any]
) -> None:
    """Shared-expert fusion, the draft model's backend and the published context follow."""
    from sglang.srt.arg_groups.overrides import _moe_runner_fusion_disable

    put_decision(tmp_path, backend=backend)
    settings: dict[str, Any] = {}
    if backend == "lora_marlin":
        # Measured with LoRA, as its own rule demands.
        settings = {"enable_lora": True, "lora_backend": "triton_v2"}
        settings |= {"max_lora_rank": 8, "lora_target_modules": ["all"]}
        put_decision(
            tmp_path,
            backend=backend,
            engine_settings={
                "enable_lora": "true",
                "lora_backend": "triton_v2",
            },
        )
    with plugged_in(tmp_path):
        ours = fp4(checkpoint, **settings)
    assert ours.error is None and ours.backend == backend
    rule = _moe_runner_fusion_disable(SimpleNamespace(moe_runner_backend=backend))
    without_fusion = bool(rule.get("disable_shared_experts_fusion"))
    assert resolved(ours.server_args, "disable_shared_experts_fusion") is without_fusion
    draft = "auto" if backend.startswith("lora_") else backend
    assert resolved(ours.server_args, "speculative_moe_runner_backend") == draft
    moe = publish(ours.server_args)
    assert moe.moe_runner_backend == backend
    assert moe.disable_shared_experts_fusion is without_fusion
    # What the user gave stays beside it.
    assert ours.server_args.moe_runner_backend == "auto"


def test_a_typed_auto_is_auto(checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path, backend="flashinfer_cutlass")
    with plugged_in(tmp_path):
        assert fp4(checkpoint, moe_runner_backend="auto").backend == "flashinfer_cutlass"


def test_a_model_without_a_rule_of_its_own(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint", "mixtral")
    key, geometry = DecisionKey("MixtralForCausalLM", "none", "sm90"), Geometry(4096, 14336, 8, 2)
    put_decision(tmp_path / "decisions", backend="triton", key=key, geometry=geometry)
    with plugged_in(tmp_path / "decisions") as lines:
        ours = attempt("sm90", checkpoint)
    assert ours.backend == "triton"
    assert sources(ours.server_args, "moe_runner_backend") == [OURS]
    (line,) = lines
    assert "the rule" not in line


@pytest.mark.parametrize("listed", [True, False])
def test_sm103_borrows_where_somebody_listed_it(
    listed: bool, checkpoint: Path, tmp_path: Path
) -> None:
    scope = {"also_arch": ("sm103",), "also_arch_reason": "the same kernels"} if listed else {}
    put_decision(tmp_path, backend="flashinfer_cutlass", **scope)
    with plugged_in(tmp_path) as lines:
        ours = attempt("sm103", checkpoint, quantization="modelopt_fp4")
    (line,) = lines
    assert ours.backend == ("flashinfer_cutlass" if listed else "flashinfer_trtllm_routed")
    assert ("lent by sm100 (also_arch): the same kernels" in line) is listed


def test_attention_groups_in_the_older_spelling(checkpoint: Path, tmp_path: Path) -> None:
    """--dp-size 4 --enable-dp-attention, as sweeps write it, is attention_dp 4."""
    put_decision(tmp_path, backend="flashinfer_cutlass", attention_dp=4)
    with plugged_in(tmp_path):
        assert fp4(checkpoint, attn_dp_size=4).backend == "flashinfer_cutlass"
        older = fp4(checkpoint, dp_size=4, enable_dp_attention=True)
    assert older.backend == "flashinfer_cutlass"


# ---- All-to-all -------------------------------------------------------------------------------


def test_deepep_is_not_given_a_runner_that_cannot_take_it(checkpoint: Path, tmp_path: Path) -> None:
    deepep: dict[str, Any] = {"ep": 4, "a2a_backend": "deepep", "a2a_mode": "auto"}
    put_decision(tmp_path, backend="flashinfer_trtllm_routed", **deepep)
    with without_plugins():
        alone = fp4(checkpoint, moe_a2a_backend="deepep")
    with plugged_in(tmp_path) as lines:
        ours = fp4(checkpoint, moe_a2a_backend="deepep")
    assert ours.declared == alone.declared
    reason = "registers no fused function for flashinfer_trtllm_routed with a2a_backend deepep"
    refused, own = lines
    assert refused.startswith("autotune: invalid (") and reason in refused
    assert own.startswith(
        f"autotune: warning: SGLang's own choice flashinfer_trtllm_routed ({RULE}) can't run here:"
    )
    assert reason in own and "--moe-runner-backend" in own


@pytest.mark.parametrize("decided", [True, False])
def test_the_rule_that_crashes_is_called_out(
    decided: bool, checkpoint: Path, tmp_path: Path
) -> None:
    """Also where no decision speaks of deepep, and strictness doesn't stop a server for it."""
    if decided:
        put_decision(tmp_path)
    with plugged_in(tmp_path, AUTOTUNE_STRICT="1") as lines:
        assert fp4(checkpoint, moe_a2a_backend="deepep").error is None
    first, own = lines
    assert first.startswith("autotune: out_of_scope (" if decided else "autotune: no_decision (")
    assert "SGLang's own choice flashinfer_trtllm_routed" in own


def test_a_runner_that_takes_deepep_is_applied(checkpoint: Path, tmp_path: Path) -> None:
    deepep: dict[str, Any] = {"ep": 4, "a2a_backend": "deepep", "a2a_mode": "auto"}
    put_decision(tmp_path, backend="flashinfer_cutedsl", **deepep)
    with plugged_in(tmp_path) as lines:
        ours = fp4(checkpoint, moe_a2a_backend="deepep")
    assert ours.backend == "flashinfer_cutedsl"
    # SGLang's own consequence of that runner.
    assert resolved(ours.server_args, "deepep_mode") == "low_latency"
    (line,) = lines
    assert line.startswith("autotune: applied (")


@pytest.mark.parametrize("strict", [True, False])
def test_a_later_step_that_changes_the_backend_is_told(
    strict: bool, checkpoint: Path, tmp_path: Path
) -> None:
    """With a dispatch type, SGLang makes flashinfer_trtllm the routed one."""
    scope = {"a2a_backend": "flashinfer", "a2a_mode": "bf16", "ep": 4, "attention_dp": 4}
    put_decision(tmp_path, backend="flashinfer_trtllm", **scope)
    given = {"moe_a2a_backend": "flashinfer", "attn_dp_size": 4}
    with plugged_in(tmp_path, AUTOTUNE_STRICT=str(int(strict))) as lines:
        ours = fp4(checkpoint, flashinfer_a2a_dispatch_type="bf16", **given)
    told = "flashinfer_trtllm was applied, and a later step of SGLang made it"
    assert lines[1].startswith(f"autotune: warning: {told} flashinfer_trtllm_routed")
    if strict:
        assert ours.error is not None and ours.error.startswith("AutotuneError: ")
        assert told in ours.error
    else:
        assert ours.backend == "flashinfer_trtllm_routed"


# ---- Folders, age and strictness ---------------------------------------------------------------


def test_the_first_folder_wins_and_the_other_is_named(checkpoint: Path, tmp_path: Path) -> None:
    first = put_decision(tmp_path / "first", backend="flashinfer_cutlass")
    second = put_decision(tmp_path / "second", backend="flashinfer_cutedsl")
    for one, other, backend in (
        (first, second, "flashinfer_cutlass"),
        (second, first, "flashinfer_cutedsl"),
    ):
        folders = [str(file.parents[2]) for file in (one, other)]
        with plugged_in(Path(":".join(folders))) as lines:
            assert fp4(checkpoint).backend == backend
        (line,) = lines
        assert f"{one} shadows {other}" in line


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        ({"engine_version": "0.4.0"}, "the engine is version 0.5.23, measured with 0.4.0"),
        ({"engine_version": "main"}, "they can't be compared"),
    ],
)
def test_a_stale_decision(
    scope: dict[str, str], told: str, checkpoint: Path, tmp_path: Path
) -> None:
    put_decision(tmp_path, backend="flashinfer_cutlass", **scope)
    with without_plugins():
        alone = fp4(checkpoint)
    with plugged_in(tmp_path) as lines:
        assert fp4(checkpoint).declared == alone.declared
    (line,) = lines
    assert line.startswith("autotune: stale (") and told in line
    with plugged_in(tmp_path, AUTOTUNE_STRICT="1") as lines, pytest.raises(AutotuneError) as error:
        resolve_on("sm100", checkpoint, quantization="modelopt_fp4")
    assert told in str(error.value) and "refusing to start" in str(error.value)


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        ({"device_count": 8}, "device_count is 4, measured with 8"),
        ({"kernel_libraries": {"torch": "2.0.0"}}, "torch is "),
        ({"engine_version": "0.5.22"}, "the engine is version 0.5.23, measured with 0.5.22"),
        ({"kernel_environment": {"NCCL_ALGO": "Ring"}}, "NCCL_ALGO unset, measured with"),
    ],
)
def test_a_soft_mismatch(
    scope: dict[str, Any], told: str, checkpoint: Path, tmp_path: Path
) -> None:
    put_decision(tmp_path, backend="flashinfer_cutlass", **scope)
    with plugged_in(tmp_path) as lines:
        assert fp4(checkpoint).backend == "flashinfer_cutlass"
    (line,) = lines
    assert line.startswith("autotune: applied (") and f"warning: {told}" in line
    with plugged_in(tmp_path, AUTOTUNE_STRICT="1") as lines:
        ours = fp4(checkpoint)
    assert ours.error is not None and told in ours.error
    assert ours.error.startswith("AutotuneError: refusing to start, because AUTOTUNE_STRICT is set")
    assert len(lines) == 1


def test_strict_applies_a_decision_that_fits(checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path, backend="flashinfer_cutlass", device_count=4)
    with plugged_in(tmp_path, AUTOTUNE_STRICT="1") as lines:
        assert fp4(checkpoint).backend == "flashinfer_cutlass"
    assert len(lines) == 1


@pytest.mark.parametrize("model", ["llama", "qwen3-moe", "mixtral"])
def test_strict_starts_where_nothing_was_measured(model: str, tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint", model)
    with plugged_in(tmp_path, AUTOTUNE_STRICT="1") as lines:
        assert attempt("sm100", checkpoint).error is None
    (line,) = lines
    assert line.startswith("autotune: no_decision (")


def test_a_folder_that_is_not_there(checkpoint: Path, tmp_path: Path) -> None:
    with plugged_in(tmp_path / "gone") as lines:
        assert fp4(checkpoint).backend == "flashinfer_trtllm_routed"
    (line,) = lines
    assert line.startswith("autotune: no_decision (") and "gone can't be listed" in line
    with plugged_in(tmp_path / "gone", AUTOTUNE_STRICT="1"):
        error = fp4(checkpoint).error
    assert error is not None and "gone can't be listed" in error


def test_a_kernel_variable_of_this_server(checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path, backend="flashinfer_cutlass")
    with plugged_in(tmp_path, SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16="1") as lines:
        assert fp4(checkpoint).backend == "flashinfer_trtllm_routed"
    assert "SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16=1, measured with" in lines[0]


def test_the_file_is_opened_once(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put_decision(tmp_path, backend="flashinfer_cutlass")
    opened: list[str] = []
    really = os.open

    def counting(path: Any, *arguments: Any, **more: Any) -> int:
        opened.append(str(path))
        return really(path, *arguments, **more)

    with plugged_in(tmp_path):
        monkeypatch.setattr("os.open", counting)
        assert fp4(checkpoint).backend == "flashinfer_cutlass"
    assert opened.count(str(file)) == 1
