"""What of a pull request's text is a table, what stands above it, and what else is told."""

from pathlib import Path

import pytest

from autotune.errors import InputError
from autotune.importers.formats import detect
from tests.importers.markdown_tables import import_text, pipe, points, read, write

_RATE = "### Output throughput (tok/s)\n\n"
_GRID = pipe(["Concurrency", "triton"], ["1", "100"])
_MORE = pipe(["Concurrency", "triton"], ["8", "700"])
_PRINTED = """```
============ Serving Benchmark Result ============
Backend:                                 sglang-oai
Max request concurrency:                 16
Output token throughput (tok/s):         1288.90
```
"""


def test_what_a_comment_hides_is_not_there(tmp_path: Path) -> None:
    hidden = f"<!--\n{_RATE}{_MORE}\n| 3 | 4 |\n-->\n"
    assert set(points(read(tmp_path, f"{_RATE}{_GRID}\n{hidden}"))) == {("triton", 1)}
    text = f"{_RATE}<!-- mean TTFT (ms) -->\n\n{_GRID}\n<!-- a --> <!-- b -->\n| 1 | 2 |\n"
    with pytest.raises(InputError, match="line 10: a row of a table that has no header"):
        read(tmp_path, text)
    text = f"```\n<!--\n```\n\n{_RATE}{_GRID}"
    assert set(points(read(tmp_path, text))) == {("triton", 1)}


def test_what_a_benchmark_printed_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, f"CUTLASS:\n\n{_PRINTED}")
    assert detect(path).name == "markdown_table"
    message = r"no figure .*: line 4: what a benchmark printed: .*--output-file"
    with pytest.raises(InputError, match=message) as caught:
        import_text(tmp_path, path.read_text())
    assert "--metric" not in str(caught.value)
    (told,) = read(tmp_path, f"{_RATE}{_GRID}\n{_PRINTED}").skipped
    assert "line 8: what a benchmark printed: not read" in told


@pytest.mark.parametrize(
    "code",
    [
        "+-----+\n| NVIDIA-SMI 570 |\n|-----+---|\n| 0 H200 |\n+----+\n",
        "╒═══╤═══╕\n│ E2EL │ 3 ms │\n╘═══╧═══╛\n",
        "| Backend | tok/s |\n|---------+-------|\n| triton | 1 |\n",
    ],
)
def test_other_tables_in_code_are_told_once(tmp_path: Path, code: str) -> None:
    readings = read(tmp_path, f"{_RATE}{_GRID}\n```\n{code}```\n")
    (told,) = readings.skipped
    assert "line 8: a table in a code block" in told
    with pytest.raises(InputError, match=r"no figure .*: line 2: a table in a code block"):
        import_text(tmp_path, f"```\n{code}```\n")
    if not code.startswith("|"):
        with pytest.raises(InputError, match="line 7: a table drawn with lines"):
            read(tmp_path, f"{_RATE}{_GRID}\n{code}")


def test_a_tree_of_folders_is_no_table(tmp_path: Path) -> None:
    tree = "├── kernels\n│   └── moe.cu\n└── README.md\n"
    assert read(tmp_path, f"{_RATE}{_GRID}\n{tree}\n```\n{tree}```\n").skipped[1:] == ()


@pytest.mark.parametrize(
    "heading",
    [
        *("Output throughput (tok/s)\n===\n", "Output throughput (tok/s)\n---\n"),
        *("**Output throughput (tok/s)**\n", "__Output throughput (tok/s)__:\n"),
        "<details><summary>Output throughput (tok/s)</summary>\n",
    ],
)
def test_headings_of_all_kinds(tmp_path: Path, heading: str) -> None:
    text = f"{heading}\nSome words.\n\nMore words.\n\n{_GRID}"
    assert points(read(tmp_path, text))["triton", 1].output_tokens_per_s == 100


def test_a_closed_part_says_nothing_of_what_follows(tmp_path: Path) -> None:
    part = "<details>\n<summary>Output throughput (tok/s), c={}</summary>\n\n{}\n</details>\n"
    tables = [pipe(["Backend", "tok/s"], ["triton", value]) for value in ("100", "700")]
    text = part.format(1, tables[0]) + part.format(8, tables[1])
    assert set(points(read(tmp_path, text))) == {("triton", 1), ("triton", 8)}
    with pytest.raises(InputError, match="which metric is this"):
        read(tmp_path, f"{text}\n{_MORE}")


def test_a_fence_is_closed_by_its_own_marks(tmp_path: Path) -> None:
    text = f"````\n```\n# Mean TTFT (ms)\n````\n\n{_RATE}{_GRID}\n~~~\n```\n| 5 |\n~~~\n"
    readings = read(tmp_path, text)
    assert points(readings)["triton", 1].output_tokens_per_s == 100
    (told,) = readings.skipped
    assert "line 14: a table in a code block" in told


def test_bare_numbers_below_a_concurrency_are_something_else(tmp_path: Path) -> None:
    heading = "### Output throughput (tok/s) at concurrency 64\n\n"
    with pytest.raises(InputError, match="its first column names neither backends"):
        read(tmp_path, heading + pipe(["", "triton"], ["1", "100"], ["2", "190"]))
    with pytest.raises(InputError, match="columns are called 1, 2: if these are"):
        read(tmp_path, heading + pipe(["Backend", "1", "2"], ["triton", "100", "190"]))


def test_a_heading_about_accuracy_is_believed(tmp_path: Path) -> None:
    other = "\n### GSM8K accuracy\n\n" + pipe(["Concurrency", "triton"], ["64", "0.95"])
    readings = read(tmp_path, f"## Results\n\n{_GRID}{other}", metric="output_throughput:tok/s")
    assert set(points(readings)) == {("triton", 1)}
    assert "'GSM8K accuracy': accuracy, memory or power, not speed" in readings.skipped[0]
    prose = f"## Output throughput (tok/s)\n\nAccuracy is the same.\n\n{_GRID}"
    assert points(read(tmp_path, prose))["triton", 1].output_tokens_per_s == 100


def test_a_table_of_words_is_left_alone(tmp_path: Path) -> None:
    words = pipe(["Workload", "Input tokens", "Concurrency"], ["Decode", "128 → 256", "1"])
    (told,) = read(tmp_path, f"{words}\n{_RATE}{_GRID}").skipped
    assert told.endswith("line 1: a table: none of its columns holds figures")


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        (
            ["MoE Version", "Concurrency", "Output tok/s"],
            [["origin", "127", "581.94"]],
            "line 1: column 'MoE Version' holds no figures: call it Backend if it names",
        ),
        (
            ["Backend", "Concurrency", "Output tok/s"],
            [["origin", "127.97", "581.94"]],
            "line 3: the concurrency is '127.97', .*: write how many were asked for, not how many",
        ),
        (
            ["Backend", "A2A backend", "Concurrency", "Output tok/s"],
            [["triton", "deepep", "1", "9"], ["triton", "none", "8", "9"]],
            "line 4: 'A2A backend' is 'none' here, but 'deepep' of the same backend in line 3",
        ),
        (
            ["Backend", "TP x EP", "Concurrency", "Output tok/s"],
            [["triton", "2x2", "1", "9"], ["triton", "4x4", "8", "9"]],
            "line 4: 'TP x EP' is '4x4' here, but '2x2'",
        ),
        (
            ["Backend", "GPUs", "Concurrency", "Output tok/s"],
            [["triton", "4", "1", "9"], ["triton", "8", "8", "9"]],
            "line 4: workload is '8 GPUs' here but '4 GPUs'",
        ),
        (
            ["Backend", "DP", "Concurrency", "Output tok/s"],
            [["triton", "1", "1", "9"], ["triton", "8", "8", "9"]],
            "line 4: dp is '8' here but '1'",
        ),
        (
            ["Backend", "Concurrency", "TTFT p50 (ms)", "TTFT p99 (ms)"],
            [["triton", "1", "900", "30"]],
            "line 3: TTFT: p99 is below p50",
        ),
        (
            ["Backend", "Concurrency", "Output tok/s", "Total tok/s"],
            [["triton", "1", "900", "30"]],
            "line 3: 900 output tokens/s are more than 30 tokens/s in total",
        ),
        (
            ["Backend", "Concurrency", "Mean TTFT (s)", "Mean E2E (ms)"],
            [["triton", "1", "20", "900"]],
            "line 3: mean: TTFT is 20 s, above E2E, which is 0.9 s",
        ),
    ],
)
def test_rows_that_are_not_of_one_run_are_refused(
    tmp_path: Path, header: list[str], rows: list[list[str]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        import_text(tmp_path, pipe(header, *rows))


def test_a_number_of_gpus_is_no_name_of_one(tmp_path: Path) -> None:
    text = pipe(["Backend", "GPUs", "Concurrency", "Output tok/s"], ["triton", "4", "1", "9"])
    imported = import_text(tmp_path, text)
    assert imported.run.run.scope.device_name is None
    assert imported.skipped[0].endswith("column 'GPUs': says no GPU's name: give --device-count")


def test_headings_of_spaces_end(tmp_path: Path) -> None:
    # A pattern that looks for a heading's end in more than one place takes hours for these.
    text = ("# a" + " " * 1990 + "x\n\n") * 500 + f"{_RATE}{_GRID}"
    assert set(points(read(tmp_path, text))) == {("triton", 1)}


def test_the_marks_that_close_a_heading_are_not_its_text(tmp_path: Path) -> None:
    text = f"## Output throughput (tok/s) ##  \n\n{_GRID}"
    assert set(points(read(tmp_path, text))) == {("triton", 1)}
