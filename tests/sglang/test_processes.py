"""Real processes: SGLang finds the plugin by its entry point, in the first process and the next."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from autotune.environment import kernel_variables

from .decisions import put_decision

START = Path(__file__).with_name("start.py")
FP4 = ("--quantization", "modelopt_fp4")


class Started(NamedTuple):
    """What a start printed, and the lines that it logged of ours."""

    code: int
    found: dict[str, Any]
    lines: list[str]
    errors: str


def start(how: str, checkpoint: Path, *flags: str, **variables: str) -> Started:
    steering = kernel_variables(os.environ)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in steering and not name.startswith(("AUTOTUNE_", "SGLANG_"))
    }
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(START), how, str(checkpoint), *flags],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = [line for line in ran.stderr.splitlines() if "autotune:" in line]
    found = json.loads(ran.stdout.splitlines()[-1]) if ran.returncode == 0 else {}
    return Started(ran.returncode, found, lines, ran.stderr)


def test_a_command_line_and_its_child(checkpoint: Path, tmp_path: Path) -> None:
    """One line, one reading of the file; the child is told, and reads and says nothing."""
    file = put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    started = start("command", checkpoint, *FP4, AUTOTUNE_DECISIONS=str(tmp_path / "decisions"))
    assert started.code == 0, started.errors
    assert started.found["backend"] == "flashinfer_cutlass"
    assert started.found["sources"][-1] == "AutotunePlugin.measured_moe_backend"
    assert started.found["opened"] == 1
    assert started.found["child"] == {"backend": "flashinfer_cutlass", "opened": 0}
    (line,) = started.lines
    assert "autotune: applied (MiniMaxM2ForCausalLM, modelopt_fp4, sm100): " in line
    assert str(file) in line


def test_an_explicit_choice_on_the_command_line(checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    started = start(
        "command",
        checkpoint,
        *FP4,
        "--moe-runner-backend=flashinfer_cutedsl",
        AUTOTUNE_DECISIONS=str(tmp_path / "decisions"),
        AUTOTUNE_STRICT="1",
    )
    assert started.found["child"] == {"backend": "flashinfer_cutedsl", "opened": 0}
    assert started.found["opened"] == 0
    assert len(started.lines) == 1 and "autotune: explicit (" in started.lines[0]


def test_arguments_without_a_command_line(checkpoint: Path, tmp_path: Path) -> None:
    """Logging isn't set up by anybody, and the line is there all the same."""
    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    started = start("arguments", checkpoint, AUTOTUNE_DECISIONS=str(tmp_path / "decisions"))
    assert started.found["backend"] == "flashinfer_cutlass", started.errors
    assert len(started.lines) == 1 and "autotune: applied (" in started.lines[0]


def test_left_out_by_name(checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    folders = str(tmp_path / "decisions")
    started = start("command", checkpoint, *FP4, AUTOTUNE_DECISIONS=folders, SGLANG_PLUGINS="other")
    assert started.found["backend"] == "flashinfer_trtllm_routed"
    assert started.found["opened"] == 0 and not started.lines
    named = start("arguments", checkpoint, AUTOTUNE_DECISIONS=folders, SGLANG_PLUGINS="autotune")
    assert named.found["backend"] == "flashinfer_cutlass"


def test_strict_stops_the_process(checkpoint: Path, tmp_path: Path) -> None:
    put_decision(tmp_path / "decisions").write_bytes(b"{")
    folders = str(tmp_path / "decisions")
    started = start("command", checkpoint, *FP4, AUTOTUNE_DECISIONS=folders, AUTOTUNE_STRICT="1")
    assert started.code == 1
    last = started.errors.strip().splitlines()[-1]
    assert last.startswith("autotune.errors.AutotuneError: refusing to start, because")
    assert "not a decision file" in last and "--moe-runner-backend" in last


def test_the_engine_class(checkpoint: Path, tmp_path: Path) -> None:
    """`sglang.Engine` loads plugins when it is made: after its imports, which set variables."""
    put_decision(tmp_path / "decisions", backend="flashinfer_cutlass")
    started = start("engine", checkpoint, AUTOTUNE_DECISIONS=str(tmp_path / "decisions"))
    assert started.code == 0, started.errors
    assert started.found["backend"] == "flashinfer_cutlass", started.lines
