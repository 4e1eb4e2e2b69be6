"""Which decisions and runs there are, a line each. What can't be read is a line that says so.

Nothing is written, and nothing is judged otherwise than by `autotune.derive`. How the lines look is
`autotune.review.show_listing`.
"""

import datetime
import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from autotune.decide.schema import Judgement
from autotune.decisions.schema import DecisionKey, Entry, Interval, Outcome, Scope, decode
from autotune.decisions.store import Broken, Store
from autotune.derive import measured_at
from autotune.errors import AutotuneError, DecisionFileError, UsageError
from autotune.judged import read_judged
from autotune.records.folder import RUN_FILE, read_whole
from autotune.review.in_step import in_step
from autotune.review.show_judged import Progress, progress_of
from autotune.review.show_words import age_days

Kind = Literal["decision", "run"]
DEFAULT_FOLDERS = (Path("configs/decisions"), Path("results"))
# What a run folder holds beside run.json: one that lost it must not go unnoticed.
_SIGNS_OF_A_RUN = ("run.toml", "launches")


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What to list: globs (``*``, ``?``, ``[...]``) that must match whole, case and all.

    What isn't known of an item that can't be read matches every glob.
    """

    kind: Kind | None = None
    model: str | None = None
    quantization: str | None = None
    arch: str | None = None
    engine: str | None = None
    outcome: str | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a decision file, or one run folder.

    ``problem`` says why it can't be read; then only what its path tells is known. ``choice`` is a
    backend: of a run what the rule says of its records, which may still be open. ``ratio`` is its
    throughput over the ``baseline``'s. ``shadowed_by`` is the file that a server finds first.
    ``accepted`` and ``inconclusive_let_in`` say what somebody accepted to have the decision
    written, as for `autotune.judged.Judged`; ``in_step`` whether it follows from the records.
    Of what was ``imported``, ``measured_at`` is the day of the import.
    """

    kind: Kind
    path: str
    problem: str | None = None
    key: DecisionKey | None = None
    scope: Scope | None = None
    choice: str | None = None
    outcome: Outcome | None = None
    baseline: str | None = None
    ratio: float | None = None
    interval: Interval | None = None
    measured_at: str | None = None
    age_days: int | None = None
    progress: Progress | None = None
    decided: bool | None = None
    shadowed_by: str | None = None
    accepted: tuple[str, ...] = ()
    inconclusive_let_in: bool = False
    in_step: bool = True
    imported: bool = False


def list_items(
    places: Sequence[Path], *, filters: Filters, today: datetime.date, searched: Store | None = None
) -> tuple[Item, ...]:
    """Return what lies in ``places`` and passes the filters, decisions before runs.

    Args:
        places: folders of decision files (``<arch>/<model>/<quantization>.json``), folders of run
            folders, run folders, or decision files.
        filters: what to list.
        today: ages are counted from it (UTC).
        searched: list the folders of this store, too, in the order in which a server searches them.

    Raises:
        UsageError: a place isn't there.
    """
    found: dict[str, list[Item]] = {}
    for place in places:
        for path, items in _items_in(place, today=today):
            found.setdefault(path, list(items))
    if searched is not None:
        for path, items in _searched(searched, today=today):
            # What the search says of a file (that another one comes first) is the more telling.
            found[path] = list(items)
    listed = [item for items in found.values() for item in items if matches(item, filters)]
    return tuple(sorted(listed, key=_order))


def default_places() -> tuple[Path, ...]:
    """Return those of ``configs/decisions`` and ``results`` that there are.

    Raises:
        UsageError: neither.
    """
    places = tuple(folder for folder in DEFAULT_FOLDERS if folder.is_dir())
    if not places:
        names = " nor ".join(str(folder) for folder in DEFAULT_FOLDERS)
        raise UsageError(
            f"neither {names} is here: name folders of decisions or runs, or ask for --searched"
        )
    return places


def matches(item: Item, filters: Filters) -> bool:
    """Whether an item passes every filter."""
    if filters.kind is not None and item.kind != filters.kind:
        return False
    key = item.key
    values: dict[str, str | None] = {
        "model": None if key is None else key.model,
        "quantization": None if key is None else key.quantization,
        "arch": None if key is None else key.arch,
        "engine": None if item.scope is None else item.scope.engine,
        "outcome": item.outcome,
    }
    return all(
        (value is None and item.problem is not None) or fnmatch.fnmatchcase(value or "", glob)
        for name, value in values.items()
        if (glob := getattr(filters, name)) is not None
    )


def _items_in(place: Path, *, today: datetime.date) -> Iterator[tuple[str, Iterable[Item]]]:
    if place.is_file():
        yield str(place), _file_items(place, today=today)
    elif not place.is_dir():
        raise UsageError(f"{place}: no such file or folder")
    elif _is_run(place):
        yield str(place), (_run_item(place, today=today),)
    else:
        runs = _runs_in(place)
        for run in runs:
            yield str(run), (_run_item(run, today=today),)
        yield from _stored(Store([place]), place, skip=runs, today=today)


def _searched(store: Store, *, today: datetime.date) -> Iterator[tuple[str, Iterable[Item]]]:
    first: dict[DecisionKey, str] = {}
    for root in store.paths:
        if not Path(root).is_dir():
            continue
        for path, items in _stored(Store([root]), Path(root), skip=(), today=today):
            known = list(items)
            key = known[0].key
            before = first.setdefault(key, path) if key is not None else path
            if before == path:
                yield path, known
            else:
                yield path, [msgspec.structs.replace(one, shadowed_by=before) for one in known]


def _stored(
    store: Store, root: Path, *, skip: Sequence[Path], today: datetime.date
) -> Iterator[tuple[str, Iterable[Item]]]:
    """The decision files of a folder, each read as a server would read it."""
    for arch in _folders(root):
        if arch in skip:
            continue
        for model in _folders(arch):
            if model in skip:
                continue
            for path in sorted(model.glob("*.json")):
                yield str(path), _stored_items(store, path, today=today)


def _stored_items(store: Store, path: Path, *, today: datetime.date) -> list[Item]:
    arch, model = path.parent.parent.name, path.parent.name
    try:
        key = DecisionKey(model, path.stem, arch)
    except UsageError as error:
        return [Item(kind="decision", path=str(path), problem=str(error))]
    result = store.find(key)
    if result is None:
        return [Item(kind="decision", path=str(path), key=key, problem="it went while it was read")]
    if isinstance(result, Broken):
        return [Item(kind="decision", path=str(path), key=key, problem=result.reason)]
    entries = result.decision.entries
    return [_entry_item(entry, key, str(path), today=today) for entry in entries]


def _file_items(path: Path, *, today: datetime.date) -> list[Item]:
    """The entries of a file that was named itself, wherever it lies."""
    try:
        decision = decode(read_whole(path), where=path.name)
    except OSError as error:
        return [Item(kind="decision", path=str(path), problem=f"can't be read: {error.strerror}")]
    except DecisionFileError as error:
        return [Item(kind="decision", path=str(path), problem=str(error))]
    if not decision.entries:
        problem = "holds no entry"
        return [Item(kind="decision", path=str(path), key=decision.key, problem=problem)]
    return [_entry_item(one, decision.key, str(path), today=today) for one in decision.entries]


def _entry_item(entry: Entry, key: DecisionKey, path: str, *, today: datetime.date) -> Item:
    choice = entry.choice
    return Item(
        kind="decision",
        path=path,
        key=key,
        scope=entry.scope,
        choice=choice.backend,
        outcome=choice.outcome,
        baseline=choice.baseline,
        ratio=choice.ratio,
        interval=choice.interval,
        measured_at=entry.evidence.measured_at,
        age_days=age_days(entry.evidence.measured_at, today),
        decided=True,
        accepted=entry.evidence.accepted,
        imported=bool(entry.evidence.source),
    )


def _run_item(path: Path, *, today: datetime.date) -> Item:
    try:
        judged = read_judged(path)
        loaded, judgement = judged.derived.loaded, judged.derived.judgement
        measured = measured_at(loaded)
        progress = progress_of(judged)
    except AutotuneError as error:
        return Item(kind="run", path=str(path), problem=_inside(str(error), path))
    except OSError as error:
        return Item(kind="run", path=str(path), problem=error.strerror or str(error))
    backend, ratio, interval = _chosen(judgement)
    return Item(
        kind="run",
        path=str(path),
        key=loaded.run.key,
        scope=loaded.run.scope,
        choice=backend,
        outcome=judgement.outcome,
        baseline=judgement.baseline,
        ratio=ratio,
        interval=interval,
        measured_at=measured,
        age_days=age_days(measured, today),
        progress=progress,
        decided=judged.decision is not None,
        accepted=judged.accepted,
        inconclusive_let_in=judged.inconclusive_let_in,
        in_step=in_step(judged),
        imported=loaded.run.kind == "import",
    )


def _chosen(judgement: Judgement) -> tuple[str | None, float | None, Interval | None]:
    """The choice's backend, and its ratio to the baseline unless it is that itself."""
    for standing in judgement.standings:
        if standing.candidate == judgement.choice:
            estimate = standing.to_baseline
            if estimate is None or standing.candidate == judgement.baseline:
                return standing.backend, None, None
            return standing.backend, estimate.ratio, estimate.interval
    return None, None, None


def _runs_in(place: Path) -> list[Path]:
    """The run folders of a folder, or of the folders in it."""
    found = []
    for folder in _folders(place):
        found += [folder] if _is_run(folder) else [one for one in _folders(folder) if _is_run(one)]
    return found


def _is_run(path: Path) -> bool:
    try:
        return (path / RUN_FILE).exists() or all((path / name).exists() for name in _SIGNS_OF_A_RUN)
    except OSError:
        return True  # It can't be looked into: reading it says why.


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(one for one in path.iterdir() if one.is_dir() and not _hidden(one))
    except OSError:
        return []


def _hidden(path: Path) -> bool:
    return path.name.startswith(".")


def _inside(problem: str, path: Path) -> str:
    """Say which file of the folder it is without the folder, which stands beside it."""
    return problem.removeprefix(f"{path}/").removeprefix(f"{path}: ")


def _order(item: Item) -> tuple[object, ...]:
    key = item.key
    names = (key.arch, key.model, key.quantization) if key is not None else ("", "", "")
    return (item.kind, names, item.path)
