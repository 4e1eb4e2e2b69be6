"""What `autotune check` has to tell of a file: as data, and where in the file it is.

A check yields issues; `locate` makes findings of them. How they are printed is `check_print`'s.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from autotune.decisions.resolution import one_line, printable

Level = Literal["ok", "note", "stale", "wrong"]
# Where something is in a JSON file: keys and indices from the outside in.
Place = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class Issue:
    """Something found, before it is known in which line it stands.

    ``place`` is where in the file; its first parts (``"entries", 0``) say which entry it is
    about. ``line`` is given where no place can tell it. ``message`` says what is wrong, ``remedy``
    what to do about it, empty where nothing has to be done or the message says it.
    """

    level: Level
    code: str
    message: str
    remedy: str = ""
    place: Place = ()
    line: int | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a check: printable text only.

    ``entry`` counts a file's entries from 0, as they stand in it; ``None`` where the whole file
    is meant. ``line`` counts from 1, ``None`` where no line is to blame.
    """

    level: Level
    code: str
    path: str
    message: str
    remedy: str = ""
    entry: int | None = None
    line: int | None = None


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found: ``checked`` counts the decisions (entries), good ones too."""

    findings: tuple[Finding, ...]
    checked: int

    def count(self, level: Level) -> int:
        """How many findings of this level there are."""
        return sum(1 for finding in self.findings if finding.level == level)


def entry_place(index: int, *inner: str | int) -> Place:
    """The place of something in the file's entry number ``index``, counted from 0."""
    return ("entries", index, *inner)


def entry_of_place(place: Place) -> int | None:
    """Return which entry a place is in, ``None`` where it is in none."""
    match place:
        case ("entries", int(index), *_):
            return index
    return None


def locate(issue: Issue, path: str, *, lines: Mapping[Place, int]) -> Finding:
    """Return the issue as a finding of the file ``path``.

    The line is that of the place, or of the nearest one around it that ``lines`` knows.
    """
    place = issue.place
    while place and place not in lines:
        place = place[:-1]
    return Finding(
        level=issue.level,
        code=issue.code,
        path=printable(path),
        message=one_line(issue.message),
        remedy=one_line(issue.remedy),
        entry=entry_of_place(issue.place),
        line=issue.line if issue.line is not None else lines.get(place),
    )


def shown(place: Place) -> str:
    """Return a place inside an entry as text: ``choice.winners[2].interval``."""
    inner = place[2:] if entry_of_place(place) is not None else place
    text = ""
    for part in inner:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")
