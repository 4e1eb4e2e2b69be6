"""Whether the backends that an entry names are still among the engine's."""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from autotune.decisions.request import AUTO
from autotune.decisions.schema import Entry
from autotune.records.folder import CONFIG_FILE, read_whole
from autotune.review.findings import Issue, Place, entry_place

# Engine -> its backends, None where nobody knows them.
Backends = Callable[[str], frozenset[str] | None]


def check_backends(
    entry: Entry, index: int, *, backends: Backends, run: Path | None
) -> Iterator[Issue]:
    """Tell of backends that the engine doesn't have any more: of the choice, and of others.

    Args:
        entry: the file's entry number ``index``, counted from 0.
        index: see ``entry``.
        backends: what engines have.
        run: the evidence's run folder, whose config may name backends that only its installation
            has (``engine.extra_backends``); ``None`` where there is none.
    """
    engine = entry.scope.engine
    known = backends(engine)
    if known is None:
        said = f"engine {engine} isn't known here, so nothing tells whether its backends still are"
        yield _issue("note", said, "", entry_place(index, "scope", "engine"))
        return
    extra = _extra_backends(run) if run is not None else frozenset()
    chosen = entry.choice.backend
    place = entry_place(index, "choice", "backend")
    if chosen in extra and chosen not in known:
        said = f"{chosen} is one of its installation's own backends (engine.extra_backends)"
        yield _issue("note", said, "", place)
    elif chosen not in known:
        said = f"{chosen} isn't among the backends that {engine} is known to have"
        remedy = "measure again with those that it has; if it has it, the catalog is behind"
        yield _issue("stale", said, remedy, place)
    others = {row.backend for row in entry.evidence.rows}
    others |= {candidate.backend for candidate in entry.evidence.rejected}
    gone = sorted(others - known - extra - {chosen, AUTO})
    if gone:
        said = f"among the other candidates, {engine} isn't known to have {', '.join(gone)}"
        yield _issue("note", said, "", entry_place(index, "evidence", "rows"))


def _extra_backends(run: Path) -> frozenset[str]:
    try:
        config = tomllib.loads(read_whole(run / CONFIG_FILE).decode())
    except (OSError, ValueError, RecursionError):
        return frozenset()
    engine = config.get("engine")
    listed = engine.get("extra_backends") if isinstance(engine, dict) else None
    names = listed if isinstance(listed, list) else []
    return frozenset(name for name in names if isinstance(name, str))


def _issue(level: str, message: str, remedy: str, place: Place) -> Issue:
    return Issue(
        level="stale" if level == "stale" else "note",
        code="backend",
        message=message,
        remedy=remedy,
        place=place,
    )
