"""A sweep that is killed at random instants ends up as one that nobody disturbed."""

import random
import subprocess
from pathlib import Path

import autotune
from autotune.config import read_config
from autotune.records.folder import load_records
from autotune.sweep.plan import first_launch, plan_round
from tests.integration.workbench import DEADLINE_S, Workbench, snapshot, wait_for

SEED = 2
KILLS = 4
BACKENDS = ("good", "good_b", "dies_at_start")


def finished_records(run: Path) -> dict[str, tuple[int, bytes]]:
    """Every record with the time it was written: none of them is ever written twice."""
    kept = ("launch.json", "probe.json", "point.json", "run.json")
    return {
        name: content
        for name, content in snapshot(run, "*.json").items()
        if Path(name).name in kept and not is_half_a_point(run, name)
    }


def is_half_a_point(run: Path, name: str) -> bool:
    """A point's probe without the point (round 0 has none) is measured again with it."""
    path = run / name
    of_a_point = path.name == "probe.json" and path.parent.name.startswith("c")
    round_number = path.parent.parent.name
    return of_a_point and round_number != "0" and not (path.parent / "point.json").is_file()


def kill_while_running(bench: Workbench, config: Path, run: Path, draw: random.Random) -> bool:
    """Start the sweep and kill it, and only it; False if it ended before that."""
    seen = len(list(run.rglob("*.json")))
    with bench.started("sweep", config, "--run", run) as process:
        # Once it has got somewhere, some instant later: within a probe, a point, a write, ...
        wait_for(lambda: process.poll() is not None or len(list(run.rglob("*.json"))) > seen)
        try:
            process.wait(draw.uniform(0, 1.2))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(DEADLINE_S)
            return True
        return False


def test_killed_at_random_and_run_again(bench: Workbench) -> None:
    draw = random.Random(SEED)
    config, run = bench.config(BACKENDS, rounds=2), bench.folder / "run"
    before: dict[str, tuple[int, bytes]] = {}
    for _ in range(KILLS):
        running = kill_while_running(bench, config, run, draw)
        assert bench.nothing_left(), bench.servers()
        after = finished_records(run)
        assert before.items() <= after.items()
        before = after
        if not running:
            break
    result = bench.autotune("sweep", config, "--run", run)
    assert result.returncode in {0, 3}, result.stderr
    assert bench.servers() == []
    after = finished_records(run)
    assert before.items() <= after.items()
    check_complete(config, run)

    again = bench.autotune("sweep", config, "--run", run)
    assert again.stdout == result.stdout
    assert "launching" not in again.stderr
    assert finished_records(run) == after


def check_complete(config: Path, run: Path) -> None:
    """Every planned record is there once, and the tables are those of the records."""
    asked = read_config(config)
    everybody = asked.candidate_list()
    alive = [one for one in everybody if one.name != "dies_at_start"]
    planned = [first_launch(asked), *plan_round(asked, 1, everybody), *plan_round(asked, 2, alive)]
    records = load_records(run)
    launches = [(launch.candidate, launch.round, launch.position) for launch in records.launches]
    assert sorted(launches) == sorted((p.candidate.name, p.round, p.position) for p in planned)
    points = [(point.candidate, point.round, point.concurrency) for point in records.points]
    assert sorted(points) == sorted(
        (launch.candidate.name, launch.round, concurrency)
        for launch in planned
        if launch.candidate.name != "dies_at_start"
        for concurrency in launch.concurrencies
    )
    assert all(point.status == "ok" for point in records.points)
    assert {launch.status for launch in records.launches} == {"ok", "launch_failed"}
    # One for each launch that served, and one for each concurrency of each of them.
    assert len(records.probes) == 5 + 5 * 2
    tables = autotune.load_run(run)
    for name in ("points", "summary", "launches"):
        text = getattr(tables, name).to_csv(index=False, lineterminator="\n")
        assert (run / f"{name}.csv").read_text() == text


def own_probe(launch: Path) -> dict[str, tuple[int, bytes]]:
    return {"probe.json": snapshot(launch, "probe.json")["probe.json"]}


def test_a_half_point_is_measured_again(bench: Workbench) -> None:
    """Requests without their point record are no point: whoever wrote them was killed."""
    config, run = bench.config(["good"], rounds=1, concurrency=[1, 4]), bench.folder / "run"
    bench.autotune("sweep", config, "--run", run)
    launch = run / "launches" / "good" / "1"
    (launch / "launch.json").unlink()
    (launch / "c0004" / "point.json").unlink()
    (launch / "c0004" / "requests.parquet").write_bytes(b"half a fi")
    whole = snapshot(launch / "c0001") | own_probe(launch)
    again = bench.autotune("sweep", config, "--run", run)
    assert "concurrency 4" in again.stderr and "concurrency 1:" not in again.stderr
    assert snapshot(launch / "c0001") | own_probe(launch) == whole
    assert [point.status for point in load_records(run).points] == ["ok", "ok"]
    assert len(autotune.load_run(run).requests("good", 1, concurrency=4)) == 12 + 8 + 24
    # The first start's log is evidence of the point that it measured.
    assert (launch / "server.interrupted-1.log").is_file()
