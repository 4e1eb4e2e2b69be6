"""That only one process writes into a run folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.errors import RunFolderError

LOCK_FILE = ".lock"


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a run folder's lock, which the system lets go of however we end.

    Raises:
        RunFolderError: the folder can't be written, or another process holds it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_FILE).open("w")
    except OSError as error:
        raise RunFolderError(
            f"{folder}: can't be written ({error.strerror}): name another folder with --run"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFolderError(
                f"{folder}: another sweep is writing here: wait for it, or name another folder "
                "with --run"
            ) from None
        yield
