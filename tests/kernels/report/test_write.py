from pathlib import Path

import msgspec
import pandas as pd
import pytest

from autotune.errors import RunFolderError
from autotune.kernels.folder import KernelFolder, read_record
from autotune.kernels.ranking import screen
from autotune.kernels.report.write import write_kernels
from autotune.kernels.schema import KernelPoint, Screen
from autotune.report.markdown import render
from autotune.review.show_text import render_text
from tests.kernels.records import config, point, run

FILES = {"kernels.csv", "kernels.json", "kernels.md", "kernels.png", "kernels.svg"}


def folder_of(path: Path, *points: KernelPoint, scheme: str = "bf16") -> KernelFolder:
    folder = KernelFolder(path)
    folder.write_run(run(config(scheme=scheme)))
    for one in points:
        folder.write_point(one)
    return folder


FAST = point("fast", 16, medians=(1e-3, 1.001e-3, 0.999e-3))
SLOW = point("slow", 16, medians=(3e-3, 3.1e-3, 2.9e-3))
OUT_OF_MEMORY = KernelPoint(backend="slow", tokens=1, status="oom", reason="9 GiB | <b>@all</b>")


def test_everything_is_written_and_follows_from_the_records(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, FAST, SLOW, point("fast", 1), OUT_OF_MEMORY)
    written = write_kernels(folder)
    assert {path.name for path in written.paths} == FILES
    assert read_record(tmp_path / "kernels.json", Screen) == written.screen
    assert written.screen == screen(folder.read_run(), folder.points())
    table = pd.read_csv(tmp_path / "kernels.csv")
    assert len(table) == 4
    assert (tmp_path / "kernels.png").read_bytes().startswith(b"\x89PNG")


def test_equal_records_give_equal_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        write_kernels(folder_of(path, FAST, SLOW))
    for name in FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_a_plot_of_what_is_gone_is_removed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, FAST)
    write_kernels(folder)
    folder.point_file("fast", 16).unlink()
    folder.write_point(KernelPoint(backend="fast", tokens=16, status="unsupported", reason="SM100"))
    written = write_kernels(folder)
    assert not (tmp_path / "kernels.png").exists()
    assert not (tmp_path / "kernels.svg").exists()
    assert "fast: unsupported: SM100" in render_text(written.report, width=None)


def test_the_text_says_who_is_fastest_and_whether_that_is_sure(tmp_path: Path) -> None:
    noisy = point("slow", 1, medians=(1e-3, 1.3e-3, 0.9e-3))
    report = write_kernels(folder_of(tmp_path, FAST, SLOW, point("fast", 1), noisy)).report
    lines = render_text(report, width=None).splitlines()
    told = [line.split() for line in lines if line.strip().startswith(("1 ", "16 "))]
    assert told[0][:2] == ["1", "fast"] and told[0][-1] == "no"
    assert told[1][:2] == ["16", "fast"] and told[1][-1] == "yes"


def test_a_wrong_backend_is_said_first_and_loud(tmp_path: Path) -> None:
    wrong = point("slow", 16, status="wrong", reason="relative RMS 1.4 to the layer")
    text = render(write_kernels(folder_of(tmp_path, FAST, wrong)).report)
    assert "**slow is wrong: relative RMS 1.4 to the layer.**" in text


def test_nothing_is_ranked_where_all_is_emulated(tmp_path: Path) -> None:
    emulated = point("fast", 16, emulated=True)
    written = write_kernels(folder_of(tmp_path, emulated, scheme="nvfp4"))
    assert "Nothing is ranked" in render(written.report)
    assert all(ratio is None for ratio in (one.ratio for one in written.screen.backends))
    svg = (tmp_path / "kernels.svg").read_text()
    assert "Latency of a call" in svg
    assert "Achieved" not in svg


def test_hostile_reasons_are_escaped(tmp_path: Path) -> None:
    text = render(write_kernels(folder_of(tmp_path, FAST, OUT_OF_MEMORY)).report)
    assert "<b>" not in text
    assert "9 GiB \\| &lt;b&gt;`@`all" in text


def test_figures_of_the_roofline_stand_in_the_plot(tmp_path: Path) -> None:
    write_kernels(folder_of(tmp_path, FAST, SLOW))
    svg = (tmp_path / "kernels.svg").read_text()
    for part in ("latency_s-roofline", "flops_per_s-roofline", "bytes_per_s-roofline"):
        assert f'id="{part}"' in svg
    assert "n = 3 rounds" in svg


def test_a_run_without_a_roof_is_drawn_without_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, FAST)
    folder.write_run(msgspec.structs.replace(run(), roof=None))
    write_kernels(folder)
    svg = (tmp_path / "kernels.svg").read_text()
    assert "roofline" not in svg


def test_a_folder_without_a_layer_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="not a layer sweep's folder"):
        write_kernels(KernelFolder(tmp_path))
