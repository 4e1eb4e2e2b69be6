"""The checked-in result files of real tools, changed copies of them, and importing either."""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autotune.decisions.schema import Geometry
from autotune.errors import AutotuneError
from autotune.importers import Imported, ImportOptions, import_files, write_import
from autotune.records.folder import load_records
from autotune.records.schema import PointRecord

TOOLS = Path(__file__).parent.parent / "data" / "tools"
SGLANG = TOOLS / "sglang"
VLLM = TOOLS / "vllm"
CREATED_AT = "2026-01-02T03:04:05+00:00"


def tool_options(**changes: Any) -> ImportOptions:
    """Options that suffice for a file that says nothing but its figures, with changes."""
    given: dict[str, Any] = {
        "model": "MiniMaxM2ForCausalLM",
        "geometry": Geometry(3072, 1536, 256, 8),
        "arch": "sm100",
        "engine": "sglang",
        "quantization": "fp8",
    }
    return ImportOptions(**given | changes)


def import_tool(*paths: Path, **changes: Any) -> Imported:
    """Import files with the options above."""
    return import_files(list(paths), tool_options(**changes), created_at=CREATED_AT)


def only_point(imported: Imported) -> PointRecord:
    """The one point of an import."""
    (point,) = imported.run.points
    return point


def lines_of(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines, as its writer's language reads it."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def changed(
    source: Path, folder: Path, change: Callable[[dict[str, Any]], object], *, line: int = 0
) -> Path:
    """Write a copy of JSON lines in which one of them is changed."""
    lines = lines_of(source)
    change(lines[line])
    return write_lines(folder / source.name, lines)


def write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> Path:
    """Write objects as the tools do, one a line."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def setting(**values: Any) -> Callable[[dict[str, Any]], None]:
    """A change that sets keys."""
    return lambda content: content.update(values)


def faster(content: dict[str, Any], factor: float) -> dict[str, Any]:
    """The same run as if the server had been faster: its rates and its duration agree."""
    rates = (
        "output_throughput",
        "request_throughput",
        "total_throughput",
        "total_token_throughput",
    )
    changes = {key: content[key] * factor for key in rates if content.get(key) is not None}
    return content | changes | {"duration": content["duration"] / factor}


def check_import(name: str, content: bytes, **given: Any) -> None:
    """Hold that a file is imported whole, or refused in one line with nothing left behind."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = folder / name
        path.write_bytes(content)
        try:
            imported = import_tool(path, **given)
        except AutotuneError as error:
            assert str(error).isprintable()
            assert [each.name for each in folder.iterdir()] == [name]
            return
        assert all(text.isprintable() for text in (*imported.skipped, *imported.notes))
        write_import(imported, folder=folder / "run")
        assert load_records(folder / "run") == imported.run
