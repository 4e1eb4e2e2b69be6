"""Where decision files lie and how one is read: ``<folder>/<arch>/<model>/<quantization>.json``.

A file that can't be used comes back as `Broken`, never as an exception. Only the files for the
key are opened, and only inside the search folders.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import msgspec

from autotune.decisions.arch import family
from autotune.decisions.check import check_decision
from autotune.decisions.schema import DecisionFile, DecisionKey, decode
from autotune.errors import DecisionFileError, UsageError

SEARCH_PATH_VARIABLE = "AUTOTUNE_DECISIONS"
SIZE_LIMIT = 4 * 1024 * 1024


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was read whole; ``shadowed`` are files for the same key in later folders."""

    path: str
    decision: DecisionFile
    shadowed: tuple[str, ...] = ()


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is there and can't be used, and the one sentence that says why."""

    path: str
    reason: str


class Store:
    """Decision folders in search order: the first that has a file for a key wins."""

    __slots__ = ("paths",)

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self.paths: tuple[str, ...] = tuple(dict.fromkeys(os.fspath(path) for path in paths))

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], extra: Sequence[str | os.PathLike[str]] = ()
    ) -> Self:
        """Search ``extra``, then the folders of ``AUTOTUNE_DECISIONS``, then the shipped ones."""
        listed = environ.get(SEARCH_PATH_VARIABLE, "").split(os.pathsep)
        # An empty part would mean the working folder, which nobody meant.
        return cls([*extra, *(path for path in listed if path), *shipped_folders()])

    def find(self, key: DecisionKey) -> Found | Broken | None:
        """Read the first file for ``key``; ``None`` where no folder has one.

        A broken file ends the search: going on would apply another file than the one that
        somebody put first.
        """
        inner = os.path.join(key.arch, key.model, f"{key.quantization}.json")
        holders = [root for root in self.paths if _present(os.path.join(root, inner))]
        if not holders:
            return None
        path, *others = (os.path.join(root, inner) for root in holders)
        try:
            decision = decode(_read_inside(holders[0], path, where=inner), where=inner)
            check_decision(decision, key, where=inner)
        except OSError as error:
            return Broken(path=path, reason=f"{inner}: can't be read: {error.strerror or error}")
        except (DecisionFileError, ValueError) as error:
            return Broken(path=path, reason=str(error))
        shadowed = tuple(other for other in others if not _same(path, other))
        return Found(path=path, decision=decision, shadowed=shadowed)

    def kin(self, key: DecisionKey) -> Iterator[Found | Broken]:
        """Read the files for the same model and quantization on other archs of the family."""
        names = {name for root in self.paths for name in _names(root)}
        for arch in sorted(names - {key.arch}):
            if family(arch) != family(key.arch):
                continue
            try:
                other = DecisionKey(key.model, key.quantization, arch)
            except UsageError:
                continue  # Some other folder: no arch has such a name.
            result = self.find(other)
            if result is not None:
                yield result

    def problems(self) -> Iterator[str]:
        """Yield a sentence for each search folder that can't be searched."""
        for root in self.paths:
            try:
                os.listdir(root)
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                yield f"search folder {root} can't be listed: {why}"


def shipped_folders() -> tuple[str, ...]:
    """Return the folder of the decisions that came with this package, if it has one."""
    here = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(here, "shipped")
    if os.path.isdir(installed):
        return (installed,)
    checkout = os.path.dirname(os.path.dirname(here))
    folder = os.path.join(checkout, "configs", "decisions")
    # Beside an installed package, a folder of that name would be somebody else's.
    is_checkout = os.path.isfile(os.path.join(checkout, "pyproject.toml"))
    return (folder,) if is_checkout and os.path.isdir(folder) else ()


def _present(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True  # It can't be looked at, which isn't the same as absent: reading says why.
    return True


def _same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):
        return False


def _names(root: str) -> list[str]:
    try:
        return os.listdir(root)
    except (OSError, ValueError):
        return []  # `problems` reports it.


def _read_inside(root: str, path: str, *, where: str) -> bytes:
    """Read a regular file of bounded size that really lies inside ``root``.

    Raises:
        DecisionFileError: a link leads outside, it isn't a regular file, or it is too large.
        OSError: it can't be read.
        ValueError: the path can't name a file.
    """
    folder = os.path.realpath(root, strict=True)
    real = os.path.realpath(path, strict=True)
    if os.path.commonpath((folder, real)) != folder:
        raise DecisionFileError(f"{where}: a link leads out of {root}: copy the file instead")
    # Before opening too: opening a device or a pipe can do something.
    _check_status(os.stat(real), where=where)
    descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        _check_status(os.fstat(descriptor), where=where)
        data = file.read(SIZE_LIMIT + 1)
    if len(data) > SIZE_LIMIT:
        raise DecisionFileError(f"{where}: grew past {SIZE_LIMIT} bytes while it was read")
    return data


def _check_status(status: os.stat_result, *, where: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise DecisionFileError(f"{where}: isn't a regular file")
    if status.st_size > SIZE_LIMIT:
        raise DecisionFileError(
            f"{where}: has {status.st_size} bytes, a decision file has at most {SIZE_LIMIT}"
        )
