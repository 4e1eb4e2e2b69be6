"""Whatever is done to a report, an export or a pasted table: it's imported whole or refused."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.importers.markdown_table_cells import read_cell
from autotune.importers.markdown_table_words import read_label
from tests.importers.markdown_tables import grids, long_form, metric_rows, tidy_rows
from tests.importers.tool_files import TOOLS, check_import

_JSON = sorted([*TOOLS.glob("guidellm/*.json"), *TOOLS.glob("aiperf/*/*.json")])
_TABLES = sorted(TOOLS.glob("aiperf/*/*.csv"))
_PUBLISHED = [
    form(tidy_rows(name))
    for name in ("sglang_32229_minimax_m27_nvfp4_gb200", "sglang_28355_qwen35_397b_fp8_h100")
    for form in (
        lambda rows: grids(rows, down="concurrency"),
        lambda rows: grids(rows, down="backend"),
        long_form,
        metric_rows,
    )
]
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.sampled_from([10**400, -1, 0, "inf", "NaN", [], {}, [[1]], {"a": {"b": 1}}, "../../x"]),
)
_PIECES = st.one_of(
    st.text(max_size=4),
    st.sampled_from(
        [
            *("|", "\\|", "---", "**", "`", "c=16", "NaN", "(+3%)", "\u00b1", "ms", "tok/s", "\n"),
            *("<td>", "\x1b[31m", "1,646.0", "Concurrency", "Backend", "TTFT", "p99", "- ", "# "),
            *("> ", " / ", "<sup>1</sup>", "<!--", "-->", "```", "<details>", "</details>", "(s)"),
            *(
                "ISL=1024",
                "per GPU",
                ":rocket:",
                "\u2502",
                "\u250c\u2500\u2510",
                "main",
                "#",
                "RPS",
            ),
            *(
                "<summary>x</summary>",
                "[^1]",
                "mean of 3 runs",
                "4x4",
                "isl/osl 1/2",
                "===",
                "\x00",
            ),
        ]
    ),
)


_METRICS = st.sampled_from(
    [None, None, "output_throughput:tok/s", "mean_ttft:ms,output_throughput:tok/s"]
)


def _branch(content: Any, choose: Callable[[list[Any]], Any]) -> tuple[Any, Any]:
    """Some place in a document: what holds it, and its key."""
    while True:
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        key = choose(keys)
        inner = content[key]
        if not isinstance(inner, dict | list) or not inner or choose([False, True]):
            return content, key
        content = inner


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(_JSON))
def test_any_value_in_any_place(data: st.DataObject, source: Path) -> None:
    said = json.loads(source.read_text())
    for benchmark in said.get("benchmarks", []):
        benchmark["requests"] = None  # Most of the file, and nobody reads it.
    for _ in range(data.draw(st.integers(1, 3))):
        held, key = _branch(said, lambda keys: data.draw(st.sampled_from(keys)))
        held[key] = copy.deepcopy(data.draw(_VALUES))
    check_import("it.json", json.dumps(said).encode(), backend="triton")


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([*_JSON, *_TABLES]))
def test_any_cut_and_any_byte(data: st.DataObject, source: Path) -> None:
    content = bytearray(source.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    check_import(f"it{source.suffix}", bytes(content[:cut]), backend="triton")


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(_TABLES))
def test_any_cell_of_an_exported_table(data: st.DataObject, source: Path) -> None:
    lines = source.read_text().splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(lines) - 1))
        cells = lines[number].split(",")
        at = data.draw(st.integers(0, len(cells) - 1))
        cells[at] = data.draw(st.one_of(_PIECES, st.floats().map(str)))
        lines[number] = ",".join(cells)
    check_import("it.csv", "\n".join(lines).encode(), backend="triton", concurrency=8)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(_PUBLISHED))
def test_any_change_of_a_pasted_table(data: st.DataObject, text: str) -> None:
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        text = text[:start] + data.draw(_PIECES) + text[end:]
    check_import("pr.md", text.encode("utf-8", "replace"), metric=data.draw(_METRICS))


@settings(max_examples=200, deadline=None)
@given(st.lists(_PIECES, max_size=12).map("".join))
def test_any_cell_and_any_label_are_read_or_refused(text: str) -> None:
    read_cell(text)
    read_label(text)


@pytest.mark.parametrize("filler", ["*", "_", "(", "c=", "|", " ", "1,", "\u00b1", "~", "[", "a "])
def test_long_cells_take_no_time_to_speak_of(filler: str) -> None:
    """No pattern backtracks: what takes ages with 500 characters would time out here."""
    cell = (filler * 500)[:500]
    read_cell(cell)
    read_label(cell + "1")
