"""Labels that name no backend, and flags that name a file which isn't the only one."""

from pathlib import Path

import pytest

from autotune.errors import InputError, UsageError
from autotune.importers import import_files
from autotune.importers.labels import names_no_backend
from tests.importers.builders import CREATED_AT, read, row, table
from tests.importers.markdown_tables import pipe, write
from tests.importers.tool_files import tool_options


@pytest.mark.parametrize(
    "label",
    [
        *("triton", "deep_gemm", "flashinfer_trtllm_routed", "torch_native", "marlin", "aiter"),
        *("eager", "grouped_mm", "b0", "DeepGEMM", "pr_kernel", "new_moe", "mainline", "tp"),
    ],
)
def test_names_of_backends_are_names(label: str) -> None:
    assert not names_no_backend(label)


@pytest.mark.parametrize(
    "label", ["Main", "this PR", "pull-request", "baseline run", "tp8", "DP4+EP4", "v0.5", "GPUs"]
)
def test_sides_of_a_comparison_are_none(label: str) -> None:
    assert names_no_backend(label)


def test_what_the_user_says_is_taken(tmp_path: Path) -> None:
    path = write(tmp_path, pipe(["Concurrency", "Output tok/s"], ["1", "100"]))
    run = import_files([path], tool_options(backend="baseline"), created_at=CREATED_AT).run.run
    assert [each.name for each in run.candidates] == ["baseline"]


def test_a_tidy_table_is_asked_too(tmp_path: Path) -> None:
    text = table(row(), row(backend="main"))
    with pytest.raises(InputError, match=r"line 3: 'main' names no backend: .* 'main=NAME'"):
        read(tmp_path, text)
    run = read(tmp_path, text, rename={"main": "cutlass"}).run.run
    assert [each.name for each in run.candidates] == ["triton", "cutlass"]


def test_a_file_is_named_by_its_path_where_two_have_its_name(tmp_path: Path) -> None:
    paths = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        text = pipe(["Concurrency", "Output tok/s"], ["1", "100"])
        paths.append(write(tmp_path / place, text))

    def backends(names: dict[str, str]) -> list[str]:
        options = tool_options(file_backends=names, name="both")
        run = import_files(paths, options, created_at=CREATED_AT).run.run
        return [each.name for each in run.candidates]

    assert backends({str(paths[0]): "triton", str(paths[1]): "cutlass"}) == ["triton", "cutlass"]
    dotted = f"{tmp_path}/./one/pr.md"
    assert backends({dotted: "triton", str(paths[1]): "cutlass"}) == ["triton", "cutlass"]
    with pytest.raises(UsageError, match=r"'pr\.md'=.*: 2 files have this name: give their"):
        backends({"pr.md": "triton"})
