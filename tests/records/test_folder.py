"""Reading a run folder back: damaged or misplaced records are named, never trusted."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from autotune.errors import RunFolderError
from autotune.records.folder import RunFolder, load_records, read_whole
from autotune.records.schema import ScoredContinuation
from tests.probe.builders import Asked, answer, record, sweep
from tests.records.builders import make_run


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = make_run(rounds=1)
    folder = RunFolder(tmp_path / "run")
    folder.write_run(run.run)
    for launch in run.launches:
        folder.write_launch(launch)
    for point in run.points:
        folder.write_point(point)
    return folder


def a_point(folder: RunFolder) -> Path:
    return min(folder.path.rglob("point.json"))


def test_what_was_written_is_read(folder: RunFolder) -> None:
    loaded = load_records(folder.path)
    assert loaded.run == make_run(rounds=1).run
    assert set(loaded.points) == set(make_run(rounds=1).points)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_damaged_record_is_named(folder: RunFolder, content: bytes) -> None:
    path = a_point(folder)
    path.write_bytes(content)
    with pytest.raises(RunFolderError, match="not a readable record") as caught:
        load_records(folder.path)
    assert str(path) in str(caught.value)


def test_a_record_in_anothers_place_is_refused(folder: RunFolder) -> None:
    point = a_point(folder).parent
    shutil.copytree(point, point.with_name("c9999"))
    with pytest.raises(RunFolderError, match="its content belongs to"):
        load_records(folder.path)


def test_a_pipe_is_no_record(folder: RunFolder) -> None:
    path = a_point(folder)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RunFolderError, match="not a regular file"):
        load_records(folder.path)


def test_another_schema_is_refused(folder: RunFolder) -> None:
    folder.write_run(msgspec.structs.replace(folder.read_run(), schema_version=2))
    with pytest.raises(RunFolderError, match="schema_version is 2"):
        load_records(folder.path)


def test_nothing_partial_is_left_where_writing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="can't be written"):
        RunFolder(tmp_path / "file").write_run(make_run(rounds=1).run)


def test_only_regular_files_are_read_whole(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        read_whole(Path("/dev/zero"))


def test_a_launchs_and_its_points_probes_are_read_in_order(folder: RunFolder) -> None:
    written = sweep(ladder=(1, 4))
    for probe in reversed(written):
        folder.write_probe(probe)
    found = folder.probes()
    assert {(p.candidate, p.round, p.concurrency): p for p in found} == {
        (p.candidate, p.round, p.concurrency): p for p in written
    }
    places = [(p.round, p.candidate, p.concurrency or 0) for p in found]
    assert places == sorted(places) and len(places) == len(written)
    assert places[:3] == [(0, "ref", 0), (0, "ref", 1), (0, "ref", 4)]
    assert folder.read_probe("ref", 0) == found[0]
    assert folder.read_probe("x", 0) is None
    assert folder.load_probe_file("ref", 0, 4).is_file()


def test_whatever_a_server_said_is_read_back(folder: RunFolder) -> None:
    asked = Asked("capital", "load", 4, 1, 0)
    odd = answer(asked, "\x1b[2J\x00\ufffd\u202e né", reasoning="日本", nan_marked=True)
    score = ScoredContinuation(
        prompt="capital",
        mode="crowd",
        repeat=1,
        outcome="ok",
        log_probabilities=(-0.5, None),
        top_token_ids=(None, 3),
    )
    probe = msgspec.structs.replace(record("x", [asked], lambda _: odd), scores=(score,))
    folder.write_probe(probe)
    assert folder.read_probe("x", 1) == probe


def test_a_points_probe_in_the_launchs_place_is_refused(folder: RunFolder) -> None:
    launched, loaded, *_ = sweep(ladder=(1,))
    folder.write_probe(launched)
    folder.write_probe(loaded)
    shutil.copyfile(folder.load_probe_file("ref", 0, 1), folder.probe_file("ref", 0))
    with pytest.raises(RunFolderError, match="its content belongs to"):
        folder.probes()
