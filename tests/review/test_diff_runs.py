"""What changed between two run folders, and between a run and a checked-in decision."""

import io
import json
import os
import threading
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from autotune.decide.entry import evidence_rows
from autotune.decisions import encode
from autotune.environment import weight_of
from autotune.errors import DecisionFileError, InputError, RunFolderError
from autotune.records.folder import LoadedRun
from autotune.records.schema import Workload
from autotune.review.diff import compare_sides
from autotune.review.diff_figures import THROUGHPUT, figure_changes, rounds_of
from autotune.review.diff_markdown import render
from autotune.review.diff_runs import environment_changes
from autotune.review.diff_schema import Difference
from autotune.review.diff_sides import read_side
from tests.decisions.builders import decision
from tests.records.builders import SPEEDS, launch, make_run
from tests.review.run_folders import ENVIRONMENT, contents, decide, put_run

FAST = {**SPEEDS, "grouped_mm": 1.31 * 1.4}


def diff(old: Path, new: Path) -> Difference:
    return compare_sides(read_side(old), read_side(new))


def changed(run: LoadedRun, **fields: object) -> LoadedRun:
    return msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, **fields))


def test_a_change_beyond_the_spread_and_one_within(tmp_path: Path) -> None:
    old = put_run(tmp_path / "a", make_run(rounds=5, noise=0.004))
    new = put_run(tmp_path / "b", make_run(FAST, rounds=5, noise=0.004, seed=2))
    before = contents(tmp_path)
    difference = diff(old, new)
    assert contents(tmp_path) == before
    (entry,) = difference.entries
    told = [one for one in entry.figures if one.figure == THROUGHPUT]
    assert {one.spread for one in told if one.candidate == "grouped_mm"} == {"beyond"}
    assert {one.spread for one in told if one.candidate == "eager"} == {"within"}
    for one in told:
        assert one.ratio is not None and one.change is not None
        assert one.ratio.low - 1 < one.change < one.ratio.high - 1
        assert one.ratio.confidence == pytest.approx(1 - 0.05 / 12)
    assert "(4 of 12 beyond the rounds' spread)" in difference.summary
    assert "| beyond |" in render(difference) and "Welch" in render(difference)


def test_equal_runs_are_hardly_ever_apart() -> None:
    apart = 0
    for seed in range(100):
        old, new = make_run(rounds=3, seed=seed), make_run(rounds=3, seed=seed + 1000)
        figures = figure_changes(
            evidence_rows(old),
            evidence_rows(new),
            old_rounds=rounds_of(old),
            new_rounds=rounds_of(new),
        )
        apart += any(one.spread == "beyond" for one in figures if one.figure == THROUGHPUT)
    # 5 are expected at most; all of a round's points move together, which makes them fewer.
    assert apart <= 12


def test_one_round_has_no_spread(tmp_path: Path) -> None:
    old = put_run(tmp_path / "a", make_run(rounds=1))
    new = put_run(tmp_path / "b", make_run(rounds=3, seed=2))
    difference = diff(old, new)
    figures = difference.entries[0].figures
    assert figures and {one.spread for one in figures} == {"not_recorded"}
    assert "no spread recorded" in render(difference)


def test_medians_are_those_of_the_runs_tables(tmp_path: Path) -> None:
    old = put_run(tmp_path / "a", make_run(rounds=3, noise=0.004))
    new = put_run(tmp_path / "b", make_run(FAST, rounds=3, noise=0.004, seed=2))
    difference = diff(old, new)
    figures = difference.entries[0].figures
    tables = [read_side(path).run for path in (old, new)]
    for name, column in (("ttft_p50_s", "ttft_s_p50"), ("latency_p50_s", "latency_s_p50")):
        told = [one for one in figures if one.figure == name]
        assert len(told) == 12 and {one.unit for one in told} == {"s"}
        assert {one.spread for one in told if one.candidate == "grouped_mm"} == {"beyond"}
        for side, value in zip(tables, ("old", "new"), strict=True):
            assert side is not None
            summary = pd.read_csv(io.BytesIO(side.derived.tables["summary.csv"]))
            known = summary.set_index(["candidate", "concurrency"])[column]
            for one in told:
                expected = known[one.candidate, one.concurrency]
                assert getattr(one, value) == pytest.approx(expected, rel=1e-12)
    text = render(difference)
    assert text.count("| TTFT p50 |") == text.count("| latency p50 |") == 12
    added = diff(Path(os.devnull), new).entries[0].figures
    assert sum(one.figure == "ttft_p50_s" for one in added) == 12


def test_a_decision_has_no_medians_to_be_compared(tmp_path: Path) -> None:
    old = put_run(tmp_path / "a", make_run(rounds=3, noise=0.004))
    decide(old)
    new = put_run(tmp_path / "b", make_run(FAST, rounds=3, noise=0.004, seed=2))
    for sides in ((old / "decision.json", new), (new, old / "decision.json")):
        figures = diff(*sides).entries[0].figures
        assert figures and not any("p50" in one.figure for one in figures)


def test_a_median_that_a_round_lacks_is_no_mean_of_the_others(tmp_path: Path) -> None:
    run = make_run(rounds=3)
    first, *others = run.points
    assert first.figures is not None
    ttft = msgspec.structs.replace(first.figures.ttft_s, p50=None)
    first = msgspec.structs.replace(
        first, figures=msgspec.structs.replace(first.figures, ttft_s=ttft)
    )
    old = put_run(tmp_path / "a", msgspec.structs.replace(run, points=(first, *others)))
    (change,) = diff(old, put_run(tmp_path / "b", run)).entries[0].figures
    assert (change.figure, change.candidate, change.old) == ("ttft_p50_s", first.candidate, None)
    assert change.new is not None and change.change is None


def test_everything_else_of_a_run(tmp_path: Path) -> None:
    run = make_run()
    old = put_run(tmp_path / "a", run)
    other = changed(
        make_run({"eager": 1.0, "grouped_mm": 1.31}, concurrencies=(1, 4, 16, 128)),
        rule=msgspec.structs.replace(run.run.rule, delta=0.05),
        workload=Workload(digest="ef" * 32, input_tokens=256, output_tokens=128),
    )
    failed = launch("grouped_mm", 4, 0, status="oom", reason="out of memory")
    other = msgspec.structs.replace(other, launches=(*other.launches, failed))
    environment = json.loads(json.dumps(ENVIRONMENT))
    environment["gpus"][1]["driver_version"] = "580.2"
    environment["kernel_variables"] = {"NCCL_ALGO": "tree", "SGLANG_X": "2"}
    new = put_run(tmp_path / "b", other, environment=environment)
    difference = diff(old, new)
    told = difference.run
    assert told is not None
    assert told.concurrencies_added == (128,) and told.concurrencies_removed == (64,)
    assert [(one.what, one.old, one.new) for one in told.rule] == [("delta", 0.02, 0.05)]
    assert {one.what for one in told.workload} == {"digest", "input_tokens"}
    assert {one.what.partition(".")[0] for one in told.candidates} >= {"batched_mm"}
    assert ("oom", None, 1) in {(one.what, one.old, one.new) for one in told.launches}
    assert [(one.what, one.weight) for one in told.environment] == [
        ("kernel_variables.SGLANG_X", "hard"),
        ("gpus.1.driver_version", "soft"),
        ("kernel_variables.NCCL_ALGO", "soft"),
    ]
    assert any("workloads differ (digest, input_tokens)" in one for one in difference.caveats)
    assert any("machines differ (kernel_variables.SGLANG_X)" in one for one in difference.caveats)
    text = render(difference)
    for title in ("Rule", "Workload", "Candidates", "Concurrencies", "Environment", "Launches"):
        assert f"## {title}" in text
    assert "may not be comparable" in text.splitlines()[0]


def test_a_run_against_itself_and_its_own_decision(tmp_path: Path) -> None:
    run = put_run(tmp_path / "run", make_run(rounds=4, noise=0.002))
    decide(run, into=tmp_path / "decisions")
    assert diff(run, run).empty
    (file,) = (tmp_path / "decisions").rglob("*.json")
    assert diff(run, file).empty and diff(file, run / "decision.json").empty
    (run / "decision.json").unlink()
    difference = diff(file, run)
    assert difference.new.entries_from == "records"
    # What somebody accepted isn't in the records.
    (entry,) = difference.entries
    assert entry.accepted_removed and not entry.choice and not entry.figures


def test_other_scopes_of_a_file_are_left_alone_by_a_run(tmp_path: Path) -> None:
    run = put_run(tmp_path / "run", make_run(rounds=4, noise=0.002))
    decide(run, into=tmp_path)
    other = changed(make_run(rounds=4), scope=msgspec.structs.replace(make_run().run.scope, tp=8))
    decide(put_run(tmp_path / "other", other), into=tmp_path)
    file = tmp_path / "sm90/MiniMaxM2ForCausalLM/modelopt_fp4.json"
    for difference in (diff(run, file), diff(file, run)):
        assert difference.empty and difference.not_compared == 1


def test_a_run_in_which_nobody_can_be_chosen(tmp_path: Path) -> None:
    nothing = msgspec.structs.replace(make_run(), points=(), launches=())
    old, new = put_run(tmp_path / "a", nothing), put_run(tmp_path / "b")
    difference = diff(old, new)
    (entry,) = difference.entries
    assert entry.old_backend is None and entry.new_backend == "grouped_mm"
    assert "nobody -> grouped_mm" in difference.summary
    assert render(difference)


def test_weights_follow_what_computes() -> None:
    assert weight_of("processor", on_cpu=True) == "hard"
    assert weight_of("processor", on_cpu=False) == "soft"
    assert weight_of("gpus.0.name", on_cpu=False) == "hard"
    assert weight_of("packages.torch", on_cpu=False) == "soft"
    (gone,) = [
        one
        for one in environment_changes({"gpus": [{"name": "H200"}]}, {"gpus": []}, on_cpu=False)
        if one.weight == "hard"
    ]
    assert (gone.what, gone.old, gone.new) == ("gpus.0.name", "H200", None)
    assert environment_changes(None, None, on_cpu=True) == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"[1]", "not a decision file"),
        (b'{"schema_version": 99}', "schema_version is 99"),
        (b'{"schema_version": 1, "key": {}}', "missing required field"),
        (b"\xff\xfe", "not a decision file"),
    ],
)
def test_files_that_are_no_decision(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(DecisionFileError, match=words):
        read_side(path)


def test_places_that_are_neither(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        read_side(tmp_path / "gone")
    with pytest.raises(RunFolderError, match="not a run folder"):
        read_side(tmp_path)
    run = put_run(tmp_path / "run")
    (run / "launches/eager/1/launch.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"launch\.json"):
        read_side(run)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="can't be read"):
        read_side(tmp_path / "pipe")


def test_what_a_shell_passes_as_a_pipe(tmp_path: Path) -> None:
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(encode(decision()))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert read_side(Path(f"/dev/fd/{reader}")).key == decision().key
    finally:
        thread.join()
        os.close(reader)
