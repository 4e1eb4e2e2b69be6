"""A layer sweep's folder: written, read back, and hostile to what doesn't belong there."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.errors import AutotuneError, RunFolderError, UsageError
from autotune.kernels.folder import RUN_FILE, SCREEN_FILE, KernelFolder, encoded, read_record
from autotune.kernels.ranking import screen
from autotune.kernels.schema import KernelPoint, KernelRun, Screen
from tests.kernels.records import config, point, run

_HOSTILE = [
    "",
    ".",
    "..",
    "../evil",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a b",
    ".hidden",
    "a\0b",
    "a\nb",
    "é",
    "x" * 129,
    "-rf",
]


def _written(folder: Path) -> KernelFolder:
    found = KernelFolder(folder)
    found.write_run(run())
    for one in (point("slow", 16), point("fast", 16), point("fast", 1)):
        found.write_point(one)
    return found


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    folder = _written(tmp_path / "run")
    assert folder.exists()
    assert folder.read_run() == run()
    assert folder.points() == (point("fast", 1), point("fast", 16), point("slow", 16))
    assert folder.point_file("fast", 16) == tmp_path / "run/points/fast/t00016/point.json"
    assert folder.log_file("fast") == tmp_path / "run/logs/fast.log"


def test_batches_of_more_digits_have_places_of_their_own(tmp_path: Path) -> None:
    folder = KernelFolder(tmp_path)
    for tokens in (1, 99_999, 100_000, 1_048_576):
        folder.write_point(point("fast", tokens))
    assert [one.tokens for one in folder.points()] == [1, 99_999, 100_000, 1_048_576]


def test_a_record_is_text_that_a_person_reads_and_git_compares(tmp_path: Path) -> None:
    folder = _written(tmp_path)
    text = folder.point_file("fast", 1).read_text()
    assert text.endswith("}\n") and len(text.splitlines()) > 10
    keys = list(json.loads(text))
    assert keys == sorted(keys)
    before = text
    folder.write_point(point("fast", 1))
    assert folder.point_file("fast", 1).read_text() == before


def test_a_screen_is_read_back(tmp_path: Path) -> None:
    found = screen(run(), [point("fast", 1), point("slow", 1), point("fast", 16)])
    (tmp_path / SCREEN_FILE).write_bytes(encoded(found))
    assert read_record(tmp_path / SCREEN_FILE, Screen) == found


def test_a_point_is_replaced_whole(tmp_path: Path) -> None:
    folder = _written(tmp_path)
    folder.write_point(point("fast", 1, status="oom", medians=()))
    assert [one.status for one in folder.points()] == ["oom", "ok", "ok"]
    assert [path.name for path in folder.point_file("fast", 1).parent.iterdir()] == ["point.json"]


def test_a_folder_of_something_else_is_told(tmp_path: Path) -> None:
    folder = KernelFolder(tmp_path)
    assert not folder.exists()
    assert folder.points() == ()
    with pytest.raises(RunFolderError, match="not a layer sweep's folder"):
        folder.read_run()
    (tmp_path / RUN_FILE).write_text('{"engine": "sglang"}')
    with pytest.raises(RunFolderError, match="not a readable KernelRun"):
        folder.read_run()


def test_a_folder_is_a_layer_sweeps_own(tmp_path: Path) -> None:
    for name in ("new", "empty", "begun", "killed early"):
        folder = KernelFolder(tmp_path / name)
        if name == "empty":
            folder.path.mkdir()
        elif name == "begun":
            _written(folder.path)
            (folder.path / "notes.txt").write_text("mine")
        elif name == "killed early":
            folder.log_file("oracle").parent.mkdir(parents=True)
            folder.write_point(point())
        folder.check_own()


@pytest.mark.parametrize("name", ["run.toml", "thesis.tex", "launches"])
def test_a_folder_with_other_files_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(RunFolderError, match=f"no layer sweep's .*{name}"):
        KernelFolder(tmp_path).check_own()
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="not a folder"):
        KernelFolder(tmp_path / "file").check_own()


def test_a_point_in_anothers_place_is_told(tmp_path: Path) -> None:
    folder = _written(tmp_path)
    for backend, tokens in (("copy", 1), ("fast", 2)):
        place = folder.point_file(backend, tokens)
        place.parent.mkdir(parents=True)
        place.write_bytes(folder.point_file("fast", 1).read_bytes())
        with pytest.raises(RunFolderError, match="its content belongs elsewhere"):
            folder.points()
        place.unlink()
    assert len(folder.points()) == 3


def test_what_lies_beside_the_points_is_left_alone(tmp_path: Path) -> None:
    """A half-written temporary file, notes, an empty folder."""
    folder = _written(tmp_path)
    beside = folder.point_file("fast", 1).parent
    (beside / ".point.json.abc").write_text("{")
    (beside / "notes.txt").write_text("?")
    (tmp_path / "points/empty/t00001").mkdir(parents=True)
    assert len(folder.points()) == 3


@pytest.mark.parametrize("record", [RUN_FILE, "points/fast/t00001/point.json"])
@pytest.mark.parametrize("more", [{}, {"invented_later": 1}])
def test_another_schema_is_told_as_one(record: str, more: dict[str, int], tmp_path: Path) -> None:
    """Even where it has fields that this one lacks: to delete it would be wrong."""
    folder = _written(tmp_path)
    path = tmp_path / record
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 2} | more))
    with pytest.raises(RunFolderError, match="schema_version is 2, this release reads 1"):
        folder.read_run() if record == RUN_FILE else folder.points()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"schema_version": "1"}',
        b'{"schema_version": 1e400}',
        b'{"schema_version": ' + b"9" * 5000 + b"}",
        b"{}",
    ],
)
def test_an_unreadable_record_is_told_with_its_file(content: bytes, tmp_path: Path) -> None:
    folder = _written(tmp_path)
    path = folder.point_file("fast", 1)
    path.write_bytes(content)
    with pytest.raises(RunFolderError, match=r"measure again|use the release") as caught:
        folder.points()
    assert str(path) in str(caught.value)


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    folder = _written(tmp_path)
    path = folder.point_file("fast", 1)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RunFolderError, match="not a readable KernelPoint"):
        folder.points()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=3,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(sorted(json.loads(encoded(point())))), value=_VALUES)
def test_any_value_in_a_record_is_read_or_told(key: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "point.json"
    path.write_text(json.dumps(json.loads(encoded(point())) | {key: value}))
    try:
        assert isinstance(read_record(path, KernelPoint), KernelPoint)
    except AutotuneError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize("name", _HOSTILE)
def test_a_hostile_backend_name_is_no_path(name: str, tmp_path: Path) -> None:
    folder = KernelFolder(tmp_path)
    for make in (lambda: folder.point_file(name, 1), lambda: folder.log_file(name)):
        with pytest.raises(UsageError, match="can't be used as a name"):
            make()
    with pytest.raises(UsageError, match="can't be used as a name"):
        point(name)
    path = tmp_path / "points/fast/t00001/point.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(json.loads(encoded(point())) | {"backend": name}))
    with pytest.raises(RunFolderError, match="can't be used as a name"):
        folder.points()


@given(st.text())
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    folder = KernelFolder(Path("/runs/one"))
    try:
        paths = (folder.point_file(name, 1), folder.log_file(name))
    except UsageError:
        return
    for path in paths:
        assert Path(os.path.normpath(path)) == path
        assert path.is_relative_to("/runs/one")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = KernelFolder(tmp_path / "file" / "run")
    for write in (lambda: folder.write_run(run()), lambda: folder.write_point(point())):
        with pytest.raises(RunFolderError, match="can't be written"):
            write()


def test_records_of_other_types_are_not_mistaken(tmp_path: Path) -> None:
    path = tmp_path / "point.json"
    path.write_bytes(encoded(run(config(seed=1))))
    assert read_record(path, KernelRun).config.seed == 1
    with pytest.raises(RunFolderError, match="not a readable KernelPoint"):
        read_record(path, KernelPoint)
