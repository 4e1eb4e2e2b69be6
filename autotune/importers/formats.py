"""The formats that can be imported, and which of them a file is in: told by content, not by name.

A new format is a module with ``looks_like(path)`` and ``read(path)``, and a line in `FORMATS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.decisions import one_line
from autotune.errors import InputError, UsageError
from autotune.importers import (
    aiperf,
    aiperf_csv,
    guidellm,
    markdown_table,
    sglang_bench_serving,
    tidy_csv,
    vllm_bench_serve,
    vllm_bench_sweep,
)
from autotune.importers.csv_file import quoted
from autotune.importers.reading import Readings
from autotune.importers.source_file import describe_content


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format. ``read`` is ``None`` for the tidy table, which is its own way to the records."""

    name: str
    title: str
    looks_like: Callable[[Path], bool]
    read: Callable[[Path], Readings] | None


FORMATS = (
    Format(
        name="tidy_csv",
        title="a tidy CSV table",
        looks_like=tidy_csv.looks_like,
        read=None,
    ),
    Format(
        name="sglang_bench_serving",
        title="SGLang's bench_serving JSON lines",
        looks_like=sglang_bench_serving.looks_like,
        read=sglang_bench_serving.read,
    ),
    Format(
        name="vllm_bench_serve",
        title="the JSON of vllm bench serve",
        looks_like=vllm_bench_serve.looks_like,
        read=vllm_bench_serve.read,
    ),
    Format(
        name="vllm_bench_sweep",
        title="a folder of vllm bench sweep serve",
        looks_like=vllm_bench_sweep.looks_like,
        read=vllm_bench_sweep.read,
    ),
    Format(
        name=guidellm.NAME,
        title="a report of guidellm",
        looks_like=guidellm.looks_like,
        read=guidellm.read,
    ),
    Format(
        name=aiperf.NAME,
        title="a JSON export of aiperf, or its folder",
        looks_like=aiperf.looks_like,
        read=aiperf.read,
    ),
    Format(
        name=aiperf_csv.NAME,
        title="a CSV export of aiperf",
        looks_like=aiperf_csv.looks_like,
        read=aiperf_csv.read,
    ),
    Format(
        name=markdown_table.NAME,
        title="tables in Markdown",
        looks_like=markdown_table.looks_like,
        read=markdown_table.read,
    ),
)


def named(name: str, *, formats: Sequence[Format] = FORMATS) -> Format:
    """Return the format called ``name``.

    Raises:
        UsageError: there is none; all are listed.
    """
    for each in formats:
        if each.name == name:
            return each
    raise UsageError(f"--from {quoted(name)}: no such format: use one of {_known()}")


def detect(path: Path, *, formats: Sequence[Format] = FORMATS) -> Format:
    """Return the one format whose content the file or folder at ``path`` has.

    Raises:
        InputError: it can't be read, or looks like none of ``formats`` or like several; what was
            seen and the known formats are named.
    """
    fitting = [each for each in formats if each.looks_like(path)]
    if len(fitting) == 1:
        return fitting[0]
    where = one_line(str(path))
    seen = describe_content(path)
    if fitting:
        could = " and ".join(each.name for each in fitting)
        raise InputError(f"{where}: could be {could} ({seen}): say which with --from")
    raise InputError(f"{where}: in no format that is known: {seen}. Known are {_known(formats)}")


def _known(formats: Sequence[Format] = FORMATS) -> str:
    return ", ".join(f"{each.name} ({each.title})" for each in formats)
