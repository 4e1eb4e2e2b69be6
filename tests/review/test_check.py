"""Whole checks of real decisions: what is told of an edit, where, and how bad it is."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from autotune.decide.entry import merge_entry
from autotune.derive import derive, entry_of
from autotune.review.check_print import exit_code
from tests.decisions.builders import put
from tests.review.check_folder import ENTRY, ROOT, RUN, Folder, found, only, write_canonical

EXAMPLE = "example-cpu-minimax-m2"
# What its decision records, so that what is installed here doesn't matter.
MEASURED = {"transformers": "5.24.0", "torch": "2.13.0+cpu"}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def entry(content: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = content["entries"][0]
    return first


def test_the_real_decision_holds(folder: Folder) -> None:
    review = folder.check()
    assert (review.checked, exit_code(review)) == (1, 0)
    ok, *notes = sorted(review.findings, key=lambda one: one.level, reverse=True)
    assert ok.level == "ok" and RUN in ok.message and ok.path == str(folder.file)
    # The table doesn't say which release was measured: told, and no fault.
    assert [note.code for note in notes] == ["version_unrecorded"] * 2


def test_nothing_is_written(folder: Folder) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.results.parent.rglob("*")}
    folder.check()
    assert {p: p.stat().st_mtime_ns for p in folder.results.parent.rglob("*")} == before


def test_an_edited_field_is_named_with_both_values_and_its_line(folder: Folder) -> None:
    folder.edit(lambda content: entry(content)["choice"].update(rounds=3, backend="triton"))
    backend, rounds, *stale = found(folder.check())
    assert backend.message == (
        'choice.backend: file says "triton", evidence says "flashinfer_trtllm_routed"'
    )
    assert rounds.message == "choice.rounds: file says 3, evidence says 1"
    assert (rounds.level, rounds.code, rounds.entry) == ("wrong", "differs", 0)
    assert f"autotune decide {folder.run} --accept --into {folder.decisions}" in rounds.remedy
    assert stale == []
    lines = folder.file.read_text().splitlines()
    assert '"backend": "triton"' in lines[(backend.line or 0) - 1]
    assert '"rounds": 3' in lines[(rounds.line or 0) - 1]


def test_an_edited_scope_is_another_entry(folder: Folder) -> None:
    folder.edit(lambda content: entry(content)["scope"].update(tp=8))
    other, field = found(folder.check(), "wrong")
    assert other.code == "other_scope" and "take the entry out" in other.remedy
    assert field.message == "scope.tp: file says 8, evidence says null"


def test_what_nobody_accepted_is_refused(folder: Folder) -> None:
    folder.edit(lambda content: entry(content)["evidence"]["accepted"].pop(0))
    finding = only(folder.check())
    assert finding.code == "not_accepted" and "one round gives no interval" in finding.message


def test_accepting_something_else_is_told(folder: Folder) -> None:
    folder.edit(lambda content: entry(content)["evidence"]["accepted"].append("the moon is full"))
    finding = only(folder.check())
    assert finding.code == "accepted_needlessly" and "the moon is full" in finding.message


def test_a_changed_table(folder: Folder) -> None:
    table = folder.run / "points.csv"
    table.write_text(table.read_text().replace("9716.7", "9999.9"))
    hashed, content = found(folder.check(), "wrong")
    assert (hashed.code, content.code) == ("table_hash", "table_content")
    assert "output_tokens_per_s: '9999.9', they say '9716.7'" in content.message
    assert "points.csv" in folder.file.read_text().splitlines()[(hashed.line or 0) - 1]


def test_a_table_that_is_missing_or_not_named(folder: Folder) -> None:
    (folder.run / "summary.csv").unlink()
    assert only(folder.check()).code == "table_missing"
    shutil.copy(ROOT / "results" / RUN / "summary.csv", folder.run)
    folder.edit(lambda content: entry(content)["evidence"]["tables"].pop("launches.csv"))
    assert only(folder.check()).code == "table_unnamed"


def test_a_table_by_another_path_is_no_table(folder: Folder) -> None:
    folder.edit(lambda c: entry(c)["evidence"]["tables"].update({"../../x": "0" * 64}))
    assert only(folder.check()).code == "table_unknown"


def test_changed_records_decide_otherwise(folder: Folder) -> None:
    def slower(record: dict[str, Any]) -> None:
        record["figures"]["output_tokens_per_s"] = 100.0

    for point in (folder.run / "launches" / "flashinfer_trtllm_routed").rglob("point.json"):
        folder.edit(slower, point)
    told = "\n".join(one.message for one in found(folder.check(), "wrong"))
    assert "points.csv doesn't say what the records say" in told
    assert 'choice.backend: file says "flashinfer_trtllm_routed", evidence says ' in told


def test_a_broken_record_is_named(folder: Folder) -> None:
    record = next(folder.run.rglob("point.json"))
    record.write_text("{")
    finding = only(folder.check())
    assert finding.code == "evidence_broken" and str(record) in finding.message


def test_evidence_that_isnt_there(folder: Folder) -> None:
    shutil.rmtree(folder.run)
    finding = only(folder.check())
    assert finding.code == "evidence_missing" and str(folder.run) in finding.message


@pytest.mark.parametrize("name", ["../results/x", "", "/etc", "..", "a/b"])
def test_evidence_is_looked_for_below_its_folder_only(folder: Folder, name: str) -> None:
    folder.edit(lambda content: entry(content)["evidence"].update(run=name))
    assert only(folder.check()).code == "evidence_name"


def test_a_linked_run_folder_is_no_evidence(folder: Folder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    folder.run.rename(elsewhere)
    os.symlink(elsewhere, folder.run)
    assert only(folder.check()).code == "evidence_link"


def test_evidence_about_another_model(folder: Folder) -> None:
    moved = folder.decisions / "sm100" / "OtherForCausalLM" / "modelopt_fp4.json"
    moved.parent.mkdir()
    folder.file.rename(moved)
    folder.edit(lambda content: content["key"].update(model="OtherForCausalLM"), moved)
    assert only(folder.check()).code == "evidence_key"


def test_a_runs_own_decision_is_checked_too(folder: Folder) -> None:
    review = folder.check(folder.results)
    assert (review.checked, found(review)) == (2, [])
    own = folder.run / "decision.json"
    folder.edit(lambda content: entry(content)["choice"].update(rounds=7), own)
    finding = only(folder.check(folder.run))
    assert (finding.path, finding.code) == (str(own), "differs")


def test_a_run_folder_with_another_name(folder: Folder) -> None:
    folder.run.rename(folder.results / "renamed")
    codes = [one.code for one in found(folder.check(folder.results), "wrong")]
    assert codes == ["evidence_missing", "evidence_name"]


def test_a_decision_for_a_key_twice(folder: Folder, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder.decisions, other)
    finding = only(folder.check(other))
    assert finding.code == "two_files" and finding.path == str(other / ENTRY)
    assert str(folder.file) in finding.message


def test_an_empty_folder_holds_no_decision(folder: Folder) -> None:
    folder.file.unlink()
    review = folder.check()
    assert (review.checked, exit_code(review)) == (0, 0)
    assert [one.message for one in review.findings] == ["holds no decision"]


def test_requests_are_held_against_their_points(tmp_path: Path) -> None:
    decision = Path("cpu-x86_64/MiniMaxM2ForCausalLM/none.json")
    folder = Folder(tmp_path)
    folder.file.unlink()
    (folder.decisions / decision).parent.mkdir(parents=True)
    shutil.copy(ROOT / "configs" / "decisions" / decision, folder.decisions / decision)
    shutil.copytree(ROOT / "results" / EXAMPLE, folder.results / EXAMPLE)
    first, second, *_ = sorted((folder.results / EXAMPLE).rglob("requests.parquet"))
    first.write_bytes(first.read_bytes() + b"x")
    second.unlink()
    review = folder.check(versions=MEASURED)
    assert only(review).code == "requests_hash" and str(first) in only(review).message
    (absent,) = (one for one in review.findings if one.code == "requests_absent")
    assert str(second) in absent.message


def test_what_was_decided_with_inconclusive_candidates_holds(folder: Folder) -> None:
    """Which acceptance a decision was made with isn't written in it, and is found out."""
    shutil.rmtree(folder.decisions)
    run = folder.results / EXAMPLE
    shutil.copytree(ROOT / "results" / EXAMPLE, run)
    for probe in (run / "launches" / "grouped_mm").rglob("probe.json"):
        probe.unlink()  # So that nothing says whether the fastest one is right.
    choices = set()
    for let_in in (False, True):
        derived = derive(run, accept_inconclusive=let_in)
        for name, data in derived.tables.items():
            (run / name).write_bytes(data)
        made = entry_of(derived, accepted=derived.judgement.blockers)
        assert made is not None
        choices.add(made.choice.backend)
        file = merge_entry(None, derived.loaded.run.key, made)
        put(folder.decisions, file)
        assert found(folder.check(versions=MEASURED)) == []
    assert choices == {"eager", "grouped_mm"}


def test_hostile_text_is_printed_escaped(folder: Folder) -> None:
    folder.edit(lambda c: entry(c)["choice"].update(reason="\x1b[31m\n::error::pwned‮"))
    finding = only(folder.check())
    assert finding.message.isprintable() and "\n" not in finding.message


def test_the_form_is_checked(folder: Folder) -> None:
    content = json.loads(folder.file.read_bytes())
    folder.file.write_text(json.dumps(content))
    assert only(folder.check()).code == "not_canonical"
    write_canonical(folder.file, content)
    assert found(folder.check()) == []


@pytest.mark.parametrize("stated", [None, "0" * 64])
def test_the_sources_of_an_import_are_held_against_their_hashes(
    folder: Folder, stated: str | None
) -> None:
    source = folder.run / "source.csv"
    hashes = {"source.csv": stated or hashlib.sha256(source.read_bytes()).hexdigest()}
    folder.edit(lambda run: run.update(source_sha256=hashes), folder.run / "run.json")
    wrong = found(folder.check())
    assert [one.code for one in wrong] == (["source_hash"] if stated else [])
    source.rename(folder.run / "source" if stated else folder.run / "other.csv")
    assert "source_missing" in [one.code for one in found(folder.check())]


def test_a_config_that_isnt_the_one_measured_is_noted(folder: Folder) -> None:
    folder.edit(lambda run: run.update(config_digest="0" * 64), folder.run / "run.json")
    absent = [one for one in folder.check().findings if one.code == "config_digest"]
    assert [(one.level, "run.toml" in one.message) for one in absent] == [("note", True)]
    example = ROOT / "results" / "example-cpu-minimax-m2"
    shutil.copy(example / "run.toml", folder.run)
    other = [one for one in folder.check().findings if one.code == "config_digest"]
    assert "isn't the config that was measured" in other[0].message
    stated = json.loads((example / "run.json").read_text())["config_digest"]
    folder.edit(lambda run: run.update(config_digest=stated), folder.run / "run.json")
    assert "config_digest" not in [one.code for one in folder.check().findings]
