"""Published tables in Markdown come to what their tidy copies come to, whichever way round."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from autotune.importers import import_tidy
from autotune.importers.formats import detect
from autotune.records.schema import PointRecord
from tests.importers.builders import CREATED_AT, DATA, options
from tests.importers.markdown_tables import (
    Row,
    grids,
    import_text,
    long_form,
    metric_rows,
    metrics_of,
    pipe,
    tidy_rows,
    write,
)

ORIGIN = "sglang_32229_minimax_m27_nvfp4_gb200"
H100 = "sglang_28355_qwen35_397b_fp8_h100"
H200 = "vllm_44220_qwen3_30b_bf16_h200"
REPEATS = "sglang_39210_megamoe_split_repeats"


def _figures(points: Sequence[PointRecord]) -> dict[tuple[str, int, int], Any]:
    return {(each.candidate, each.round, each.concurrency): each.figures for each in points}


def _tidy(name: str, **changes: Any) -> dict[tuple[str, int, int], Any]:
    given = {"arch": "sm100"} | changes
    imported = import_tidy(DATA / f"{name}.csv", options(**given), created_at=CREATED_AT)
    return _figures(imported.run.points)


def _by_rows(rows: Sequence[Row]) -> str:
    return grids(rows, down="concurrency")


def _by_columns(rows: Sequence[Row]) -> str:
    return grids(rows, down="backend")


@pytest.mark.parametrize("form", [_by_rows, _by_columns, long_form])
@pytest.mark.parametrize("name", [ORIGIN, H100])
def test_both_orientations_and_the_long_form_equal_the_tidy_table(
    tmp_path: Path, name: str, form: Callable[[Sequence[Row]], str]
) -> None:
    text = form(tidy_rows(name))
    assert detect(write(tmp_path, text)).name == "markdown_table"
    imported = import_text(tmp_path, text)
    assert _figures(imported.run.points) == _tidy(name)
    shared = {"throughput_per_gpu", "throughput_per_user"} & set(metrics_of(tidy_rows(name)))
    told = [each for each in imported.skipped if "a part's share" in each]
    assert bool(told) == bool(shared)


def test_the_origins_table_asks_for_its_metric_by_flag(tmp_path: Path) -> None:
    """As it stands in the pull request: no caption, no unit."""
    text = grids(tidy_rows(ORIGIN), down="concurrency")
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    imported = import_text(tmp_path, bare, metric="output_throughput:tok/s")
    assert _figures(imported.run.points) == _tidy(ORIGIN)
    assert imported.run.run.concurrencies == (1, 16, 64, 128)
    assert (imported.rows, imported.used_rows) == (12, 12)
    assert [source.name for source in imported.sources] == ["source/pr.md"]


def test_metrics_down_and_backends_across_equal_the_tidy_table(tmp_path: Path) -> None:
    text = metric_rows(tidy_rows(H200))
    imported = import_text(tmp_path, text, concurrency=512)
    assert _figures(imported.run.points) == _tidy(H200, concurrency=512)
    said = import_text(tmp_path, f"### `--max-concurrency 512` (at once)\n\n{text}")
    assert _figures(said.run.points) == _figures(imported.run.points)


def test_numbered_repetitions_equal_the_tidy_table(tmp_path: Path) -> None:
    rows = tidy_rows(REPEATS)
    metrics = list(dict.fromkeys(metric.rpartition("_rep")[0] for metric in metrics_of(rows)))
    values = {(row["backend"], row["metric"]): row["value"] for row in rows}
    backends = list(dict.fromkeys(row["backend"] for row in rows))
    header = ["Run", "Backend", "Output tok/s", "mean TTFT (ms)", "mean E2E latency (ms)"]
    body = [
        [str(number), backend, *(values[backend, f"{metric}_rep{number}"] for metric in metrics)]
        for number in (1, 2)
        for backend in backends
    ]
    changes = {"concurrency": 256, "repeats": "launches"}
    imported = import_text(tmp_path, pipe(header, *body), **changes)
    assert _figures(imported.run.points) == _tidy(REPEATS, concurrency=256)


def test_a_label_that_is_no_backends_name_is_renamed(tmp_path: Path) -> None:
    text = pipe(["Concurrency", "Triton (default) output tok/s"], ["16", "1,646.0"])
    imported = import_text(tmp_path, text, rename={"Triton (default)": "triton"})
    (point,) = imported.run.points
    assert (point.candidate, point.concurrency) == ("triton", 16)
