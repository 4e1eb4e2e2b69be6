"""What can't be read in one way alone is refused with file and line, and nothing is imported."""

from pathlib import Path

import pytest

from autotune.errors import InputError, UsageError
from autotune.importers.formats import detect
from autotune.importers.markdown_table_cells import Cell, read_cell
from autotune.importers.markdown_table_words import concurrency_in, read_label, role_of
from tests.importers.markdown_tables import import_text, pipe, points, read, write

_RATE = "### Output throughput (tok/s)\n\n"
_GOOD = _RATE + pipe(["Concurrency", "triton"], ["1", "10"]) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            _RATE + pipe(["Concurrency", "triton", "marlin"], ["1", "10"]),
            "line 5: 2 cells, but the header in line 3 has 3",
        ),
        (
            _RATE + pipe(["Concurrency", "triton"], ["1", "10", "11"]),
            "line 5: 3 cells, but the header in line 3 has 2",
        ),
        (
            "| | triton | | marlin | |\n|---|---|---|---|---|\n"
            "| Concurrency | tok/s | TTFT (ms) | tok/s | TTFT (ms) |\n| 1 | 2 | 3 | 4 | 5 |\n",
            "line 1: a merged header can't be read",
        ),
        ("| a | b |\n|---|---|---|\n| 1 | 2 |\n", "line 2: 3 columns of dashes, but 2"),
        (
            _RATE + pipe(["Concurrency", "triton", ""], ["1", "10", "11"]),
            "line 3: column 3 has no name",
        ),
        (_RATE + pipe(["Concurrency", "triton"]), "line 3: a header without a row: the table was"),
        (
            _RATE + pipe(["Concurrency", "triton"], ["1", "10"], ["1", "11"]),
            "line 6: output_throughput of 'triton' at concurrency 1 is in line 5 already",
        ),
        (
            _RATE + pipe(["Concurrency", "triton", "**triton**"], ["1", "10", "11"]),
            "line 5: output_throughput of 'triton' at concurrency 1 is in line 5 already",
        ),
        (
            pipe(["Backend", "Concurrency", "Output rate"], ["triton", "1", "10 tok/s"]),
            "line 1: a table: none of its columns holds figures that are kept",
        ),
        (
            pipe(
                ["Backend", "Concurrency", "Output throughput"],
                ["triton", "1", "10 tok/s"],
                ["marlin", "1", "10 req/s"],
            ),
            "line 4: output_throughput is in 'req/s' here, but in 'tok/s' in line 3",
        ),
        (
            "Mean TTFT (ms)\n\n"
            + pipe(["Concurrency", "triton"], ["1", "10"])
            + "\nMean TTFT (s)\n\n"
            + pipe(["Concurrency", "marlin"], ["1", "10"]),
            "line 11: mean_ttft is in s here, but in ms in line 5",
        ),
        (
            _RATE + pipe(["Concurrency", "triton tok/s"], ["1", "10 ms"]),
            "line 5: the unit is 'ms' and 'tok/s' at once",
        ),
        (
            _RATE + pipe(["Concurrency", "Backend", "c=4"], ["1", "triton", "10"]),
            "line 5: the concurrency is '1' and '4' at once",
        ),
        (
            _RATE + pipe(["Concurrency", "triton"], ["", "10"]),
            "line 5: the concurrency is '', not a whole number",
        ),
        (
            pipe(["Backend", "Concurrency", "Output tok/s"], ["triton", "1", "5"], ["", "4", "9"]),
            "line 4: no backend: a cell that goes on for several rows",
        ),
        (
            pipe(["Scenario", "Output throughput (tok/s)", "triton"], ["a", "1", "2"]),
            "line 1: what does the first column, 'Scenario', name",
        ),
        (
            pipe(["Concurrency", "Output tok/s", "Frobs"], ["1", "2", "3"]),
            "line 1: is 'Frobs' a backend",
        ),
        (
            pipe(["Backend", "Kernel", "Output tok/s"], ["a", "b", "2"]),
            "line 1: 'Backend' and 'Kernel' both name the backend",
        ),
        (
            pipe(["ISL", "Concurrency", "Output tok/s"], ["128", "1", "2"], ["1024", "4", "3"]),
            "line 4: isl is '1024' here but '128' in",
        ),
        (
            pipe(["Concurrency", "Request rate", "triton output tok/s"], ["8", "4.0", "2"]),
            "line 3: a request rate of '4.0': if it was asked for, it's an open loop",
        ),
        (
            _GOOD + pipe(["Run", "Concurrency", "triton TTFT p50 (ms)"], ["1", "1", "2"]),
            "line 9: repetitions are numbered here or in line 5, but not in both",
        ),
        (_GOOD + "<table><tr><td>1</td></tr></table>\n", "line 7: a table in HTML"),
        (_GOOD + "+---+---+\n| 1 | 2 |\n+---+---+\n", "line 7: a table drawn with lines"),
        (_GOOD + "| 16 | 20 |\n", "line 7: a row of a table that has no header"),
        (
            _RATE + pipe(["Concurrency", "triton"], ["1", "10 <td>"]),
            "line 5: HTML inside a table",
        ),
        (
            _RATE + pipe(["Concurrency", "triton"], ["1", "10\x07"]),
            "line 5: a character that doesn't print",
        ),
        (
            _RATE + pipe(["Concurrency", "triton"], ["1", "9" * 600]),
            "line 5: a cell of 600 characters",
        ),
    ],
)
def test_one_message_names_the_line(tmp_path: Path, text: str, message: str) -> None:
    assert detect(write(tmp_path, text)).name == "markdown_table"
    with pytest.raises(InputError, match=message) as raised:
        import_text(tmp_path, text)
    assert "pr.md" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "cell",
    [
        *("NaN", "inf", "-5", "0", "1e400", "+27.6%", "~1646", ">100", "1.6k", "1.646,0", "5,33"),
        *("9.11, 9.21", "0.72 s / 0.95 s", "1646 \u2192 2100", "1646.0*", "1646[^1]", "12<br>13"),
        *("1646.0 (12.3)", "12 102", "~~1646~~", "1646 apples", "10 ms \u00b1 2 s"),
    ],
)
def test_a_cell_that_is_not_one_number_is_refused(tmp_path: Path, cell: str) -> None:
    text = _RATE + pipe(["Concurrency", "triton", "marlin"], ["1", "10", cell])
    with pytest.raises(InputError, match=r"pr\.md, line 5: column 'marlin': "):
        read(tmp_path, text)


def test_a_plain_grid_asks_for_its_metric(tmp_path: Path) -> None:
    text = pipe(["Concurrency", "triton"], ["1", "10"])
    with pytest.raises(
        InputError, match=r"line 3: column 'triton': which metric is this.*--metric"
    ):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("output_throughput", "write it as NAME:UNIT"),
        ("throughput:tok/s", "says neither tokens nor requests"),
        ("output_throughput:ms", "the unit 'ms' isn't one of tok/s"),
        ("\x1b:ms", "not a metric that has a place"),
    ],
)
def test_a_flag_must_name_a_figure(tmp_path: Path, metric: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        read(tmp_path, _GOOD, metric=metric)
    assert str(raised.value).isprintable()


def test_a_flag_that_says_nothing_new_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the tables leave no such metric open: leave it out"):
        read(tmp_path, _GOOD, metric="mean_ttft:ms")
    text = pipe(["Concurrency", "triton tok/s"], ["1", "10"])
    with pytest.raises(InputError, match="no figure in a table"):
        read(tmp_path, text, metric="mean_ttft:ms")
    grid = "all in ms\n\n" + pipe(["Concurrency", "triton"], ["1", "10"])
    with pytest.raises(InputError, match=r"line 5: --metric says 'tok/s', but the unit here is"):
        read(tmp_path, grid, metric="output_throughput:tok/s")


def test_a_text_without_a_table_is_in_no_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="in no format that is known"):
        import_text(tmp_path, "triton is faster: 10 tok/s | 11 tok/s\n")


@pytest.mark.parametrize(
    ("text", "concurrency"),
    [
        *(("c=16", 16), ("C16", 16), ("concurrency 1,024", 1024), ("`--max-concurrency 8`", 8)),
        *(("64 concurrent requests", 64), ("conc=4 and conc=8", None), ("c=1, 16", None)),
        *(("concurrency 1 to 128", None), ("concurrency 1\u2013128", None), ("sm100c8", None)),
    ],
)
def test_which_words_name_a_concurrency(text: str, concurrency: int | None) -> None:
    assert concurrency_in(text) == concurrency


@pytest.mark.parametrize(
    ("text", "family", "statistic", "unit", "name"),
    [
        ("Output token throughput (tok/s)", "output_throughput", None, "tok/s", None),
        ("Output TPS", "output_throughput", None, "tok/s", None),
        ("Req Tput (RPS)", "request_throughput", None, "req/s", None),
        ("Total tokens/s", "total_throughput", None, "tok/s", None),
        ("triton tok/s", "throughput", None, "tok/s", "triton"),
        ("P99 TTFT ms", "ttft", "p99", "ms", None),
        ("mean_ttft_ms", "ttft", "mean", "ms", None),
        ("Time to First Token (s), median", "ttft", "median", "s", None),
        ("E2EL (ms)", "e2e", None, "ms", None),
        ("flashinfer_trtllm_routed", None, None, None, "flashinfer_trtllm_routed"),
        ("`--moe-runner-backend triton`", None, None, None, "triton"),
    ],
)
def test_a_label_is_taken_apart(
    text: str, family: str | None, statistic: str | None, unit: str | None, name: str | None
) -> None:
    label = read_label(text)
    assert (label.family, label.statistic, label.unit, label.name) == (
        family,
        statistic,
        unit,
        name,
    )
    assert label.no_place is None


@pytest.mark.parametrize(
    "text",
    [
        *("Peak output throughput (tok/s)", "Input TPS", "tok/s/GPU", "Tput User (TPS)"),
        *(
            "p99.9 TTFT (ms)",
            "TTFT / TPOT (ms)",
            "Speedup",
            "\u0394",
            "Latency (ms)",
            "Duration (s)",
        ),
        *("Memory (GB)", "Acc", "TTFT std (ms)", "vs main"),
    ],
)
def test_labels_that_have_no_place_name_nothing(text: str) -> None:
    label = read_label(text)
    assert label.no_place
    assert not label.says_metric and label.name is None


def test_roles_and_cells_are_read_without_their_marks() -> None:
    assert role_of("**Max Concurrency**") == "concurrency"
    assert role_of("`--moe-runner-backend`") == "backend"
    assert role_of("Attention backend") is None
    assert read_cell("**1,646.0** (+2%)") == Cell(number=1646.0)
    assert read_cell("_n/a_") is None


def test_nothing_of_a_file_is_taken_where_one_table_is_refused(tmp_path: Path) -> None:
    assert set(points(read(tmp_path, _GOOD))) == {("triton", 1)}
    bad = pipe(["Concurrency", "triton mean TTFT (ms)"], ["1", "NaN"])
    with pytest.raises(InputError, match="line 9"):
        import_text(tmp_path, _GOOD + bad)
    assert [path.name for path in tmp_path.iterdir()] == ["pr.md"]
