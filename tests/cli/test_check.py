"""``autotune check`` as its users meet it: the command, and the files that run it for them."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import autotune, check_refused, command
from tests.review.check_folder import ENTRY, ROOT, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Decisions and evidence where the command looks for them by itself."""
    made = Folder(tmp_path)
    (tmp_path / "configs").mkdir()
    made.decisions = made.decisions.rename(tmp_path / "configs" / "decisions")
    made.file = made.decisions / ENTRY
    return made


def test_this_repositorys_decisions_hold() -> None:
    result = autotune("check", folder=ROOT)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert result.stdout.splitlines()[-1].startswith("2 decisions checked: 2 ok, 0 stale, 0 wrong")


def test_a_decision_that_holds(folder: Folder, tmp_path: Path) -> None:
    result = command("check", folder=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    *lines, last = result.stdout.splitlines()
    assert {line.split()[0] for line in lines} == {"ok", "note"}
    assert all(f"configs/decisions/{ENTRY}#0  " in line for line in lines)
    assert last == "1 decision checked: 1 ok, 0 stale, 0 wrong, 2 note"


def test_a_stale_one(folder: Folder, tmp_path: Path) -> None:
    folder.edit(lambda content: content["scope"].update(engine_version="0.5.9"), run_file(folder))
    folder.edit(lambda c: c["entries"][0]["scope"].update(engine_version="0.5.9"))
    assert autotune("check", "--version", "sglang=0.5.9", folder=tmp_path).returncode == 0
    result = autotune("check", "--version", "sglang=0.6", folder=tmp_path)
    assert (result.returncode, result.stderr) == (4, "")
    assert "sglang 0.6 (given with --version) is newer" in result.stdout


def test_an_old_one(folder: Folder, tmp_path: Path) -> None:
    evidence = {"measured_at": "2020-01-02"}
    folder.edit(lambda c: c.update(created_at="2020-01-02T03:04:05+00:00"), run_file(folder))
    folder.edit(lambda content: content["entries"][0]["evidence"].update(evidence))
    assert autotune("check", folder=tmp_path).returncode == 0
    result = autotune("check", "--max-age-days", "90", folder=tmp_path)
    assert result.returncode == 4 and "the limit is 90" in result.stdout


def test_a_wrong_one_in_each_form(folder: Folder, tmp_path: Path) -> None:
    folder.edit(lambda content: content["entries"][0]["choice"].update(rounds=3))
    text = autotune("check", folder=tmp_path)
    assert text.returncode == 2 and text.stderr == ""
    assert text.stdout.startswith(f"wrong  configs/decisions/{ENTRY}#0  choice.rounds: ")
    annotated = autotune("check", "--format", "github", folder=tmp_path)
    assert annotated.returncode == 2
    found = re.match(r"::error file=configs/decisions/(.*),line=(\d+),title=", annotated.stdout)
    assert found is not None and found[1] == str(ENTRY)
    assert '"rounds": 3' in folder.file.read_text().splitlines()[int(found[2]) - 1]
    result = autotune("check", "--format", "json", folder=tmp_path)
    whole = json.loads(result.stdout)
    assert result.returncode == 2 and whole["checked"] == 1
    assert [one["code"] for one in whole["findings"] if one["level"] == "wrong"] == ["differs"]


def test_evidence_somewhere_else(folder: Folder, tmp_path: Path) -> None:
    folder.results.rename(tmp_path / "elsewhere")
    assert autotune("check", folder=tmp_path).returncode == 2
    assert autotune("check", "--evidence", "elsewhere", folder=tmp_path).returncode == 0


def test_a_run_folder_from_inside(folder: Folder) -> None:
    assert autotune("check", ".", folder=folder.run).returncode == 0


def test_no_decision_is_no_fault(folder: Folder, tmp_path: Path) -> None:
    folder.file.unlink()
    result = autotune("check", folder=tmp_path)
    assert result.returncode == 0 and "holds no decision" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), ("nowhere", "no such folder")),
        (("--evidence", "nowhere"), ("nowhere", "no such folder")),
        (("--version", "sglang"), ("NAME=VERSION",)),
    ],
)
def test_what_cant_be_asked(
    folder: Folder, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    check_refused(autotune("check", *arguments, folder=tmp_path), *words)


def test_a_name_that_isnt_text(folder: Folder, tmp_path: Path) -> None:
    try:
        os.mkdir(os.fsencode(folder.decisions) + b"/sm\xff")
        Path(os.fsdecode(os.fsencode(folder.decisions) + b"/sm\xff/x.json")).write_text("{}")
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    for form in ("text", "github", "json"):
        result = autotune("check", "--format", form, folder=tmp_path)
        assert result.returncode == 2 and "Traceback" not in result.stderr


def run_file(folder: Folder) -> Path:
    return folder.run / "run.json"


def read_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def arguments_of(entry: str) -> list[str]:
    program, *arguments = shlex.split(entry)
    assert Path(program).name == "autotune"
    return arguments


def test_the_workflow_runs_a_command_that_works() -> None:
    workflow = read_yaml(".github/workflows/decisions.yml")
    # YAML 1.1 reads the key "on" as true.
    triggers = workflow.get("on", workflow.get(True))
    assert {"configs/decisions/**", "results/**"} <= set(triggers["pull_request"]["paths"])
    assert workflow["permissions"] == {"contents": "read"}
    steps = workflow["jobs"]["check"]["steps"]
    (run,) = (step["run"] for step in steps if step.get("run", "").startswith("autotune"))
    result = autotune(*arguments_of(run), folder=ROOT)
    assert result.returncode == 0 and "::error" not in result.stdout


def test_the_hooks_run_a_command_that_works() -> None:
    (shipped,) = read_yaml(".pre-commit-hooks.yaml")
    (ours,) = read_yaml(".pre-commit-config.yaml")["repos"][0]["hooks"]
    for hook in (shipped, ours):
        assert hook["id"] == "autotune-check" and hook["pass_filenames"] is False
        assert re.search(hook["files"], f"configs/decisions/{ENTRY}")
        assert re.search(hook["files"], "results/a-run/run.json")
        assert not re.search(hook["files"], "docs/results/x.md")
        assert autotune(*arguments_of(hook["entry"]), folder=ROOT).returncode == 0
    # A hook is installed without extras, and the command line is one.
    assert shipped["additional_dependencies"] == [".[sweep]"]


def test_the_hook_in_the_docs_works_as_it_is_printed() -> None:
    text = (ROOT / "docs" / "checking.md").read_text()
    (snippet,) = re.findall(r"```yaml\n(repos:\n.*?)```", text, re.DOTALL)
    (repository,) = yaml.safe_load(snippet)["repos"]
    (shipped,) = read_yaml(".pre-commit-hooks.yaml")
    (hook,) = repository["hooks"]
    # No address, tag or name is left for the reader to fill in.
    assert repository["repo"] == "local" and hook["language"] == "system"
    shared = set(hook) & set(shipped) - {"language"}
    assert shared == {"id", "name", "entry", "files", "pass_filenames"}
    assert {name: hook[name] for name in shared} == {name: shipped[name] for name in shared}


def test_the_docs_name_only_what_there_is() -> None:
    text = (ROOT / "docs" / "checking.md").read_text()
    usage = autotune("check", "--help", folder=ROOT).stdout
    for option in set(re.findall(r"autotune check[^`\n]*?(--[a-z-]+)", text)):
        assert option in usage
