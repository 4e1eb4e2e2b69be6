"""Whether a checked-in entry is still fresh: by versions, and by its age. Pure.

Stricter than what a server asks at its start (`autotune.decisions.freshness`): there a patch
release is a warning, since a server has to start with something; here somebody can measure again.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

import msgspec
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from autotune.decide.entry import scope_identity
from autotune.decisions.freshness import utc_day
from autotune.decisions.schema import Entry
from autotune.review.findings import Issue, Place, entry_place

_AGAIN = "measure again, or say with --version {name}={measured} that it is what you run"


class KnownVersion(msgspec.Struct, frozen=True):
    """A version that is known to be about, and how: ``installed here``, ``given``, ..."""

    version: str
    source: str


# Versions by name; an engine goes by its distribution's name, as a kernel library does.
KnownVersions = Mapping[str, Sequence[KnownVersion]]


def known_name(engine_or_library: str) -> str:
    """Return the name under which versions are known, a distribution's: ``tensorrt-llm``."""
    return canonicalize_name(engine_or_library)


def superseded_by(index: int, entries: Sequence[Entry]) -> int | None:
    """Return the entry that measured the same with a newer engine, ``None`` where none did.

    Servers that still run the older release keep the older entry; nobody has to renew it.
    """
    mine = _parsed(entries[index].scope.engine_version)
    if mine is None:
        return None
    same = _whatever_release(entries[index])
    for other, entry in enumerate(entries):
        theirs = _parsed(entry.scope.engine_version)
        if theirs is not None and theirs > mine and _whatever_release(entry) == same:
            return other
    return None


def check_versions(entry: Entry, index: int, known: KnownVersions) -> Iterator[Issue]:
    """Tell of the engine and of each recorded kernel library what newer versions are about."""
    scope = entry.scope
    place = entry_place(index, "scope", "engine_version")
    if scope.engine_version is None:
        yield _note(
            "version_unrecorded",
            f"{scope.engine}'s version isn't recorded, so nothing tells when it is too old",
            place,
        )
    else:
        name = known_name(scope.engine)
        yield from _compare(name, scope.engine_version, known.get(name, ()), place)
    place = entry_place(index, "scope", "kernel_libraries")
    if not scope.kernel_libraries:
        yield _note("version_unrecorded", "no kernel library's version is recorded", place)
    for name, measured in sorted(scope.kernel_libraries.items()):
        here = known.get(known_name(name), ())
        yield from _compare(name, measured, here, (*place, name))


def check_age(
    entry: Entry, index: int, *, today: date, max_age_days: int | None
) -> Iterator[Issue]:
    """Tell whether an entry is older than a limit, or from the future."""
    place = entry_place(index, "evidence", "measured_at")
    day = utc_day(entry.evidence.measured_at)
    if day is None:
        said = f"measured_at {entry.evidence.measured_at!a:.60} is no date, so its age is unknown"
        yield Issue(
            level="wrong", code="age", message=said, remedy="decide from the run again", place=place
        )
        return
    days = (today - day).days
    if max_age_days is not None and days > max_age_days:
        said = f"measured {days} days ago ({day}), the limit is {max_age_days}"
        yield Issue(level="stale", code="age", message=said, remedy="measure again", place=place)
    # A day of grace: the machine that measured may lie in another time zone.
    elif days < -1:
        yield _note("age", f"measured on {day}, which is yet to come: check the clock", place)


def _compare(
    name: str, measured: str, known: Sequence[KnownVersion], place: Place
) -> Iterator[Issue]:
    newest = sorted((one for one in known if _parsed(one.version)), key=_version_of, reverse=True)
    for one in (*(one for one in known if not _parsed(one.version)), *newest):
        issue = _against(name, measured, one, place)
        if issue is not None:
            yield issue
            return


def _against(name: str, measured: str, known: KnownVersion, place: Place) -> Issue | None:
    told = f"{name} {known.version} ({known.source})"
    mine, theirs = _parsed(measured), _parsed(known.version)
    if mine is None or theirs is None:
        if measured == known.version:
            return None
        said = f"{told} and the measured {measured:.60} can't be compared"
        return _stale(name, measured, said, place)
    # A local label (+cu130) names a build of a release, and orders nothing.
    if Version(theirs.public) > Version(mine.public):
        return _stale(name, measured, f"{told} is newer than the measured {measured:.60}", place)
    if theirs.public == mine.public and theirs.local != mine.local:
        said = f"{told} is another build of the measured release ({measured:.60})"
        return _note("other_build", said, place)
    return None


def _stale(name: str, measured: str, message: str, place: Place) -> Issue:
    remedy = _AGAIN.format(name=name, measured=measured[:60])
    return Issue(level="stale", code="version", message=message, remedy=remedy, place=place)


def _note(code: str, message: str, place: Place) -> Issue:
    return Issue(level="note", code=code, message=message, place=place)


def _version_of(known: KnownVersion) -> Version:
    return Version(known.version)


def _parsed(version: str | None) -> Version | None:
    try:
        return None if version is None else Version(version)
    except InvalidVersion:
        return None


def _whatever_release(entry: Entry) -> bytes:
    return scope_identity(msgspec.structs.replace(entry.scope, engine_version=None))
