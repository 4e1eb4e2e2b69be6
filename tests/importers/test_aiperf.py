"""What aiperf's own exports say, against records: each figure, each fact, and what isn't taken."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import InputError
from autotune.importers import aiperf, aiperf_csv
from autotune.importers.formats import detect
from autotune.records.schema import Distribution
from tests.importers.tool_files import TOOLS, import_tool, only_point

AIPERF = TOOLS / "aiperf"
EXPORT = "profile_export_aiperf.json"
ENOUGH = AIPERF / "enough" / EXPORT
TABLE = ENOUGH.with_suffix(".csv")
_PARTS = {"mean": "avg", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}


def _changed(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    export = json.loads(ENOUGH.read_text())
    change(export)
    path = tmp_path / "it.json"
    path.write_text(json.dumps(export))
    return path


def _set(key: str, **values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda export: export[key].update(values)


def _top(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda export: export.update(values)


def _phase(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda export: export["input_config"]["phases"][0].update(values)


@pytest.mark.parametrize("path", sorted(AIPERF.glob("*/")), ids=lambda path: path.name)
def test_each_file_and_folder_is_told_by_its_content(path: Path) -> None:
    assert detect(path).name == "aiperf"
    for export in path.rglob("*aiperf.json"):
        assert detect(export).name == "aiperf"
        assert detect(export.with_suffix(".csv")).name == "aiperf_csv"


def test_each_figure_is_the_exports_own_in_si_units() -> None:
    said = json.loads(ENOUGH.read_text())
    point = only_point(import_tool(ENOUGH, backend="triton"))
    figures = point.figures
    assert figures is not None
    assert (point.concurrency, point.requests_ok, point.requests_sent) == (8, 304, 304)
    assert point.started_at is None  # The client's clock, without a zone.
    assert figures.output_tokens_per_s == said["output_token_throughput"]["avg"]
    assert figures.whole_run_output_tokens_per_s == figures.output_tokens_per_s
    assert figures.total_tokens_per_s == said["total_token_throughput"]["avg"]
    assert figures.requests_per_s == said["request_throughput"]["avg"]
    assert figures.window_s == said["benchmark_duration"]["avg"]
    assert figures.achieved_concurrency == said["effective_concurrency"]["avg"] / 8
    assert figures.input_tokens_mean == said["input_sequence_length"]["avg"]
    assert (figures.output_tokens_mean, figures.cached_tokens_mean) == (8, None)
    names = {
        "ttft_s": "time_to_first_token",
        "latency_s": "request_latency",
        "tpot_s": "inter_token_latency",
        "itl_s": "inter_chunk_latency",
    }
    for ours, theirs in names.items():
        distribution = getattr(figures, ours)
        assert distribution.n == said[theirs]["count"]
        for part, statistic in _PARTS.items():
            assert getattr(distribution, part) == pytest.approx(said[theirs][statistic] / 1000)


def test_an_export_says_model_lengths_and_what_was_asked() -> None:
    facts = aiperf.read(ENOUGH).facts
    assert facts == {
        "model": "example/MiniMax-M2-tiny",
        "osl": "8",
        "workload": "endpoint completions, synthetic, isl 32 sd 0, osl 8 sd 0",
    }


def test_a_sweeps_folder_is_a_point_a_concurrency() -> None:
    imported = import_tool(AIPERF / "sweep", backend="triton")
    assert [point.concurrency for point in imported.run.points] == [1, 4, 8]
    assert (imported.rows, imported.used_rows) == (3, 3)
    assert sorted(source.name for source in imported.sources) == [
        f"source/concurrency_{number}/{EXPORT}" for number in (1, 4, 8)
    ]
    with pytest.raises(InputError, match="averages over runs, not a run"):
        import_tool(AIPERF / "sweep/sweep_aggregate/profile_export_aiperf_sweep.json")


def test_repetitions_ran_on_one_server() -> None:
    point = only_point(import_tool(AIPERF / "repeats", backend="triton"))
    runs = [json.loads(path.read_text()) for path in (AIPERF / "repeats").rglob(EXPORT)]
    assert point.figures is not None
    rates = [run["output_token_throughput"]["avg"] for run in runs]
    assert point.figures.output_tokens_per_s == pytest.approx(sum(rates) / 2)
    assert point.requests_ok == 64
    assert "repeats_averaged" in {warning.code for warning in point.warnings}


def test_phases_in_a_runs_folder_are_no_runs(tmp_path: Path) -> None:
    shutil.copytree(AIPERF / "enough", tmp_path / "one")
    for phase in ("warmup", "profiling"):
        shutil.copytree(AIPERF / "enough", tmp_path / "one/phases" / phase)
    assert aiperf.read(tmp_path / "one").rows == 1


def test_a_client_that_counted_other_tokens_is_told_of() -> None:
    imported = import_tool(AIPERF / "client_tokens", backend="triton")
    point = only_point(imported)
    assert "client_token_counts" in {warning.code for warning in point.warnings}
    assert point.figures is not None
    assert point.figures.itl_s == Distribution()
    assert any("inter_chunk_latency: between chunks" in each for each in imported.skipped)
    assert imported.run.run.workload.input_tokens == 32


def test_failures_are_counted_and_judged() -> None:
    point = only_point(import_tool(AIPERF / "failures", backend="triton"))
    assert (point.requests_sent, point.requests_ok) == (32, 26)
    assert point.status == "request_errors"


def test_an_open_loop_has_no_concurrency() -> None:
    with pytest.raises(InputError, match="requests are sent by poisson"):
        import_tool(AIPERF / "rate", backend="triton")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_top(was_cancelled=True), "stopped before its end"),
        (_top(is_complete=False), "stopped before its end"),
        (_phase(rate=4.0), "an open loop"),
        (_phase(type="user_centric"), "an open loop"),
        (
            lambda export: export["input_config"]["phases"].append({"type": "concurrency"}),
            "2 phases are measured as one",
        ),
    ],
)
def test_runs_that_say_no_concurrency_are_left_out(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    shutil.copytree(AIPERF / "sweep", tmp_path / "sweep")
    _changed(tmp_path, change).rename(tmp_path / "sweep/concurrency_4" / EXPORT)
    readings = aiperf.read(tmp_path / "sweep")
    assert [each.concurrency for each in readings.readings] == [1, 8]
    assert readings.rows == 3
    (told,) = readings.skipped
    assert "concurrency_4" in told and reason in told


def test_warm_up_phases_do_not_count(tmp_path: Path) -> None:
    def warmed(export: dict[str, Any]) -> None:
        warm_up = {"kind": "warmup", "type": "concurrency", "concurrency": 99}
        export["input_config"]["phases"].insert(0, warm_up)

    (reading,) = aiperf.read(_changed(tmp_path, warmed)).readings
    assert reading.concurrency == 8


def test_an_export_that_says_no_phases_asks_for_the_concurrency(tmp_path: Path) -> None:
    path = _changed(tmp_path, lambda export: export["input_config"].pop("phases"))
    with pytest.raises(InputError, match="give --concurrency"):
        import_tool(path, backend="triton")
    assert only_point(import_tool(path, backend="triton", concurrency=8)).concurrency == 8


def _without_phases(**load: Any) -> Callable[[dict[str, Any]], object]:
    """The configuration of releases 0.4 to 0.8, as far as it is read."""
    data = {key: load.pop(key) for key in ("fixed_schedule", "custom_dataset_type") if key in load}
    config = {
        "endpoint": {"model_names": ["example/MiniMax-M2-tiny"], "type": "completions"},
        "input": data,
        "loadgen": load,
    }
    return lambda export: export.update(input_config=config, aiperf_version="0.7.0")


def test_an_export_of_before_there_were_phases_says_its_concurrency(tmp_path: Path) -> None:
    path = _changed(tmp_path, _without_phases(concurrency=8, request_count=304))
    (reading,) = aiperf.read(path).readings
    assert reading.concurrency == 8
    assert reading.figures == aiperf.read(ENOUGH).readings[0].figures
    assert aiperf.read(path).facts["model"] == "example/MiniMax-M2-tiny"


@pytest.mark.parametrize(
    "load",
    [
        {"request_rate": 4.0, "concurrency": 8},
        {"user_centric_rate": 4.0, "num_users": 8},
        {"fixed_schedule": True, "concurrency": 8},
        {"custom_dataset_type": "mooncake_trace", "concurrency": 8},
    ],
)
def test_a_rate_of_before_there_were_phases_is_an_open_loop(
    tmp_path: Path, load: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="an open loop"):
        import_tool(_changed(tmp_path, _without_phases(**load)), backend="triton")


def test_a_run_may_say_where_its_data_is_from(tmp_path: Path) -> None:
    path = _changed(tmp_path, _top(metadata={"dataset": {"name": "sharegpt"}}))
    assert only_point(import_tool(path, backend="triton")).concurrency == 8
    path = _changed(tmp_path, _top(metadata={"aggregation_type": "confidence"}))
    with pytest.raises(InputError, match="averages over runs"):
        import_tool(path, backend="triton")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("request_throughput", avg=1e5), "request_throughput: 100000 a second"),
        (_set("output_token_throughput", avg=10.0), "output_token_throughput: 10 a second"),
        (_set("time_to_first_token", avg=1e6), "the 'mean' of the first is above"),
        (_set("time_to_first_token", unit="minutes"), "the unit 'minutes' isn't one of ns, us, ms"),
        (_set("time_to_first_token", unit=3), "unit: 3 isn't a text"),
        (_set("request_latency", p90=0.1), "request_latency: p90 is below p50"),
        (_set("request_latency", p99="x"), "request_latency: p99: 'x' isn't a number"),
        (_set("request_count", avg=1.5), "request_count: avg: 1.5 isn't a whole number"),
        (lambda export: export.pop("request_count"), "request_count: isn't there"),
        (lambda export: export.pop("aiperf_version"), "in no format that is known"),
        (_top(input_config=[]), "input_config: a list of 0 isn't an object"),
        (_top(run_info={"token": "abc"}), "'run_info.token': holds a secret"),
    ],
)
def test_what_cannot_be_true_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        import_tool(_changed(tmp_path, change), backend="triton")


def test_the_table_says_the_same_rounded() -> None:
    full = only_point(import_tool(ENOUGH, backend="triton"))
    table = only_point(import_tool(TABLE, backend="triton", concurrency=8))
    assert full.figures is not None and table.figures is not None
    assert table.requests_ok == 304
    for name in ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s", "window_s"):
        assert getattr(table.figures, name) == pytest.approx(getattr(full.figures, name), abs=0.006)
    for name in ("ttft_s", "latency_s", "tpot_s"):
        one, other = getattr(table.figures, name), getattr(full.figures, name)
        for part in _PARTS:
            assert getattr(one, part) == pytest.approx(getattr(other, part), abs=6e-6)
    assert table.figures.itl_s == Distribution()
    assert table.figures.achieved_concurrency == pytest.approx(
        full.figures.achieved_concurrency, abs=0.001
    )


def test_a_wrong_concurrency_shows_in_how_many_requests_were_in_progress() -> None:
    for given, code in ((16, "concurrency_low"), (4, "concurrency_high")):
        point = only_point(import_tool(TABLE, backend="triton", concurrency=given))
        assert code in {warning.code for warning in point.warnings}


def test_the_table_asks_for_what_it_leaves_open() -> None:
    with pytest.raises(InputError, match="give --concurrency"):
        import_tool(TABLE, backend="triton")
    with pytest.raises(InputError, match="doesn't say which backend"):
        import_tool(TABLE, concurrency=8)


def _table(tmp_path: Path, old: str, new: str) -> Path:
    text = TABLE.read_text()
    assert old in text
    path = tmp_path / "it.csv"
    path.write_text(text.replace(old, new, 1))
    return path


def test_figures_that_two_decimals_blur_are_left_out(tmp_path: Path) -> None:
    line = next(line for line in TABLE.read_text().splitlines() if line.startswith("Inter Token"))
    cells = line.split(",")
    path = _table(tmp_path, line, ",".join([cells[0], "0.32", *cells[2:]]))
    imported = import_tool(path, backend="triton", concurrency=8)
    figures = only_point(imported).figures
    assert figures is not None
    assert (figures.tpot_s.mean, figures.tpot_s.p50) == (None, float(cells[9]) / 1000)
    assert any("avg of inter_token_latency: two decimals" in each for each in imported.skipped)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Request Count,304.00", "Request Count,NaN", r"'avg' is 'NaN', not a number"),
        ("Request Count,304.00", "Request Count,304.00,5", "3 cells, but its header has 2"),
        ("Request Count,304.00", "Requests,304.00", "no Request Count: not a whole export"),
        ("(tokens/sec)", "(kB)", None),
        ("Time to First Token (ms)", "Time to First Token (parsec)", "the unit 'parsec' isn't one"),
        ("Metric,Value", "Metric,Value\nRequest Count,304.00", "a second time: keep one"),
        ("Metric,Value", '"Metric,Value', r"line \d+: not CSV"),
    ],
)
def test_a_table_that_is_broken_names_the_line(
    tmp_path: Path, old: str, new: str, message: str | None
) -> None:
    path = _table(tmp_path, old, new)
    if message is None:  # A metric that isn't read.
        assert len(aiperf_csv.read(path).readings) == 1
        return
    with pytest.raises(InputError, match=message) as raised:
        import_tool(path, backend="triton", concurrency=8)
    assert "it.csv" in str(raised.value)
