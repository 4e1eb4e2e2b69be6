"""What a server keeps from one point, or launch, to the next: prompts, and tuned kernels."""

import json
import signal
from pathlib import Path

from autotune.records.folder import load_records
from tests.integration.workbench import DEADLINE_S, Workbench, wait_for


def log_of(run: Path, candidate: str, round_number: int = 1) -> str:
    return (run / "launches" / candidate / str(round_number) / "server.log").read_text()


def test_the_cache_is_emptied_before_each_point(bench: Workbench) -> None:
    config, run = bench.config(["good"], rounds=1, concurrency=[1, 4, 2]), bench.folder / "run"
    bench.autotune("sweep", config, "--run", run)
    points = load_records(run).points
    assert len(points) == 3 and all(point.status == "ok" for point in points)
    asked = log_of(run, "good").count("asked to flush")
    assert asked == sum(point.attempts for point in points)
    assert all(warning.code != "cache_not_flushed" for p in points for warning in p.warnings)


def test_a_server_that_keeps_its_cache_is_measured_with_a_warning(bench: Workbench) -> None:
    config, run = bench.config(["keeps_cache"], rounds=1), bench.folder / "run"
    result = bench.autotune("sweep", config, "--run", run)
    assert "Traceback" not in result.stderr
    points = load_records(run).points
    assert [point.status for point in points] == ["ok", "ok"]
    for point in points:
        (warning,) = [one for one in point.warnings if one.code == "cache_not_flushed"]
        assert warning.observed == "the fake server keeps its cache (HTTP 400)"
        assert warning.threshold and warning.remedy
    assert "cache_not_flushed" in (run / "points.csv").read_text()
    report = (run / "report.md").read_text()
    assert "the fake server keeps its cache (HTTP 400)" in report


def test_each_launch_tunes_for_itself(bench: Workbench) -> None:
    config, run = bench.config(["good", "good_b"], rounds=2, concurrency=[1]), bench.folder / "run"
    bench.autotune("sweep", config, "--run", run)
    launches = load_records(run).launches
    assert {launch.kernel_tuning for launch in launches} == {"own"}
    folders = {launch.environment["FAKE_TUNED"] for launch in launches}
    assert len(folders) == len(launches) == 1 + 4
    for launch in launches:
        log = log_of(run, launch.candidate, launch.round)
        assert "tuned before: 0\n" in log
        assert launch.round == 0 or "tuned here: 1\n" in log
        assert Path(launch.environment["FAKE_TUNED"]).is_relative_to(run)


def test_launches_share_what_was_tuned_if_the_config_says_so(bench: Workbench) -> None:
    config, run = bench.config(["good", "good_b"], rounds=2, concurrency=[1]), bench.folder / "run"
    text = config.read_text().replace(
        'name = "fake"\n', 'name = "fake"\nshare_kernel_tuning = true\n'
    )
    config.write_text(text)
    bench.autotune("sweep", config, "--run", run)
    launches = load_records(run).launches
    assert {launch.kernel_tuning for launch in launches} == {"shared"}
    assert len({launch.environment["FAKE_TUNED"] for launch in launches}) == 1
    found = sorted(
        log_of(run, launch.candidate, launch.round).partition("tuned before: ")[2][0]
        for launch in launches
    )
    assert found == ["0", "1", "2", "3", "4"]


def test_the_report_says_how_kernels_were_tuned(bench: Workbench) -> None:
    config, run = bench.config(["good"], rounds=1, concurrency=[1]), bench.folder / "run"
    bench.autotune("sweep", config, "--run", run)
    record = json.loads(next(run.rglob("launch.json")).read_text())
    assert record["kernel_tuning"] == "own"
    assert "tuned" in (run / "report.md").read_text()


def test_an_interrupted_launch_leaves_no_tuning_to_the_next(bench: Workbench) -> None:
    """Kept between the points of one launch, and gone for the next try in the same round."""
    # Enough requests for the third point to be under way when the second one is seen.
    config = bench.config(["good"], rounds=1, concurrency=[1, 2, 3], requests=40)
    run = bench.folder / "run"
    with bench.started("sweep", config, "--run", run) as process:
        assert wait_for(lambda: len(list(run.rglob("point.json"))) >= 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
    assert bench.nothing_left()
    assert not list(run.glob("launches/*/1/launch.json")), "it was interrupted within its launch"
    first = log_of(run, "good")
    assert first.count("asked to flush; tuned here: 1") == first.count("asked to flush") >= 2
    (tuned,) = run.rglob("tuned")
    (left,) = (tuned / "1").iterdir()
    bench.autotune("sweep", config, "--run", run)
    again = log_of(run, "good")
    assert "tuned before: 0\n" in again
    assert again.count("asked to flush; tuned here: 1") == again.count("asked to flush") >= 1
    (made,) = (tuned / "1").iterdir()
    assert made.name != left.name
    assert [point.status for point in load_records(run).points] == ["ok"] * 3


def test_an_interruption_leaves_shared_tuning_alone(bench: Workbench) -> None:
    config = bench.config(["good"], rounds=1, concurrency=[1, 2], requests=40)
    text = config.read_text().replace(
        'name = "fake"\n', 'name = "fake"\nshare_kernel_tuning = true\n'
    )
    config.write_text(text)
    run = bench.folder / "run"
    with bench.started("sweep", config, "--run", run) as process:
        assert wait_for(lambda: list(run.rglob("point.json")))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
    assert bench.nothing_left()
    bench.autotune("sweep", config, "--run", run)
    # Round 0 tuned, and so did the launch that was interrupted.
    assert "tuned before: 2\n" in log_of(run, "good")
