"""``autotune import`` from its arguments to the decision file."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from autotune.cli import app
from autotune.decisions.schema import decode
from autotune.errors import EXIT_DONE, EXIT_OPEN, UsageError
from tests.importers.builders import ORIGIN

FACTS = ("--model", "MiniMaxM2ForCausalLM", "--geometry", "3072,1536,256,8")
SM103 = ("--also-arch", "sm103", "--also-arch-reason", "the origin's rule covers it")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["import", str(ORIGIN), *FACTS, *arguments])


def test_the_origin_stays_open_until_it_is_accepted(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = invoke("--run", str(run))
    assert result.exit_code == EXIT_OPEN
    assert "12 points from 12 of 12 rows" in result.stderr
    assert "flashinfer_trtllm_routed" in result.stdout
    assert "flashinfer_cutedsl is ahead by 1.4%" in result.stdout
    assert "no interval" in result.stdout and "no correctness evidence" in result.stdout
    assert not (run / "decision.json").exists()

    again = invoke("--run", str(run), "--accept", "--into", str(tmp_path / "decisions"))
    assert again.exit_code == EXIT_DONE
    assert "are already in" in again.stderr
    shared = tmp_path / "decisions" / "sm100" / "MiniMaxM2ForCausalLM" / "modelopt_fp4.json"
    decision = decode(shared.read_bytes(), where="it")
    (entry,) = decision.entries
    assert entry.choice.backend == "flashinfer_trtllm_routed"
    assert entry.choice.outcome != "decisive"
    assert any("correctness" in sentence for sentence in entry.evidence.accepted)
    assert entry.evidence.source == "https://github.com/sgl-project/sglang/pull/32229"


def test_also_arch_is_in_the_decision(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert invoke("--run", str(run), "--accept", *SM103).exit_code == EXIT_DONE
    decision = decode((run / "decision.json").read_bytes(), where="it")
    assert decision.entries[0].scope.also_arch == ("sm103",)


def test_json_is_all_that_stdout_holds(tmp_path: Path) -> None:
    result = invoke("--run", str(tmp_path / "run"), "--json")
    assert result.exit_code == EXIT_OPEN
    assert json.loads(result.stdout)["run"] == str(tmp_path / "run")


def test_the_default_folder_is_in_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    invoke("--name", "origin")
    assert (tmp_path / "results" / "origin" / "source.csv").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--also-arch", "sm103"), "--also-arch-reason"),
        (("--rename", "triton"), "write OLD=NEW"),
        (("--rename", "a=b", "--rename", "a=c"), "renamed already"),
        (("--geometry", "1,2"), "four whole numbers"),
    ],
)
def test_bad_arguments_write_nothing(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = invoke("--run", str(tmp_path / "run"), *arguments)
    assert isinstance(result.exception, UsageError) and message in str(result.exception)
    assert list(tmp_path.iterdir()) == []
