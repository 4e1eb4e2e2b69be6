"""What ``autotune show`` is given, read: a decision file or a run folder. Nothing is written."""

from pathlib import Path

import msgspec

from autotune.decisions.schema import DecisionFile, decode
from autotune.errors import InputError
from autotune.judged import Judged, read_judged
from autotune.records.folder import read_whole


class ShownDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision file and where it lies."""

    path: str
    kind: str
    decision: DecisionFile


def read_shown(path: Path) -> ShownDecision | Judged:
    """Read what is to be shown: a folder is a run, a file is a decision.

    Raises:
        InputError: there is no such path, or it can't be read.
        DecisionFileError: a file that is no decision, or one of another schema version.
        RunFolderError: a folder that is no run, or with a record that can't be read.
    """
    if path.is_dir():
        return read_judged(path)
    try:
        data = read_whole(path)
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file or folder: name a decision file or a run folder; "
            "`autotune list` finds them"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from None
    return ShownDecision(path=str(path), kind="decision", decision=decode(data, where=str(path)))
