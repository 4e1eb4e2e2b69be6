"""What vLLM's own files say, against records: single runs, appended ones and a sweep's folder."""

import json
import shutil
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from autotune.errors import InputError
from autotune.importers import vllm_bench_serve, vllm_bench_sweep
from autotune.records.schema import Distribution
from tests.importers.tool_files import VLLM, import_tool, only_point

SWEEP = VLLM / "sweep"
TRITON_4 = SWEEP / "SERVE--moe-backend=triton-token-s=0.002-BENCH--max_concurrency=4"


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A copy of the sweep's folder."""
    return Path(shutil.copytree(SWEEP, tmp_path / "sweep"))


@pytest.mark.parametrize("path", sorted(VLLM.glob("*.json*")), ids=lambda path: path.stem)
def test_each_file_is_told_by_its_content(path: Path) -> None:
    assert vllm_bench_serve.looks_like(path)
    assert not vllm_bench_sweep.looks_like(path)


def test_each_figure_is_the_files_own_in_si_units() -> None:
    said = read(VLLM / "enough.json")
    point = only_point(import_tool(VLLM / "enough.json", backend="triton"))
    figures = point.figures
    assert figures is not None
    assert (point.concurrency, point.requests_sent, point.requests_ok) == (16, 304, 304)
    assert figures.output_tokens_per_s == said["output_throughput"]
    assert figures.whole_run_output_tokens_per_s == said["output_throughput"]
    assert figures.total_tokens_per_s == said["total_token_throughput"]
    assert figures.requests_per_s == said["request_throughput"]
    assert figures.window_s == said["duration"]
    assert figures.input_tokens_mean == said["total_input_tokens"] / 304
    assert figures.output_tokens_mean == 8
    in_progress = sum(said["latencies"]) / said["duration"]
    assert figures.achieved_concurrency == pytest.approx(in_progress / 16)
    parts = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
    names = {"ttft_s": "ttft", "latency_s": "e2el", "tpot_s": "tpot", "itl_s": "itl"}
    for ours, theirs in names.items():
        for part, prefix in parts.items():
            value = getattr(getattr(figures, ours), part)
            assert value == pytest.approx(said[f"{prefix}_{theirs}_ms"] / 1000)


def test_what_the_file_leaves_out_is_not_filled_in() -> None:
    figures = only_point(import_tool(VLLM / "plain.json", backend="triton")).figures
    assert figures is not None
    assert figures.latency_s == Distribution()
    assert figures.achieved_concurrency is None
    assert figures.ttft_s.p90 is None and figures.ttft_s.p50 is not None


def test_gaps_between_chunks_of_several_tokens_are_no_gaps_between_tokens(tmp_path: Path) -> None:
    """As with speculative decoding: half as many gaps, each twice as long."""
    said = read(VLLM / "enough.json")
    gaps = {key: value * 2 for key, value in said.items() if key.endswith("_itl_ms")}
    (tmp_path / "it.json").write_text(json.dumps(said | gaps))
    imported = import_tool(tmp_path / "it.json", backend="triton")
    figures = only_point(imported).figures
    assert figures is not None
    assert figures.itl_s == Distribution() and figures.tpot_s.mean is not None
    assert any("itl is 2.0 times tpot: between chunks" in each for each in imported.skipped)


def test_the_kind_of_client_is_no_backend_and_no_engine() -> None:
    """``backend`` is ``openai`` in these files, whatever answered."""
    with pytest.raises(InputError, match="doesn't say which backend was measured"):
        import_tool(VLLM / "plain.json")
    with pytest.raises(InputError, match="doesn't say engine: give --engine"):
        import_tool(VLLM / "plain.json", backend="triton", engine=None)
    assert only_point(import_tool(VLLM / "labelled.json")).candidate == "triton"


def test_metadata_is_told_and_not_believed() -> None:
    imported = import_tool(VLLM / "metadata.json", backend="triton")
    assert imported.run.run.scope.tp is None
    assert any("'version', 'tp': metadata" in each for each in imported.skipped)


def test_lines_that_were_appended_are_points_each() -> None:
    imported = import_tool(VLLM / "appended.jsonl", backend="triton")
    assert [point.concurrency for point in imported.run.points] == [4, 16]


def test_failed_requests_are_counted() -> None:
    point = only_point(import_tool(VLLM / "failures.json", backend="triton"))
    assert (point.status, point.requests_sent, point.requests_ok) == ("request_errors", 20, 16)


def test_releases_that_count_no_failures_show_what_is_missing(tmp_path: Path) -> None:
    said = read(VLLM / "failures.json")
    del said["failed"]
    (tmp_path / "older.json").write_text(json.dumps(said))
    point = only_point(import_tool(tmp_path / "older.json", backend="triton"))
    assert (point.status, point.requests_sent) == ("ok", None)
    assert "requests_missing" in {warning.code for warning in point.warnings}


def test_equal_lengths_in_the_details_are_the_workload(tmp_path: Path) -> None:
    workload = import_tool(VLLM / "details.json", backend="triton").run.run.workload
    assert (workload.input_tokens, workload.output_tokens) == (None, 8)


@pytest.mark.parametrize(("name", "message"), [("rate", "open loop"), ("at_once", "--concurrency")])
def test_a_rate_is_no_concurrency(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        import_tool(VLLM / f"{name}.json", backend="triton")


def test_a_rising_rate_and_embeddings_are_refused(tmp_path: Path) -> None:
    said = read(VLLM / "plain.json")
    path = tmp_path / "it.json"
    path.write_text(json.dumps(said | {"ramp_up_strategy": "linear", "ramp_up_start_rps": 1}))
    with pytest.raises(InputError, match="its request rate rises"):
        import_tool(path, backend="triton")
    del said["output_throughput"]
    path.write_text(json.dumps(said))
    with pytest.raises(InputError, match="embeddings, which generates nothing"):
        import_tool(path, backend="triton")


def test_a_sweep_is_a_point_for_each_combination_whose_runs_are_averaged() -> None:
    assert vllm_bench_sweep.looks_like(SWEEP)
    imported = import_tool(SWEEP)
    places = {(p.candidate, p.round, p.concurrency): p for p in imported.run.points}
    assert set(places) == {
        (backend, 1, concurrency)
        for backend in ("triton", "flashinfer_cutlass")
        for concurrency in (4, 16)
    }
    point = places["triton", 1, 4]
    runs = [read(TRITON_4 / f"run={number}.json") for number in (0, 1)]
    assert point.figures is not None
    assert point.figures.output_tokens_per_s == pytest.approx(
        mean(run["output_throughput"] for run in runs)
    )
    assert point.figures.ttft_s.p50 == pytest.approx(
        mean(run["median_ttft_ms"] for run in runs) / 1000
    )
    assert (point.requests_ok, point.figures.ttft_s.n) == (64, 64)
    assert "repeats_averaged" in {warning.code for warning in point.warnings}
    assert (imported.rows, imported.used_rows) == (8, 8)
    assert any("4 points are means of repetitions" in note for note in imported.notes)
    assert len(imported.sources) == 8


def test_a_combination_or_its_summary_alone_says_the_same(sweep: Path) -> None:
    folder = import_tool(TRITON_4, name="x")
    summary = import_tool(TRITON_4 / "summary.json", name="x")
    assert folder.run.points[0].figures == summary.run.points[0].figures
    for path in sweep.glob("*/run=*.json"):
        path.unlink()
    assert len(import_tool(sweep).run.points) == 4


def test_servers_that_differ_in_more_than_the_backend_need_names(sweep: Path) -> None:
    for folder in list(sweep.glob("SERVE-*flashinfer*")):
        folder.rename(sweep / folder.name.replace("flashinfer_cutlass", "triton"))
    for path in sweep.glob("*/run=*.json"):
        content = read(path)
        path.write_text(json.dumps(content | {"moe-backend": "triton"}))
    with pytest.raises(
        InputError, match=r"backend 'moe-backend=triton-token-s=0.00.' isn't.*--rename"
    ):
        import_tool(sweep)
    names = {"moe-backend=triton-token-s=0.002": "fast", "moe-backend=triton-token-s=0.003": "slow"}
    imported = import_tool(sweep, rename=names)
    assert {point.candidate for point in imported.run.points} == {"fast", "slow"}


def test_what_failed_in_a_sweep_is_told(sweep: Path) -> None:
    (sweep / TRITON_4.name / "run=1.failure.json").write_text("{}")
    (sweep / "SERVE--moe-backend=marlin-failure.json").write_text("{}")
    skipped = import_tool(sweep).skipped
    assert sum("a run that failed has no figures" in each for each in skipped) == 2


def test_a_sweep_over_workloads_is_refused_with_both_places(sweep: Path) -> None:
    path = sweep / TRITON_4.name / "run=1.json"
    path.write_text(json.dumps(read(path) | {"random_input_len": 64}))
    first = sweep / TRITON_4.name / "run=0.json"
    first.write_text(json.dumps(read(first) | {"random_input_len": 32}))
    with pytest.raises(InputError, match=r"run=1\.json: workload is .*=64.*=32.* in .*run=0\.json"):
        import_tool(sweep)


def test_links_in_a_sweep_are_not_followed(sweep: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    shutil.copy(TRITON_4 / "run=0.json", secret)
    (sweep / TRITON_4.name / "run=2.json").symlink_to(secret)
    with pytest.raises(InputError, match=r"run=2\.json: a link"):
        import_tool(sweep)


def test_a_run_cut_while_it_was_written_stops_the_sweep(sweep: Path) -> None:
    path = sweep / TRITON_4.name / "run=1.json"
    path.write_text(path.read_text()[:500])
    with pytest.raises(InputError, match=r"run=1\.json, line \d+: ends in the middle"):
        import_tool(sweep)


def test_a_list_of_no_runs_is_refused(tmp_path: Path) -> None:
    for content, message in (([], "an empty list"), ([1], "not an object")):
        (tmp_path / "summary.json").write_text(json.dumps(content))
        with pytest.raises(InputError, match=message):
            vllm_bench_sweep.read(tmp_path)
