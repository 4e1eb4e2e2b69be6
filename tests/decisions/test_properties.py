import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.decisions import (
    Entry,
    Geometry,
    Resolution,
    ResolveRequest,
    Store,
    check_decision,
    decode,
    describe,
    encode,
    resolve,
)
from autotune.errors import DecisionFileError

from .builders import CUTLASS, GEOMETRY, ROUTED, decision, origin_entry, path_of, put, request

KEY = decision().key
VALID = encode(decision())

# Text as it comes from a command line or a checkpoint: anything, with what people try first.
texts = st.one_of(
    st.text(st.characters(), max_size=40),
    st.sampled_from(["../../etc/passwd", "a\nb", "\x1b[31m", "\u202eevil", "\ud800", "x" * 3000]),
)
counts = st.sampled_from([None, 1, 2, 4, 8])
geometries = st.sampled_from([None, GEOMETRY, Geometry(7168, 2048, 256, 8)])
mappings = st.dictionaries(st.sampled_from(["SGLANG_X", "CUDA_Y", "z"]) | texts, texts, max_size=3)
facts: dict[str, st.SearchStrategy[Any]] = {
    "geometry": geometries,
    "engine": st.sampled_from([None, "sglang", "vllm"]) | texts,
    "engine_version": st.sampled_from([None, "0.5.9", "0.5.10", "0.6", "0.4"]) | texts,
    "dtype": st.sampled_from([None, "bfloat16", "float16"]) | texts,
    "tp": counts,
    "ep": counts,
    "dp": counts,
    "a2a_backend": st.sampled_from([None, "none", "deepep"]) | texts,
    "a2a_mode": st.sampled_from([None, "auto", "normal"]) | texts,
    "device_name": st.sampled_from([None, "NVIDIA GB200", "H200"]) | texts,
    "device_count": counts,
    "kernel_libraries": st.none() | mappings,
    "kernel_environment": st.none() | mappings,
}
requests = st.builds(
    request,
    arch=st.sampled_from(["sm100", "sm103", "sm110", "sm120", "sm90"]) | texts,
    model=st.just(KEY.model) | texts,
    quantization=st.just(KEY.quantization) | texts,
    **facts,
)
scopes = st.fixed_dictionaries(
    {},
    optional={
        "geometry": geometries.filter(bool),
        "engine_version": st.sampled_from([None, "0.5.9", "0.5.8", "0.6.0"]),
        "tp": counts,
        "ep": counts,
        "a2a_backend": st.sampled_from([None, "none", "deepep"]),
        "device_name": st.sampled_from([None, "NVIDIA GB200", "NVIDIA B200"]),
        "device_count": counts,
    },
)
entries = st.builds(
    origin_entry,
    scope=scopes,
    choice=st.fixed_dictionaries({"backend": st.sampled_from([ROUTED, CUTLASS, "triton"])}),
    evidence=st.fixed_dictionaries(
        {"measured_at": st.sampled_from(["2026-03-01", "2026-03-02T01:00:00Z", "once"])}
    ),
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def check_safe(resolution: Resolution) -> None:
    """Whatever the answer is: one printable, bounded line each, and JSON."""
    lines = [resolution.reason, *resolution.warnings, *resolution.mismatches]
    for line in lines:
        assert line.isprintable() and 0 < len(line) <= 500
    assert set(resolution.mismatches) <= set(resolution.warnings)
    assert len(resolution.warnings) <= 21
    described = describe(resolution)
    assert described.isprintable() and len(described) <= 2000
    assert json.loads(msgspec.json.encode(resolution))["status"] == resolution.status
    if resolution.status not in ("applied", "explicit", "disabled"):
        assert resolution.backend is None


@given(requests, st.text(min_size=1).filter(lambda text: text != "auto"), st.booleans())
def test_explicit_always_wins(folder: Path, asked: ResolveRequest, backend: str, off: bool) -> None:
    asked = msgspec.structs.replace(asked, backend=backend, disabled=off)
    resolution = resolve(asked, put(folder, decision()))
    assert resolution.status == ("disabled" if off else "explicit")
    assert resolution.entry is None
    if backend.isprintable():
        assert resolution.backend == backend
    check_safe(resolution)


@given(requests, st.lists(entries, min_size=1, max_size=4))
def test_any_request_is_answered(folder: Path, asked: ResolveRequest, some: list[Entry]) -> None:
    resolution = resolve(asked, put(folder, decision(*some)))
    assert resolution == resolve(asked, Store([folder])), "the same question, the same answer"
    check_safe(resolution)
    if resolution.status == "applied":
        entry = resolution.entry
        assert entry in some
        check_hard_facts(entry, asked)
        assert resolution.backend == entry.choice.backend


def check_hard_facts(entry: Entry, asked: ResolveRequest) -> None:
    """Say again, without the code under test, what must hold where a decision is applied."""
    scope = entry.scope
    assert (asked.model, asked.quantization) == (KEY.model, KEY.quantization)
    assert asked.arch in (KEY.arch, *scope.also_arch)
    for name in ("geometry", "engine", "dtype", "tp", "ep", "dp", "a2a_backend"):
        measured, wanted = getattr(scope, name), getattr(asked, name)
        assert wanted is None or measured is None or wanted == measured, name
    for name, default in (("tp", 1), ("ep", 1), ("dp", 1), ("a2a_backend", "none")):
        if getattr(scope, name) is None:
            assert getattr(asked, name) in (None, default), name
    if asked.kernel_environment is not None:
        assert asked.kernel_environment.get("SGLANG_X") == "1"
    if asked.engine_version is not None and scope.engine_version is not None:
        same_line = asked.engine_version.startswith(scope.engine_version[:3])
        assert same_line or asked.engine_version[1:].startswith(scope.engine_version[:3])


@given(st.lists(entries, min_size=2, max_size=4), st.randoms(), requests)
def test_order_of_entries_does_not_matter(
    folder: Path, some: list[Entry], random: Any, asked: ResolveRequest
) -> None:
    before = resolve(asked, put(folder, decision(*some)))
    random.shuffle(some)
    assert resolve(asked, put(folder, decision(*some))) == before


@given(st.data())
def test_one_hard_difference_is_enough(folder: Path, data: st.DataObject) -> None:
    field, value = data.draw(
        st.sampled_from(
            [
                ("model", "Other"),
                ("quantization", "fp8"),
                ("arch", "sm120"),
                ("geometry", Geometry(1, 1, 2, 1)),
                ("engine", "vllm"),
                ("engine_version", "0.7.0"),
                ("dtype", "float16"),
                ("tp", 8),
                ("ep", 2),
                ("dp", 2),
                ("a2a_backend", "deepep"),
                ("device_name", "H100"),
                ("kernel_environment", {"SGLANG_X": "1", "VLLM_Y": "1"}),
            ]
        )
    )
    # The other facts may be said or not: that never makes up for the difference.
    silent = {
        name: None
        for name in data.draw(st.sets(st.sampled_from(sorted(facts))))
        if name not in (field, "engine")
    }
    resolution = resolve(request(**{**silent, field: value}), put(folder, decision()))
    assert resolution.status in ("out_of_scope", "no_decision", "stale")
    assert resolution.backend is None


mutations = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "copy"]),
        st.integers(0, len(VALID) - 1),
        st.binary(min_size=1, max_size=6) | st.sampled_from([b"{", b'"', b"[", b"null", b"1e999"]),
    ),
    min_size=1,
    max_size=4,
)


def mutate(data: bytes, steps: list[tuple[str, int, bytes]]) -> bytes:
    for kind, at, extra in steps:
        if kind == "flip":
            data = data[:at] + extra + data[at + len(extra) :]
        elif kind == "cut":
            data = data[:at] + data[at + 10 * len(extra) :]
        elif kind == "insert":
            data = data[:at] + extra + data[at:]
        else:
            data = data[:at] + data[at // 2 :]
    return data


def check_bytes(folder: Path, data: bytes) -> None:
    put(folder)
    path = path_of(folder, KEY)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    resolution = resolve(request(), Store([folder]))
    check_safe(resolution)
    try:
        whole = decode(data, where="it")
        check_decision(whole, KEY, where="it")
    except DecisionFileError:
        assert resolution.status == "invalid"
        return
    assert resolution.status in ("applied", "stale", "out_of_scope")
    if resolution.status == "applied":
        assert resolution.entry in whole.entries
        check_hard_facts(resolution.entry, request())


@given(mutations)
def test_mutated_file(folder: Path, steps: list[tuple[str, int, bytes]]) -> None:
    check_bytes(folder, mutate(VALID, steps))


@given(st.integers(0, len(VALID) - 3))
def test_truncated_file(folder: Path, length: int) -> None:
    check_bytes(folder, VALID[:length])
    assert resolve(request(), Store([folder])).status == "invalid"


@given(st.binary(max_size=200))
def test_any_bytes(folder: Path, data: bytes) -> None:
    check_bytes(folder, data)
