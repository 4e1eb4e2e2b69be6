"""The whole line with real servers: `transformers serve` once a backend, a wrong one among them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import autotune
from autotune.decisions.schema import decode
from autotune.records.folder import LoadedRun, load_records
from tests.integration.workbench import is_closed, ports_of

pytestmark = pytest.mark.server
pytest.importorskip("transformers")

WRAPPER = Path(__file__).with_name("with_scrambled_experts.py")
CONFIG = f"""
name = "scrambled"
candidates = ["eager", "grouped_mm", "scrambled", "bogus"]
reference = "eager"
incumbent = "grouped_mm"
[model]
witness = "minimax-m2"
[engine]
name = "transformers"
device = "cpu"
dtype = "float32"
launch_prefix = [{json.dumps(sys.executable)}, {json.dumps(str(WRAPPER))}]
extra_backends = ["scrambled", "bogus"]
ready_timeout_s = 180
[load]
concurrency = [1, 4]
input_tokens = 16
output_tokens = 8
requests_per_slot = 2
min_requests = 8
request_timeout_s = 60
[probe]
max_tokens = 16
long_prompt_tokens = 64
[decision]
min_rounds = 1
max_rounds = 1
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run folder, and what the command said on its way."""
    folder = tmp_path_factory.mktemp("transformers")
    (folder / "sweep.toml").write_text(CONFIG)
    argv = [sys.executable, "-m", "autotune"]
    sweep = subprocess.run(
        [*argv, "sweep", "sweep.toml", "--run", "run"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=540,
    )
    # One round gives no interval: the decision is only written if somebody accepts that.
    assert sweep.returncode == 3, sweep.stderr
    assert not (folder / "run" / "decision.json").exists()
    decide = subprocess.run(
        [*argv, "decide", "run", "--accept"], cwd=folder, capture_output=True, text=True
    )
    assert decide.returncode == 0, decide.stderr
    return folder / "run", sweep.stderr


@pytest.fixture(scope="module")
def records(swept: tuple[Path, str]) -> LoadedRun:
    return load_records(swept[0])


def test_honest_backends_pass_and_are_measured(swept: tuple[Path, str], records: LoadedRun) -> None:
    standings = {s.candidate: s for s in autotune.load_run(swept[0]).judgement.standings}
    for name in ("eager", "grouped_mm"):
        assert standings[name].verdict == "pass" and standings[name].admissible
        points = [point for point in records.points if point.candidate == name]
        assert [(p.concurrency, p.status) for p in points] == [(1, "ok"), (4, "ok")]
        for point in points:
            assert point.figures is not None and point.requests_ok == 8
            assert point.figures.output_tokens_mean == 8
            assert point.figures.input_tokens_mean == 16


def test_a_wrong_backend_fails_and_cant_win(swept: tuple[Path, str], records: LoadedRun) -> None:
    (launch,) = (one for one in records.launches if one.candidate == "scrambled")
    # It serves, and answers fluently with status 200: only its text gives it away.
    assert launch.status == "ok"
    (probe,) = (
        one for one in records.probes if one.candidate == "scrambled" and one.concurrency is None
    )
    assert all(answer.outcome == "ok" for answer in probe.answers)
    judgement = autotune.load_run(swept[0]).judgement
    (standing,) = (one for one in judgement.standings if one.candidate == "scrambled")
    assert standing.verdict == "fail" and not standing.admissible
    assert judgement.choice in {"eager", "grouped_mm"}


def test_a_refused_backend_is_a_row_with_the_engines_words(records: LoadedRun) -> None:
    (launch,) = (one for one in records.launches if one.candidate == "bogus")
    assert launch.status == "unsupported"
    assert launch.reason is not None and 'experts_implementation="bogus"' in launch.reason
    assert launch.log_tail


def test_decision_report_and_plots_are_there(swept: tuple[Path, str]) -> None:
    run, _ = swept
    (entry,) = decode((run / "decision.json").read_bytes(), where="decision.json").entries
    assert entry.choice.backend in {"eager", "grouped_mm"} and entry.choice.outcome != "decisive"
    rejected = {one.candidate: one for one in entry.evidence.rejected}
    assert rejected["scrambled"].verdict == "fail"
    assert "unsupported" in rejected["bogus"].reason
    assert any("interval" in sentence for sentence in entry.evidence.accepted)
    assert entry.scope.engine == "transformers" and entry.scope.dtype == "float32"
    text = (run / "report.md").read_text()
    for name in ("eager", "grouped_mm", "scrambled", "bogus"):
        assert name in text
    for name in ("throughput", "ttft", "latency"):
        assert (run / f"{name}.svg").stat().st_size and (run / f"{name}.png").stat().st_size


def test_the_servers_are_gone(records: LoadedRun) -> None:
    ports = ports_of(launch.command for launch in records.launches)
    # One for each of the four candidates, and the reference's launch before the first round.
    assert len(ports) == 5
    assert all(is_closed(port) for port in ports)
