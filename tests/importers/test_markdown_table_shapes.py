"""Shapes that benchmark tables have in pull requests, and what is read and told of each."""

from pathlib import Path

import pytest

from autotune.errors import InputError
from autotune.records.schema import Distribution
from tests.importers.markdown_tables import import_text, pipe, points, read

_RATE = "### Output throughput (tok/s)\n\n"


def test_each_cell_is_taken_as_published(tmp_path: Path) -> None:
    text = _RATE + pipe(
        ["Concurrency", "triton", "marlin", "cutlass", "deep_gemm"],
        ["1", "**142.9**", "198.7 (+39.0%)", "201.5 \u00b1 3.2", "1,201 tok/s"],
        ["16", "`1646`", "2100.9 (1.28\u00d7)", "OOM", "n/a"],
        ["64", "1\u202f646.5", "4528.1 (baseline)", "\u2014", ""],
    )
    readings = read(tmp_path, text)
    rates = {place: each.output_tokens_per_s for place, each in points(readings).items()}
    assert rates == {
        ("triton", 1): 142.9,
        ("marlin", 1): 198.7,
        ("cutlass", 1): 201.5,
        ("deep_gemm", 1): 1201.0,
        ("triton", 16): 1646.0,
        ("marlin", 16): 2100.9,
        ("triton", 64): 1646.5,
        ("marlin", 64): 4528.1,
    }
    assert readings.rows == 12
    told = "; ".join(readings.skipped)
    for words in ("line 6: 'OOM' in column 'cutlass'", "line 6: 'n/a'", "line 7: 'nothing'"):
        assert words in told
    assert "what follows \u00b1 in column 'cutlass'" in told


def test_a_files_tables_are_joined_by_backend_and_concurrency(tmp_path: Path) -> None:
    text = (
        "## Results\n\n"
        + _RATE
        + pipe(["MoE backend", "c=1", "c=16"], ["triton", "10", "100"], ["marlin", "12", "110"])
        + "\nMedian TTFT (ms), lower is better:\n\n"
        + pipe(["Concurrency", "triton", "marlin"], ["1", "20", "21"], ["16", "40", "-"])
        + "\nAccuracy did not change:\n\n"
        + pipe(["Backend", "gsm8k"], ["triton", "0.95"], ["marlin", "0.95"])
        + "\n"
        + pipe(["GPU", "8xH200"], ["driver", "570.1"])
    )
    readings = read(tmp_path, text)
    figures = points(readings)
    assert len(figures) == 4
    assert figures["triton", 16].output_tokens_per_s == 100
    assert figures["triton", 16].ttft_s == Distribution(p50=0.04)
    assert figures["marlin", 16].ttft_s == Distribution()
    told = [each for each in readings.skipped if "neither concurrencies nor a metric" in each]
    assert len(told) == 2


def test_columns_of_several_metrics_a_backend(tmp_path: Path) -> None:
    header = [
        "conc",
        "triton output tok/s",
        "triton mean TTFT (ms)",
        "marlin output tok/s",
        "\u0394",
    ]
    readings = read(tmp_path, pipe(header, ["1", "10", "20", "11", "+10 %"]))
    figures = points(readings)
    assert figures["triton", 1].ttft_s.mean == 0.02
    assert figures["marlin", 1].output_tokens_per_s == 11
    assert readings.skipped[0].endswith("column '\u0394': compared or remarked, not measured")


def test_a_column_of_metrics_beside_the_concurrency(tmp_path: Path) -> None:
    text = pipe(
        ["Concurrency", "Metric", "Unit", "triton", "marlin"],
        ["1", "Output throughput", "tok/s", "10", "11"],
        ["1", "TTFT p99", "ms", "20", "21"],
        ["1", "Successful requests", "", "64", "64"],
    )
    readings = read(tmp_path, text)
    assert points(readings)["marlin", 1].ttft_s.p99 == 0.021
    assert any("row 'Successful requests ()'" in each for each in readings.skipped)


def test_statistics_across_below_a_caption(tmp_path: Path) -> None:
    text = "**TTFT (ms) at concurrency 32**\n\n" + pipe(
        ["Backend", "mean", "p50", "p99", "std"], ["triton", "10", "8", "30", "2"]
    )
    readings = read(tmp_path, text)
    expected = Distribution(mean=0.01, p50=0.008, p99=0.03)
    assert points(readings)["triton", 32].ttft_s == expected


def test_metrics_down_and_concurrencies_across_ask_for_the_backend(tmp_path: Path) -> None:
    text = pipe(
        ["", "c=1", "c=16"], ["Output throughput (tok/s)", "10", "90"], ["ITL p50 (ms)", "9", "10"]
    )
    with pytest.raises(InputError, match=r"pr\.md, line 3: doesn't say which backend"):
        import_text(tmp_path, text)
    figures = points(read(tmp_path, text))
    assert figures[None, 16].itl_s.p50 == 0.01


def test_a_table_without_pipes_around_it_and_in_a_quote(tmp_path: Path) -> None:
    text = "> Backend | Input TPS | Output TPS\n> ---|---|---\n> FA3 | 4007.36 | 801.47 \n"
    readings = read(tmp_path, text)
    assert points(readings)["FA3", None].output_tokens_per_s == 801.47
    assert any("column 'Input TPS': of a part of the load" in each for each in readings.skipped)
    with pytest.raises(InputError, match="give --concurrency"):
        import_text(tmp_path, text)


def test_escaped_pipes_stay_in_their_cell(tmp_path: Path) -> None:
    text = pipe(["Concurrency", "a \\| b output tok/s"], ["1", "10"])
    assert points(read(tmp_path, text))["a | b", 1].output_tokens_per_s == 10


def test_a_mean_over_runs_carries_a_warning(tmp_path: Path) -> None:
    text = pipe(["Concurrency", "Mean triton output tok/s"], ["1", "135.50"])
    (reading,) = read(tmp_path, text).readings
    assert [warning.code for warning in reading.warnings] == ["published_average"]


def test_what_columns_say_of_all_rows_are_facts(tmp_path: Path) -> None:
    header = ["Model", "GPU", "TP", "ISL/OSL", "Concurrency", "Backend", "Output tok/s"]
    rows = [["org/M", "4xGB200", "4", "1024/128", users, "triton", users + "0"] for users in "12"]
    imported = import_text(tmp_path, pipe(header, *rows))
    run = imported.run.run
    assert (run.scope.device_count, run.scope.device_name, run.scope.tp) == (4, "GB200", 4)
    assert (run.workload.input_tokens, run.workload.output_tokens) == (1024, 128)


def test_a_last_row_over_all_is_no_concurrency(tmp_path: Path) -> None:
    text = _RATE + pipe(["Concurrency", "triton"], ["1", "10"], ["**Geomean**", "10"])
    readings = read(tmp_path, text)
    assert len(readings.readings) == 1
    assert any("'Geomean': of several concurrencies" in each for each in readings.skipped)


def test_numbers_across_are_concurrencies_only_if_something_says_so(tmp_path: Path) -> None:
    table = pipe(["Backend", "1", "16"], ["triton", "10", "100"])
    with pytest.raises(InputError, match=r"line 3: columns are called 1, 16: if these are"):
        read(tmp_path, _RATE + table)
    said = read(tmp_path, "### Output throughput (tok/s) by concurrency\n\n" + table)
    assert set(points(said)) == {("triton", 1), ("triton", 16)}
    corner = pipe(["Backend / Concurrency", "1", "16"], ["triton", "10", "100"])
    assert set(points(read(tmp_path, _RATE + corner))) == {("triton", 1), ("triton", 16)}


@pytest.mark.parametrize("corner", ["Batch size", "bs", "Tokens", "M", "Prompts"])
def test_other_numbers_of_work_are_no_concurrency(tmp_path: Path, corner: str) -> None:
    text = _RATE + pipe([corner, "triton", "marlin"], ["1", "10", "11"])
    with pytest.raises(InputError, match="batches, tokens or prompts, not requests in flight"):
        read(tmp_path, text)


def test_a_flag_says_which_throughput_it_is(tmp_path: Path) -> None:
    text = pipe(["conc", "stock tok/s", "new tok/s", "change"], ["1", "183", "193", "+5.6 %"])
    with pytest.raises(
        InputError, match=r"neither tokens nor requests.*--metric output_throughput"
    ):
        read(tmp_path, text)
    figures = points(read(tmp_path, text, metric="total_throughput:tok/s"))
    assert figures["new", 1].total_tokens_per_s == 193
    text = "## Output throughput\n\n" + pipe(["Concurrency", "triton"], ["1", "5"])
    figures = points(read(tmp_path, text, metric="output_throughput:tok/s"))
    assert figures["triton", 1].output_tokens_per_s == 5


def test_a_flag_leaves_metrics_of_a_part_alone(tmp_path: Path) -> None:
    """Else a throughput a GPU would be taken for the whole server's."""
    grid = pipe(["Concurrency", "triton"], ["1", "5"])
    text = f"### Throughput per GPU (tok/s/GPU)\n\n{grid}\n## Runs\n\n{grid}"
    readings = read(tmp_path, text, metric="output_throughput:tok/s")
    assert len(readings.readings) == 1
    assert readings.readings[0].where.endswith("line 11")
    assert any("a part's share" in each for each in readings.skipped)
