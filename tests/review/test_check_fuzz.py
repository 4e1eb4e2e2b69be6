"""Whatever somebody's editor, merge or disk makes of the files: a finding, never a traceback."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.review.check_print import render
from tests.review.check_folder import Folder, found

_JSON = (b'"', b"{", b"}", b"[", b",", b"0", b"1e999", b"-1", b"null", b'"\\ud800"', b"NaN")
_OTHER = (b"\xff", b"\n", b"\x00", b"\x1b[31m", b"../", b"9" * 30, b"<<<<<<< HEAD\n", b"")
_PIECES = st.sampled_from((*_JSON, *_OTHER))
_EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 30), _PIECES | st.binary(max_size=6)),
    min_size=1,
    max_size=3,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    yield Folder(tmp_path_factory.mktemp("fuzz"))


def files(folder: Folder) -> list[Path]:
    records = sorted(folder.run.rglob("*.json"))
    return [folder.file, folder.file, *records, *sorted(folder.run.glob("*.csv"))]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_content_breaks_a_check(folder: Folder, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(files(folder)))
    original = path.read_bytes()
    changed = original
    for where, length, piece in data.draw(_EDITS):
        start = int(where * len(changed))
        changed = changed[:start] + piece + changed[start + length :]
    try:
        path.write_bytes(changed)
        review = folder.check()
        for form in ("text", "json", "github"):
            render(review, form, workplace="/").encode()
        if path == folder.file and changed != original:
            assert found(review) or any(one.code == "defaults" for one in review.findings)
    finally:
        path.write_bytes(original)


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"\xff\xfe", b"[" * 200_000])
def test_hopeless_files(folder: Folder, content: bytes) -> None:
    for path in (folder.file, folder.run / "run.json", folder.run / "run.toml"):
        original = path.read_bytes() if path.exists() else None
        try:
            path.write_bytes(content)
            assert path.name == "run.toml" or found(folder.check(), "wrong")
        finally:
            if original is None:
                path.unlink()
            else:
                path.write_bytes(original)
