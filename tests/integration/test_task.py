"""A sweep that asks questions too: each launch answers them, and the score is a finding."""

import autotune
from autotune.records.folder import load_records
from tests.integration.workbench import Workbench


def test_questions_are_asked_at_each_launch_and_judged(bench: Workbench) -> None:
    config, run = bench.config(["good", "good_b"], rounds=1, concurrency=[1]), bench.folder / "run"
    config.write_text(config.read_text() + "[probe.task]\nitems = 5\nmax_tokens = 4\n")
    result = bench.autotune("sweep", config, "--run", run, "--accept-inconclusive")
    assert result.returncode == 3 and "Traceback" not in result.stderr
    said = result.stderr.splitlines()
    assert said.count("    asking 5 questions") == 3
    assert said[-1] == "writing tables, plots and report"
    own = [probe for probe in load_records(run).probes if probe.concurrency is None]
    assert [len(probe.task) for probe in own] == [5, 5, 5]
    assert len({probe.task_digest for probe in own}) == 1
    told = autotune.load_run(run).correctness
    task = told[told["kind"] == "task"].set_index("candidate")
    # The fake server's words answer nothing: a task that the reference can't do shows nothing.
    assert task.loc["good_b", "verdict"] == "inconclusive"
    assert "can't do" in task.loc["good_b", "sentence"]
    assert "Correctness" in (run / "report.md").read_text()


def test_a_file_that_holds_no_questions_is_refused_before_anything_starts(bench: Workbench) -> None:
    config = bench.config(["good"], rounds=1, concurrency=[1])
    (bench.folder / "questions.jsonl").write_text('{"prompt": "1 + 1 ="}\n')
    config.write_text(config.read_text() + '[probe.task]\nquestions = "questions.jsonl"\n')
    result = bench.autotune("sweep", config, "--run", bench.folder / "run")
    assert result.returncode == 2 and "questions.jsonl, line 1" in result.stderr
    assert bench.servers() == []
