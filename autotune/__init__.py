"""Measure which MoE backend is right and fast on this GPU, and start servers from the answer.

Importing this package imports nothing heavy: `load_run` (pandas) is fetched when it's used.
"""

from typing import TYPE_CHECKING, Any

from autotune.errors import AutotuneError

if TYPE_CHECKING:
    from autotune.report.tables import RunTables, load_run

__all__ = ["AutotuneError", "RunTables", "__version__", "load_run"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in {"RunTables", "load_run"}:
        from autotune.report import tables

        return getattr(tables, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
