"""An import as a run folder: all of it or nothing."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import msgspec

from autotune.decisions import one_line
from autotune.errors import InputError, RunFolderError
from autotune.importers.schema import SOURCE_FOLDER, SOURCE_TABLE, Imported
from autotune.records.folder import RunFolder, load_records, sha256_of, write_atomically


def write_import(imported: Imported, *, folder: Path) -> bool:
    """Write a new run folder: the records and a copy of each source, byte for byte.

    It is built beside its place and renamed, so that a folder holds a whole import or isn't
    there. Where ``folder`` holds this very import already (another time of import apart),
    nothing is done.

    Returns:
        Whether anything was written.

    Raises:
        RunFolderError: ``folder`` exists and holds anything else, or can't be written.
        InputError: a source isn't what was imported any more.
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
        _fill(building, imported)
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


def _fill(path: Path, imported: Imported) -> None:
    folder = RunFolder(path)
    for source in imported.sources:
        write_atomically(path / source.name, source.path.read_bytes())
        if sha256_of(path / source.name) != source.sha256:
            raise InputError(
                f"{one_line(str(source.path))}: was changed while it was imported: import it again"
            )
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
    """Whether the folder is this import: same records, same sources; the time doesn't matter."""
    try:
        if any(sha256_of(folder / each.name) != each.sha256 for each in imported.sources):
            return False
        if sources_in(folder) != sorted(each.name for each in imported.sources):
            return False
        there = load_records(folder)
    except (OSError, RunFolderError):
        return False
    # An earlier release recorded neither hashes nor notes.
    own = imported.run.run
    run = msgspec.structs.replace(
        there.run,
        created_at=own.created_at,
        source_sha256=own.source_sha256,
        import_notes=own.import_notes,
    )
    return msgspec.structs.replace(there, run=run) == imported.run


def sources_in(folder: Path) -> list[str]:
    """Return the names of the sources that a run folder keeps, by its path below the folder."""
    kept = [path for path in (folder / SOURCE_FOLDER).rglob("*") if not path.is_dir()]
    kept += [path for path in [folder / SOURCE_TABLE] if path.exists()]
    return sorted(path.relative_to(folder).as_posix() for path in kept)
