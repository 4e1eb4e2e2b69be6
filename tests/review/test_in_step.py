"""A run whose decision.json isn't the one that its records make says so wherever it is shown."""

import datetime
import json
import shutil
from pathlib import Path

import msgspec
import pytest

from autotune.judged import read_judged
from autotune.review.diff import compare_sides
from autotune.review.diff_markdown import render
from autotune.review.diff_sides import read_side
from autotune.review.in_step import OUT_OF_STEP, in_step
from autotune.review.listing import Filters, list_items
from autotune.review.show_listing import listing_text
from autotune.review.show_run import run_data, run_report
from autotune.review.show_text import render_text
from tests.records.builders import make_run
from tests.review.run_folders import decide, put_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = put_run(tmp_path / "run", make_run(rounds=3))
    decide(path)
    return path


def faster(path: Path) -> None:
    """Edit every figure of throughput, as somebody might."""
    for file in path.glob("launches/*/*/*/point.json"):
        point = json.loads(file.read_text())
        point["figures"]["output_tokens_per_s"] *= 1.4
        file.write_text(json.dumps(point))


def texts(path: Path) -> str:
    today = datetime.date(2026, 12, 24)
    listed = listing_text(list_items((path,), filters=Filters(), today=today), width=None)
    return listed + render_text(run_report(read_judged(path)), width=None)


def test_a_decision_that_follows_isnt_mentioned(run: Path, tmp_path: Path) -> None:
    assert in_step(read_judged(run)) and OUT_OF_STEP not in texts(run)
    copy = tmp_path / "under another name"
    shutil.copytree(run, copy)
    assert in_step(read_judged(copy))
    difference = compare_sides(read_side(run), read_side(copy))
    assert difference.out_of_step == ()
    assert "doesn't follow" not in render(difference)


def test_no_decision_is_in_step(run: Path) -> None:
    (run / "decision.json").unlink()
    assert in_step(read_judged(run))


def test_records_that_changed_since_are_told(run: Path, tmp_path: Path) -> None:
    before = tmp_path / "before"
    shutil.copytree(run, before)
    faster(run)
    judged = read_judged(run)
    assert not in_step(judged) and not run_data(judged).in_step
    assert texts(run).count(OUT_OF_STEP) == 2
    difference = compare_sides(read_side(before), read_side(run))
    assert len(difference.out_of_step) == 1 and str(run) in difference.out_of_step[0]
    told = render(difference)
    assert "doesn't follow from its run's records" in told.splitlines()[0]
    assert "Out of step" in told


def test_a_decision_of_another_scope_is_told(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    record["scope"]["device_name"] = "another"
    (run / "run.json").write_text(json.dumps(record))
    assert not in_step(read_judged(run))


def test_a_decision_that_somebody_edited_is_told(run: Path) -> None:
    file = run / "decision.json"
    content = msgspec.json.decode(file.read_bytes())
    content["entries"][0]["choice"]["reason"] = "because I say so"
    file.write_bytes(msgspec.json.encode(content))
    assert not in_step(read_judged(run))
