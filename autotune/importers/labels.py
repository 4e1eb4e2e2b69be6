"""Which backend each reading is of: the file's own label, or what the user says it is.

A label that is a name, but of no backend (``main``, ``PR``, ``baseline``), is asked about: what
it stands for isn't in the file.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.decisions.schema import check_name
from autotune.errors import InputError, UsageError
from autotune.importers.csv_file import quoted
from autotune.importers.reading import Reading, Readings
from autotune.importers.schema import ImportOptions

_MOST_LISTED = 8
# What people call a side of a comparison, or a column that isn't one. No engine's backend is
# called so; ``auto`` and ``default`` don't say which was chosen.
_NO_BACKEND = re.compile(
    r"(?:the |this |my |our )?(?:"
    r"main|master|head|trunk|branch|upstream|pr|pull[ _-]?request|patch(?:ed)?|unpatched|commit|"
    r"before|after|old|new|prev(?:ious)?|current|latest|now|base(?:line)?|stock|vanilla|default|"
    r"auto|ours|theirs|candidate|reference|incumbent|control|treatment|orig(?:inal)?|modified|"
    r"(?:un)?tuned|(?:un|non[ _-]?)?optimi[sz]ed|with(?:out)?|on|off|enabled|disabled|yes|true|"
    r"false|values?|results?|total|sum|average|avg|mean|median|geomean|min|max|peak|std(?:ev|dev)?|"
    r"nodes?|gpus?|ranks?|replicas?|workers?|requests?|reqs|prompts?|tokens?|inputs?|outputs?|"
    r"samples?|seed|throughput|latency|overall|"
    r"(?:(?:tp|dp|ep|pp|cp|tep|dep)[ _=-]?[0-9]+[ _+x-]*)+|v?[0-9]+(?:\.[0-9]+)*"
    r")(?:[ _-](?:branch|version|build|run))?",
    re.IGNORECASE,
)


def names_no_backend(label: str) -> bool:
    """Whether a label is a side of a comparison or the like, and no engine's name of a backend."""
    return bool(_NO_BACKEND.fullmatch(label))


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
        keys = _keys_of(path, sources, options.file_backends)
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


def _keys_of(
    path: Path, sources: Sequence[tuple[Path, Readings]], file_backends: Mapping[str, str]
) -> list[str]:
    """The keys of ``--backend FILE=NAME`` that name a file, its path first.

    Raises:
        UsageError: one is only a name, which several files have.
    """
    by_path = [key for key in file_backends if Path(key) == path]
    by_name = [key for key in file_backends if key == path.name and key not in by_path]
    namesakes = [str(each) for each, _ in sources if each.name == path.name]
    if by_name and not by_path and len(namesakes) > 1:
        raise UsageError(
            f"--backend {quoted(by_name[0])}=...: {len(namesakes)} files have this name: give "
            f"their paths, such as {quoted(namesakes[0])}"
        )
    return by_path + by_name


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
    if reading.backend == label and label not in rename and names_no_backend(label):
        raise InputError(
            f"{reading.where}: {quoted(label)} names no backend: say which one it was with "
            f"--rename {quoted(label + '=NAME')}, in the engine's word, or remove its figures"
        )
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
