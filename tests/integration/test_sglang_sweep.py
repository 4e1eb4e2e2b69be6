"""A whole sweep with the SGLang engine, over a stand-in for the server that a GPU would run."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import autotune
from autotune.decisions.schema import decode
from autotune.records.folder import LoadedRun, load_records
from tests.integration.workbench import Workbench

STAND_IN = Path(__file__).with_name("stand_in_sglang")
CANDIDATES = (
    "flashinfer_cutlass",
    "auto",
    "flashinfer_cutedsl",
    "triton",
    "marlin",
    "deep_gemm",
    "brand_new",
)


class SGLangBench(Workbench):
    """A workbench in which SGLang is installed: its stand-in."""

    def __post_init__(self) -> None:
        super().__post_init__()
        installed = self.folder / "site" / "sglang-0.5.23.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.23")

    @property
    def environment(self) -> dict[str, str]:
        given = super().environment
        return {**given, "PYTHONPATH": f"{STAND_IN}:{given['PYTHONPATH']}"}

    def sglang_config(self, *, engine: str = "") -> Path:
        path = self.config(CANDIDATES, name="sglang-sweep")
        text = path.read_text().replace('name = "fake"', 'name = "sglang"')
        text = text.replace(
            'reference = "flashinfer_cutlass"',
            'reference = "flashinfer_cutlass"\nincumbent = "auto"',
        )
        marked = f'arguments = ["--mark", "{self.mark}"]'
        extra = 'extra_backends = ["brand_new", "marlin"]'
        text = text.replace(marked, f"{marked}\n{extra}\n{engine}")
        path.write_text(text)
        return path


@dataclass(frozen=True)
class Swept:
    bench: SGLangBench
    run: Path
    result: subprocess.CompletedProcess[str]
    records: LoadedRun


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    bench = SGLangBench(tmp_path_factory.mktemp("sglang") / "bench")
    run = bench.folder / "run"
    result = bench.autotune("sweep", bench.sglang_config(), "--run", run)
    assert (run / "run.json").is_file(), result.stderr
    return Swept(bench, run, result, load_records(run))


def test_auto_is_measured_and_the_decision_names_what_it_became(swept: Swept) -> None:
    assert swept.result.returncode == 0, swept.result.stderr
    decision = decode((swept.run / "decision.json").read_bytes(), where="decision.json")
    entry = decision.entries[0]
    assert (entry.choice.candidate, entry.choice.backend) == ("auto", "flashinfer_trtllm_routed")
    assert {winner.backend for winner in entry.choice.winners} == {"flashinfer_trtllm_routed"}
    backends = {row.candidate: row.backend for row in entry.evidence.rows}
    assert backends["auto"] == "flashinfer_trtllm_routed"
    assert entry.scope.engine == "sglang" and entry.scope.engine_version == "0.5.23"


def test_each_launch_says_what_was_asked_and_what_ran(swept: Swept) -> None:
    status = {launch.candidate: launch for launch in swept.records.launches}
    assert status["auto"].resolved_backend == "flashinfer_trtllm_routed"
    assert status["triton"].status == "wrong_backend"
    assert status["triton"].resolved_backend == "triton_kernel"
    assert status["flashinfer_cutedsl"].status == "unsupported"
    assert status["flashinfer_cutedsl"].command == ()
    assert status["marlin"].status == "unsupported"
    assert "requires a fused func" in (status["marlin"].reason or "")
    assert status["brand_new"].status == "ok"
    standings = autotune.load_run(swept.run).judgement.standings
    garbage = next(standing for standing in standings if standing.candidate == "deep_gemm")
    assert garbage.verdict == "fail" and not garbage.admissible


def test_only_log_probabilities_tell_what_says_the_same_with_another_model(swept: Swept) -> None:
    told = autotune.load_run(swept.run).correctness
    scored = told[told["kind"] == "log_probabilities"].set_index("candidate")
    assert scored.loc["auto", "verdict"] == "pass"
    assert abs(scored.loc["auto", "drop_mean"]) < 1e-9
    assert scored.loc["brand_new", "verdict"] == "fail"
    agreement = told[told["kind"] == "agreement"].set_index("candidate")
    assert agreement.loc["brand_new", "verdict"] == "pass"
    standings = {s.candidate: s for s in autotune.load_run(swept.run).judgement.standings}
    assert standings["brand_new"].verdict == "fail" and not standings["brand_new"].admissible
    (first,) = (p for p in swept.records.probes if p.round == 0 and p.concurrency is None)
    assert len(first.continuations) == len(first.prompts) and first.problems == ()
    assert all(score.outcome == "ok" for probe in swept.records.probes for score in probe.scores)


def test_the_cache_is_emptied_before_each_point(swept: Swept) -> None:
    for launch in swept.records.launches:
        if launch.status == "ok" and launch.candidate != "deep_gemm":
            log = swept.run / "launches" / launch.candidate / str(launch.round) / "server.log"
            points = [
                point
                for point in swept.records.points
                if (point.candidate, point.round) == (launch.candidate, launch.round)
            ]
            flushed = log.read_text().count("Cache flushed")
            assert flushed == sum(point.attempts for point in points)
            assert flushed >= 2 or launch.round == 0


def test_no_earlier_decision_steers_a_launch_and_kernels_are_tuned_anew(swept: Swept) -> None:
    launched = [launch for launch in swept.records.launches if launch.command]
    assert all(launch.environment["AUTOTUNE_DISABLE"] == "1" for launch in launched)
    folders = [launch.environment["SGLANG_CACHE_DIR"] for launch in launched]
    assert len(set(folders)) == len(folders)
    assert all(Path(folder).is_relative_to(swept.run) for folder in folders)
    assert {launch.kernel_tuning for launch in launched} == {"own"}
    for launch in launched:
        log = swept.run / "launches" / launch.candidate / str(launch.round) / "server.log"
        assert "tuned before" not in log.read_text()
    assert all(launch.ready_s for launch in launched if launch.status == "ok")


def test_tuning_is_shared_if_the_config_says_so(tmp_path: Path) -> None:
    bench = SGLangBench(tmp_path / "bench")
    run = bench.folder / "run"
    bench.autotune("sweep", bench.sglang_config(engine="share_kernel_tuning = true"), "--run", run)
    launches = [launch for launch in load_records(run).launches if launch.status == "ok"]
    assert {launch.kernel_tuning for launch in launches} == {"shared"}
    assert len({launch.environment["SGLANG_CACHE_DIR"] for launch in launches}) == 1


def test_the_report_says_what_auto_became_and_how_kernels_were_tuned(swept: Swept) -> None:
    report = (swept.run / "report.md").read_text()
    assert "tuned anew at each launch" in report
    environment = json.loads((swept.run / "environment.json").read_text())
    assert environment["packages"]["sglang"] == "0.5.23"
