"""Two values side by side, leaf by leaf: which fields differ, and from what to what. Pure."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from autotune.review.diff_schema import Change

_Item = TypeVar("_Item")

# A record is never nested deeper; a hostile environment.json may be.
_DEEPEST = 12


def changes(old: Any, new: Any) -> tuple[Change, ...]:
    """Return every leaf that differs between two structs or mappings, in the order of the fields.

    Mappings are compared key by key, lists as one value. ``None`` for a side means that it isn't
    there: then all that the other one says is a change, except for what it leaves empty.
    """
    return tuple(_changes(_plain(old), _plain(new), ""))


def paired(
    old: Iterable[_Item], new: Iterable[_Item], *, by: Any
) -> Iterator[tuple[Hashable, _Item | None, _Item | None]]:
    """Yield the items of both sides that share what ``by`` says of them, and those without a mate.

    In the new side's order, what only the old one has comes after. An item that is listed twice
    is another item the second time.
    """
    before, after = _numbered(old, by), _numbered(new, by)
    for name in [*after, *(name for name in before if name not in after)]:
        yield name[0], before.get(name), after.get(name)


def added_and_removed(
    old: Iterable[_Item], new: Iterable[_Item]
) -> tuple[tuple[_Item, ...], tuple[_Item, ...]]:
    """Return what only the new side lists, and what only the old side does."""
    pairs = list(paired(old, new, by=lambda item: item))
    return (
        tuple(after for _, before, after in pairs if before is None and after is not None),
        tuple(before for _, before, after in pairs if after is None and before is not None),
    )


def _numbered(items: Iterable[_Item], by: Any) -> dict[tuple[Hashable, int], _Item]:
    found: dict[tuple[Hashable, int], _Item] = {}
    for item in items:
        name, number = by(item), 0
        while (name, number) in found:
            number += 1
        found[name, number] = item
    return found


def _changes(old: Any, new: Any, name: str, *, depth: int = 0) -> Iterator[Change]:
    if _nests(old, new) and depth < _DEEPEST:
        before, after = old or {}, new or {}
        for key in dict.fromkeys((*after, *before)):
            inner = f"{name}.{key}" if name else str(key)
            yield from _changes(before.get(key), after.get(key), inner, depth=depth + 1)
    elif old != new and not (_says_nothing(old) and _says_nothing(new)):
        yield Change(what=name, old=old, new=new)


def _nests(old: Any, new: Any) -> bool:
    """Whether both are tables, or one is and the other isn't there."""
    there = [value for value in (old, new) if value is not None]
    return bool(there) and all(isinstance(value, Mapping) for value in there)


def _says_nothing(value: Any) -> bool:
    return value is None or value == []


def _plain(value: Any) -> Any:
    """The value as it would be read from JSON: tables and lists only."""
    return {} if value is None else msgspec.json.decode(msgspec.json.encode(value))
