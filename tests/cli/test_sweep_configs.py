"""The sweep configs that are checked in: each can be read, and planned where it can't be run."""

import shlex
from pathlib import Path

import pytest

from autotune.config import read_config
from tests.cli.command import check_refused, command

SWEEPS = Path(__file__).parents[2] / "configs" / "sweeps"
EVERY = sorted(SWEEPS.glob("*.toml"))
FP4 = {"flashinfer_cutlass", "flashinfer_trtllm_routed", "flashinfer_cutedsl", "auto"}
# What each measures: the checkpoint, its quantization, the GPUs of one server, the backends.
ON_SM100 = {
    "deepseek-r1-nvfp4-2nodes-sm100": (
        "nvidia/DeepSeek-R1-0528-NVFP4-v2",
        "modelopt_fp4",
        8,
        FP4,
    ),
    "deepseek-r1-nvfp4-sm100": ("nvidia/DeepSeek-R1-0528-NVFP4-v2", "modelopt_fp4", 4, FP4),
    "gpt-oss-120b-mxfp4-sm100": (
        "openai/gpt-oss-120b",
        "mxfp4",
        4,
        {"triton", "triton_kernel", "marlin", "auto"},
    ),
    "minimax-m2.7-nvfp4-sm100": (
        "nvidia/MiniMax-M2.7-NVFP4",
        "modelopt_fp4",
        4,
        FP4 | {"flashinfer_trtllm"},
    ),
    "qwen3-235b-nvfp4-sm100": ("nvidia/Qwen3-235B-A22B-NVFP4", "modelopt_fp4", 4, FP4),
}
NO_GPU = "no GPU is present here"


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No GPU is found and no checkpoint was downloaded; returns an empty working folder."""
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_every_config_can_be_read(path: Path) -> None:
    config = read_config(path)
    assert config.name == path.stem
    assert config.decision.min_rounds >= 3
    assert config.incumbent is not None
    assert config.candidate_list()


def test_each_config_for_sm100_is_checked_below() -> None:
    found = {path.stem for path in EVERY if read_config(path).engine.arch == "sm100"}
    assert found == set(ON_SM100)


@pytest.mark.parametrize("name", ON_SM100)
def test_its_plan_can_be_printed_without_a_gpu(name: str, bare_machine: Path) -> None:
    repository, quantization, tp, backends = ON_SM100[name]
    config = SWEEPS / f"{name}.toml"
    result = command("sweep", config, "--dry-run", folder=bare_machine)
    assert result.returncode == 2
    # The reference is launched once more, before the first round.
    rule = read_config(config).rule()
    fewest, most = (1 + len(backends) * rounds for rounds in (rule.min_rounds, rule.max_rounds))
    assert f"\n  {fewest} launches to make if {rule.min_rounds} rounds settle it" in result.stdout
    assert f", {most} at most" in result.stdout
    for number in range(rule.min_rounds + 1):
        assert f"\n  round {number}  " in result.stdout
    for backend in backends:
        argv = _command_of(backend, result.stdout)
        for flag, value in (
            ("--model-path", repository),
            ("--quantization", quantization),
            ("--moe-runner-backend", backend),
            ("--tp-size", str(tp)),
            ("--max-running-requests", "128"),
            ("--cuda-graph-max-bs-decode", "128"),
            ("--device", "cuda"),
        ):
            assert argv.count(flag) == 1
            assert argv[argv.index(flag) + 1] == value
    assert "\n  AUTOTUNE_DISABLE=1\n" in result.stdout
    assert "\n  AUTOTUNE_DISABLE=1\n" in result.stdout
    assert result.stderr.startswith("autotune: ")
    assert NO_GPU in result.stderr
    assert f"hf download {repository}" in result.stderr
    assert list(bare_machine.iterdir()) == []


def test_two_nodes_are_each_told_their_number(bare_machine: Path) -> None:
    config = SWEEPS / "deepseek-r1-nvfp4-2nodes-sm100.toml"
    argv = _command_of("auto", command("sweep", config, "--dry-run", folder=bare_machine).stdout)
    srun, rank, server = (
        argv.index("srun"),
        argv.index("autotune.engines.node_rank"),
        argv.index("sglang.launch_server"),
    )
    assert srun < rank < server
    assert "--nodes=2" in argv[srun:rank]
    assert argv[rank + 1] == "SLURM_NODEID"
    assert argv[argv.index("--nnodes") + 1] == "2"
    assert "--dist-init-addr" in argv


@pytest.mark.parametrize("name", ON_SM100)
def test_it_is_refused_without_a_gpu_before_anything_is_launched(
    name: str, bare_machine: Path
) -> None:
    result = command("sweep", SWEEPS / f"{name}.toml", folder=bare_machine)
    check_refused(result, name, NO_GPU)
    assert list(bare_machine.iterdir()) == []


def _command_of(backend: str, plan: str) -> list[str]:
    (line,) = [line for line in plan.splitlines() if line.startswith(f"  {backend}: ")]
    return shlex.split(line.removeprefix(f"  {backend}: "))
