"""Where the run folder keeps a copy of each file that was read, whatever the file is called."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from autotune.decisions import one_line
from autotune.errors import InputError
from autotune.importers.reading import Readings
from autotune.importers.schema import SOURCE_FOLDER, SourceFile

_LONGEST_PART = 200


def source_files(sources: Sequence[tuple[Path, Readings]]) -> tuple[SourceFile, ...]:
    """Name the copies: ``source/<name>``, and ``source/<n>/<name>`` where two files share a name.

    Raises:
        InputError: a name would leave the folder, or can't be written everywhere.
    """
    names = [name for _, each in sources for name in each.files]
    apart = len({name.casefold() for name in names}) < len(names)
    found = []
    for number, (path, each) in enumerate(sources, start=1):
        for name, sha256 in each.files.items():
            _check_name(name, where=each.where)
            parts = (SOURCE_FOLDER, str(number), name) if apart else (SOURCE_FOLDER, name)
            at = path / name if path.is_dir() else path
            found.append(SourceFile(name="/".join(parts), path=at, sha256=sha256))
    return tuple(found)


def _check_name(name: str, *, where: str) -> None:
    parts = name.split("/")
    good = PurePosixPath(name).as_posix() == name and all(
        part not in ("", ".", "..")
        and part.isprintable()
        and "\\" not in part
        and len(part.encode("utf-8", "surrogateescape")) <= _LONGEST_PART
        for part in parts
    )
    if not good:
        raise InputError(
            f"{where}: the file name {one_line(name, limit=80)!r} can't be kept in a run folder: "
            "rename it"
        )
