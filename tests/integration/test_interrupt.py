"""Ctrl-C, SIGTERM, a folder in use, another config, and a dry run."""

import json
import signal
from pathlib import Path

import pytest

from autotune.records.folder import load_records
from tests.integration.workbench import DEADLINE_S, Workbench, snapshot, wait_for


def contents(folder: Path) -> dict[str, bytes]:
    return {name: data for name, (_, data) in snapshot(folder).items()}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_keeps_its_records(bench: Workbench, number: signal.Signals) -> None:
    config, run = bench.config(["good", "good_b"], rounds=3), bench.folder / "run"
    with bench.started("sweep", config, "--run", run) as process:
        assert wait_for(lambda: list(run.rglob("point.json")) and bench.servers())
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, err
    assert "Traceback" not in err and out == ""
    assert "interrupted: no server is left running" in err
    made = len(load_records(run).launches)
    assert f"{made} finished launch{'es' * (made != 1)} and every finished point are kept" in err
    assert f"Go on with: autotune sweep {config} --run {run}" in err
    assert bench.servers() == []
    kept = load_records(run).points
    assert kept and all(point.status == "ok" for point in kept)
    assert not (run / "decision.json").exists()


def test_interrupted_while_a_server_starts(bench: Workbench) -> None:
    config, run = bench.config(["hangs_at_start"], ready_timeout_s=60), bench.folder / "run"
    with bench.started("sweep", config, "--run", run) as process:
        assert wait_for(bench.servers)
        # A launch that is under way isn't a record: it is made again.
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130 and "; 0 finished launches and" in err
    assert bench.servers() == []
    assert list(run.rglob("launch.json")) == []


def test_one_folder_one_sweep_at_a_time(bench: Workbench) -> None:
    config, run = bench.config(["hangs_at_start"], ready_timeout_s=60), bench.folder / "run"
    with bench.started("sweep", config, "--run", run) as process:
        log = run / "launches" / "hangs_at_start" / "0" / "server.log"
        assert wait_for(lambda: log.is_file() and log.read_text())
        before = contents(run)
        second = bench.autotune("sweep", config, "--run", run)
        assert second.returncode == 2
        assert second.stderr.count("\n") == 1 and "another sweep is writing here" in second.stderr
        assert len([line for line in bench.servers() if "supervisor" in line]) == 1
        assert contents(run) == before
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)
    assert bench.nothing_left()


def test_another_config_is_refused_with_the_changed_keys(bench: Workbench) -> None:
    run = bench.folder / "run"
    first = bench.config(["needs_gpu"], rounds=1, concurrency=[1, 4])
    # The only candidate can't run here: the quickest sweep there is.
    assert bench.autotune("sweep", first, "--run", run).returncode == 3
    before = snapshot(run)
    changed = bench.config(["needs_gpu"], rounds=2, concurrency=[1, 8])
    result = bench.autotune("sweep", changed, "--run", run)
    assert result.returncode == 2
    assert "changed: decision.max_rounds, decision.min_rounds, load.concurrency" in result.stderr
    assert "--run" in result.stderr and "Traceback" not in result.stderr
    assert snapshot(run) == before


def test_a_dry_run_writes_and_launches_nothing(bench: Workbench) -> None:
    config = bench.config(["good", "good_b", "needs_gpu"], rounds=2)
    run = bench.folder / "run"
    before = snapshot(bench.folder)
    result = bench.autotune("sweep", config, "--run", run, "--dry-run")
    assert result.returncode == 0 and result.stderr == ""
    assert snapshot(bench.folder) == before and not run.exists()
    rounds = [line for line in result.stdout.splitlines() if line.startswith("  round ")]
    assert [line.split()[1] for line in rounds] == ["0", "1", "2"]
    assert all("good" in line and "good_b" in line for line in rounds[1:])
    assert "5 launches to make if 2 rounds settle it" in result.stdout
    assert "decision.max_rounds: 2 can't settle anything: a claim needs 3" in result.stdout
    (command,) = (line for line in result.stdout.splitlines() if line.startswith("  good_b: "))
    assert "fake_server.py --port" in command and "--backend good_b" in command
    assert f"--mark {bench.mark}" in command
    assert "needs_gpu: not launched, unsupported: needs_gpu runs on a GPU only" in result.stdout


def test_a_dry_run_says_what_is_left(bench: Workbench) -> None:
    config, run = bench.config(["needs_gpu"], rounds=1), bench.folder / "run"
    bench.autotune("sweep", config, "--run", run)
    result = bench.autotune("sweep", config, "--run", run, "--dry-run")
    assert "0 launches to make" in result.stdout


def test_no_candidate_works_no_decision(bench: Workbench, tmp_path: Path) -> None:
    """The decision that stood before is left alone, and the exit code isn't 0."""
    into = tmp_path / "decisions"
    old = into / "sm100" / "MiniMaxM2ForCausalLM" / "none.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    config = bench.config(["dies_at_start", "refuses"], rounds=1)
    run = bench.folder / "run"
    result = bench.autotune("sweep", config, "--run", run, "--into", into, "--json")
    assert result.returncode == 3
    # What can't be settled is said before it is paid for.
    warned = result.stderr.splitlines()[0]
    assert warned.startswith("warning: decision.max_rounds: 1 can't settle anything")
    judged = json.loads(result.stdout)
    assert judged["decision_files"] == [] and judged["judgement"]["choice"] is None
    assert [path.read_text() for path in into.rglob("*.json")] == ["{}"]
