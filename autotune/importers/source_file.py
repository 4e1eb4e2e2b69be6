"""The bytes of a file somebody gave us, whatever it is: size, encoding, a look at its beginning."""

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path

from autotune.decisions import one_line
from autotune.errors import InputError

LARGEST_FILE = 64 * 2**20
_HEAD = 256 * 2**10
_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class SourceText:
    """A text file as it was read once. ``where`` is its name for messages."""

    where: str
    text: str
    sha256: str

    def error(self, line: int | None, problem: str) -> InputError:
        """Return the error that says what is wrong in ``line``, or in the file as a whole."""
        place = self.where if line is None else f"{self.where}, line {line}"
        return InputError(f"{place}: {problem}")


def read_text(path: Path, *, where: str | None = None, largest: int = LARGEST_FILE) -> SourceText:
    """Read a file of UTF-8 text, with or without a byte order mark.

    Args:
        path: the file.
        where: its name for messages; its path if not given.
        largest: bytes that it may hold at most.

    Raises:
        InputError: missing, not a regular file, over ``largest``, empty, or not UTF-8.
    """
    where = one_line(str(path)) if where is None else where
    data = _read(path, where=where, largest=largest)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{where}, line {line}: not text in UTF-8 (byte {error.start}): is it another file?"
        ) from None
    return SourceText(where=where, text=text, sha256=hashlib.sha256(data).hexdigest())


def head(path: Path) -> str:
    """Return the beginning of a regular file, at most 256 KiB, for a look at what it is.

    Bytes that aren't UTF-8 are replaced; a folder gives an empty text.

    Raises:
        InputError: missing or unreadable, or neither a file nor a folder.
    """
    where = one_line(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return ""
        if not stat.S_ISREG(mode):
            raise InputError(f"{where}: not a regular file: save the results to a file first")
        with path.open("rb") as file:
            return file.read(_HEAD).decode("utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise InputError(f"{where}: no such file or folder") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{where}: can't be read: {_reason(error)}") from None


def describe_content(path: Path) -> str:
    """Say in a few printable words what a file or folder seems to hold, for a message."""
    if path.is_dir():
        names = sorted(each.name for each in path.iterdir())[:4]
        listed = ", ".join(one_line(name, limit=_SHOWN) for name in names)
        return f"a folder with {listed}" if names else "an empty folder"
    text = head(path).strip()
    if not text:
        return "an empty file"
    return f"it begins with {one_line(text[:200], limit=_SHOWN)!r}"


def _read(path: Path, *, where: str, largest: int) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{where}: a folder: name the file in it")
        if not stat.S_ISREG(mode):
            raise InputError(f"{where}: not a regular file: save the results to a file first")
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except FileNotFoundError:
        raise InputError(f"{where}: no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{where}: can't be read: {_reason(error)}") from None
    if len(data) > largest:
        raise InputError(
            f"{where}: over {largest // 2**20} MiB: import results without the details of each "
            "request, or check whether it's another file"
        )
    if not data.strip():
        raise InputError(f"{where}: empty: nothing to import")
    return data


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or one_line(str(error))
