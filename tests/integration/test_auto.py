"""Sweeps in which one candidate is `auto`: what it became is what the decision names."""

import json
from pathlib import Path
from typing import Any

import pytest

import autotune
from autotune.decisions.schema import Entry, decode
from autotune.records.folder import load_records
from tests.integration.workbench import Workbench


def auto_config(
    bench: Workbench, *, becomes: str, silent: bool = False, incumbent: str = ""
) -> Path:
    """A sweep of `good` and an `auto` that becomes the names of ``becomes``, one a round."""
    path = bench.config(["good", "auto"])
    own = ["--auto", becomes, *(["--silent"] if silent else [])]
    candidates = f'["good", {{ backend = "auto", arguments = {json.dumps(own)} }}]'
    text = path.read_text().replace('["good", "auto"]', candidates)
    if incumbent:
        text = text.replace('reference = "good"', f'reference = "good"\nincumbent = "{incumbent}"')
    path.write_text(text)
    return path


def judgement_of(run: Path) -> Any:
    return autotune.load_run(run).judgement


def entry_of(bench: Workbench, run: Path, code: int) -> Entry:
    """The run's decision; where the machine was too noisy for one, somebody accepts it."""
    assert code in {0, 3}
    if code == 3:
        assert bench.autotune("decide", run, "--accept").returncode == 0
    (entry,) = decode((run / "decision.json").read_bytes(), where="decision.json").entries
    return entry


def test_the_decision_names_what_auto_became(bench: Workbench, tmp_path: Path) -> None:
    run, into = bench.folder / "run", tmp_path / "decisions"
    config = auto_config(bench, becomes="good_b", incumbent="auto")
    result = bench.autotune("sweep", config, "--run", run, "--into", into)
    launches = [one for one in load_records(run).launches if one.candidate == "auto"]
    assert [(one.status, one.resolved_backend) for one in launches] == [("ok", "good_b")] * 3
    entry = entry_of(bench, run, result.returncode)
    assert (entry.choice.candidate, entry.choice.backend) == ("auto", "good_b")
    assert {winner.backend for winner in entry.choice.winners} <= {"good", "good_b"}
    backends = {row.candidate: row.backend for row in entry.evidence.rows}
    assert backends == {"good": "good", "auto": "good_b"}
    report = (run / "report.md").read_text()
    assert "good_b" in report


@pytest.mark.parametrize(
    ("becomes", "silent"), [("good_b,good,good_b", False), ("good_b", True)], ids=["other", "mute"]
)
def test_no_decision_where_nobody_knows_what_auto_is(
    bench: Workbench, becomes: str, silent: bool, tmp_path: Path
) -> None:
    run, into = bench.folder / "run", tmp_path / "decisions"
    config = auto_config(bench, becomes=becomes, silent=silent, incumbent="auto")
    result = bench.autotune("sweep", config, "--run", run, "--into", into)
    assert result.returncode == 3, result.stderr
    assert "which backend it runs" in result.stdout
    assert "decision: none written" in result.stdout
    accepted = bench.autotune("decide", run, "--accept", "--into", into)
    assert accepted.returncode == 3 and "Traceback" not in accepted.stderr
    assert "which backend it runs" in accepted.stdout
    # It would be in vain: nothing is offered.
    assert "--accept" not in accepted.stdout
    assert not (run / "decision.json").exists() and not into.exists()
    told = judgement_of(run)
    assert (told.outcome, told.choice) == ("open", None)
    assert "which backend it runs" in (run / "report.md").read_text()
