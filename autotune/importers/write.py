"""An import as a run folder: all of it or nothing."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import msgspec

from autotune.errors import InputError, RunFolderError
from autotune.importers.schema import Imported
from autotune.records.folder import RunFolder, load_records, sha256_of, write_atomically

SOURCE_FILE = "source.csv"


def write_import(imported: Imported, *, source: Path, folder: Path) -> bool:
    """Write a new run folder: the records and a copy of the source, byte for byte.

    It is built beside its place and renamed, so that a folder holds a whole import or isn't
    there. Where ``folder`` holds this very import already (another time of import apart),
    nothing is done.

    Returns:
        Whether anything was written.

    Raises:
        RunFolderError: ``folder`` exists and holds anything else, or can't be written.
        InputError: ``source`` isn't what was imported any more.
    """
    folder = Path(os.path.abspath(folder))
    if _holds(folder, imported):
        return False
    _check_free(folder)
    building: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        building.chmod(0o755)
        _fill(building, imported, source=source)
        # The system refuses this where a folder with content came up in the meantime.
        os.rename(building, folder)
        building = None
    except OSError as error:
        raise RunFolderError(
            f"{folder}: can't be written ({error.strerror}): free space or choose another "
            "folder with --run"
        ) from error
    finally:
        if building is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(building)
    return True


def _fill(path: Path, imported: Imported, *, source: Path) -> None:
    folder = RunFolder(path)
    write_atomically(path / SOURCE_FILE, source.read_bytes())
    if sha256_of(path / SOURCE_FILE) != imported.source_sha256:
        raise InputError(f"{source}: was changed while it was imported: import it again")
    for point in imported.run.points:
        folder.write_point(point)
    folder.write_run(imported.run.run)


def _check_free(folder: Path) -> None:
    if not os.path.lexists(folder):
        return
    try:
        empty = folder.is_dir() and not any(folder.iterdir())
    except OSError:
        empty = False
    if not empty:
        raise RunFolderError(
            f"{folder}: exists and holds something else than this import: choose another "
            "folder with --run, or remove it first"
        )


def _holds(folder: Path, imported: Imported) -> bool:
    """Whether the folder is this import: same records, same source; the time doesn't matter."""
    try:
        if sha256_of(folder / SOURCE_FILE) != imported.source_sha256:
            return False
        there = load_records(folder)
    except (OSError, RunFolderError):
        return False
    run = msgspec.structs.replace(there.run, created_at=imported.run.run.created_at)
    return msgspec.structs.replace(there, run=run) == imported.run
