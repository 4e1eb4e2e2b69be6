"""Tidy tables made in a test, and options that suffice for them."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.decisions.schema import Geometry
from autotune.importers import Imported, ImportOptions, import_tidy
from autotune.importers.tidy_csv import COLUMNS

DATA = Path(__file__).parent.parent / "data"
ORIGIN = DATA / "sglang_32229_minimax_m27_nvfp4_gb200.csv"
CREATED_AT = "2026-01-02T03:04:05+00:00"


def options(**changes: Any) -> ImportOptions:
    """Options for the origin's table, with changes."""
    given: dict[str, Any] = {
        "model": "MiniMaxM2ForCausalLM",
        "geometry": Geometry(3072, 1536, 256, 8),
    }
    return ImportOptions(**given | changes)


def row(**changes: str) -> dict[str, str]:
    """One row that can be imported, with changes."""
    cells = {
        "source": "https://example.org/pull/1",
        "engine": "sglang",
        "model": "org/Model",
        "quant": "fp8",
        "arch": "sm100",
        "gpu": "4xGB200",
        "tp": "4",
        "ep": "1",
        "isl": "1024",
        "osl": "512",
        "backend": "triton",
        "concurrency": "16",
        "metric": "output_throughput",
        "unit": "tok/s",
        "value": "1646.0",
    }
    return cells | changes


def table(*rows: dict[str, str], columns: Sequence[str] = COLUMNS) -> str:
    """The rows as CSV text."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write(folder: Path, text: str | bytes) -> Path:
    """Write a table to a file called ``table.csv``."""
    path = folder / "table.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(folder: Path, text: str | bytes, **changes: Any) -> Imported:
    """Import a table's text."""
    return import_tidy(write(folder, text), options(**changes), created_at=CREATED_AT)
