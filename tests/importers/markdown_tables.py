"""Published tables as pull requests show them, made of their tidy copies; and reading a text."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.importers import Imported, import_files
from autotune.importers.markdown_table import read as read_file
from autotune.importers.reading import Readings
from tests.importers.builders import CREATED_AT, DATA
from tests.importers.tool_files import tool_options

HEADINGS = {
    "output_throughput": "Output token throughput (tok/s)",
    "total_throughput": "Total token throughput (tok/s)",
    "request_throughput": "Request throughput (req/s)",
    "mean_ttft": "Mean TTFT (ms)",
    "mean_e2e": "Mean E2E latency (ms)",
    "throughput_per_gpu": "Throughput per GPU (tok/s/GPU)",
    "throughput_per_user": "Throughput per user (tok/s/user)",
}

Row = dict[str, str]


def tidy_rows(name: str) -> list[Row]:
    """The rows of a published table's tidy copy."""
    with (DATA / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def metrics_of(rows: Sequence[Row]) -> list[str]:
    """The metrics of rows, in their order."""
    return list(dict.fromkeys(row["metric"] for row in rows))


def pipe(header: Sequence[str], *rows: Sequence[str]) -> str:
    """A table."""
    lines = [header, ["---:"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def grids(rows: Sequence[Row], *, down: str) -> str:
    """A table for each metric below a heading of its own, with one axis down, the other across."""
    across = "backend" if down == "concurrency" else "concurrency"
    corner = "Concurrency" if down == "concurrency" else "Backend \\ Concurrency"
    text = "All of them completed the same benchmark.\n\n"
    for metric in metrics_of(rows):
        of_metric = [row for row in rows if row["metric"] == metric]
        headers = list(dict.fromkeys(row[across] for row in of_metric))
        values = {(row[down], row[across]): row["value"] for row in of_metric}
        names = dict.fromkeys(row[down] for row in of_metric)
        body = [[f"`{name}`", *(values[name, header] for header in headers)] for name in names]
        text += f"### {HEADINGS[metric]}\n\n{pipe([corner, *headers], *body)}\n"
    return text


def long_form(rows: Sequence[Row]) -> str:
    """One table with a row for each backend and concurrency, and a column for each metric."""
    metrics = metrics_of(rows)
    places = dict.fromkeys((row["backend"], row["concurrency"]) for row in rows)
    values = {(row["backend"], row["concurrency"], row["metric"]): row["value"] for row in rows}
    body = [
        [backend, users, *(f"**{values[backend, users, metric]}**" for metric in metrics)]
        for backend, users in places
    ]
    return pipe(["MoE backend", "Max concurrency", *(HEADINGS[each] for each in metrics)], *body)


def metric_rows(rows: Sequence[Row]) -> str:
    """A row for each metric and a column for each backend, as for a single concurrency."""
    backends = list(dict.fromkeys(row["backend"] for row in rows))
    values = {(row["metric"], row["backend"]): row["value"] for row in rows}
    body = [
        [HEADINGS[metric], *(f"{float(values[metric, each]):,}" for each in backends)]
        for metric in metrics_of(rows)
    ]
    return pipe(["Metric", *backends], *body)


def write(folder: Path, text: str, *, name: str = "pr.md") -> Path:
    """Write a text to a file."""
    path = folder / name
    path.write_text(text)
    return path


def read(folder: Path, text: str, *, metric: str | None = None) -> Readings:
    """Read a text's tables."""
    return read_file(write(folder, text), metric=metric)


def import_text(folder: Path, text: str, **changes: Any) -> Imported:
    """Import a text's tables."""
    path = write(folder, text)
    return import_files([path], tool_options(**changes), created_at=CREATED_AT)


def points(readings: Readings) -> dict[tuple[str | None, int | None], Any]:
    """The figures of each backend and concurrency."""
    return {(each.backend, each.concurrency): each.figures for each in readings.readings}
