"""The plugin in the real SGLang: what `auto` becomes, and what is never touched."""

from collections.abc import Callable
from pathlib import Path

from .decisions import put_decision
from .real import resolve_on, resolved, sources

PlugIn = Callable[..., None]
Lines = Callable[[], list[str]]
OURS = "AutotunePlugin.measured_moe_backend"


def test_a_measured_backend_beats_the_hard_coded_rule(
    checkpoint: Path, plug_in: PlugIn, lines: Lines, tmp_path: Path
) -> None:
    file = put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    plug_in(tmp_path / "decisions")
    server_args = resolve_on("sm100", checkpoint, quantization="modelopt_fp4")
    assert resolved(server_args, "moe_runner_backend") == "flashinfer_cutlass"
    assert sources(server_args, "moe_runner_backend") == ["_minimax_m2_overrides", OURS]
    (line,) = lines()
    assert line.startswith("autotune: applied (MiniMaxM2ForCausalLM, modelopt_fp4, sm100): ")
    assert str(file) in line
    assert "in place of flashinfer_trtllm_routed (SGLang's own rule _minimax_m2_overrides)" in line
