"""One launch's points, with the measuring itself replaced: the prefix cache and its warnings."""

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from autotune.config import parse_config
from autotune.engines.process import ServerProcess
from autotune.engines.transformers import TransformersEngine
from autotune.errors import EngineError
from autotune.load.client import Endpoint
from autotune.load.point import PointMeasurement
from autotune.probe.ask import Tail
from autotune.records.folder import RunFolder
from autotune.records.schema import MeasurementWarning, PointRecord, PointStatus
from autotune.sweep import launch as launch_module
from autotune.sweep.context import read_context
from autotune.sweep.correctness import Correctness
from autotune.sweep.launch import Launch
from autotune.sweep.plan import plan_round
from autotune.sweep.progress import tell_nobody
from autotune.sweep.workloads import PointPrompts

TEXT = """
name = "demo"
candidates = ["eager"]
reference = "eager"
[model]
witness = "minimax-m2"
[engine]
name = "transformers"
device = "cpu"
[load]
concurrency = [1]
"""
ENDPOINT = Endpoint(base_url="http://127.0.0.1:9", model="x", kind="completions")
NOISY = MeasurementWarning(code="noisy", observed="x", threshold="y", remedy="z")


class Recorder(TransformersEngine):
    """Writes down what is asked of it, together with the measurements, in order."""

    def __init__(self, refusals: int = 0) -> None:
        self.calls: list[str] = []
        self.refusals = refusals

    async def flush_cache(self, *, base_url: str) -> None:
        self.calls.append("flush")
        if self.refusals:
            self.refusals -= 1
            raise EngineError("busy\x1b[31m\nstill busy")


class Running:
    exit_code: int | None = None


def measure(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    engine: Recorder,
    *statuses: PointStatus,
    server: Running | None = None,
) -> PointRecord:
    """Measure a point whose attempts come to ``statuses``, and return its record."""
    left = list(statuses)

    async def measure_point(*_: Any, **__: Any) -> PointMeasurement:
        engine.calls.append("measure")
        return PointMeasurement(requests=[], figures=None, status=left.pop(0), warnings=(NOISY,))

    monkeypatch.setattr(launch_module, "measure_point", measure_point)
    monkeypatch.setattr(
        launch_module,
        "point_prompts",
        lambda *_, **__: PointPrompts(warmup=[], measured=[], tail=Tail(prompts=(), names=())),
    )
    config = parse_config(TEXT, where="demo.toml")
    run = RunFolder(folder / "run")
    context = msgspec.structs.replace(read_context(config, run), engine=engine)
    planned = plan_round(config, 1, config.candidate_list())[0]
    launch = Launch(context, planned, workload_digest=None, tell=tell_nobody)
    running = cast(ServerProcess, server or Running())
    correctness = Correctness(context, planned, ENDPOINT, tell=tell_nobody)
    asyncio.run(launch._point(ENDPOINT, running, correctness, 1))
    data = run.point_file("eager", 1, 1).read_bytes()
    return msgspec.json.decode(data, type=PointRecord)


def test_the_cache_is_emptied_before_the_point(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine = Recorder()
    record = measure(monkeypatch, tmp_path, engine, "ok")
    assert engine.calls == ["flush", "measure"]
    assert (record.attempts, record.warnings) == (1, (NOISY,))


def test_and_again_before_a_second_attempt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine = Recorder()
    record = measure(monkeypatch, tmp_path, engine, "not_steady", "ok")
    assert engine.calls == ["flush", "measure", "flush", "measure"]
    assert (record.status, record.attempts, record.warnings) == ("ok", 2, (NOISY,))


def test_a_refusal_is_a_warning_and_the_point_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine = Recorder(refusals=1)
    record = measure(monkeypatch, tmp_path, engine, "ok")
    assert engine.calls == ["flush", "measure"]
    warning, other = record.warnings
    assert other == NOISY
    assert warning.code == "cache_not_flushed"
    assert warning.observed.isprintable() and "busy" in warning.observed
    assert warning.threshold and warning.remedy


@pytest.mark.parametrize(
    ("refusals", "warned"), [(1, False), (2, True)], ids=["only the first", "both"]
)
def test_what_counts_is_the_attempt_that_is_kept(
    refusals: int, warned: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = measure(monkeypatch, tmp_path, Recorder(refusals), "not_steady", "ok")
    codes = [warning.code for warning in record.warnings]
    assert codes == (["cache_not_flushed"] if warned else []) + ["noisy"]


def test_a_server_that_is_gone_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = Running()
    gone.exit_code = 9
    engine = Recorder()
    record = measure(monkeypatch, tmp_path, engine, server=gone)
    assert (record.status, engine.calls) == ("crashed", [])
