"""Find an engine by its name: ours, or a third party's from the entry-point group.

A package adds an engine with an entry point in the group ``autotune.engines`` that names a
class with a constructor without arguments; see ``docs/adding-an-engine.md``.
"""

import importlib.metadata

from autotune.engines.base import Engine
from autotune.errors import ConfigError

ENTRY_POINT_GROUP = "autotune.engines"


def engine_names() -> tuple[str, ...]:
    """Names of all engines that can be asked for here."""
    return tuple(sorted({entry.name for entry in _entry_points()}))


def find_engine(name: str) -> Engine:
    """Return the engine called ``name``.

    Raises:
        ConfigError: nobody provides it, or its package can't be loaded.
    """
    for entry in _entry_points():
        if entry.name == name:
            try:
                engine: Engine = entry.load()()
            except Exception as error:
                raise ConfigError(f"engine.name: {name!r} can't be loaded: {error}") from error
            return engine
    raise ConfigError(f"engine.name: no engine {name!r}: known are {', '.join(engine_names())}")


def _entry_points() -> importlib.metadata.EntryPoints:
    return importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
