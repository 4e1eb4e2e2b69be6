"""What a tidy table's cells become, and what each bad cell is told."""

import os
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import InputError, UsageError
from autotune.importers import import_tidy
from autotune.importers.formats import detect
from autotune.importers.tidy_csv import COLUMNS
from tests.importers.builders import CREATED_AT, options, read, row, table, write


def test_every_metric_has_its_place_and_unit(tmp_path: Path) -> None:
    metrics = [
        ("output_throughput", "tok/s", "100"),
        ("total_throughput", "tokens/s", "300"),
        ("request_throughput", "req/s", "2"),
        ("mean_ttft", "ms", "250"),
        ("median_ttft", "ms", "200"),
        ("p99_ttft", "ms", "900"),
        ("mean_tpot", "ms", "10"),
        ("p95_itl", "us", "9000"),
        ("mean_e2e", "s", "1.5"),
        ("p90_e2e_latency", "s", "2.5"),
    ]
    rows = [row(metric=metric, unit=unit, value=value) for metric, unit, value in metrics]
    imported = read(tmp_path, table(*rows))
    (point,) = imported.run.points
    figures = point.figures
    assert figures is not None
    assert figures.output_tokens_per_s == 100
    assert figures.total_tokens_per_s == 300
    assert figures.requests_per_s == 2
    ttft = figures.ttft_s
    assert (ttft.mean, ttft.p50, ttft.p99) == pytest.approx((0.25, 0.2, 0.9))
    assert ttft.n is ttft.p90 is ttft.p95 is None
    assert figures.tpot_s.mean == pytest.approx(0.01)
    assert figures.itl_s.p95 == pytest.approx(0.009)
    assert (figures.latency_s.mean, figures.latency_s.p90) == (1.5, 2.5)
    assert figures.window_s is None and point.requests_sent is None
    assert imported.used_rows == len(metrics)


def test_byte_order_mark_line_ends_and_empty_lines_are_fine(tmp_path: Path) -> None:
    text = "\n" + table(row(), row(backend="cutlass")).replace("\n", "\n\n") + ",,,\n"
    imported = read(tmp_path, b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert len(imported.run.points) == 2


def test_lines_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    text = table(row(), row(backend="cutlass", value="x")).replace("\n", "\n\n")
    with pytest.raises(InputError, match=r"table\.csv, line 5: output_throughput is 'x'"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": "NaN"}, "line 3: .*'NaN', not a number above zero"),
        ({"value": "inf"}, "line 3: .*'inf'"),
        ({"value": "-5"}, "line 3: .*'-5'"),
        ({"value": "0"}, "line 3: .*'0'"),
        ({"value": "1e999"}, "line 3: .*'1e999'"),
        ({"value": "1,646.0"}, "line 3: .*'1,646.0'"),
        ({"value": "1_000"}, "line 3: .*'1_000'"),
        ({"value": "OOM"}, "line 3: .*'OOM'"),
        ({"backend": "triton"}, "line 3: .* is in line 2 already"),
        ({"unit": "req/s"}, "line 3: .*'req/s' here but in 'tok/s' in line 2"),
        ({"model": "other"}, "line 3: model is 'other' here but 'org/Model' in line 2"),
        ({"quant": "bf16"}, "line 3: quant .* split the file"),
        ({"arch": "sm90"}, "line 3: arch .* split the file"),
        ({"source": "elsewhere"}, "line 3: source .* split the file"),
        ({"tp": "8"}, "line 3: tp .* split the file"),
        ({"isl": "8192"}, "line 3: isl .* split the file"),
        ({"concurrency": "0"}, "line 3: concurrency '0' isn't a whole number"),
        ({"concurrency": "1.5"}, "line 3: concurrency '1.5'"),
        ({"concurrency": "9" * 30}, "line 3: concurrency '999"),
        ({"concurrency": ""}, "line 3: no concurrency: give --concurrency"),
        ({"backend": ""}, "line 3: no backend"),
        ({"backend": "../../etc"}, "line 3: backend '../../etc' .*--rename"),
        ({"backend": "a b"}, "line 3: .*--rename 'a b=a'"),
        ({"backend": "a\x1b[2J"}, "line 3: backend holds a character that doesn't print"),
        ({"model": "a\x00b"}, "line 3: model holds a character"),
        ({"source": "x" * 501}, "line 3: source holds 501 characters"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    bad = row(**{"backend": "cutlass"} | changes)
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, table(row(), bad))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (table().encode(), "a header and no row"),
        (os.urandom(8) + b"\xff\x00" * 500, "not text in UTF-8"),
        (table(row()).encode("utf-16"), "line 1: not text in UTF-8"),
        (b'{"output_throughput": 5}\n', "line 1: not a tidy table"),
        (b"| backend | c=1 |\n|---|---|\n", "line 1: not a tidy table"),
        (table(row()).replace(",", ";").encode(), "line 1: cells with semicolons between them"),
        (table(row()).replace(",", "\t").encode(), "line 1: cells with tabs between them"),
        (table(row()).title().encode(), "line 1: 'Source': columns are named in small letters"),
        (table(row(), columns=COLUMNS[:-1]).encode(), "no column value"),
        (table(row(), columns=(*COLUMNS, "value")).encode(), "two columns are named 'value'"),
        ((table(row()) + "a,b\n").encode(), "line 3: 2 cells, but the header has 15"),
        ((table(row()) + '"open\n').encode(), "line 3: not CSV"),
        (b"x" * (16 * 2**20 + 1), "over 16 MiB"),
    ],
)
def test_another_kind_of_file_is_told_in_one_message(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, content)
    assert "table.csv" in str(caught.value) and str(caught.value).isprintable()


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "a folder"), (tmp_path / "none.csv", "no such file")):
        with pytest.raises(InputError, match=message):
            import_tidy(path, options(), created_at=CREATED_AT)
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    with pytest.raises(InputError, match="not a regular file"):
        import_tidy(fifo, options(), created_at=CREATED_AT)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metric": "throughput"}, "says neither tokens nor requests"),
        ({"metric": "throughput_per_gpu", "unit": "tok/s/gpu"}, "whether input tokens count"),
        ({"metric": "ttft", "unit": "ms"}, "which statistic"),
        ({"metric": "mean_latency", "unit": "ms"}, "doesn't say of what"),
        ({"metric": "p99_ttft", "unit": ""}, "it has no unit"),
        ({"metric": "p99_ttft", "unit": "tok/s"}, "the unit 'tok/s' isn't one of s, ms, us"),
        ({"metric": "p99_ttft", "unit": "ms", "value": ""}, "no value was published"),
        ({"metric": "achieved_concurrency", "unit": "requests"}, "differently by each tool"),
        ({"metric": "gpu_power", "unit": "W"}, "not a metric that has a place"),
        ({"metric": "output_throughput_rep0"}, "count from 1"),
    ],
)
def test_what_has_no_place_is_left_out_with_the_reason(
    tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    imported = read(tmp_path, table(row(), row(**changes)))
    (sentence,) = imported.skipped
    assert sentence.startswith(changes["metric"]) and reason in sentence and "line 3" in sentence
    assert (imported.rows, imported.used_rows) == (2, 1)


@pytest.mark.parametrize(
    ("names", "units", "values", "message"),
    [
        (("mean_ttft_rep1", "mean_ttft_rep2"), "ms s", "9 9", "line 3: .*'s' here but in 'ms'"),
        (("median_ttft", "p50_ttft"), "ms s", "9 9", "line 3: p50_ttft is in 's' here but in 'ms'"),
        (("p50_ttft", "p99_ttft"), "ms ms", "9 8", "line 2: TTFT: p99 is below p50"),
        (("mean_ttft", "mean_e2e"), "s ms", "9 90", "line 2: mean: TTFT is 9 s, above E2E"),
        (("output_throughput", "total_throughput"), "tok/s tok/s", "9 8", "line 2: 9 output tok"),
    ],
)
def test_figures_that_contradict_each_other_are_refused(
    tmp_path: Path, names: tuple[str, str], units: str, values: str, message: str
) -> None:
    rows = [
        row(metric=metric, unit=unit, value=value)
        for metric, unit, value in zip(names, units.split(), values.split(), strict=True)
    ]
    with pytest.raises(InputError, match=message):
        read(tmp_path, table(*rows))


@pytest.mark.parametrize("change", ["replace", "upper"])
def test_a_spreadsheets_form_of_it_is_told_as_a_tidy_table(tmp_path: Path, change: str) -> None:
    text = table(row())
    text = text.upper() if change == "upper" else text.replace(",", ";").replace("\n", "\r")
    assert detect(write(tmp_path, text)).name == "tidy_csv"


def test_a_mean_beside_repetitions_is_in_no_round(tmp_path: Path) -> None:
    rows = [row(metric=f"output_throughput{end}") for end in ("_rep1", "_rep2", "")]
    imported = read(tmp_path, table(*rows))
    assert [point.round for point in imported.run.points] == [1, 2]
    assert imported.skipped == ("output_throughput [tok/s] in line 4: no _repN, which others have",)


def test_what_the_table_lacks_is_asked_for_by_flag(tmp_path: Path) -> None:
    unsaid = row(engine="", quant="unknown", arch="(not in stored chunk)", gpu="SM90 (not named)")
    with pytest.raises(InputError, match="engine, quant and arch: give --engine, --quantization"):
        read(tmp_path, table(unsaid))
    imported = read(tmp_path, table(unsaid), engine="vllm", quantization="fp8", arch="sm90")
    run = imported.run.run
    assert (run.scope.engine, run.key.quantization, run.key.arch) == ("vllm", "fp8", "sm90")
    assert run.scope.device_name is None and run.scope.device_count is None
    assert imported.skipped == ("gpu 'SM90 (not named)': names no device",)


def test_options_replace_the_table_and_say_so(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        table(row(ep="DEP=2", quant="fp8/block")),
        quantization="fp8",
        tp=8,
        ep=2,
        dp=2,
        device_name="GB200",
        device_count=8,
        a2a_backend="deepep",
        engine_version="0.5.9",
    )
    scope = imported.run.run.scope
    assert (scope.tp, scope.ep, scope.dp, scope.device_count) == (8, 2, 2, 8)
    assert (scope.a2a_backend, scope.engine_version) == ("deepep", "0.5.9")
    assert imported.skipped == (
        "quant 'fp8/block': replaced by fp8, as asked",
        "number of gpus '4': replaced by 8, as asked",
        "tp '4': replaced by 8, as asked",
        "ep 'DEP=2': replaced by 2, as asked",
    )


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"quant": "mxfp4/nvfp4"}, "line 2: quant 'mxfp4/nvfp4' isn't one name: give --quant"),
        ({"ep": "DEP=1"}, "line 2: ep 'DEP=1' isn't a whole number: give --ep"),
        ({"tp": "0"}, "line 2: tp '0' isn't a whole number"),
    ],
)
def test_a_cell_that_cannot_be_used_asks_for_its_flag(
    tmp_path: Path, cells: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, table(row(**cells)))


def test_lengths_that_are_no_numbers_stay_unknown(tmp_path: Path) -> None:
    imported = read(tmp_path, table(row(isl="random default", osl="120k")))
    workload = imported.run.run.workload
    assert workload.input_tokens is None and workload.output_tokens is None
    assert len(imported.skipped) == 2


def test_a_column_of_its_own_is_told(tmp_path: Path) -> None:
    imported = read(tmp_path, table(row() | {"note": "\x1b[2J"}, columns=(*COLUMNS, "note")))
    assert imported.skipped == ("column 'note': not one of the tidy form's",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rename": {"nobody": "triton"}}, "no backend 'nobody' to rename: the table has 'cut"),
        ({"rename": {"cutlass": "triton"}}, "line 3: 'cutlass' and 'triton' would both be"),
        ({"reference": "eager"}, "the reference eager isn't in the table"),
        ({"incumbent": "eager"}, "the incumbent eager isn't in the table"),
        ({"concurrency": 4}, "leave --concurrency out"),
        ({"model": "nvidia/MiniMax"}, "model 'nvidia/MiniMax'"),
        ({"tp": 0}, "tp 0: give a whole number"),
        ({"rename": {"triton": "a b"}}, "new name of 'triton'"),
        ({"also_arch": ("sm103",)}, "--also-arch-reason"),
        ({"also_arch_reason": "they said so"}, "--also-arch"),
        ({"also_arch": ("sm120",), "also_arch_reason": "x"}, "sm120: has kernels of its own"),
        ({"also_arch": ("sm100",), "also_arch_reason": "x"}, "is what was measured"),
    ],
)
def test_options_that_contradict_are_refused(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        read(tmp_path, table(row(), row(backend="cutlass")), **given)


def test_also_arch_is_kept_with_its_reason(tmp_path: Path) -> None:
    imported = read(tmp_path, table(row()), also_arch=("sm103",), also_arch_reason="the PR's rule")
    scope = imported.run.run.scope
    assert (scope.also_arch, scope.also_arch_reason) == (("sm103",), "the PR's rule")


def test_a_file_name_that_is_no_name_asks_for_one(tmp_path: Path) -> None:
    path = write(tmp_path, table(row())).rename(tmp_path / "my table (1).csv")
    with pytest.raises(InputError, match="give --name"):
        import_tidy(path, options(), created_at=CREATED_AT)
    imported = import_tidy(path, options(name="mine"), created_at=CREATED_AT)
    assert imported.run.run.name == "mine"
