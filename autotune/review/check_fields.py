"""In which fields two entries differ: what a file says, and what its evidence says. Pure.

Figures are the same up to the last digits that another platform's mathematics library may round
otherwise; everything else has to be equal.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

import msgspec

from autotune.decisions.schema import Entry
from autotune.review.findings import Place

RELATIVE_TOLERANCE = 1e-9
_ABSOLUTE_TOLERANCE = 1e-12
_SHOWN = 140
_BEFORE_THE_DIFFERENCE = 40
_ABSENT = object()


class Difference(msgspec.Struct, frozen=True):
    """A field inside an entry, with both sides' values as short JSON texts."""

    place: Place
    file_says: str
    evidence_says: str


def differences(stated: Entry, derived: Entry) -> tuple[Difference, ...]:
    """Return every field in which an entry differs from the one that its evidence gives.

    Left out are the evidence's ``tables`` and ``accepted``, which have checks of their own.
    """
    mine, theirs = _plain(stated), _plain(derived)
    parts = ("scope", "choice", "evidence")
    return tuple(one for part in parts for one in _compare(mine[part], theirs[part], (part,)))


def same_number(one: float, other: float) -> bool:
    """Whether two figures are the same but for rounding in the last digits."""
    return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=_ABSOLUTE_TOLERANCE)


def _plain(entry: Entry) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(entry)
    for name in ("tables", "accepted"):
        del plain["evidence"][name]
    return plain


def _compare(stated: Any, derived: Any, place: Place) -> Iterator[Difference]:
    if isinstance(stated, dict) and isinstance(derived, dict):
        for key in sorted({*stated, *derived}):
            values = stated.get(key, _ABSENT), derived.get(key, _ABSENT)
            yield from _compare(*values, (*place, key))
    elif isinstance(stated, list | tuple) and isinstance(derived, list | tuple):
        if len(stated) != len(derived):
            yield Difference(place, _counted(len(stated)), _counted(len(derived)))
            return
        for index, pair in enumerate(zip(stated, derived, strict=True)):
            yield from _compare(*pair, (*place, index))
    elif isinstance(stated, float) and isinstance(derived, float):
        if not same_number(stated, derived):
            yield Difference(place, *_both(stated, derived))
    elif stated != derived:
        yield Difference(place, *_both(stated, derived))


def _counted(number: int) -> str:
    return f"{number} of them"


def _both(stated: Any, derived: Any) -> tuple[str, str]:
    """Both values as text; of two long ones, the part in which they begin to differ."""
    start = 0
    if isinstance(stated, str) and isinstance(derived, str):
        pairs = zip(stated, derived, strict=False)
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(stated), len(derived)))
        start = max(0, same - _BEFORE_THE_DIFFERENCE)
    return _text(stated, start), _text(derived, start)


def _text(value: Any, start: int) -> str:
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, str):
        part = ("..." if start else "") + value[start : start + _SHOWN]
        return json.dumps(part + ("..." if len(value) > start + _SHOWN else ""))
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
