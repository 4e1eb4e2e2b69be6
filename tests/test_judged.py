"""Every command tells of a run as its decision was made, also of records edited by hand."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from autotune.conclude import conclude, rewrite_reports
from tests.cli.command import autotune
from tests.records.builders import make_run
from tests.review.check_folder import ROOT
from tests.review.run_folders import put_run

EXAMPLE = "example-cpu-minimax-m2"


@pytest.mark.parametrize("rate", ["0.0", "-5.0", "1e308"])
def test_a_figure_that_nothing_can_measure_is_told(tmp_path: Path, rate: str) -> None:
    run = put_run(tmp_path / "run", make_run(rounds=3))
    point = next(run.glob("launches/*/1/*/point.json"))
    before = point.read_text()
    key = '"output_tokens_per_s":'
    start = before.index(key) + len(key)
    point.write_text(before[:start] + rate + before[before.index(",", start) :])
    listed = autotune("list", run, folder=tmp_path)
    assert listed.returncode == 0 and "output_tokens_per_s" in listed.stdout
    for command in ("show", "report"):
        ended = autotune(command, run, folder=tmp_path)
        assert ended.returncode == 2 and "can't be measured" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_report_says_what_the_decision_beside_it_does(tmp_path: Path) -> None:
    run = tmp_path / EXAMPLE
    ignored = shutil.ignore_patterns("*.svg", "*.png", "*.html", "decision.json")
    shutil.copytree(ROOT / "results" / EXAMPLE, run, ignore=ignored)
    for probe in (run / "launches" / "grouped_mm").rglob("probe.json"):
        probe.unlink()
    conclude(run, accept=True, accept_inconclusive=True)
    decided = (run / "report.md").read_text()
    rewrite_reports(run)
    assert (run / "report.md").read_text() == decided


def test_a_report_says_what_was_accepted_and_how_to_judge_it_so_again(tmp_path: Path) -> None:
    run = put_run(tmp_path / "run", make_run(rounds=2))
    conclude(run)
    assert "What stands against writing a decision:" in (run / "report.md").read_text()
    conclude(run, accept=True)
    report = (run / "report.md").read_text()
    assert "A decision was written, accepted by hand (--accept) in spite of:" in report
    assert "What stands against" not in report and "yes, accepted by hand" in report
    assert "autotune decide run --accept\n" in report
    decided = (run / "decision.json").read_bytes()
    again = autotune("decide", "run", "--accept", folder=tmp_path)
    assert again.returncode == 0 and (run / "decision.json").read_bytes() == decided


def test_a_decision_that_judging_again_takes_away_is_named(tmp_path: Path) -> None:
    run = put_run(tmp_path / "run", make_run(rounds=2))
    first = autotune("decide", "run", "--json", folder=tmp_path)
    assert first.returncode == 3 and json.loads(first.stdout)["withdrawn"] is None
    conclude(run, accept=True)
    ended = autotune("decide", "run", folder=tmp_path)
    assert ended.returncode == 3 and not (run / "decision.json").exists()
    assert "removed: run/decision.json, which an earlier look wrote" in ended.stdout
    assert "autotune decide run --accept" in ended.stdout


def test_a_broken_environment_isnt_told_as_none(tmp_path: Path) -> None:
    run = put_run(tmp_path / "run", make_run(rounds=3))
    (run / "environment.json").write_text('{"cores": ')
    for command in (("report", "run"), ("diff", "run", "run")):
        ended = autotune(*command, folder=tmp_path)
        assert ended.returncode == 2 and "environment.json: can't be read" in ended.stderr
        assert "Traceback" not in ended.stderr
    (run / "environment.json").unlink()
    assert autotune("report", "run", folder=tmp_path).returncode == 0


def test_another_choice_that_servers_were_told_so_far_is_named(tmp_path: Path) -> None:
    put_run(tmp_path / "first", make_run(rounds=3))
    run = make_run(rounds=3)
    run_record = msgspec.structs.replace(
        run.run,
        candidates=tuple(
            msgspec.structs.replace(each, backend=f"other_{each.backend}")
            for each in run.run.candidates
        ),
    )
    put_run(tmp_path / "second", msgspec.structs.replace(run, run=run_record))
    first = autotune("decide", "first", "--accept", "--into", "decisions", folder=tmp_path)
    assert first.returncode == 0 and "replaced" not in first.stdout
    again = autotune("decide", "first", "--accept", "--into", "decisions", folder=tmp_path)
    assert "replaced" not in again.stdout
    second = autotune("decide", "second", "--accept", "--into", "decisions", folder=tmp_path)
    assert second.returncode == 0
    (line,) = (line for line in second.stdout.splitlines() if "replaced: " in line)
    assert "for this scope, from run first" in line
