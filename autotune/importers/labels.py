"""Which backend each reading is of: the file's own label, or what the user says it is."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.decisions.schema import check_name
from autotune.errors import InputError, UsageError
from autotune.importers.csv_file import quoted
from autotune.importers.reading import Reading, Readings
from autotune.importers.schema import ImportOptions

_MOST_LISTED = 8


def backends_of(
    sources: Sequence[tuple[Path, Readings]], options: ImportOptions
) -> list[list[str]]:
    """Return the backend's name of each reading of each source, in their order.

    Raises:
        InputError: a reading has no label and no flag names its backend, a label isn't a name,
            or two labels would get the same one; the place and the flag are named.
        UsageError: a flag names a file or a label that isn't there.
    """
    given = _given_names(sources, options)
    labels = [
        [_label(reading, given=name) for reading in source.readings]
        for (_, source), name in zip(sources, given, strict=True)
    ]
    known = {label for of_source in labels for label in of_source}
    for old in options.rename:
        if old not in known:
            raise InputError(f"no backend {quoted(old)} to rename: the files have {_listed(known)}")
    names: dict[str, str] = {}
    taken: dict[str, str] = {}
    for (_, source), of_source in zip(sources, labels, strict=True):
        for reading, label in zip(source.readings, of_source, strict=True):
            if label not in names:
                names[label] = _name(reading, label, rename=options.rename, taken=taken)
    return [[names[label] for label in of_source] for of_source in labels]


def _given_names(
    sources: Sequence[tuple[Path, Readings]], options: ImportOptions
) -> list[str | None]:
    """What the flags say of each file; a flag that would say nothing is refused."""
    used: set[str] = set()
    found: list[str | None] = []
    for path, source in sources:
        keys = [key for key in (str(path), path.name) if key in options.file_backends]
        used.update(keys)
        name = options.file_backends[keys[0]] if keys else options.backend
        unlabelled = any(reading.backend is None for reading in source.readings)
        if keys and not unlabelled:
            raise InputError(
                f"{source.where}: says its own backend: leave --backend {quoted(keys[0])}=... "
                "out, or use --rename OLD=NEW"
            )
        found.append(name)
    for key in options.file_backends:
        if key not in used:
            raise UsageError(f"--backend {quoted(key)}=...: no such file is imported")
    labelled = all(reading.backend is not None for _, each in sources for reading in each.readings)
    if options.backend is not None and labelled:
        raise UsageError(
            f"--backend {options.backend}: the files say their own backends: leave it out, or use "
            "--rename OLD=NEW"
        )
    return found


def _label(reading: Reading, *, given: str | None) -> str:
    label = reading.backend if reading.backend is not None else given
    if label is None:
        raise InputError(
            f"{reading.where}: doesn't say which backend was measured: give --backend NAME, or "
            "--backend FILE=NAME for each file, with the engine's name of it"
        )
    return label


def _name(reading: Reading, label: str, *, rename: Mapping[str, str], taken: dict[str, str]) -> str:
    name = rename.get(label, label)
    try:
        check_name("backend", name)
    except UsageError:
        raise InputError(
            f"{reading.where}: backend {quoted(label)} isn't an engine's name of a backend: give "
            f"that with --rename {quoted(label + '=NAME')}"
        ) from None
    other = taken.setdefault(name, label)
    if other != label:
        raise InputError(
            f"{reading.where}: {quoted(label)} and {quoted(other)} would both be {name}: give "
            "them different names with --rename"
        )
    return name


def _listed(labels: set[str]) -> str:
    shown = [quoted(label) for label in sorted(labels)[:_MOST_LISTED]]
    more = len(labels) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
