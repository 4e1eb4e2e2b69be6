"""Files to one run: backends, rounds and concurrencies by flag, contradictions with both places."""

import json
import shutil
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from autotune.decide.rule import judge_run
from autotune.decide.verdicts import judge_answers
from autotune.errors import AutotuneError, InputError, UsageError
from autotune.importers import write_import
from autotune.records.folder import load_records
from autotune.report.content import Bullets
from autotune.report.evidence import import_section
from autotune.report.subject import Subject
from tests.importers.builders import ORIGIN
from tests.importers.tool_files import (
    SGLANG,
    TOOLS,
    VLLM,
    changed,
    faster,
    import_tool,
    lines_of,
    only_point,
    setting,
    write_lines,
)

REPEATED = SGLANG / "repeated.jsonl"
INFO = SGLANG / "with_server_info.jsonl"


def _lines(path: Path, count: int, **changes: Any) -> Path:
    """A file of ``count`` runs of one setting, whose speeds no other file's name gives."""
    own = 1 + sum(str(path).encode()) % 997 / 1000
    said = lines_of(REPEATED)[0] | changes
    return write_lines(path, [faster(said, own + number / 10) for number in range(count)])


def test_repetitions_must_be_told(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"line 2: triton at concurrency 4 is in .*line 1 .*--repeats launches"
    ):
        import_tool(REPEATED, backend="triton")


def test_launches_are_rounds() -> None:
    points = import_tool(REPEATED, backend="triton", repeats="launches").run.points
    said = lines_of(REPEATED)
    assert [point.round for point in points] == [1, 2]
    rates = [point.figures.output_tokens_per_s for point in points if point.figures is not None]
    assert rates == [line["output_throughput"] for line in said]


def test_repetitions_on_one_server_are_one_sample() -> None:
    (point,) = import_tool(REPEATED, backend="triton", repeats="same-server").run.points
    said = lines_of(REPEATED)
    figures = point.figures
    assert figures is not None and point.round == 1
    assert figures.output_tokens_per_s == pytest.approx(
        mean(line["output_throughput"] for line in said)
    )
    assert figures.window_s == pytest.approx(sum(line["duration"] for line in said))
    assert (figures.ttft_s.n, point.requests_ok) == (64, 64)
    (warning,) = (each for each in point.warnings if each.code == "repeats_averaged")
    assert "2 repetitions" in warning.observed and "line 2" in warning.observed


def test_an_average_lacks_what_one_of_them_lacks(tmp_path: Path) -> None:
    path = changed(REPEATED, tmp_path, lambda line: line.pop("median_ttft_ms"))
    (point,) = import_tool(path, backend="triton", repeats="same-server").run.points
    assert point.figures is not None
    assert point.figures.ttft_s.p50 is None and point.figures.ttft_s.mean is not None


def test_a_mean_beyond_all_numbers_is_refused(tmp_path: Path) -> None:
    report = json.loads((TOOLS / "guidellm/concurrent.json").read_text())
    report["benchmarks"] = report["benchmarks"][:1]
    latency = report["benchmarks"][0]["metrics"]["request_latency"]["successful"]
    paths = [tmp_path / "1.json", tmp_path / "2.json"]
    for path, mean_s in zip(paths, (1e308, 1.1e308), strict=True):
        latency["mean"] = mean_s
        path.write_text(json.dumps(report))
    with pytest.raises(InputError, match=r"latency_s\.mean: inf can't be measured"):
        import_tool(*paths, repeats="same-server", name="x")


def test_more_in_progress_than_were_asked_for_is_told_of(tmp_path: Path) -> None:
    said = json.loads((VLLM / "enough.json").read_text())
    in_us = {key: value * 1e3 for key, value in said.items() if key.endswith("e2el_ms")}
    path = tmp_path / "it.json"
    path.write_text(json.dumps(said | in_us))
    point = only_point(import_tool(path, backend="triton"))
    assert "concurrency_high" in {warning.code for warning in point.warnings}
    point = only_point(import_tool(VLLM / "enough.json", backend="triton"))
    assert "concurrency_high" not in {warning.code for warning in point.warnings}


def test_repeats_of_nothing_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="--repeats launches: no backend was measured twice"):
        import_tool(INFO, repeats="launches")


def test_several_files_are_several_backends(tmp_path: Path) -> None:
    first, second = (_lines(tmp_path / name, 3) for name in ("a.jsonl", "b.jsonl"))
    names = {"a.jsonl": "triton", str(second): "flashinfer_cutlass"}
    imported = import_tool(first, second, file_backends=names, repeats="launches", name="both")
    run = imported.run.run
    assert [each.name for each in run.candidates] == ["triton", "flashinfer_cutlass"]
    assert len(imported.run.points) == 6
    assert write_import(imported, folder=tmp_path / "run")
    assert load_records(tmp_path / "run") == imported.run
    kept = sorted(path.name for path in (tmp_path / "run" / "source").iterdir())
    assert kept == ["a.jsonl", "b.jsonl"]
    assert (tmp_path / "run/source/a.jsonl").read_bytes() == first.read_bytes()
    assert not write_import(imported, folder=tmp_path / "run")


def test_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    paths = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths.append(_lines(folder / "it.jsonl", number))
    names = {str(paths[0]): "triton", str(paths[1]): "marlin"}
    imported = import_tool(*paths, file_backends=names, repeats="launches", name="both")
    assert [each.name for each in imported.sources] == ["source/1/it.jsonl", "source/2/it.jsonl"]
    write_import(imported, folder=tmp_path / "run")
    assert (tmp_path / "run/source/2/it.jsonl").read_bytes() == paths[1].read_bytes()


def test_a_sweep_of_a_second_launch_is_a_second_round(tmp_path: Path) -> None:
    """What a format repeats on one server is one sample, and two folders are two of them."""
    second = Path(shutil.copytree(VLLM / "sweep", tmp_path / "again"))
    for path in second.glob("*/run=*.json"):
        path.write_text(json.dumps(faster(json.loads(path.read_text()), 1.1)))
    with pytest.raises(InputError, match="--repeats launches"):
        import_tool(VLLM / "sweep", second, name="two")
    imported = import_tool(VLLM / "sweep", second, name="two", repeats="launches")
    assert sorted({point.round for point in imported.run.points}) == [1, 2]
    assert len(imported.run.points) == 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"line 1: doesn't say which backend was measured: give --backend NAME"),
        ({"backend": "triton", "concurrency": 8}, "each point says its concurrency"),
        ({"file_backends": {"other.jsonl": "x"}, "backend": "y"}, "no such file is imported"),
        ({"backend": "triton", "rename": {"x": "y"}}, "no backend 'x' to rename"),
        ({"backend": "triton", "incumbent": "marlin"}, "the incumbent marlin isn't in the files"),
        ({"backend": "triton", "engine": None}, "doesn't say engine: give --engine"),
        ({"backend": "triton", "also_arch": ("sm100",), "also_arch_reason": "x"}, "leave it out"),
    ],
)
def test_what_is_missing_or_too_much_is_told(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(AutotuneError, match=message):
        import_tool(_lines(tmp_path / "it.jsonl", 1), **given)


def test_a_flag_for_a_backend_that_the_file_says_is_refused() -> None:
    with pytest.raises(UsageError, match="the files say their own backends"):
        import_tool(INFO, backend="triton")
    with pytest.raises(InputError, match="says its own backend"):
        import_tool(INFO, file_backends={INFO.name: "triton"})
    renamed = import_tool(INFO, rename={"flashinfer_cutlass": "cutlass"})
    assert [each.name for each in renamed.run.run.candidates][1] == "cutlass"
    with pytest.raises(InputError, match="would both be flashinfer_trtllm_routed"):
        import_tool(INFO, rename={"flashinfer_cutlass": "flashinfer_trtllm_routed"})


def test_several_files_need_a_name(tmp_path: Path) -> None:
    paths = [_lines(tmp_path / name, 1) for name in ("a.jsonl", "b.jsonl")]
    with pytest.raises(UsageError, match="name it with --name"):
        import_tool(*paths, backend="triton", repeats="launches")
    with pytest.raises(UsageError, match="is given twice"):
        import_tool(paths[0], paths[0], backend="triton", name="x")


def test_a_run_that_two_files_hold_is_refused(tmp_path: Path) -> None:
    """As where one file is an earlier state of the other."""
    earlier = write_lines(tmp_path / "earlier.jsonl", lines_of(REPEATED)[:1])
    with pytest.raises(InputError, match=r"line 1: the same run as .*repeated\.jsonl, line 1"):
        import_tool(REPEATED, earlier, backend="triton", repeats="launches", name="x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"random_input_len": 64}, r"b\.jsonl: isl is '64' here but '32' in .*a\.jsonl"),
        ({"dataset_name": "sharegpt"}, r"workload is 'sharegpt' here but 'random-ids' in"),
        ({"total_input_tokens": 1100, "total_throughput": None}, "34.4 input tokens a request"),
    ],
)
def test_other_workloads_are_refused_with_both_places(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    first = _lines(tmp_path / "a.jsonl", 1)
    second = tmp_path / "b.jsonl"
    write_lines(second, [faster(lines_of(REPEATED)[0] | changes, 1.3)])
    names = {"a.jsonl": "triton", "b.jsonl": "marlin"}
    with pytest.raises(InputError, match=message):
        import_tool(first, second, file_backends=names, name="both")


def test_other_models_and_versions_are_refused(tmp_path: Path) -> None:
    line = faster(lines_of(INFO)[0], 1.1)
    line["server_info"]["version"] = "0.5.1"
    other = write_lines(tmp_path / "older.jsonl", [line])
    with pytest.raises(InputError, match=r"engine_version is '0\.5\.1' here but '0\.5\.23'"):
        import_tool(INFO, other, name="both")


def test_very_different_lengths_are_another_workload_at_any_concurrency(tmp_path: Path) -> None:
    said = json.loads((VLLM / "plain.json").read_text())
    for key in ("total_input_tokens", "total_output_tokens"):
        longer = said | {"max_concurrency": 16, key: said[key] * 2}
        for rate in ("output_throughput", "total_token_throughput"):
            longer.pop(rate)
        longer["output_throughput"] = None
        path = write_lines(tmp_path / "longer.jsonl", [said, longer])
        with pytest.raises(InputError, match="different workloads can't be compared"):
            import_tool(path, backend="triton")


def test_mixed_tools_are_noted_and_what_only_one_says_counts_for_both(tmp_path: Path) -> None:
    first = write_lines(tmp_path / "a.jsonl", lines_of(REPEATED)[:1])
    second = tmp_path / "b.json"
    said = json.loads((VLLM / "plain.json").read_text())
    sglang = lines_of(first)[0]["total_input_tokens"]
    said |= {"total_input_tokens": sglang, "total_token_throughput": None}
    second.write_text(json.dumps(said))
    names = {"a.jsonl": "triton", "b.json": "marlin"}
    notes = import_tool(first, second, file_backends=names, name="both").notes
    assert any("sglang_bench_serving and vllm_bench_serve" in note for note in notes)
    assert any("b.json doesn't say its isl" in note for note in notes)


def test_a_tidy_table_comes_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a tidy table is a run of its own"):
        import_tool(ORIGIN, REPEATED, name="x")
    with pytest.raises(UsageError, match="--repeats: a tidy table says that itself"):
        import_tool(ORIGIN, repeats="launches")


def test_a_flag_replaces_what_the_server_said_and_that_is_told() -> None:
    imported = import_tool(INFO, tp=8, engine_version="0.5.24", source="https://example.org/1")
    assert (imported.run.run.scope.tp, imported.run.run.source) == (8, "https://example.org/1")
    assert any("tp '4': replaced by 8, as asked" in each for each in imported.skipped)
    assert any("engine_version '0.5.23': replaced" in each for each in imported.skipped)
    # Whoever reads the records or the report later learns it, but not where the files lay.
    notes = imported.run.run.import_notes
    assert any("not imported: " in note and "replaced by 8, as asked" in note for note in notes)
    assert not any(str(INFO.parent) in note for note in notes)
    judgement = judge_run(imported.run, judge_answers(imported.run))
    subject = Subject.of(imported.run, judgement, verdicts={})
    assert import_section(subject).blocks == (Bullets(notes),)


def test_a_label_that_is_no_name_asks_for_one(tmp_path: Path) -> None:
    path = changed(SGLANG / "tagged.jsonl", tmp_path, setting(tag="../../x\x1b[31m"))
    with pytest.raises(InputError, match="isn't an engine's name of a backend") as caught:
        import_tool(path)
    assert "\x1b" not in str(caught.value)
