"""``autotune import`` of tools' files, from its arguments to the folder and what is printed."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from autotune.cli import app
from autotune.errors import EXIT_OPEN, InputError, UsageError
from autotune.records.folder import load_records
from tests.importers.tool_files import SGLANG, VLLM

FACTS = ("--model", "MiniMaxM2ForCausalLM", "--geometry", "3072,1536,256,8", "--arch", "sm100")
VLLM_FACTS = (*FACTS, "--engine", "vllm", "--quantization", "fp8")
INFO = SGLANG / "with_server_info.jsonl"


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["import", *(str(each) for each in arguments)])


def test_a_file_that_says_all_needs_no_more(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = invoke(INFO, *FACTS, "--run", run)
    assert result.exit_code == EXIT_OPEN
    assert "4 points from 4 of 4 rows imported into" in result.stderr
    assert "flashinfer_trtllm_routed" in result.stdout
    assert (run / "source" / INFO.name).read_bytes() == INFO.read_bytes()
    assert "are already in" in invoke(INFO, *FACTS, "--run", run).stderr


def test_json_is_all_that_stdout_holds(tmp_path: Path) -> None:
    result = invoke(VLLM / "sweep", *VLLM_FACTS, "--run", tmp_path / "run", "--json")
    assert result.exit_code == EXIT_OPEN
    assert json.loads(result.stdout)["run"] == str(tmp_path / "run")
    assert "note: 4 points are means of repetitions on one server" in result.stderr


def test_a_file_a_backend(tmp_path: Path) -> None:
    paths = [VLLM / "plain.json", VLLM / "metadata.json"]
    backends = ("--backend", f"{paths[0]}=triton", "--backend", "metadata.json=flashinfer_cutlass")
    run = tmp_path / "run"
    result = invoke(*paths, *VLLM_FACTS, *backends, "--run", run, "--name", "both")
    assert result.exit_code == EXIT_OPEN
    loaded = load_records(run)
    assert [each.name for each in loaded.run.candidates] == ["triton", "flashinfer_cutlass"]
    assert loaded.run.name == "both"


def test_the_folder_is_named_after_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    invoke(INFO, *FACTS)
    shutil.copytree(VLLM / "sweep", tmp_path / "mine")
    invoke("mine", *VLLM_FACTS)
    assert sorted(each.name for each in (tmp_path / "results").iterdir()) == [
        "mine",
        "with_server_info",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "tidy"), "--from 'tidy': no such format: use one of tidy_csv"),
        (("--from", "vllm_bench_sweep"), "line 2: not JSON"),
        (("--backend", "a", "--backend", "b"), "'a' is given for all files already"),
        (("--backend", "x=a", "--backend", "x=b"), "--backend 'x=b': 'x' is named already"),
        (("--backend", "=a"), "write FILE=NAME"),
        (("--repeats", "launches"), "leave it out"),
    ],
)
def test_bad_arguments_write_nothing(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = invoke(INFO, *FACTS, "--run", tmp_path / "run", *arguments)
    assert isinstance(result.exception, UsageError) and message in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_half_a_line_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "it.jsonl"
    path.write_bytes(INFO.read_bytes()[:-100])
    result = invoke(path, *FACTS, "--run", tmp_path / "run")
    assert isinstance(result.exception, InputError)
    assert "it.jsonl, line 4: ends in the middle" in str(result.exception)
    assert [each.name for each in tmp_path.iterdir()] == ["it.jsonl"]
