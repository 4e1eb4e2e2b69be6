"""Whatever is done to a real tool's file, it is imported whole or refused with one message."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.importers import import_files
from tests.importers.builders import ORIGIN
from tests.importers.tool_files import (
    CREATED_AT,
    SGLANG,
    VLLM,
    changed,
    check_import,
    import_tool,
    lines_of,
    setting,
    tool_options,
)

TAGGED = SGLANG / "tagged.jsonl"
PLAIN = VLLM / "plain.json"
_REAL = [TAGGED, SGLANG / "with_server_info.jsonl", PLAIN, VLLM / "details.json"]


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.sampled_from([10**400, -1, 0, "inf", "NaN", [], {}, [[1]], {"a": {"b": 1}}, "../../x"]),
)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(_REAL))
def test_any_value_in_any_place(data: st.DataObject, source: Path) -> None:
    said = lines_of(source)[0]
    keys = data.draw(st.lists(st.sampled_from(sorted(said)), min_size=1, max_size=3))
    for key in keys:
        inner = said[key]
        if isinstance(inner, dict) and inner and data.draw(st.booleans()):
            inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(_VALUES)
        else:
            said[key] = data.draw(_VALUES)
    given_name = {} if said.get("tag") else {"backend": "triton"}
    check_import(source.name, json.dumps(said).encode("utf-8", "surrogatepass"), **given_name)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(_REAL))
def test_any_bytes_cut_or_changed(data: st.DataObject, source: Path) -> None:
    content = bytearray(source.read_bytes()[:20_000])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["cut", "byte", "double"])):
            case "cut":
                content = content[: at + 1]
            case "byte":
                content[at] = data.draw(st.integers(0, 255))
            case _:
                content[at:at] = content[max(0, at - 30) : at]
    check_import(source.name, bytes(content), backend="triton")


@pytest.mark.parametrize("source", [TAGGED, PLAIN], ids=["sglang", "vllm"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (setting(output_throughput=float("nan")), "output_throughput: nan: a measured figure"),
        (setting(duration=float("inf")), "duration: inf"),
        (setting(mean_ttft_ms=-1.0), r"mean_ttft_ms: -1\.0: .* above zero"),
        (setting(mean_ttft_ms="12.5"), r"mean_ttft_ms: '12\.5' isn't a number"),
        (setting(mean_ttft_ms=True), "mean_ttft_ms: True isn't a number"),
        (setting(mean_ttft_ms=[1]), "mean_ttft_ms: a list of 1 isn't a number"),
        (setting(median_ttft_ms=10**400), "too large a number"),
        (setting(max_concurrency=2.5), "max_concurrency: 2.5 isn't a whole number"),
        (setting(max_concurrency=-4), "max_concurrency: -4 isn't a whole number"),
        (setting(completed=None), "completed: isn't there"),
        (setting(request_rate="fast"), "request_rate: 'fast' isn't a number"),
        (setting(total_output_tokens=0), "output_throughput: .* but 0 in .* is in another unit"),
        (setting(request_rate=0), "request_rate: neither a number above zero nor infinite"),
    ],
)
def test_what_is_no_figure_is_refused_with_its_key(
    tmp_path: Path, source: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    given = {} if source == TAGGED else {"backend": "triton"}
    with pytest.raises(InputError, match=message) as caught:
        import_tool(changed(source, tmp_path, change), **given)
    assert source.name in str(caught.value)


@pytest.mark.parametrize(
    ("key", "factor"),
    [("output_throughput", 1e-3), ("request_throughput", 60), ("total_throughput", 2)],
)
def test_a_rate_in_another_unit_contradicts_its_counts(
    tmp_path: Path, key: str, factor: float
) -> None:
    said = lines_of(TAGGED)[0]
    with pytest.raises(InputError, match=f"{key}: .* is in another unit"):
        import_tool(changed(TAGGED, tmp_path, setting(**{key: said[key] * factor})))


@pytest.mark.parametrize(
    ("key", "factor", "message"),
    [
        ("mean_e2e_latency_ms", 1e-3, "mean_ttft_ms: above mean_e2e_latency_ms: .* another unit"),
        ("p99_tpot_ms", 1e-3, "p99_tpot_ms: below p95_tpot_ms: .* another unit"),
    ],
)
def test_times_in_mixed_units_contradict_each_other(
    tmp_path: Path, key: str, factor: float, message: str
) -> None:
    said = lines_of(TAGGED)[0]
    with pytest.raises(InputError, match=message):
        import_tool(changed(TAGGED, tmp_path, setting(**{key: said[key] * factor})))


def test_a_last_line_that_was_cut_stops_all(tmp_path: Path) -> None:
    path = tmp_path / "it.jsonl"
    content = (SGLANG / "repeated.jsonl").read_bytes()
    path.write_bytes(content[:-300])
    with pytest.raises(InputError, match=r"it\.jsonl, line 2: ends in the middle"):
        import_tool(path, backend="triton", repeats="launches")


def test_a_line_that_is_there_twice_stops_all(tmp_path: Path) -> None:
    path = tmp_path / "it.jsonl"
    path.write_bytes(TAGGED.read_bytes() * 2)
    with pytest.raises(InputError, match="line 2: the same as line 1, to the last digit"):
        import_tool(path, repeats="launches")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (b" \n\n", "an empty file"),
        (b"hello", "it begins with 'hello'"),
        (b'{"a": 1}', "in no format that is known"),
        (b"\x1b]0;title\x07", "in no format that is known"),
    ],
)
def test_a_file_of_no_tool_says_what_was_seen_and_what_is_known(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "it.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        import_tool(path)
    assert "sglang_bench_serving" in str(caught.value) and str(caught.value).isprintable()


def test_another_tools_file_is_refused_by_a_forced_format() -> None:
    for name, path in (("sglang_bench_serving", ORIGIN), ("vllm_bench_sweep", TAGGED)):
        with pytest.raises(InputError):
            import_files([path], tool_options(), created_at=CREATED_AT, format_name=name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"tag": "\xff"}', r"line 1: not text in UTF-8 \(byte 9\)"),
        (b'{"a": ' + b"[" * 200_000, "line 1: nested too deep"),
        (b'{"completed": 1, "completed": 2}', "names 'completed' twice"),
        (b'{"completed": ' + b"9" * 5000 + b"}", "line 1: "),
        (b"[1]", "line 1: holds a list of 1, not an object"),
        (b'{"completed": 1} {"completed": 2}', "line 1: not JSON"),
        (b"", "empty: nothing to import"),
    ],
)
def test_broken_files_are_refused_with_their_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "it.jsonl"
    path.write_bytes(content)
    for name in ("sglang_bench_serving", "vllm_bench_serve"):
        if name == "vllm_bench_serve" and message.startswith("line 1: holds"):
            message = "holds a list of 1, not an object"
        with pytest.raises(InputError, match=message):
            import_files([path], tool_options(), created_at=CREATED_AT, format_name=name)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "it.jsonl"
    with path.open("wb") as file:
        file.write(TAGGED.read_bytes())
        file.truncate(65 * 2**20)
    with pytest.raises(InputError, match="over 64 MiB"):
        import_tool(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        import_tool(tmp_path / "none.jsonl")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        import_tool(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="an empty folder"):
        import_tool(tmp_path / "folder")
    (tmp_path / "folder" / "run=0.txt").touch()
    with pytest.raises(InputError, match=r"a folder with run=0\.txt"):
        import_tool(tmp_path / "folder")
