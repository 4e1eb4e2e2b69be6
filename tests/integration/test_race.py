"""Whole sweeps: a race that drops the slow, and a search before it. Real processes, real HTTP."""

import json
import shutil
from pathlib import Path

import autotune
from autotune.records.folder import load_records
from tests.integration.workbench import DEADLINE_S, Workbench, snapshot, wait_for

SLOW = 0.02
# Beside --token-s of the fake server; the default is 4 times as fast as SLOW at the least.
TUNED = f"""
[[candidates]]
backend = "good"

[[candidates]]
backend = "good_b"
arguments = ["--silent"]
[candidates.tunables.pace]
argument = "--token-s"
choices = [{SLOW}, 0.001]

[search]
rounds = 2
trials_per_round = 1
"""


def with_candidates(config: Path, tables: str) -> Path:
    """The config with its list of candidates replaced by these tables."""
    lines = config.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("candidates = ")]
    config.write_text("\n".join(kept) + "\n" + tables)
    return config


def test_who_is_far_behind_is_not_launched_a_third_time(bench: Workbench) -> None:
    slow = f'[[candidates]]\nbackend = "good_b"\narguments = ["--token-s", "{SLOW}"]\n'
    slow += '[[candidates]]\nbackend = "good"\n'
    slow += '[[candidates]]\nbackend = "good"\nname = "also"\nenvironment = { OTHER = "1" }\n'
    config = with_candidates(bench.config(["good"], rounds=3, concurrency=[1]), slow)
    run = bench.folder / "run"
    result = bench.autotune("sweep", config, "--run", run)
    assert result.returncode in {0, 3}, result.stderr
    assert "good_b isn't launched: more than 15% behind" in result.stderr
    made = [(launch.candidate, launch.round) for launch in load_records(run).launches]
    assert sorted(made) == sorted(
        [("good", 0), *((name, number) for name in ("good", "also") for number in (1, 2, 3)),
         ("good_b", 1), ("good_b", 2)]
    )  # fmt: skip
    assert "the race is over: " in result.stderr
    decided = bench.autotune("decide", run)
    assert decided.stdout == result.stdout


def test_a_budget_ends_a_sweep_that_can_go_on(bench: Workbench) -> None:
    config, run = bench.config(["good", "good_b"], rounds=3, concurrency=[1]), bench.folder / "run"
    plain = config.read_text()
    config.write_text(plain + "[budget]\nmax_launches = 4\n")
    first = bench.autotune("sweep", config, "--run", run)
    assert first.returncode == 3
    assert "warning: " in first.stderr and "budget.max_launches" in first.stderr
    assert "stopped by budget.max_launches: 4 launches are made" in first.stderr
    assert "the race isn't over" in first.stdout or "complete rounds" in first.stdout
    config.write_text(plain)
    whole = bench.autotune("sweep", config, "--run", run)
    assert whole.returncode in {0, 3}, whole.stderr
    assert len(load_records(run).launches) == 1 + 2 * 3


def test_the_best_setting_of_a_search_is_raced(bench: Workbench) -> None:
    config = with_candidates(bench.config(["good"], rounds=3, concurrency=[1]), TUNED)
    run = bench.folder / "run"
    result = bench.autotune("sweep", config, "--run", run)
    assert result.returncode in {0, 3}, result.stderr
    records = load_records(run)
    assert [trial.values["pace"] for trial in records.trials] != [SLOW, SLOW]
    (finalist,) = [trial for trial in records.trials if trial.values["pace"] == 0.001]
    raced = {launch.candidate for launch in records.launches if launch.round > 2}
    assert raced == {"good", "good_b", finalist.candidate.name}
    # Who wins is the clock's to say; that the finalist took part isn't.
    report = (run / "report.md").read_text()
    assert "Search" in report
    assert finalist.candidate.name in report
    trials = autotune.load_run(run).trials
    assert list(trials["finalist"]) == [trial is finalist for trial in records.trials]
    decision = run / "decision.json"
    if decision.is_file():
        (entry,) = json.loads(decision.read_text())["entries"]
        if entry["choice"]["candidate"] == finalist.candidate.name:
            assert entry["choice"]["arguments"] == ["--silent", "--token-s", "0.001"]
    before = snapshot(run / "launches")
    (run / "study.db").unlink()
    again = bench.autotune("sweep", config, "--run", run)
    assert again.stdout == result.stdout
    assert snapshot(run / "launches") == before
    assert (run / "study.db").is_file()


def test_a_search_that_was_killed_draws_the_same_settings(bench: Workbench) -> None:
    config = with_candidates(bench.config(["good"], rounds=3, concurrency=[1]), TUNED)
    whole, killed = bench.folder / "whole", bench.folder / "killed"
    for _ in range(3):
        seen = len(list(killed.rglob("*.json")))
        with bench.started("sweep", config, "--run", killed) as process:
            wait_for(lambda seen=seen: len(list(killed.rglob("*.json"))) > seen + 3)
            process.kill()
            process.wait(DEADLINE_S)
        assert bench.nothing_left(), bench.servers()
    assert bench.autotune("sweep", config, "--run", killed).returncode in {0, 3}
    assert bench.autotune("sweep", config, "--run", whole).returncode in {0, 3}
    drawn = [
        [(trial.number, trial.round, trial.values) for trial in load_records(run).trials]
        for run in (whole, killed)
    ]
    assert drawn[0] == drawn[1]
    # The tables are those of the records, whoever was killed while they were written.
    tables = {name: (killed / name).read_bytes() for name in ("points.csv", "trials.csv")}
    copy = bench.folder / "copy"
    shutil.copytree(killed, copy)
    assert bench.autotune("report", copy).returncode == 0
    assert {name: (copy / name).read_bytes() for name in tables} == tables
