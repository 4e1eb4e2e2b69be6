"""``autotune diff``, ``list`` and ``show`` as their user meets them."""

import json
import os
import shutil
from pathlib import Path

import pytest

from autotune.decisions import encode
from tests.cli.command import autotune, check_refused, command
from tests.decisions.builders import CUTLASS, decision, origin_entry, put
from tests.records.builders import make_run
from tests.review.run_folders import put_run

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A working folder with a decision, another version of it, and a run."""
    put(tmp_path / "decisions", decision())
    (tmp_path / "configs").mkdir()
    shutil.move(tmp_path / "decisions", tmp_path / "configs/decisions")
    changed = decision(origin_entry(choice={"backend": CUTLASS}))
    (tmp_path / "new.json").write_bytes(encode(changed))
    put_run(tmp_path / "results/run", make_run(rounds=1))
    return tmp_path


DECISION = Path("configs/decisions/sm100/MiniMaxM2ForCausalLM/modelopt_fp4.json")


def test_diff(project: Path) -> None:
    result = autotune("diff", DECISION, "new.json", folder=project)
    assert result.returncode == 0 and result.stderr == ""
    assert result.stdout.startswith(
        "**MiniMaxM2ForCausalLM, modelopt_fp4, sm100: flashinfer_trtllm_routed -> "
        "flashinfer_cutlass.**\n"
    )
    same = autotune("diff", DECISION, DECISION, folder=project)
    assert (same.returncode, same.stdout, same.stderr) == (0, "No difference.\n", "")
    new = autotune("diff", os.devnull, "new.json", folder=project)
    assert new.returncode == 0 and "new decision: flashinfer_cutlass" in new.stdout
    mixed = autotune("diff", DECISION, "results/run", folder=project)
    assert mixed.returncode == 0 and "the rule says of its records" in mixed.stdout


def test_diff_as_json(project: Path) -> None:
    result = autotune("diff", DECISION, "new.json", "--json", folder=project)
    assert result.returncode == 0 and result.stderr == ""
    told = json.loads(result.stdout)
    assert told["entries"][0]["choice"][0]["what"] == "backend"
    assert told["old"]["path"] == str(DECISION)


def test_diff_is_refused(project: Path) -> None:
    check_refused(autotune("diff", "gone.json", "new.json", folder=project), "gone.json: no such")
    (project / "old.json").write_text('{"schema_version": 7}')
    check_refused(autotune("diff", "new.json", "old.json", folder=project), "schema_version is 7")
    check_refused(autotune("diff", "configs", "new.json", folder=project), "not a run folder")
    (project / "results/run/run.json").write_text("{")
    check_refused(autotune("diff", "results/run", "new.json", folder=project), "run.json")


def test_list_is_complete_in_a_pipe(project: Path) -> None:
    (project / "results/broken").mkdir()
    (project / "results/broken/run.json").write_text("{}")
    result = command("list", folder=project)
    assert result.returncode == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert len(lines) == 4 and lines[0].startswith("kind")
    assert str(DECISION) in lines[1] and "2026-03-01" in lines[1]
    assert "BROKEN" in lines[2] and "results/broken" in lines[2]
    assert "results/run" in lines[3] and "round 2 is next" in lines[3]


def test_list_as_json_and_filtered(project: Path) -> None:
    result = autotune("list", "--json", "--kind", "run", folder=project)
    (item,) = json.loads(result.stdout)
    assert item["kind"] == "run" and item["progress"]["launches"] == 4
    nothing = autotune("list", "--model", "Other*", folder=project)
    assert (nothing.returncode, nothing.stdout) == (0, "Nothing found.\n")
    assert autotune("list", "--model", "Other*", "--json", folder=project).stdout == "[]\n"
    named = autotune("list", "results", "--arch", "sm9?", folder=project)
    assert named.stdout.count("\n") == 2


def test_list_of_what_servers_search(project: Path) -> None:
    result = autotune("list", "--searched", folder=project / "results")
    assert result.returncode == 0 and "modelopt_fp4.json" in result.stdout


def test_list_is_refused(project: Path) -> None:
    check_refused(autotune("list", "gone", folder=project), "gone: no such file or folder")
    empty = project / "results"
    check_refused(autotune("list", folder=empty), "configs/decisions", "--searched")


def test_show(project: Path) -> None:
    told = autotune("show", DECISION, folder=project)
    assert told.returncode == 0 and "corrupted text" in told.stdout
    told = autotune("show", "results/run", folder=project)
    assert told.returncode == 0 and "unfinished: round 2 is next" in told.stdout
    data = json.loads(autotune("show", "results/run", "--json", folder=project).stdout)
    assert data["progress"]["finished"] is False and len(data["figures"]) == 12
    data = json.loads(autotune("show", DECISION, "--json", folder=project).stdout)
    assert data["decision"]["key"]["arch"] == "sm100"
    check_refused(autotune("show", "gone", folder=project), "no such file or folder")


def test_the_checked_in_files_can_be_reviewed() -> None:
    listed = autotune("list", "configs/decisions", "results", "--json", folder=CHECKOUT)
    items = [item for item in json.loads(listed.stdout) if not item["path"].endswith("/demo")]
    assert items and all(item["problem"] is None for item in items)
    for item in items:
        assert autotune("show", item["path"], folder=CHECKOUT).returncode == 0
        same = autotune("diff", item["path"], item["path"], folder=CHECKOUT)
        assert same.stdout == "No difference.\n"
