"""Every command tells of a run as its decision was made, also of records edited by hand."""

import shutil
from pathlib import Path

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
