"""``autotune resolve`` and the command's own options, through the real command."""

import json
from pathlib import Path

import pytest

import autotune as package
from tests.cli.command import autotune, check_refused, command
from tests.decisions.builders import GEOMETRY, MODEL, QUANTIZATION, ROUTED, decision, put

KEY = ("--model", MODEL, "--quantization", QUANTIZATION, "--arch")
SCOPE = (
    "--geometry", str(GEOMETRY), "--engine", "sglang", "--engine-version", "0.5.9",
    "--dtype", "bfloat16", "--tp", "4", "--ep", "1", "--dp", "1", "--a2a", "none",
    "--device-name", "NVIDIA GB200",
)  # fmt: skip


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    folder = tmp_path / "decisions"
    put(folder, decision())
    return folder


def test_without_arguments_the_help_is_shown(tmp_path: Path) -> None:
    result = command(folder=tmp_path)
    assert result.returncode == 2
    assert "Usage" in result.stdout + result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_commands_and_exit_codes(tmp_path: Path, option: str) -> None:
    result = autotune(option, folder=tmp_path)
    assert result.returncode == 0 and result.stderr == ""
    for word in ("sweep", "decide", "resolve", "import", "report", "Exit codes"):
        assert word in result.stdout


@pytest.mark.parametrize("name", ["sweep", "decide", "resolve", "import", "report"])
def test_each_command_has_help(tmp_path: Path, name: str) -> None:
    result = autotune(name, "--help", folder=tmp_path)
    assert result.returncode == 0 and "Usage" in result.stdout


def test_version(tmp_path: Path) -> None:
    result = command("--version", folder=tmp_path)
    assert (result.returncode, result.stdout) == (0, f"autotune {package.__version__}\n")


def test_an_unknown_command_or_option(tmp_path: Path) -> None:
    for arguments in (("swep",), ("resolve", "--quantisation", "none"), ("sweep",)):
        result = autotune(*arguments, folder=tmp_path)
        assert result.returncode == 2
        assert result.stdout == "" and "Traceback" not in result.stderr and result.stderr


def test_a_decision_in_scope_is_applied(tmp_path: Path, decisions: Path) -> None:
    asked = ("resolve", *KEY, "sm100", *SCOPE, "--decisions", decisions)
    result = command(*asked, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    first, reason, *rest = result.stdout.splitlines()
    assert first == f"applied: {ROUTED}"
    assert reason.strip()
    assert f"  file: {decisions / 'sm100' / MODEL / f'{QUANTIZATION}.json'}" in rest

    told = json.loads(autotune(*asked, "--json", folder=tmp_path).stdout)
    assert told["status"] == "applied" and told["backend"] == ROUTED
    assert told["reason"] == reason.strip()


def test_what_the_user_asked_for_wins(tmp_path: Path, decisions: Path) -> None:
    asked = ("resolve", *KEY, "sm100", *SCOPE, "--decisions", decisions)
    result = autotune(*asked, "--backend", "triton", folder=tmp_path)
    assert result.returncode == 0 and result.stdout.startswith("explicit: triton\n")


def test_no_decision_leaves_the_engines_own_default(tmp_path: Path) -> None:
    for arch in ("sm110", "cpu-x86_64"):
        result = autotune("resolve", *KEY, arch, "--decisions", tmp_path, folder=tmp_path)
        assert result.returncode == 0 and result.stderr == ""
        assert result.stdout.startswith("no_decision: the engine keeps its own default\n")


def test_another_size_is_out_of_scope(tmp_path: Path, decisions: Path) -> None:
    other = ("--geometry", "3072,768,256,8")
    result = autotune(
        "resolve", *KEY, "sm100", *SCOPE, *other, "--decisions", decisions, folder=tmp_path
    )
    assert result.returncode == 0
    assert result.stdout.startswith("out_of_scope: the engine keeps its own default\n")


def test_an_old_decision_is_stale(tmp_path: Path, decisions: Path) -> None:
    result = autotune(
        "resolve", *KEY, "sm100", *SCOPE, "--decisions", decisions, "--max-age-days", "1",
        folder=tmp_path,
    )  # fmt: skip
    assert result.returncode == 4 and result.stdout.startswith("stale: ")


def test_a_broken_file_is_told_and_nothing_is_applied(tmp_path: Path, decisions: Path) -> None:
    file = decisions / "sm100" / MODEL / f"{QUANTIZATION}.json"
    for content in (b"{", b"\xff\xfe", b'{"schema_version": 99}', file.read_bytes()[:-100]):
        file.write_bytes(content)
        result = autotune(
            "resolve", *KEY, "sm100", *SCOPE, "--decisions", decisions, folder=tmp_path
        )
        assert result.returncode == 2
        assert result.stdout.startswith("invalid: the engine keeps its own default\n")
        assert "Traceback" not in result.stderr


def test_the_checkpoint_gives_name_and_geometry(tmp_path: Path, decisions: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(
        json.dumps(
            {
                "architectures": [MODEL],
                "hidden_size": GEOMETRY.hidden_size,
                "intermediate_size": GEOMETRY.expert_width,
                "num_local_experts": GEOMETRY.experts,
                "num_experts_per_tok": GEOMETRY.top_k,
                "dtype": "bfloat16",
            }
        )
    )
    asked = ("resolve", "--model-path", model, "--quantization", QUANTIZATION, "--arch", "sm100")
    result = autotune(*asked, *SCOPE[2:], "--decisions", decisions, folder=tmp_path)
    assert result.stdout.startswith(f"applied: {ROUTED}\n"), result.stdout


def test_one_of_model_and_model_path(tmp_path: Path) -> None:
    asked = ("resolve", "--quantization", "none", "--arch", "sm90")
    wanted = "exactly one of --model and --model-path"
    check_refused(autotune(*asked, folder=tmp_path), wanted)
    both = ("--model", "M", "--model-path", tmp_path)
    check_refused(autotune(*asked, *both, folder=tmp_path), wanted)


@pytest.mark.parametrize("geometry", ["1,2,3", "a,b,c,d", "8,8,2,4", "0,1,1,1"])
def test_a_bad_geometry(tmp_path: Path, geometry: str) -> None:
    asked = ("resolve", *KEY, "sm90", "--geometry", geometry)
    check_refused(autotune(*asked, folder=tmp_path), f"geometry '{geometry}'")
