"""Shapes of tables in pull requests about MoE backends, shortened: what's taken, asked and told."""

from pathlib import Path

import pytest

from autotune.errors import InputError, UsageError
from autotune.records.schema import Distribution
from tests.importers.markdown_tables import import_text, pipe, points, read

_RATE = "### Output throughput (tok/s)\n\n"
_GRID = pipe(["Concurrency", "triton", "cutlass"], ["1", "100", "110"])
_ALONE = pipe(["Concurrency", "Output tok/s"], ["1", "100"])


@pytest.mark.parametrize(
    "caption",
    [
        *("Per-GPU output throughput (tok/s)", "Per-user output throughput (tok/s)"),
        *("Output throughput per node (tok/s)", "Output tok/s per request", "GPU throughput"),
        *("Output throughput (tok/s), each rank", "TPGS (tok/s)", "Interactivity (tok/s)"),
    ],
)
def test_a_share_of_a_rate_is_never_the_servers(tmp_path: Path, caption: str) -> None:
    with pytest.raises(InputError, match="a part's share: how it was averaged isn't said"):
        read(tmp_path, f"### {caption}\n\n{_GRID}", metric="output_throughput:tok/s")


def test_a_sentence_about_two_metrics_says_none(tmp_path: Path) -> None:
    prose = "Mean TTFT (ms) is flat while throughput improves:\n\n"
    figures = points(read(tmp_path, _RATE + prose + _GRID))["triton", 1]
    assert (figures.output_tokens_per_s, figures.ttft_s) == (100, Distribution())
    with pytest.raises(InputError, match="which metric is this"):
        read(tmp_path, prose + _GRID)


def test_what_stands_above_is_of_its_metric_alone(tmp_path: Path) -> None:
    header = ["#", "Concurrency", "Backend", "Output tok/s", "p99"]
    text = "### Mean TTFT (ms)\n\n" + pipe(header[:4], ["1", "16", "triton", "100"])
    readings = read(tmp_path, text)
    (reading,) = readings.readings
    assert reading.figures.output_tokens_per_s == 100
    assert reading.figures.ttft_s == Distribution() and reading.warnings == ()
    assert readings.skipped[0].endswith("column '#': it numbers the rows")
    text = "### TTFT (ms)\n\n" + pipe(header, ["1", "16", "triton", "100", "30"])
    assert points(read(tmp_path, text))["triton", 16].ttft_s == Distribution(p99=0.03)


def test_a_units_place_is_no_matter(tmp_path: Path) -> None:
    text = "### Mean TTFT (ms)\n\n" + pipe(["Concurrency", "triton"], ["1", "0.02 (s)"])
    with pytest.raises(InputError, match=r"line 9: mean_ttft is in 's' here, but in 'ms' in"):
        read(tmp_path, f"{_RATE}\n\n### Mean TTFT\n\n" + pipe(
            ["Concurrency", "triton", "cutlass"], ["1", "20 (ms)", "0.02 (s)"]))  # fmt: skip
    figures = points(read(tmp_path, text.replace(" (ms)", "", 1)))
    assert figures["triton", 1].ttft_s.mean == 0.02
    text = pipe(["backend", "max_concurrency", "mean_ttft_s"], ["triton", "1", "0.5"])
    assert points(read(tmp_path, text))["triton", 1].ttft_s.mean == 0.5


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        *(
            (cell, "remove the footnote's mark")
            for cell in ("9<sup>1</sup>", "9²", "9 \\*", "9[^1]")
        ),
        *((cell, "remove what is in the brackets") for cell in ("9 (estimated)", "9 (2 failed)")),
        *((cell, "but several: give each a column") for cell in ("3388 → 3265 ms", "2.7 / 2.8")),
        ("1.2 - 13.2", "a row of its own with its number in a column Run"),
        ("142,9", "such as 1646.0"),
        ("1.2k", "write the number in full"),
    ],
)
def test_a_cell_that_is_refused_says_what_to_do(tmp_path: Path, cell: str, message: str) -> None:
    text = _RATE + pipe(["Concurrency", "triton", "cutlass"], ["1", "100", cell])
    with pytest.raises(InputError, match=f"line 5: column 'cutlass': .*{message}"):
        read(tmp_path, text)


def test_medals_and_reasons_beside_a_figure(tmp_path: Path) -> None:
    text = "#### 🚀 Output token throughput (tok/s)\n\n" + pipe(
        ["Concurrency", "triton", "flashinfer_cutlass ✅", "marlin"],
        ["1", "🔥 142.9", "**198.7** 🏆", "— (not run)"],
        ["16", "1,646.0 :trophy:", "OOM (80GB)", "❌ crashed"],
    )
    readings = read(tmp_path, text)
    rates = {place: each.output_tokens_per_s for place, each in points(readings).items()}
    assert rates == {
        ("triton", 1): 142.9,
        ("triton", 16): 1646.0,
        ("flashinfer_cutlass", 1): 198.7,
    }
    assert len(readings.skipped) == 3


@pytest.mark.parametrize(
    "label",
    ["main", "PR", "baseline", "Before", "this branch", "TP4", "DP4+EP4", "nodes", "total", "auto"],
)
def test_a_side_of_a_comparison_is_no_backend(tmp_path: Path, label: str) -> None:
    text = _RATE + pipe(["Concurrency", "triton", label], ["1", "100", "110"])
    with pytest.raises(InputError, match=r"line 5: '.*' names no backend: .* --rename '.*=NAME'"):
        import_text(tmp_path, text)
    imported = import_text(tmp_path, text, rename={label: "cutlass"})
    assert [each.name for each in imported.run.run.candidates] == ["triton", "cutlass"]


def test_metrics_down_beside_two_results(tmp_path: Path) -> None:
    text = pipe(
        ["Metric", "FlashInfer Result", "TRT-LLM Result", "% Difference"],
        ["Total input tokens", "262144", "262144", "0.00%"],
        ["Output token throughput (tok/s)", "5598.17", "5934.04", "+6.00%"],
        ["Concurrency", "225.74", "222.14", "-1.59%"],
    )
    figures = points(read(tmp_path, text))
    assert set(figures) == {("FlashInfer", None), ("TRT-LLM", None)}
    with pytest.raises(InputError, match="give --concurrency"):
        import_text(tmp_path, text)


def test_a_column_of_values_names_no_backend(tmp_path: Path) -> None:
    one = pipe(["Metric", "Value"], ["**Output token throughput (tok/s)**", "6916.91"])
    with pytest.raises(InputError, match="doesn't say which backend"):
        import_text(tmp_path, one)
    both = f"TEP=2 trtllm kernel\n\n{one}\nTEP=2 cutlass kernel\n\n{one}"
    with pytest.raises(InputError, match=r"line 11: .* in line 5 already: add a column Backend"):
        read(tmp_path, both)
    text = "**Output throughput (tok/s)** at concurrency **64**:\n\n"
    text += pipe(["Backend", "Result", "Status"], ["triton", "5", "PASS"])
    assert points(read(tmp_path, text))["triton", 64].output_tokens_per_s == 5
    said = pipe(["Backend", "c=1 output tok/s", "Result"], ["triton", "5", "PASS"])
    assert "column 'Result': it holds no figures" in read(tmp_path, said).skipped[0]


def test_means_over_runs_carry_a_warning(tmp_path: Path) -> None:
    text = "### Concurrency 8\n\n" + pipe(
        ["Metric", "triton (mean +/- sd)", "Delta", "Z", "Verdict"],
        ["P99 ITL (ms)", "7.34 +/- 0.04", "-3.4%", "+3.2", "robust"],
        ["Output throughput (tok/s)", "1049.35 ± 10.38", "+3.2%", "-4.9", "robust"],
    )
    (reading,) = read(tmp_path, text).readings
    assert (reading.figures.itl_s.p99, reading.figures.output_tokens_per_s) == (0.00734, 1049.35)
    assert [each.code for each in reading.warnings] == ["published_average"]
    (reading,) = read(tmp_path, f"TTFT p99 (ms), median of 3 runs:\n\n{_ALONE}").readings
    assert [each.code for each in reading.warnings] == ["published_average"]


def test_rows_that_each_name_a_concurrency_and_a_metric(tmp_path: Path) -> None:
    text = pipe(
        ["", "marlin", "cutlass"],
        ["GSM8K-200", "0.985", "0.975"],
        ["conc 16, aggregate tok/s", "913", "1072 (+17%)"],
        ["conc 32, aggregate tok/s", "1121", "1547 (+38%)"],
        ["engine decode tok/s @ bs≈96", "1450-1550", "2150-2360"],
    )
    with pytest.raises(InputError, match=r"lines 4, 5: throughput: says neither .*--metric"):
        read(tmp_path, text)
    readings = read(tmp_path, text, metric="output_throughput:tok/s")
    assert points(readings)["cutlass", 32].output_tokens_per_s == 1547
    assert len(readings.readings) == 4 and len(readings.skipped) == 2


def test_rows_that_compare_or_sum_up_are_left_out(tmp_path: Path) -> None:
    text = _RATE + pipe(
        ["Backend", "c=1", "c=4"],
        ["triton", "5", "6"],
        ["Speedup", "1.2x", "1.3x"],
        ["Δ", "+3%", "+4%"],
        ["**Average**", "5", "6"],
    )
    readings = read(tmp_path, text)
    assert set(points(readings)) == {("triton", 1), ("triton", 4)}
    assert len(readings.skipped) == 3


def test_several_open_metrics_are_given_with_a_comma(tmp_path: Path) -> None:
    text = pipe(
        ["Backend", "Concurrency", "TTFT (mean)", "Throughput"], ["triton", "1", "0.02", "100"]
    )
    with pytest.raises(InputError, match=r"mean ttft: it has no unit.*\(--metric can say it\)"):
        read(tmp_path, text)
    given = "mean_ttft:s,output_throughput:tok/s"
    figures = points(read(tmp_path, text, metric=given))["triton", 1]
    assert (figures.ttft_s.mean, figures.output_tokens_per_s) == (0.02, 100)
    with pytest.raises(UsageError, match="--metric p99_itl: the tables leave no such metric open"):
        read(tmp_path, text, metric=f"{given},p99_itl:ms")
    with pytest.raises(UsageError, match="'mean_ttft:ms': it's given twice"):
        read(tmp_path, text, metric="mean_ttft:s,mean_ttft:ms")
    # Which of the two a grid without a word is of, isn't known.
    with pytest.raises(InputError, match="which metric is this"):
        read(tmp_path, _GRID, metric=given)
    times = f"### Times in s\n\n{_GRID}\n### Throughput\n\n{_GRID}"
    figures = points(read(tmp_path, times, metric=given))["cutlass", 1]
    assert (figures.ttft_s.mean, figures.output_tokens_per_s) == (110, 110)


def test_lengths_in_headings_are_facts(tmp_path: Path) -> None:
    for heading in ("ISL=8192, OSL=1024", "ISL/OSL 8192/1024:", "8192 in / 1024 out,"):
        imported = import_text(tmp_path, f"### {heading} output throughput (tok/s)\n\n{_GRID}")
        workload = imported.run.run.workload
        assert (workload.input_tokens, workload.output_tokens) == (8192, 1024)
    other = "\n## ISL=1024, OSL=1024\n\n" + _RATE + _GRID.replace("| 1 |", "| 8 |")
    with pytest.raises(InputError, match="line 13: isl is '1024' here but '8192' in"):
        import_text(tmp_path, f"## ISL=8192, OSL=1024\n\n{_RATE}{_GRID}{other}")
    for heading in ("ISL 128 and ISL 1024", "1024/128 · 128/1024, ISL/OSL 1024/128:"):
        text = f"### {heading} output throughput (tok/s)\n\n{_GRID}"
        assert import_text(tmp_path, text).run.run.workload.input_tokens is None
    pairs = "ISL/OSL 1024/128 or ISL/OSL 128/1024"
    text = f"### {pairs}: output throughput (tok/s)\n\n{_GRID}"
    assert import_text(tmp_path, text).run.run.workload.input_tokens is None
    most = "`--random-input-len 8192`, output throughput (tok/s)\n\n"
    assert import_text(tmp_path, most + _GRID).run.run.workload.input_tokens is None


def test_tables_below_different_headings_may_be_of_different_things(tmp_path: Path) -> None:
    more = _GRID.replace("| 1 |", "| 8 |")
    for here, there in (("## MiniMax on B200", "## Qwen on H200"), ("On B200:", "On H200:")):
        text = f"{_RATE[2:]}{here}\n\n{_GRID}\n{there}\n\n{more}"
        with pytest.raises(InputError, match=r"stands below '.*H200:?' \(line 9\) here, but below"):
            read(tmp_path, text)
    low, high = _RATE.replace("\n", ", low concurrency\n", 1), _RATE.replace("\n", ", c=8\n", 1)
    assert len(read(tmp_path, low + _GRID + "\n" + high + more).readings) == 4
    parts = f"## 5.1 Results\n\n{_RATE}{_GRID}\n## 5.2 Results\n\n{_RATE}{more}"
    assert len(read(tmp_path, parts).readings) == 4


def test_a_heading_may_name_the_backend_by_its_flag(tmp_path: Path) -> None:
    text = "".join(
        f"### `--moe-runner-backend {name} --attention-backend=fa3`\n\n{_ALONE}\n"
        for name in ("triton", "cutlass")
    )
    assert set(points(read(tmp_path, text))) == {("triton", 1), ("cutlass", 1)}
    for line in ("Attention backend: fa3", "`--moe-backend a` and `--moe-backend b`:", "### fa3"):
        assert set(points(read(tmp_path, f"{line}\n\n{_ALONE}"))) == {(None, 1)}
