"""``autotune kernels`` with real worker processes, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest

from autotune.kernels.folder import KernelFolder, read_record
from autotune.kernels.registry import BACKENDS
from autotune.kernels.schema import Screen
from tests.cli.command import autotune, check_refused

TINY = ("--geometry", "64,32,8,2", "--tokens", "1,4", "--rounds", "3")
EAGER = ("--backend", "torch_eager")
RUN = Path("results") / "kernels-h64-w32-e8-k2-bf16"
# Any that needs a GPU, whose refusal is a row beside those that run.
ON_A_GPU = "flashinfer_cutlass"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which a layer was swept, and what was printed."""
    folder = tmp_path_factory.mktemp("kernels")
    result = autotune(
        "kernels", *TINY, *EAGER, "--backend", "torch_batched", "--backend", ON_A_GPU, folder=folder
    )
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


@pytest.fixture
def folder(measured: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(measured[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_the_table_says_who_is_right_and_how_fast(measured: tuple[Path, str]) -> None:
    text = measured[1]
    for word in ("fastest right backend", "torch_eager", "torch_batched", "GB/s", "relative RMS"):
        assert word in text
    assert f"{ON_A_GPU}: unsupported: " in text and "needs an NVIDIA GPU" in text
    assert "is wrong" not in text


def test_records_and_what_follows_from_them_lie_in_the_folder(folder: Path) -> None:
    run = KernelFolder(folder / RUN)
    statuses = {(p.backend, p.tokens): p.status for p in run.points()}
    assert statuses == {
        **{(name, t): "ok" for name in ("torch_eager", "torch_batched") for t in (1, 4)},
        **{(ON_A_GPU, t): "unsupported" for t in (1, 4)},
    }
    for point in run.points():
        if point.status == "ok":
            assert len(point.blocks) == 3 and all(block.times_s for block in point.blocks)
    there = {path.name for path in run.path.iterdir() if path.is_file()}
    derived = {f"kernels.{suffix}" for suffix in ("csv", "json", "md", "png", "svg")}
    assert derived | {"kernel_run.json", "environment.json"} <= there
    assert list((run.path / "work").iterdir()) == []


def test_again_measures_nothing_and_says_the_same(folder: Path) -> None:
    before = {path: path.read_bytes() for path in (folder / RUN / "points").rglob("*.json")}
    result = autotune(
        *("kernels", *TINY, *EAGER, "--backend", "torch_batched", "--backend", ON_A_GPU, "--json"),
        folder=folder,
    )
    assert result.returncode == 0, result.stderr
    assert {path: path.read_bytes() for path in before} == before
    screen = read_record(folder / RUN / "kernels.json", Screen)
    assert json.loads(result.stdout)["ranks"].keys() == {str(tokens) for tokens in screen.ranks}


def test_another_config_in_the_same_folder_is_refused_with_what_changed(folder: Path) -> None:
    result = autotune("kernels", *TINY, *EAGER, "--seed", "1", folder=folder)
    check_refused(result, "holds another layer sweep", "backends", "seed", "--run")


def test_report_writes_what_is_derived_anew(folder: Path) -> None:
    table = folder / RUN / "kernels.csv"
    before = table.read_bytes()
    table.unlink()
    result = autotune("report", RUN, folder=folder)
    assert result.returncode == 0, result.stderr
    assert str(RUN / "kernels.csv") in result.stdout
    assert table.read_bytes() == before


def test_a_layer_that_cannot_be_is_unsupported_by_all_with_the_rule(tmp_path: Path) -> None:
    result = autotune("kernels", "--geometry", "64,32,8,9", "--tokens", "1", folder=tmp_path)
    assert result.returncode == 2
    assert "no backend can compute this layer" in result.stderr
    for backend in BACKENDS:
        rule = f"{backend.name}: unsupported: no token can be routed: top-k 9 is above the 8"
        assert rule in result.stdout


def test_widths_off_a_tile_are_rows_with_the_rule(tmp_path: Path) -> None:
    result = autotune(
        *("kernels", "--geometry", "64,20,8,2", "--tokens", "1", "--quantization", "nvfp4"),
        *("--backend", "torch_eager"),
        folder=tmp_path,
    )
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert "torch_eager: unsupported: nvfp4 shares a scale among 16 values" in result.stdout


REPLAY = ("--distribution", "replay:experts.jsonl")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["give either --model-path or --geometry"]),
        (("--geometry", "64,32,8,2", "--model-path", "."), ["give either"]),
        (("--geometry", "64,32,8"), ["four whole numbers"]),
        (("--geometry", "0,32,8,2"), ["from 1 to 2**31"]),
        (("--model-path", "nowhere"), ["no such model folder"]),
        ((*TINY, "--quantization", "int3"), ["--quantization", "int3", "nvfp4"]),
        ((*TINY, "--routing", "random"), ["--routing", "random", "minimax"]),
        (("--geometry", "64,32,8,2", "--tokens", "1,x"), ["--tokens", "1,x"]),
        (("--geometry", "64,32,8,2", "--tokens", "0"), ["--tokens"]),
        ((*TINY, "--backend", "cuda_magic"), ["--backend", "cuda_magic", "torch_eager"]),
        ((*TINY, "--distribution", "normal"), ["--distribution", "normal", "uniform"]),
        ((*TINY, "--distribution", "zipf:99"), ["exponent"]),
        ((*TINY, *REPLAY), ["experts.jsonl", "No such file"]),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    tmp_path: Path, arguments: tuple[str, ...], words: list[str]
) -> None:
    check_refused(autotune("kernels", *arguments, folder=tmp_path), *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["[0]", "[0, 8]", "[1, 1]", "{}", "[0, 1.5]"])
def test_a_recording_of_another_layer_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "experts.jsonl").write_text(f"[0, 1]\n{line}\n")
    check_refused(autotune("kernels", *TINY, *REPLAY, folder=tmp_path), "experts.jsonl", "2")
    assert not (tmp_path / "results").exists()


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("dear to me")
    result = autotune("kernels", *TINY, *EAGER, "--run", "mine", folder=tmp_path)
    check_refused(result, "mine", "notes.txt", "--run")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
