"""What guidellm's own reports say, against records: each figure, each fact, what isn't taken."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import InputError
from autotune.importers.formats import detect
from autotune.importers.guidellm import read
from autotune.records.schema import Distribution
from tests.importers.tool_files import TOOLS, import_tool, only_point

GUIDELLM = TOOLS / "guidellm"
CONCURRENT = GUIDELLM / "concurrent.json"
LAYOUTS = ("concurrent.json", "layout_1.json", "without_layout.json")


def _changed(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], source: Path = CONCURRENT
) -> Path:
    """A copy of a report, changed as its writer would read it."""
    report = json.loads(source.read_text())
    change(report)
    path = tmp_path / source.name
    path.write_text(json.dumps(report))
    return path


@pytest.mark.parametrize("path", sorted(GUIDELLM.glob("*.json")), ids=lambda path: path.stem)
def test_each_file_is_told_by_its_content(path: Path) -> None:
    assert detect(path).name == "guidellm"


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_figure_is_the_reports_own_in_si_units(name: str) -> None:
    said = json.loads((GUIDELLM / name).read_text())["benchmarks"][1]
    reading = read(GUIDELLM / name).readings[1]
    metrics = {
        key: each["successful"]
        for key, each in said["metrics"].items()
        if isinstance(each, dict) and isinstance(each.get("successful"), dict)
    }
    figures = reading.figures
    assert (reading.concurrency, reading.requests_ok, reading.requests_sent) == (4, 8, 8)
    output, total = (
        metrics[key]["mean"] for key in ("output_tokens_per_second", "tokens_per_second")
    )
    if name == "layout_1.json":  # See the test of its rates.
        output = 8 * metrics["output_token_count"]["mean"] / said["duration"]
        total = output + 8 * metrics["prompt_token_count"]["mean"] / said["duration"]
    assert figures.output_tokens_per_s == pytest.approx(output)
    assert figures.whole_run_output_tokens_per_s == figures.output_tokens_per_s
    assert figures.total_tokens_per_s == pytest.approx(total)
    assert figures.requests_per_s == metrics["requests_per_second"]["mean"]
    assert reading.in_progress == metrics["request_concurrency"]["mean"]
    assert figures.window_s == said["duration"]
    assert figures.input_tokens_mean == metrics["prompt_token_count"]["mean"]
    assert figures.output_tokens_mean == 8
    assert (figures.cached_tokens_mean, figures.peak_streaming) == (None, None)
    for ours, theirs, unit in (
        (figures.ttft_s, "time_to_first_token_ms", 1000),
        (figures.latency_s, "request_latency", 1),
        (figures.tpot_s, "inter_token_latency_ms", 1000),
    ):
        assert ours.n == 8
        assert ours.mean == pytest.approx(metrics[theirs]["mean"] / unit)
        for part in ("p50", "p90", "p95", "p99"):
            rank = metrics[theirs]["percentiles"][part] / unit
            assert getattr(ours, part) == pytest.approx(rank)
    assert figures.itl_s == Distribution(mean=figures.tpot_s.mean)
    assert reading.started_at is not None and reading.started_at.endswith("+00:00")


def test_a_report_says_model_lengths_and_its_label() -> None:
    readings = read(CONCURRENT)
    assert readings.facts["model"] == "example/MiniMax-M2-tiny"
    assert readings.facts["osl"] == "8"
    assert "isl" not in readings.facts  # The stand-in counts some prompts longer than others.
    assert "prompt_tokens : 32" in readings.facts["workload"]
    assert [each.backend for each in readings.readings] == ["triton", "triton"]
    imported = import_tool(CONCURRENT)
    assert [point.concurrency for point in imported.run.points] == [1, 4]
    for point, reading in zip(imported.run.points, readings.readings, strict=True):
        assert point.figures is not None and reading.in_progress is not None
        achieved = reading.in_progress / point.concurrency
        assert point.figures.achieved_concurrency == pytest.approx(achieved)
    assert (imported.rows, imported.used_rows) == (2, 2)
    assert any("p99 of ttft_s" in each for each in imported.skipped)
    assert any("time_per_output_token_ms" in each for each in imported.skipped)


def test_without_a_label_the_backend_is_asked_for() -> None:
    with pytest.raises(InputError, match=r"layout_1\.json: benchmarks\[0\]: doesn't say which"):
        import_tool(GUIDELLM / "layout_1.json")


def test_a_window_without_its_warm_up_is_not_the_whole_run() -> None:
    point = only_point(import_tool(GUIDELLM / "warm_up.json", backend="triton"))
    assert point.figures is not None
    assert point.figures.output_tokens_per_s is not None
    assert point.figures.whole_run_output_tokens_per_s is None
    said = json.loads((GUIDELLM / "warm_up.json").read_text())["benchmarks"][0]
    totals = said["metrics"]["request_totals"]
    assert point.requests_ok == totals["successful"] < 32


@pytest.mark.parametrize(
    ("source", "release", "own"),
    [
        ("layout_1.json", None, False),
        ("layout_1.json", "later", False),
        ("concurrent.json", "0.7.3", False),
        ("concurrent.json", "0.7.4.dev2", True),
        ("concurrent.json", None, True),
        ("without_layout.json", None, True),
    ],
)
def test_rates_that_leave_out_the_first_wait_are_counted_over_the_run(
    tmp_path: Path, source: str, release: str | None, own: bool
) -> None:
    """Releases 0.4 to 0.7.3 divide by the time from the first token to the last."""

    def of_release(report: dict[str, Any]) -> None:
        if release is not None:
            report["metadata"]["guidellm_version"] = release

    path = _changed(tmp_path, of_release, GUIDELLM / source)
    said = json.loads(path.read_text())["benchmarks"][1]
    rate = said["metrics"]["output_tokens_per_second"]["successful"]["mean"]
    (_, reading) = read(path).readings
    expected = rate if own else 8 * 8 / said["duration"]
    assert reading.figures.output_tokens_per_s == pytest.approx(expected)
    assert reading.figures.whole_run_output_tokens_per_s == pytest.approx(expected)
    total = said["metrics"]["tokens_per_second"]["successful"]["mean"]
    assert reading.figures.total_tokens_per_s == pytest.approx(total * expected / rate)
    assert reading.warnings == ()


def test_the_second_layout_had_no_number_at_first(tmp_path: Path) -> None:
    path = _changed(tmp_path, lambda report: report.pop("metadata"), GUIDELLM / "layout_1.json")
    numbered, unnumbered = read(GUIDELLM / "layout_1.json"), read(path)
    assert [each.figures for each in unnumbered.readings] == [
        each.figures for each in numbered.readings
    ]
    assert unnumbered.facts == numbered.facts


def test_rates_of_another_time_than_the_measured_one_are_told_of(tmp_path: Path) -> None:
    def older(report: dict[str, Any]) -> None:
        report["metadata"]["guidellm_version"] = "0.7.3"

    path = _changed(tmp_path, older, GUIDELLM / "warm_up.json")
    (reading,) = read(path).readings
    assert [warning.code for warning in reading.warnings] == ["rates_of_another_time"]
    assert reading.figures.output_tokens_per_s is not None
    assert read(GUIDELLM / "warm_up.json").readings[0].warnings == ()


def test_input_that_nobody_counted_is_not_none_at_all(tmp_path: Path) -> None:
    def uncounted(report: dict[str, Any]) -> None:
        summary = report["benchmarks"][1]["metrics"]["prompt_token_count"]["successful"]
        summary["min"] = 0.0

    figures = read(_changed(tmp_path, uncounted)).readings[1].figures
    assert (figures.input_tokens_mean, figures.total_tokens_per_s) == (None, None)
    assert figures.output_tokens_per_s is not None


def test_failures_are_counted_and_judged() -> None:
    point = only_point(import_tool(GUIDELLM / "failures.json", backend="triton"))
    assert (point.requests_sent, point.requests_ok) == (10, 8)
    assert (point.status, point.reason) == ("request_errors", "2 of 10 requests failed")


def test_an_open_loop_has_no_concurrency() -> None:
    with pytest.raises(InputError, match="strategy constant sends at a rate of its own"):
        import_tool(GUIDELLM / "rate.json", backend="triton")


@pytest.mark.parametrize(
    ("strategy", "streams"),
    [
        ({"type_": "synchronous"}, 1),
        ({"type_": "throughput", "max_concurrency": 4}, None),
        ({"type_": "poisson", "rate": 2}, None),
        ({"type_": None}, None),
    ],
)
def test_what_a_strategy_says_of_requests_in_flight(
    tmp_path: Path, strategy: dict[str, Any], streams: int | None
) -> None:
    def other(report: dict[str, Any]) -> None:
        report["benchmarks"][0]["config"]["strategy"] = strategy

    readings = read(_changed(tmp_path, other))
    assert [each.concurrency for each in readings.readings] == ([streams] if streams else []) + [4]
    assert readings.rows == 2
    assert any("benchmarks[0]: strategy" in each for each in readings.skipped) == (streams is None)


def test_answers_of_several_lengths_have_no_time_a_token_of_ours(tmp_path: Path) -> None:
    """guidellm weighs each answer by its length; with equal lengths that changes nothing."""

    def longer(report: dict[str, Any]) -> None:
        report["benchmarks"][0]["metrics"]["output_token_count"]["successful"]["max"] = 9.0

    readings = read(_changed(tmp_path, longer))
    first, second = readings.readings
    assert first.figures.tpot_s == Distribution()
    assert first.figures.itl_s.mean is not None
    assert second.figures.tpot_s.mean is not None
    assert "osl" not in readings.facts
    assert any("weighted by its length" in each for each in readings.skipped)


def test_zero_stands_for_requests_without_a_first_token(tmp_path: Path) -> None:
    def unstreamed(report: dict[str, Any]) -> None:
        summary = report["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]
        summary["min"] = 0.0

    first, second = read(_changed(tmp_path, unstreamed)).readings
    assert first.figures.ttft_s == Distribution()
    assert second.figures.ttft_s.n == 8


def test_requests_that_were_cut_short_are_told_of(tmp_path: Path) -> None:
    def cut(report: dict[str, Any]) -> None:
        report["benchmarks"][1]["metrics"]["request_totals"]["incomplete"] = 4

    reading = read(_changed(tmp_path, cut)).readings[1]
    assert (reading.requests_sent, reading.requests_ok) == (8, 8)
    assert [warning.code for warning in reading.warnings] == ["requests_cut_short"]


def _metric(name: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    def change(report: dict[str, Any]) -> None:
        report["benchmarks"][1]["metrics"][name]["successful"].update(values)

    return change


def _top(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda report: report.update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _metric("requests_per_second", mean=1e6),
            r"benchmarks\[1\]: metrics: requests_per_second",
        ),
        (_metric("output_tokens_per_second", mean=1e5), "the file was edited, or is in another"),
        (_metric("request_latency", mean=1e-6), "the 'mean' of the first is above"),
        (_metric("time_to_first_token_ms", mean="12"), "mean: '12' isn't a number"),
        (_metric("time_to_first_token_ms", mean=float("nan")), "mean: nan: a measured figure"),
        (_metric("time_to_first_token_ms", mean=-3), "mean: -3.0: a measured figure is a number"),
        (_metric("request_latency", percentiles={"p50": 2.0, "p90": 1.0}), "p90 is below p50"),
        (_top(benchmarks=[]), "holds no benchmark"),
        (_top(benchmarks=[3]), r"benchmarks\[0\]: isn't an object"),
        (_top(benchmarks={"a": 1}), "benchmarks: an object of 1 isn't a list"),
        (_top(metadata={"version": 3, "guidellm_version": "1.0"}), "layout 3 isn't known"),
        (_top(config={"a": [{"api_key": "sk-abc"}]}), r"'config.a\[0\].api_key': holds a secret"),
    ],
)
def test_what_cannot_be_true_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(InputError, match=message) as raised:
        import_tool(_changed(tmp_path, change))
    assert "concurrent.json" in str(raised.value)
    assert "sk-abc" not in str(raised.value)


def test_a_report_that_was_cut_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(CONCURRENT.read_bytes()[:100_000])
    assert detect(path).name == "guidellm"
    with pytest.raises(InputError, match=r"cut\.json, line 1: ends in the middle"):
        import_tool(path)
