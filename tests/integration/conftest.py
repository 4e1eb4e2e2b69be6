"""A finished sweep of every behaviour, made once for all tests that only read it."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.workbench import Workbench

CANDIDATES = (
    "good",
    "good_b",
    "garbage",
    "http_500",
    "http_500_at_once",
    "dies_at_start",
    "hangs_at_start",
    "dies_mid_load",
    "wrong_model",
    "other_inside",
    "refuses",
    "needs_gpu",
)


@dataclass(frozen=True)
class Finished:
    """A sweep that ran to its end: where, and what the command said."""

    bench: Workbench
    config: Path
    run: Path
    result: subprocess.CompletedProcess[str]
    wrote_decision: bool


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "bench")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    bench = Workbench(tmp_path_factory.mktemp("finished") / "bench")
    config = bench.config(CANDIDATES, ready_timeout_s=2)
    run = bench.folder / "run"
    result = bench.autotune("sweep", config, "--run", run)
    wrote = (run / "decision.json").exists()
    return Finished(bench=bench, config=config, run=run, result=result, wrote_decision=wrote)
