"""Decision files that can't be used: the server starts as without them, and one line says why.

With AUTOTUNE_STRICT=1 it refuses to start instead, for the same reason.
"""

import copy
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.decisions import encode
from autotune.errors import AutotuneError

from .decisions import MINIMAX, make_decision, put_decision
from .launches import Outcome, attempt, plugged_in, without_plugins
from .real import make_checkpoint, resolve_on

VALID = encode(make_decision(backend="flashinfer_cutlass", device_count=4))
OWN, MEASURED = "flashinfer_trtllm_routed", "flashinfer_cutlass"


def place(folder: Path) -> Path:
    """Where the decision's file lies."""
    path = folder / MINIMAX.arch / MINIMAX.model / f"{MINIMAX.quantization}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("model") / "checkpoint")


@pytest.fixture(scope="module")
def alone(model: Path) -> Outcome:
    """The launch without the plugin."""
    with without_plugins():
        return attempt("sm100", model, quantization="modelopt_fp4")


def check_kept(
    folder: Path, model: Path, alone: Outcome, *, reason: str = "", file: Path | None = None
) -> str:
    """Check one line, SGLang's own values and what strictness does; return the line."""
    with plugged_in(folder) as lines:
        ours = attempt("sm100", model, quantization="modelopt_fp4")
    assert ours.error is None
    assert ours.declared == alone.declared and ours.values == alone.values
    (line,) = lines
    assert line.startswith("autotune: invalid (MiniMaxM2ForCausalLM, modelopt_fp4, sm100): "), line
    assert "the engine's own default is kept" in line
    assert f"file {file or place(folder)}" in line
    assert reason in line
    assert line.isprintable() and len(line) <= 2000
    with plugged_in(folder, AUTOTUNE_STRICT="1") as lines, pytest.raises(AutotuneError) as error:
        resolve_on("sm100", model, quantization="modelopt_fp4")
    message = str(error.value)
    assert message.startswith("refusing to start, because AUTOTUNE_STRICT is set: ")
    assert reason in message and len(lines) == 1
    return line


def test_truncated(model: Path, alone: Outcome, tmp_path: Path) -> None:
    path = place(tmp_path)
    # The last byte is the newline, without which the file is whole.
    for size in range(0, len(VALID) - 1, 41):
        path.write_bytes(VALID[:size])
        check_kept(tmp_path, model, alone, reason="not a decision file: Input data was truncated")
    path.write_bytes(VALID[:-2])
    check_kept(tmp_path, model, alone, reason="truncated")


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    content = json.loads(VALID)
    change(content)
    return json.dumps(content).encode()


def entry(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["entries"][0]
    return found


CONTENTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "truncated"),
    "binary": (bytes(range(256)) * 8, "not a decision file"),
    "UTF-16": (VALID.decode().encode("utf-16"), "not a decision file"),
    "an invalid character": (VALID.replace(b"made for a test", b"\xff\xfe"), "UTF-8"),
    "a list": (b"[]", "Expected `object`"),
    "null": (b"null", "Expected `object`"),
    "deep nesting": (b'{"schema_version": 1, "key": ' + b"[" * 100_000, "not a decision file"),
    "nesting in a field": (
        changed(lambda content: content.update(more=[])).replace(
            b"[]", b"[" * 5000 + b"]" * 5000, 1
        ),
        "recursion",
    ),
    "NaN": (VALID.replace(b'"rounds": 3', b'"rounds": NaN'), "invalid"),
    "NaN as a ratio": (
        changed(lambda content: entry(content)["choice"].update(ratio=float("nan"))),
        "invalid",
    ),
    "a future schema": (changed(lambda c: c.update(schema_version=2)), "schema_version is 2"),
    "no schema": (changed(lambda c: c.pop("schema_version")), "schema_version"),
    "an unknown field": (changed(lambda c: c.update(more=1)), "unknown field `more`"),
    "an unknown field in a scope": (
        changed(lambda c: entry(c)["scope"].update(more=1)),
        "unknown field `more`",
    ),
    "a missing field": (changed(lambda c: entry(c)["choice"].pop("verdict")), "verdict"),
    "another key": (
        encode(make_decision(key=type(MINIMAX)("Other", "fp8", "sm90"))),
        "is about (Other, fp8, sm90) but lies where",
    ),
    "no entries": (changed(lambda c: c.update(entries=[])), "holds no entry"),
    "auto": (changed(lambda c: entry(c)["choice"].update(backend="auto")), "names no backend"),
    "an unknown backend": (
        changed(lambda c: entry(c)["choice"].update(backend="warp_drive")),
        "warp_drive can't be used: SGLang 0.5.23 knows no such backend",
    ),
    "megamoe": (
        changed(lambda c: entry(c)["choice"].update(backend="megamoe")),
        "start with --moe-a2a-backend megamoe",
    ),
    "a backend that can't run": (
        changed(lambda c: entry(c)["choice"].update(backend="triton")),
        "modelopt_fp4 takes the runner",
    ),
    "a failed backend": (changed(lambda c: entry(c)["choice"].update(verdict="fail")), "failed"),
    "a hostile name": (
        changed(lambda c: entry(c)["choice"].update(backend="../\n\x1b[31m")),
        "can't be used as a name",
    ),
    "10 MB": (VALID + b" " * 10_000_000, "bytes, a decision file has at most"),
}


@pytest.mark.parametrize("what", CONTENTS)
def test_contents(what: str, model: Path, alone: Outcome, tmp_path: Path) -> None:
    content, reason = CONTENTS[what]
    place(tmp_path).write_bytes(content)
    check_kept(tmp_path, model, alone, reason=reason)


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def link_to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_outside(path: Path) -> None:
    outside = path.parents[3] / "outside.json"
    outside.write_bytes(VALID)
    path.symlink_to(outside)


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "gone")


def listening(path: Path) -> None:
    # A socket's name is limited to some hundred characters.
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
    except OSError:
        pytest.skip("devices can't be made here")


THINGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a folder": (Path.mkdir, "isn't a regular file"),
    "a FIFO": (os.mkfifo, "isn't a regular file"),
    "a socket": (listening, "isn't a regular file"),
    "a device": (device, "isn't a regular file"),
    "a link to itself": (link_to_itself, "Too many levels of symbolic links"),
    "a link to a device": (link_to_zero, "a link leads out of"),
    "a link to a file outside": (link_outside, "a link leads out of"),
    "a dangling link": (dangling, "No such file"),
}


@pytest.mark.parametrize("what", THINGS)
def test_things_in_the_files_place(what: str, model: Path, alone: Outcome, tmp_path: Path) -> None:
    make, reason = THINGS[what]
    make(place(tmp_path / "decisions"))
    check_kept(tmp_path / "decisions", model, alone, reason=reason)


@pytest.mark.parametrize("level", ["model", "arch", "search folder"])
def test_a_folder_that_links_to_itself(
    level: str, model: Path, alone: Outcome, tmp_path: Path
) -> None:
    folder = tmp_path / "decisions"
    loop = {"model": folder / "sm100" / MINIMAX.model, "arch": folder / "sm100"}.get(level, folder)
    loop.parent.mkdir(parents=True, exist_ok=True)
    link_to_itself(loop)
    file = folder / MINIMAX.arch / MINIMAX.model / f"{MINIMAX.quantization}.json"
    reason = "Too many levels of symbolic links"
    check_kept(folder, model, alone, reason=reason, file=file)


def test_a_broken_file_hides_no_good_one(model: Path, alone: Outcome, tmp_path: Path) -> None:
    """The first folder is what somebody put first: going on would apply another file."""
    place(tmp_path / "first").write_bytes(VALID[:100])
    put_decision(tmp_path / "second", backend=MEASURED)
    folders = Path(f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    check_kept(folders, model, alone, file=place(tmp_path / "first"))


def test_a_broken_file_of_a_lender(model: Path, tmp_path: Path) -> None:
    """It may be the one that lists this arch, so that it counts."""
    place(tmp_path).write_bytes(VALID[:100])
    with without_plugins():
        alone = attempt("sm103", model, quantization="modelopt_fp4")
    with plugged_in(tmp_path) as lines:
        assert attempt("sm103", model, quantization="modelopt_fp4").declared == alone.declared
    (line,) = lines
    assert line.startswith("autotune: invalid (") and str(place(tmp_path)) in line


@pytest.mark.parametrize("content", [VALID[:100], b"\x00", VALID])
def test_a_named_backend_starts_beside_a_broken_file(
    content: bytes, model: Path, tmp_path: Path
) -> None:
    place(tmp_path).write_bytes(content)
    given_backend = {"quantization": "modelopt_fp4", "moe_runner_backend": "flashinfer_cutedsl"}
    with plugged_in(tmp_path, AUTOTUNE_STRICT="1") as lines:
        assert attempt("sm100", model, **given_backend).backend == "flashinfer_cutedsl"
    (line,) = lines
    assert line.startswith("autotune: explicit (")


def test_strict_and_disabled_starts_beside_a_broken_file(model: Path, tmp_path: Path) -> None:
    place(tmp_path).write_bytes(b"")
    with plugged_in(tmp_path, AUTOTUNE_STRICT="1", AUTOTUNE_DISABLE="1") as lines:
        assert attempt("sm100", model, quantization="modelopt_fp4").backend == OWN
    assert len(lines) == 1


# ---- Arbitrary damage --------------------------------------------------------------------------

MANY = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
DOCUMENTED = ("applied", "stale", "invalid", "out_of_scope")


def outcome_of(content: bytes, model: Path, folder: Path) -> tuple[str | None, str]:
    place(folder).write_bytes(content)
    with plugged_in(folder) as lines:
        ours = attempt("sm100", model, quantization="modelopt_fp4")
    assert ours.error is None
    (line,) = lines
    assert line.startswith(tuple(f"autotune: {status} (" for status in DOCUMENTED)), line
    assert line.isprintable() and len(line) <= 2000
    return ours.backend, line


@MANY
@given(data=st.data())
def test_changed_bytes(data: st.DataObject, model: Path, tmp_path: Path) -> None:
    content = bytearray(VALID)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        end = at + data.draw(st.integers(0, 3))
        content[at:end] = data.draw(st.binary(max_size=4))
    backend, line = outcome_of(bytes(content), model, tmp_path)
    assert backend in (OWN, MEASURED)
    assert (backend == MEASURED) is line.startswith("autotune: applied (")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else ()
    for key, inner in items or (enumerate(value) if isinstance(value, list) else ()):
        yield from leaves(inner, (*path, key))


@MANY
@given(data=st.data())
def test_changed_values(data: st.DataObject, model: Path, tmp_path: Path) -> None:
    """Any value in the file replaced by any JSON: what is applied is what the file names."""
    content = copy.deepcopy(json.loads(VALID))
    *path, last = data.draw(st.sampled_from(list(leaves(content))))
    inner = content
    for key in path:
        inner = inner[key]
    inner[last] = data.draw(JSON)
    backend, line = outcome_of(json.dumps(content).encode(), model, tmp_path)
    assert backend in (OWN, MEASURED)
    assert (backend == MEASURED) is line.startswith("autotune: applied (")
