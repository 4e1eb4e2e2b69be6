"""The tables say what the records say, in the documented columns, in the same bytes each time."""

import io
import math
import re
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from autotune.decide.schema import Judgement
from autotune.errors import RunFolderError
from autotune.records.folder import LoadedRun, RunFolder
from autotune.records.schema import MeasurementWarning, PointFigures, RequestRecord, Workload
from autotune.report import tables
from tests.records.builders import (
    launch,
    make_judgement,
    make_run,
    make_verdicts,
    point,
    run_record,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats.md"
WARNING = MeasurementWarning(code="low", observed="0.93", threshold="0.95", remedy="raise it")


def documented(name: str) -> dict[str, str]:
    """Columns and dtypes that the documentation's section on ``name`` lists."""
    section = DOCUMENT.read_text(encoding="utf-8").split(f"### {name}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", section, flags=re.MULTILINE)
    return dict(rows)


def written(run: LoadedRun, judgement: Judgement, folder: Path) -> dict[str, bytes]:
    made = tables.render_tables(run, judgement, make_verdicts(run))
    folder.mkdir(exist_ok=True)
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return made


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("points.csv", tables.POINTS_COLUMNS),
        ("launches.csv", tables.LAUNCHES_COLUMNS),
        ("summary.csv", tables.SUMMARY_COLUMNS),
        ("correctness.csv", tables.CORRECTNESS_COLUMNS),
        ("trials.csv", tables.TRIALS_COLUMNS),
    ],
)
def test_columns_are_documented(name: str, columns: dict[str, str]) -> None:
    assert list(documented(name).items()) == list(columns.items())


@pytest.mark.parametrize("run", [make_run(), make_run(rounds=0)], ids=["full", "empty"])
def test_columns_and_dtypes_are_fixed(run: LoadedRun) -> None:
    judgement = make_judgement(run)
    for table, columns in (
        (tables.points_table(run), tables.POINTS_COLUMNS),
        (tables.launches_table(run), tables.LAUNCHES_COLUMNS),
        (tables.summary_table(run, judgement), tables.SUMMARY_COLUMNS),
        (tables.correctness_table(run, make_verdicts(run)), tables.CORRECTNESS_COLUMNS),
        (tables.trials_table(run, make_verdicts(run)), tables.TRIALS_COLUMNS),
    ):
        assert {name: str(kind) for name, kind in table.dtypes.items()} == dict(columns)
        assert list(table.columns) == list(columns)


def test_points_hold_the_records_figures() -> None:
    run = make_run(rounds=1)
    run = msgspec.structs.replace(
        run,
        points=(*run.points[:1], msgspec.structs.replace(run.points[1], warnings=(WARNING,) * 2)),
    )
    first, second = tables.points_table(run).to_dict("records")
    figures = run.points[0].figures
    assert figures is not None
    assert first["output_tokens_per_s"] == figures.output_tokens_per_s
    assert first["ttft_s_p50"] == figures.ttft_s.p50
    assert math.isnan(first["ttft_s_p99"])
    assert first["ttft_s_n"] == 64
    assert pd.isna(first["warnings"])
    assert second["warnings"] == "low;low"


def test_a_failed_launch_is_a_row_and_its_candidate_a_summary_row() -> None:
    run = make_run({"eager": 1.0, "broken": 1.0}, rounds=1, concurrencies=(1, 2))
    run = msgspec.structs.replace(
        run,
        launches=(
            run.launches[0],
            launch("broken", 1, 1, status="oom", reason="out of memory", ready_s=None),
        ),
        points=tuple(p for p in run.points if p.candidate != "broken"),
    )
    row = tables.launches_table(run).set_index("candidate").loc["broken"]
    assert (row["status"], row["reason"]) == ("oom", "out of memory")
    assert pd.isna(row["ready_s"])
    assert set(tables.points_table(run)["candidate"]) == {"eager"}
    summary = tables.summary_table(run, make_judgement(run))
    broken = summary[summary["candidate"] == "broken"]
    assert list(broken["rounds"]) == [0, 0]
    assert broken["output_tokens_per_s"].isna().all()
    assert not broken["admissible"].any()
    assert set(broken["reason"]) == {"no valid point"}


def test_summary_is_derived_from_the_points_file_exactly(tmp_path: Path) -> None:
    run = make_run()
    files = written(run, make_judgement(run), tmp_path)
    points, summary = (
        pd.read_csv(io.BytesIO(files[name])) for name in ("points.csv", "summary.csv")
    )
    for row in summary.to_dict("records"):
        chosen = (points["candidate"] == row["candidate"]) & (
            points["concurrency"] == row["concurrency"]
        )
        values = list(points.loc[chosen, "output_tokens_per_s"])
        mean = math.exp(math.fsum(math.log(value) for value in values) / len(values))
        assert row["output_tokens_per_s"] == mean
        assert row["output_tokens_per_s_min"] == min(values)
        assert row["rounds"] == len(values) == 3
        times = list(points.loc[chosen, "ttft_s_p50"])
        assert row["ttft_s_p50"] == math.fsum(times) / 3


def test_points_that_are_not_ok_are_left_out_of_the_summary() -> None:
    run = make_run()
    spoilt = tuple(
        msgspec.structs.replace(p, status="not_steady", reason="cut") if p.round == 2 else p
        for p in run.points
    )
    run = msgspec.structs.replace(run, points=spoilt)
    assert set(tables.summary_table(run, make_judgement(run))["rounds"]) == {2}


def test_a_time_that_one_round_lacks_is_unknown() -> None:
    run = make_run(rounds=2, concurrencies=(64,))
    first = run.points[0]
    assert first.figures is not None
    bare = msgspec.structs.replace(
        first.figures, ttft_s=msgspec.structs.replace(first.figures.ttft_s, p99=None)
    )
    points = (msgspec.structs.replace(first, figures=bare), *run.points[1:])
    run = msgspec.structs.replace(run, points=points)
    summary = tables.summary_table(run, make_judgement(run)).set_index("candidate")
    unknown = summary["ttft_s_p99"].isna()
    assert dict(unknown) == {"eager": True, "batched_mm": False, "grouped_mm": False}


def test_an_imported_table_keeps_its_one_figure_and_invents_none() -> None:
    value = 142.90000000000001
    run = LoadedRun(
        run=msgspec.structs.replace(run_record(("a",), (1,)), kind="import", workload=Workload()),
        launches=(),
        points=(point("a", 1, 1, figures=PointFigures(output_tokens_per_s=value)),),
        probes=(),
    )
    row = tables.summary_table(run, make_judgement(run)).iloc[0]
    assert row["output_tokens_per_s"] == value
    assert row[["ttft_s_mean", "ttft_s_p50", "latency_s_p99", "ratio_low"]].isna().all()
    assert (row["ratio_to_baseline"], row["ratio_rounds"]) == (1.0, 1)


def test_same_records_give_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    run = make_run()
    judgement = make_judgement(run)
    shuffled = msgspec.structs.replace(run, points=run.points[::-1], launches=run.launches[::-1])
    assert written(run, judgement, tmp_path / "a") == written(shuffled, judgement, tmp_path / "b")


def test_hostile_text_stays_in_its_cell(tmp_path: Path) -> None:
    text = 'out\x1b[31m of,"memory"\r\n\x00next\u202e row \ud800'
    run = make_run(rounds=1)
    bad = msgspec.structs.replace(run.points[0], status="crashed", reason=text)
    run = msgspec.structs.replace(run, points=(bad, *run.points[1:]))
    data = written(run, make_judgement(run), tmp_path)["points.csv"]
    assert not set(data.decode()) & set("\x1b\x00\r\u202e")
    table = pd.read_csv(io.BytesIO(data))
    assert len(table) == len(run.points)
    assert '[31m of,"memory"' in table["reason"].dropna().item()


def test_load_run_rebuilds_the_tables(tmp_path: Path) -> None:
    run = make_run(rounds=2)
    folder = RunFolder(tmp_path)
    folder.write_run(run.run)
    for record in run.launches:
        folder.write_launch(record)
    for measured in run.points:
        folder.write_point(measured)
    loaded = tables.load_run(str(tmp_path))
    pd.testing.assert_frame_equal(loaded.points, tables.points_table(run))
    pd.testing.assert_frame_equal(loaded.launches, tables.launches_table(run))
    expected = tables.summary_table(run, loaded.judgement)
    pd.testing.assert_frame_equal(loaded.summary, expected)
    assert set(loaded.summary["candidate"]) == {"eager", "batched_mm", "grouped_mm"}
    assert list(loaded.correctness["verdict"]) == ["inconclusive"] * 3
    assert loaded.run == run.run


def test_requests_are_read_when_asked_for(tmp_path: Path) -> None:
    run = make_run(rounds=1)
    judgement = make_judgement(run)
    loaded = tables.RunTables(
        path=tmp_path,
        run=run.run,
        judgement=judgement,
        points=tables.points_table(run),
        summary=tables.summary_table(run, judgement),
        launches=tables.launches_table(run),
        correctness=tables.correctness_table(run, make_verdicts(run)),
        trials=tables.trials_table(run, make_verdicts(run)),
    )
    path = RunFolder(tmp_path).requests_file("eager", 1, 16)
    with pytest.raises(RunFolderError, match="left no requests"):
        loaded.requests("eager", 1, concurrency=16)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not parquet")
    with pytest.raises(RunFolderError, match="not a readable Parquet file"):
        loaded.requests("eager", 1, concurrency=16)
    record = RequestRecord(index=0, outcome="ok", sent_at_s=0.0, ended_at_s=1.5)
    pd.DataFrame([msgspec.structs.asdict(record)]).to_parquet(path)
    assert list(loaded.requests("eager", 1, concurrency=16)["ended_at_s"]) == [1.5]


def test_load_run_of_another_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="not a run folder"):
        tables.load_run(tmp_path)
