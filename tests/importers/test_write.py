"""An import is a whole run folder or none."""

from pathlib import Path

import pytest

from autotune.errors import InputError, RunFolderError
from autotune.importers import Imported, import_tidy, write_import
from autotune.records.folder import RunFolder, load_records
from tests.importers.builders import CREATED_AT, ORIGIN, options


@pytest.fixture
def imported() -> Imported:
    return import_tidy(ORIGIN, options(), created_at=CREATED_AT)


def test_the_folder_holds_the_records_and_the_source(tmp_path: Path, imported: Imported) -> None:
    folder = tmp_path / "results" / "origin"
    assert write_import(imported, folder=folder)
    assert load_records(folder) == imported.run
    assert (folder / "source.csv").read_bytes() == ORIGIN.read_bytes()
    assert folder.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in folder.parent.iterdir()] == ["origin"]


def test_the_same_import_again_changes_nothing(tmp_path: Path, imported: Imported) -> None:
    folder = tmp_path / "origin"
    write_import(imported, folder=folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    later = import_tidy(ORIGIN, options(), created_at="2027-01-01T00:00:00+00:00")
    assert not write_import(later, folder=folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert load_records(folder).run.created_at == CREATED_AT


def test_another_import_is_refused(tmp_path: Path, imported: Imported) -> None:
    folder = tmp_path / "origin"
    write_import(imported, folder=folder)
    other = import_tidy(ORIGIN, options(tp=4), created_at=CREATED_AT)
    with pytest.raises(RunFolderError, match="origin: exists and holds something else"):
        write_import(other, folder=folder)
    assert load_records(folder) == imported.run


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_in_the_way_is_left_alone(tmp_path: Path, imported: Imported, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("mine")
    elif kind == "folder":
        place.mkdir()
        (place / "mine").write_text("mine")
    else:
        place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunFolderError, match="place: exists"):
        write_import(imported, folder=place)
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


def test_an_empty_folder_may_be_filled(tmp_path: Path, imported: Imported) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    assert write_import(imported, folder=folder)
    assert load_records(folder) == imported.run


def test_nothing_remains_of_a_write_that_failed(
    tmp_path: Path, imported: Imported, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: RunFolder, record: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "write_run", fail)
    with pytest.raises(KeyboardInterrupt):
        write_import(imported, folder=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source.csv"
    source.write_bytes(ORIGIN.read_bytes())
    imported = import_tidy(source, options(), created_at=CREATED_AT)
    source.write_bytes(ORIGIN.read_bytes() + b"\n")
    with pytest.raises(InputError, match="was changed"):
        write_import(imported, folder=tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["source.csv"]


def test_a_folder_below_a_file_is_refused(tmp_path: Path, imported: Imported) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="can't be written"):
        write_import(imported, folder=tmp_path / "file" / "run")
