"""Whether an entry is too old, by the engine's version or by its date."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime

from autotune.decisions.request import ResolveRequest
from autotune.decisions.schema import Entry
from autotune.decisions.scope import Finding

_RELEASE = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?!\d)", re.ASCII)


def freshness(entry: Entry, request: ResolveRequest) -> Iterator[Finding]:
    """Yield what is to be said of the entry's age: nothing where it is fresh and known to be."""
    # Versions of two engines say nothing about one another: `scope.compare` has the reason then.
    if request.engine in (None, entry.scope.engine):
        yield from _version(entry.scope.engine_version, request.engine_version)
    yield from _age(entry.evidence.measured_at, request)


def utc_day(text: str) -> date | None:
    """Return the UTC day of an ISO date or time (as UTC where it names no zone), else ``None``."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment.astimezone(UTC) if moment.tzinfo else moment).date()
    except (ValueError, OverflowError):
        return None


def release(version: str) -> tuple[int, int] | None:
    """Return (major, minor), ``None`` where ``version`` doesn't start with them."""
    match = _RELEASE.match(version)
    return (int(match[1]), int(match[2])) if match else None


def _version(measured: str | None, asked: str | None) -> Iterator[Finding]:
    if measured is None:
        yield Finding("unrecorded", "engine_version")
    elif asked is None:
        yield Finding("assumed", f"engine_version={measured}")
    elif measured != asked:
        yield _version_difference(measured, asked)


def _version_difference(measured: str, asked: str) -> Finding:
    told = f"the engine is version {asked}, measured with {measured}"
    before, now = release(measured), release(asked)
    if before is None or now is None:
        return Finding("stale", f"{told}: they can't be compared")
    if now > before:
        return Finding("stale", f"{told}: measure again")
    if now < before:
        return Finding("hard", f"{told}: an older engine may not have the backend")
    return Finding("soft", told)


def _age(measured_at: str, request: ResolveRequest) -> Iterator[Finding]:
    day = utc_day(measured_at)
    if day is None:
        yield Finding(
            "soft" if request.max_age_days is None else "stale",
            f"measured_at {measured_at[:40]!r} isn't a date, so its age is unknown",
        )
    elif request.today is not None:
        days = (request.today - day).days
        if request.max_age_days is not None and days > request.max_age_days:
            yield Finding("stale", f"measured {days} days ago, the limit is {request.max_age_days}")
        # A day of grace: the machine that measured may lie in another time zone.
        elif days < -1:
            yield Finding("soft", f"measured on {day}, which is yet to come: check the clock")
