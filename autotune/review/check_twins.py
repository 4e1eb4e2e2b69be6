"""Two decisions for one key: in two folders, or one's own and one lent by another arch. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from autotune.decide.entry import scope_identity
from autotune.decisions.resolution import printable
from autotune.decisions.schema import DecisionFile, Entry
from autotune.review.findings import Issue, entry_place


@dataclass(frozen=True)
class Placed:
    """A decision file that can be read, and where it lies."""

    path: str
    decision: DecisionFile


@dataclass(frozen=True)
class _Offer:
    """An entry as a server on ``arch`` may meet it."""

    placed: Placed
    index: int
    entry: Entry
    lent: bool


def check_keys(files: Sequence[Placed]) -> Iterator[tuple[Placed, Issue]]:
    """Tell of files for a key that an earlier folder has a file for."""
    first: dict[object, Placed] = {}
    for placed in files:
        other = first.setdefault(placed.decision.key, placed)
        if other is not placed:
            yield (
                placed,
                Issue(
                    level="wrong",
                    code="two_files",
                    message=f"{printable(other.path)} is for the same key: servers take the first",
                    remedy="keep one; folders that no server searches together are checked apart",
                    place=("key",),
                ),
            )


def check_lending(files: Sequence[Placed]) -> Iterator[tuple[Placed, Issue]]:
    """Tell of entries that are lent (``also_arch``) to an arch that has one for that scope.

    Where both choose the same, the arch's own is used and nothing is wrong. Where they don't,
    somebody said that a choice holds there which was found not to.
    """
    offers: dict[tuple[str, str, str, bytes], list[_Offer]] = {}
    for placed in files:
        key = placed.decision.key
        for index, entry in enumerate(placed.decision.entries):
            for arch in dict.fromkeys((key.arch, *entry.scope.also_arch)):
                scope = (key.model, key.quantization, arch, _any_device(entry))
                offer = _Offer(placed, index, entry, arch != key.arch)
                offers.setdefault(scope, []).append(offer)
    for (_, _, arch, _), found in offers.items():
        first, *others = sorted(found, key=lambda offer: offer.lent)
        for offer in others:
            # What isn't lent is `check_keys`' business, and what is in one file `check_schema`'s.
            if offer.lent and offer.placed is not first.placed:
                yield offer.placed, _overlap(offer, first, arch)


def _overlap(offer: _Offer, other: _Offer, arch: str) -> Issue:
    mine, theirs = offer.entry.choice.backend, other.entry.choice.backend
    where = f"{printable(other.placed.path)}#{other.index}"
    how = "lent to it too" if other.lent else "its own"
    said = f"is lent to {arch} (also_arch), for which {where} is {how} in this scope"
    place = entry_place(offer.index, "scope", "also_arch")
    if mine == theirs:
        return Issue(level="note", code="lent_twice", message=f"{said}", place=place)
    return Issue(
        level="wrong",
        code="lent_twice",
        message=f"{said}, and chooses {theirs} instead of {mine}",
        remedy=f"make this decision again without {arch} in also_arch",
        place=place,
    )


def _any_device(entry: Entry) -> bytes:
    """The scope without its device: another arch is always another device."""
    return scope_identity(msgspec.structs.replace(entry.scope, device_name=None, device_count=None))
