"""What a model's own rule in SGLang refuses by name, a decision must not bring about.

Those rules are asked while the backend still reads auto, so that their checks of a named backend
don't run for the one that a decision puts in.
"""

from pathlib import Path
from typing import Any

import pytest

from autotune.decisions import DecisionKey, Geometry
from autotune.engines.sglang.table import read_catalog

from .decisions import put_decision
from .launches import Outcome, attempt, differences, plugged_in, without_plugins
from .real import CHECKPOINTS, make_checkpoint

# Weights of 4 bits, activations of 16: only some runners have that path.
W4A16 = {
    "quant_method": "modelopt",
    "quant_algo": "MIXED_PRECISION",
    "quantized_layers": {
        f"model.layers.{layer}.mlp.experts.0.gate_proj": {"quant_algo": "W4A16_NVFP4"}
        for layer in range(4)
    },
}
NEMOTRON: dict[str, Any] = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "dtype": "bfloat16",
    "hidden_size": 2688,
    "intermediate_size": 1856,
    "moe_intermediate_size": 1856,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hybrid_override_pattern": "ME*E",
    "num_hidden_layers": 4,
    "mlp_hidden_act": "relu2",
}


GEOMETRIES = {
    "qwen3-moe": Geometry(4096, 1536, 128, 8),
    "deepseek-v3": Geometry(7168, 2048, 256, 8),
    "gpt-oss": Geometry(2880, 2880, 128, 4),
    "mixtral": Geometry(4096, 14336, 8, 2),
}


def three(
    checkpoint: Path, decisions: Path, backend: str, **arguments: Any
) -> tuple[Outcome, Outcome, list[str]]:
    """The launch with the backend named, and with a decision for it."""
    with without_plugins():
        named = attempt("sm100", checkpoint, moe_runner_backend=backend, **arguments)
    with plugged_in(decisions) as lines:
        ours = attempt("sm100", checkpoint, **arguments)
    return named, ours, lines


@pytest.mark.parametrize("quantization", ["none", "fp8", "modelopt_fp4"])
@pytest.mark.parametrize("arch", ["sm90", "sm100"])
@pytest.mark.parametrize("model", GEOMETRIES)
def test_a_decision_comes_to_what_the_name_does(
    model: str, arch: str, quantization: str, tmp_path: Path
) -> None:
    """Whatever else the models' rules declare, each runner that the catalog lets pass."""
    checkpoint = make_checkpoint(tmp_path / "checkpoint", model)
    given = {} if quantization == "none" else {"quantization": quantization}
    key = DecisionKey(CHECKPOINTS[model]["architectures"][0], quantization, arch)
    applied = 0
    for backend in read_catalog().runners:
        put_decision(tmp_path / "decisions", backend=backend, key=key, geometry=GEOMETRIES[model])
        with plugged_in(tmp_path / "decisions") as lines:
            ours = attempt(arch, checkpoint, **given)
        if not lines[0].startswith("autotune: applied ("):
            assert lines[0].startswith("autotune: invalid ("), lines
            continue
        with without_plugins():
            named = attempt(arch, checkpoint, moe_runner_backend=backend, **given)
        applied += 1
        assert ours.error == named.error
        assert ours.error or not differences(ours, named), backend
    assert applied


def test_the_case_is_real(tmp_path: Path) -> None:
    """SGLang alone: auto is marlin there, and flashinfer_trtllm is refused by name."""
    checkpoint = make_checkpoint(tmp_path / "checkpoint", "qwen3-moe", quantization_config=W4A16)
    with without_plugins():
        auto = attempt("sm100", checkpoint)
        named = attempt("sm100", checkpoint, moe_runner_backend="flashinfer_trtllm")
    assert auto.backend == "marlin"
    assert named.error is not None and "W4A16_NVFP4 MoE layers require" in named.error


def test_w4a16_experts(tmp_path: Path) -> None:
    """The key says modelopt_mixed for these and for other checkpoints of the same model alike."""
    checkpoint = make_checkpoint(tmp_path / "checkpoint", "qwen3-moe", quantization_config=W4A16)
    put_decision(
        tmp_path / "decisions",
        backend="flashinfer_trtllm",
        key=DecisionKey("Qwen3MoeForCausalLM", "modelopt_mixed", "sm100"),
        geometry=Geometry(4096, 1536, 128, 8),
    )
    named, ours, lines = three(checkpoint, tmp_path / "decisions", "flashinfer_trtllm")
    assert named.error is not None
    assert ours.backend != "flashinfer_trtllm", lines


def test_remapped_experts(tmp_path: Path) -> None:
    """init_expert_location, like EPLB, remaps experts; it is no part of the scope either."""
    checkpoint = tmp_path / "checkpoint"
    make_checkpoint(checkpoint, "qwen3-moe", **NEMOTRON)
    put_decision(
        tmp_path / "decisions",
        backend="flashinfer_trtllm",
        key=DecisionKey("NemotronHForCausalLM", "none", "sm100"),
        geometry=Geometry(2688, 1856, 128, 6),
    )
    remapped = {"init_expert_location": "/placement.json"}
    named, ours, lines = three(checkpoint, tmp_path / "decisions", "flashinfer_trtllm", **remapped)
    assert named.error is not None and "does not support EPLB or" in named.error, named.error
    assert ours.backend != "flashinfer_trtllm", lines
