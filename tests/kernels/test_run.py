"""The layer sweep whole, with real worker processes on tiny layers."""

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from autotune.decisions.schema import Geometry
from autotune.errors import RunFolderError, UsageError
from autotune.kernels.folder import KernelFolder
from autotune.kernels.model_layer import MINIMAX
from autotune.kernels.ranking import screen
from autotune.kernels.run import run_kernels
from autotune.kernels.schema import KernelConfig, KernelRun
from autotune.kernels.spec import LayerSpec
from tests.kernels.processes import wait_until_nobody_writes_into

TINY = Geometry(64, 32, 8, 2)


def asked(geometry: Geometry = TINY, **changes: object) -> KernelConfig:
    config = KernelConfig(
        layer=LayerSpec(geometry=geometry, routing=MINIMAX),
        tokens=(1, 4),
        backends=("torch_eager", "torch_grouped_mm"),
        rounds=3,
        timeout_s=120.0,
    )
    return msgspec.structs.replace(config, **changes)


def swept(config: KernelConfig, path: Path, tell: Callable[[str], None] = str) -> KernelRun:
    run = run_kernels(config, KernelFolder(path), device="cpu", tell=tell)
    wait_until_nobody_writes_into(path, within_s=5)
    return run


def statuses(path: Path) -> dict[tuple[str, int], str]:
    return {(p.backend, p.tokens): p.status for p in KernelFolder(path).points()}


@pytest.mark.parametrize("scheme", ["bf16", "nvfp4"])
def test_each_backend_is_checked_and_timed_in_turn(tmp_path: Path, scheme: str) -> None:
    run = swept(asked(scheme=scheme), tmp_path)
    points = KernelFolder(tmp_path).points()
    assert {(p.backend, p.tokens) for p in points} == {
        (name, tokens) for name in run.config.backends for tokens in (1, 4)
    }
    for point in points:
        assert point.status == "ok" and point.emulated == (scheme != "bf16")
        assert [block.round for block in point.blocks] == [0, 1, 2]
        assert all(time_s > 0 for block in point.blocks for time_s in block.times_s)
    for tokens in (1, 4):
        for number in range(3):
            turns = [p.blocks[number].position for p in points if p.tokens == tokens]
            assert sorted(turns) == [0, 1]
    assert run.roof is not None and run.empty_call_s is not None
    assert all(one.verdict == "right" for one in screen(run, points).backends)


def test_a_lost_point_is_measured_again_with_its_batch_alone(tmp_path: Path) -> None:
    folder = KernelFolder(tmp_path)
    swept(asked(), tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "points").rglob("point.json")}
    folder.point_file("torch_eager", 4).unlink()
    swept(asked(), tmp_path)
    after = {path: path.read_bytes() for path in before}
    assert {path.parent.name for path in before if before[path] != after[path]} == {"t00004"}


def test_a_folder_of_another_sweep_is_refused_with_what_changed(tmp_path: Path) -> None:
    swept(asked(backends=("torch_eager",), tokens=(1,)), tmp_path)
    with pytest.raises(RunFolderError, match="changed: tokens, seed"):
        swept(asked(backends=("torch_eager",), tokens=(1, 2), seed=7), tmp_path)


def test_a_second_sweep_at_the_same_time_is_refused(tmp_path: Path) -> None:
    refused: list[str] = []

    def second() -> None:
        try:
            run_kernels(asked(), KernelFolder(tmp_path), device="cpu", tell=str)
        except RunFolderError as error:
            refused.append(str(error))

    def tell(_: str) -> None:
        if not refused:
            thread = threading.Thread(target=second)
            thread.start()
            thread.join()

    swept(asked(backends=("torch_eager",), tokens=(1,)), tmp_path, tell)
    assert refused and "another sweep is writing here" in refused[0]


def test_a_layer_too_big_for_the_memory_is_a_row_for_each(tmp_path: Path) -> None:
    swept(asked(Geometry(16384, 16384, 4096, 8), tokens=(1,)), tmp_path)
    points = KernelFolder(tmp_path).points()
    assert {p.status for p in points} == {"oom"}
    assert all("GiB are free" in p.reason for p in points)


def test_a_batch_too_big_for_one_backend_is_its_row_alone(tmp_path: Path) -> None:
    # Gathered weights: 2**20 tokens, each with two experts' of 3 MiB, are 6 TiB.
    config = asked(
        Geometry(64, 8192, 8, 2),
        tokens=(2**20,),
        backends=("torch_batched",),
        distribution="uniform",
    )
    swept(config, tmp_path)
    (point,) = KernelFolder(tmp_path).points()
    assert point.status == "oom" and "a batch of 1048576 tokens" in point.reason


def test_an_unroutable_layer_is_unsupported_without_a_worker_for_it(tmp_path: Path) -> None:
    swept(asked(Geometry(64, 32, 8, 9)), tmp_path)
    assert set(statuses(tmp_path).values()) == {"unsupported"}
    assert not list((tmp_path / "logs").glob("torch_*"))


def test_no_gpu_is_said_where_one_is_asked_for(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(UsageError, match="--device cuda: torch sees no NVIDIA GPU here"):
        run_kernels(asked(), KernelFolder(tmp_path), device="cuda", tell=str)
