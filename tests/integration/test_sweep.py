"""A whole sweep through the real command, with one server process for each way to misbehave."""

import json
from pathlib import Path

import pytest

import autotune
from autotune.decisions.schema import decode
from autotune.records.folder import LoadedRun, load_records
from tests.engines.conformance import check_engine
from tests.integration.conftest import CANDIDATES, Finished
from tests.integration.fake_engine import FakeEngine
from tests.integration.fake_server import LAST_WORDS
from tests.integration.workbench import Workbench, is_closed, ports_of, snapshot

LAUNCH_FAILURES = {
    "http_500_at_once": ("launch_failed", "the first request got HTTP 500"),
    "dies_at_start": ("launch_failed", "exited with code 1"),
    "hangs_at_start": ("ready_timeout", "not ready after 2 s"),
    "dies_mid_load": ("crashed", "exit code 9"),
    "wrong_model": ("launch_failed", "serves somebody-elses, not fake-moe"),
    "other_inside": ("wrong_backend", "asked for other_inside, the engine runs good"),
    "refuses": ("unsupported", "needs a GPU of another kind"),
    "needs_gpu": ("unsupported", "runs on a GPU only"),
}


@pytest.fixture(scope="module")
def records(finished: Finished) -> LoadedRun:
    return load_records(finished.run)


def test_the_fake_engine_is_an_engine(tmp_path: Path) -> None:
    check_engine(FakeEngine(), tmp_path)


def test_the_sweep_decides_in_spite_of_all_failures(finished: Finished) -> None:
    assert finished.result.returncode in {0, 3}, finished.result.stderr
    assert finished.wrote_decision == (finished.result.returncode == 0)
    assert "Traceback" not in finished.result.stderr + finished.result.stdout
    tables = autotune.load_run(finished.run)
    assert tables.judgement.choice in {"good", "good_b"}
    assert {s.candidate for s in tables.judgement.standings if s.admissible} <= {"good", "good_b"}


@pytest.mark.parametrize(("backend", "expected"), LAUNCH_FAILURES.items())
def test_each_failing_launch_is_a_row_with_a_reason(
    finished: Finished, backend: str, expected: tuple[str, str]
) -> None:
    launches = autotune.load_run(finished.run).launches
    rows = launches[launches["candidate"] == backend]
    # It failed once: launching it again would only cost time.
    assert list(rows["round"]) == [1]
    assert rows["status"].iloc[0] == expected[0]
    assert expected[1] in rows["reason"].iloc[0]
    assert f"{backend},{backend},1," in (finished.run / "launches.csv").read_text()


def test_the_log_of_a_failed_launch_is_kept_and_safe_to_print(
    finished: Finished, records: LoadedRun
) -> None:
    launches = {launch.candidate: launch for launch in records.launches if launch.status != "ok"}
    assert any("no kernel image" in line for line in launches["dies_at_start"].log_tail)
    assert launches["hangs_at_start"].log_tail == ("loading weights ...",)
    assert launches["dies_mid_load"].log_tail[-1] == LAST_WORDS
    for launch in launches.values():
        assert "\x1b" not in "".join(launch.log_tail) + (launch.reason or "")
    log = finished.run / "launches" / "dies_at_start" / "1" / "server.log"
    assert "Traceback" in log.read_text()


def test_a_server_that_answers_500_has_rows_with_the_counts(records: LoadedRun) -> None:
    points = [point for point in records.points if point.candidate == "http_500"]
    assert {(p.round, p.concurrency) for p in points} == {(1, 1), (1, 4)}
    for point in points:
        assert point.status == "request_errors" and point.figures is None
        assert point.reason is not None and "12 of 12 requests failed" in point.reason
        assert "HTTP 500" in point.reason


def test_a_server_that_dies_mid_load_leaves_no_figures_that_count(records: LoadedRun) -> None:
    points = [point for point in records.points if point.candidate == "dies_mid_load"]
    assert {(p.round, p.concurrency) for p in points} == {(1, 1), (1, 4)}
    for point in points:
        assert point.status == "crashed" and point.reason


def test_garbage_is_measured_rejected_and_not_launched_again(
    finished: Finished, records: LoadedRun
) -> None:
    launches = [launch for launch in records.launches if launch.candidate == "garbage"]
    assert [launch.round for launch in launches] == [1]
    answers = {a.text for p in records.probes if p.candidate == "garbage" for a in p.answers}
    assert len(answers) == 1  # Always the same: repeating itself isn't health.
    standings = {s.candidate: s for s in autotune.load_run(finished.run).judgement.standings}
    assert standings["garbage"].verdict == "fail" and not standings["garbage"].admissible
    assert "garbled" in (standings["garbage"].reason or "")


def test_the_decision_names_everybody_rejected(finished: Finished) -> None:
    path = finished.run / "decision.json"
    if not finished.wrote_decision:
        # Too noisy a machine: whoever wants it all the same says so.
        assert finished.bench.autotune("decide", finished.run, "--accept").returncode == 0
    (entry,) = decode(path.read_bytes(), where="decision.json").entries
    assert entry.choice.backend in {"good", "good_b"} and entry.choice.verdict == "pass"
    rejected = {one.candidate: one for one in entry.evidence.rejected}
    assert rejected.keys() - {"good", "good_b"} == set(CANDIDATES) - {"good", "good_b"}
    assert rejected["garbage"].verdict == "fail"
    for backend, (status, _) in LAUNCH_FAILURES.items():
        assert status in rejected[backend].reason
    assert entry.scope.engine == "fake" and entry.scope.engine_version == "1.2.3"


def test_the_report_names_every_candidate(finished: Finished) -> None:
    text = (finished.run / "report.md").read_text()
    for candidate in CANDIDATES:
        assert candidate in text
    for name in ("throughput", "ttft", "latency"):
        assert (finished.run / f"{name}.svg").stat().st_size
        assert (finished.run / f"{name}.png").stat().st_size


def test_nothing_is_left_running(finished: Finished, records: LoadedRun) -> None:
    assert finished.bench.servers() == []
    ports = ports_of(launch.command for launch in records.launches)
    assert len(ports) == len([launch for launch in records.launches if launch.command])
    assert [port for port in ports if not is_closed(port)] == []


def test_running_it_again_measures_nothing(finished: Finished) -> None:
    before = snapshot(finished.run / "launches")
    tables = {name: (finished.run / name).read_bytes() for name in ("points.csv", "summary.csv")}
    again = finished.bench.autotune("sweep", finished.config, "--run", finished.run, "--json")
    assert again.returncode == finished.result.returncode, again.stderr
    assert "launching" not in again.stderr
    assert snapshot(finished.run / "launches") == before
    for name, content in tables.items():
        assert (finished.run / name).read_bytes() == content
    check_json(again.stdout, finished)


def check_json(stdout: str, finished: Finished) -> None:
    """JSON is all that stdout holds, and it says what the folder says."""
    told = json.loads(stdout)
    assert told["run"] == str(finished.run)
    assert told["judgement"]["choice"] in {"good", "good_b"}
    assert told["verdicts"]["garbage"]["verdict"] == "fail"


def test_decide_tells_the_same_in_json(finished: Finished) -> None:
    result = finished.bench.autotune("decide", finished.run, "--json")
    assert result.returncode == finished.result.returncode, result.stderr
    check_json(result.stdout, finished)


def test_a_daemon_that_ignores_sigterm_is_ended_too(bench: Workbench) -> None:
    run = bench.folder / "run"
    config = bench.config(["daemonises"], rounds=1, concurrency=[1])
    result = bench.autotune("sweep", config, "--run", run)
    assert bench.servers() == []
    records = load_records(run)
    assert [launch.status for launch in records.launches] == ["ok", "ok"]
    assert [point.status for point in records.points] == ["ok"]
    assert all(is_closed(port) for port in ports_of(one.command for one in records.launches))
    # One round is too little for a decision.
    assert result.returncode == 3
