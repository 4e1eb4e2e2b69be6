import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotune.decisions import Broken, DecisionKey, Found, Store, encode, resolve, shipped_folders
from autotune.decisions.store import SIZE_LIMIT

from .builders import MODEL, QUANTIZATION, ROUTED, decision, path_of, put, request

KEY = decision().key
VALID = encode(decision())


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A pipe or a device must be refused, not waited for."""
    signal.alarm(20)
    yield
    signal.alarm(0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    put(tmp_path / "store", decision())
    return path_of(tmp_path / "store", KEY)


def expect_invalid(tmp_path: Path, *words: str) -> None:
    resolution = resolve(request(), Store([tmp_path / "store"]))
    assert (resolution.status, resolution.backend) == ("invalid", None)
    assert resolution.file == str(path_of(tmp_path / "store", KEY))
    for word in words:
        assert word in resolution.reason


def replaced(old: bytes, new: bytes) -> bytes:
    assert old in VALID
    return VALID.replace(old, new, 1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "truncated"),
        (VALID[: len(VALID) // 2], "truncated"),
        (VALID + b"{}", "malformed"),
        (b"\xff\xfe\x00", "not a decision file"),
        (b"[]", "not a decision file"),
        (b"[" * 200_000, "not a decision file"),
        (b'{"schema_version":1,"key":' + b'{"a":' * 200_000, "not a decision file"),
        (b'{"schema_version":' + b"9" * 10_000 + b"}", "out of range"),
        (replaced(b'"schema_version": 1', b'"schema_version": 2'), "schema_version is 2"),
        (replaced(b'"schema_version": 1', b'"schema_version": "1"'), "Expected `int`"),
        (replaced(b'"entries"', b'"extra": 1, "entries"'), "unknown field `extra`"),
        (replaced(b'"entries"', b'"entry"'), "unknown field `entry`"),
        (b'{"schema_version":1}', "missing required field"),
        (replaced(b'"ratio": 1.31', b'"ratio": NaN'), "malformed"),
        (replaced(b'"ratio": 1.31', b'"ratio": Infinity'), "malformed"),
        (replaced(b'"ratio": 1.31', b'"ratio": 1e999'), "out of range"),
        (replaced(b'"ratio": 1.31', b'"ratio": -1.0'), "> 0"),
        (replaced(b'"tp": 4', b'"tp": 0'), ">= 1"),
        (replaced(MODEL.encode(), b"Other"), "(Other, modelopt_fp4, sm100) but lies where"),
        (replaced(MODEL.encode(), b"../x"), "can't be used as a name"),
        (replaced(b'"modelopt_fp4"', b'"MODELOPT_FP4"'), "lies where"),
        (replaced(b'"sm100"', b'"sm103"'), "lies where"),
    ],
)
def test_file_that_says_something_else(tmp_path: Path, path: Path, data: bytes, words: str) -> None:
    path.write_bytes(data)
    expect_invalid(tmp_path, words)


def test_file_that_is_too_large(tmp_path: Path, path: Path) -> None:
    path.write_bytes(VALID + b" " * SIZE_LIMIT)
    expect_invalid(tmp_path, str(SIZE_LIMIT))
    with path.open("wb") as file:
        file.truncate(1 << 40)
    expect_invalid(tmp_path, "1099511627776 bytes")


MAKERS: dict[str, Callable[[Path], None]] = {
    "folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "loop": lambda path: path.symlink_to(path.name),
    "dangling": lambda path: path.symlink_to("nothing.json"),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "outside": lambda path: path.symlink_to(path.parents[3] / "outside.json"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_thing_that_is_no_file(tmp_path: Path, path: Path, kind: str) -> None:
    (tmp_path / "outside.json").write_bytes(VALID)
    path.unlink()
    MAKERS[kind](path)
    expect_invalid(tmp_path)


def test_link_inside_the_folder_is_followed(tmp_path: Path, path: Path) -> None:
    # How a Kubernetes volume lays out its files.
    hidden = tmp_path / "store" / "..data"
    path.parents[1].rename(hidden)
    (tmp_path / "store" / "sm100").symlink_to("..data")
    assert isinstance(Store([tmp_path / "store"]).find(KEY), Found)


def test_linked_folder_that_leads_outside(tmp_path: Path, path: Path) -> None:
    path.parents[1].rename(tmp_path / "elsewhere")
    (tmp_path / "store" / "sm100").symlink_to(tmp_path / "elsewhere")
    expect_invalid(tmp_path, "leads out of")


def test_unreadable_file(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("autotune.decisions.store.os.open", refuse)
    expect_invalid(tmp_path, "can't be read: Permission denied")


def test_first_folder_wins_and_the_shadow_is_told(tmp_path: Path) -> None:
    for name in ("a", "b"):
        put(tmp_path / name, decision())
    resolution = resolve(request(), Store([tmp_path / "a", tmp_path / "b"]))
    assert (resolution.status, resolution.backend) == ("applied", ROUTED)
    first, second = (path_of(tmp_path / name, KEY) for name in ("a", "b"))
    assert resolution.file == str(first)
    assert resolution.warnings == (f"{first} shadows {second}",)
    second.unlink()
    second.symlink_to(first)
    found = Store([tmp_path / "a", tmp_path / "a" / ".", tmp_path / "b"]).find(KEY)
    assert isinstance(found, Found)
    assert found.shadowed == ()


def test_broken_file_is_not_passed_over(tmp_path: Path, path: Path) -> None:
    put(tmp_path / "b", decision())
    path.write_bytes(b"{")
    store = Store([tmp_path / "store", tmp_path / "b"])
    assert resolve(request(), store).status == "invalid"
    assert resolve(request(arch="sm103"), store).status == "invalid", "it may list sm103"
    assert resolve(request(arch="sm120"), store).status == "no_decision"


def test_folders_that_can_not_be_searched(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    put(tmp_path / "good", decision())
    store = Store([tmp_path / "absent", tmp_path / "file", tmp_path / "good"])
    resolution = resolve(request(), store)
    assert resolution.status == "applied"
    assert [line.rpartition(": ")[2] for line in resolution.warnings] == [
        "No such file or directory",
        "Not a directory",
    ]
    assert resolve(request(), Store(["nul\0byte", tmp_path / "good"])).status == "invalid"
    assert resolve(request(), Store(["\ud800", tmp_path / "good"])).status == "invalid"
    assert resolve(request(), Store(["x" * 5000, tmp_path / "good"])).status == "invalid"


def test_stray_folders_are_passed_over(tmp_path: Path) -> None:
    store = put(tmp_path, decision())
    for name in ("sm10x y", ".git", "sm102", "sm103"):
        (tmp_path / name).mkdir()
    (tmp_path / "sm104").write_text("a file")
    assert resolve(request(arch="sm103"), store).status == "applied"


def test_only_the_files_for_the_key_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = put(
        tmp_path,
        decision(),
        decision(arch="sm90"),
        *(decision(model=f"Model{number}") for number in range(5)),
    )
    opened: list[str] = []
    real = os.open

    def spy(path: str, *rest: int) -> int:
        opened.append(path)
        return real(path, *rest)

    monkeypatch.setattr("autotune.decisions.store.os.open", spy)
    resolve(request(), store)
    resolve(request(arch="sm103"), store)
    assert opened == [str(path_of(tmp_path, KEY))] * 2


@pytest.mark.parametrize("field", ["model", "quantization", "arch"])
@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../../x", "/etc/passwd", "a/b", "a\0b", "a\nb", "\ud800", "é", "x" * 129],
)
def test_hostile_names(tmp_path: Path, field: str, name: str) -> None:
    store = put(tmp_path, decision())
    resolution = resolve(request(**{field: name}), store)
    assert (resolution.status, resolution.backend) == ("no_decision", None)
    assert "can't be used as a name" in resolution.reason


def test_folders_from_the_environment(tmp_path: Path) -> None:
    listed = os.pathsep.join(["", "/a", "", "/b", "/a"])
    store = Store.from_environment({"AUTOTUNE_DECISIONS": listed}, extra=[tmp_path])
    assert store.paths == (str(tmp_path), "/a", "/b", *shipped_folders())
    assert Store.from_environment({}).paths == shipped_folders()
    assert all(os.path.isdir(folder) for folder in shipped_folders())


def test_missing_and_broken_are_told_apart(tmp_path: Path, path: Path) -> None:
    store = Store([tmp_path / "store"])
    assert store.find(DecisionKey(MODEL, QUANTIZATION, "sm90")) is None
    path.write_bytes(b"{")
    assert isinstance(store.find(KEY), Broken)
