"""What this installation knows beside the files: newer versions, and engines' backends.

The one place of the check that looks at what is installed.
"""

from collections.abc import Iterable, Mapping

from packaging.version import InvalidVersion, Version

from autotune.decisions.schema import Entry
from autotune.engines.base import Engine
from autotune.engines.registry import engine_names, find_engine
from autotune.engines.sglang.table import read_catalog
from autotune.environment import installed_versions
from autotune.errors import AutotuneError, UsageError
from autotune.review.freshness import KnownVersion, KnownVersions, known_name

SGLANG = "sglang"


def read_given_versions(pairs: Iterable[str]) -> dict[str, str]:
    """Read ``NAME=VERSION`` pairs.

    Raises:
        UsageError: not such a pair, a version that isn't one, or a name that is given twice.
    """
    given: dict[str, str] = {}
    for pair in pairs:
        name, equals, version = pair.partition("=")
        try:
            Version(version)
        except InvalidVersion:
            equals = ""
        if not (name and equals):
            raise UsageError(f"--version {pair!a:.100}: write NAME=VERSION, e.g. sglang=0.5.23")
        name = known_name(name)
        if name in given:
            raise UsageError(f"--version {pair!a:.100}: {name} is given already")
        given[name] = version
    return given


def known_versions(entries: Iterable[Entry], given: Mapping[str, str]) -> KnownVersions:
    """Return the versions to hold entries against, of every name that they record.

    What is given is what somebody runs: of that name nothing else counts. Otherwise it is what
    is installed here and, of SGLang, the latest release that the catalog was read in.
    """
    known: dict[str, list[KnownVersion]] = {
        name: [KnownVersion(version, "given with --version")] for name, version in given.items()
    }
    engines: set[str] = set()
    libraries: set[str] = set()
    for entry in entries:
        engines.add(entry.scope.engine)
        libraries.update(entry.scope.kernel_libraries)
    installed = {
        known_name(name): version
        for name, version in installed_versions(filter(None, sorted(libraries))).items()
    }
    for engine in sorted(engines):
        version = _installed_engine(engine)
        if version is not None:
            installed[known_name(engine)] = version
    for name, version in installed.items():
        if name not in given:
            known.setdefault(name, []).append(KnownVersion(version, "installed here"))
    if SGLANG in engines and SGLANG not in given:
        latest = KnownVersion(read_catalog().read[-1], "the catalog's latest")
        known.setdefault(SGLANG, []).append(latest)
    return known


def known_backends(engine: str, version: str | None) -> frozenset[str] | None:
    """Return the backends that an engine has in ``version``, ``None`` where nobody here knows.

    Args:
        engine: the engine's name.
        version: the newest release to ask about, where a catalog tells releases apart.
    """
    if engine == SGLANG:
        catalog = read_catalog()
        # Of releases older than it was read in, the catalog claims nothing: that isn't a no.
        return frozenset(
            name
            for name, runner in catalog.runners.items()
            if catalog.has(version, since=runner.since, until=runner.until) is not False
        )
    found = _engine(engine)
    try:
        return None if found is None else frozenset(found.backends())
    except Exception:
        # Another package's engine: whatever it raises, nothing is known.
        return None


def _installed_engine(engine: str) -> str | None:
    found = _engine(engine)
    if found is None:
        name = known_name(engine)
        return installed_versions([name]).get(name)
    try:
        return found.version()
    except Exception:
        return None


def _engine(name: str) -> Engine | None:
    if name not in engine_names():
        return None
    try:
        return find_engine(name)
    except AutotuneError:
        return None
