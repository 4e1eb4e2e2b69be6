"""Throughput per GPU and speed per user follow from the tables; nobody beats the front."""

import msgspec
import pandas as pd
import pytest

from autotune.decide.schema import Judgement
from autotune.records.folder import LoadedRun
from autotune.report.tables import points_table, summary_table
from autotune.report.tradeoff import Tradeoff, gpus_of, speed_from, tradeoff_of
from tests.records.builders import make_judgement, make_run
from tests.report.test_figures import without_times


def found(run: LoadedRun, judgement: Judgement | None = None) -> Tradeoff:
    points = points_table(run)
    summary = summary_table(run, judgement or make_judgement(run))
    return tradeoff_of(points, summary, gpus=gpus_of(run.run), column=speed_from([points]))


def at(table: pd.DataFrame, candidate: str, concurrency: int) -> pd.Series:
    rows = table[(table["candidate"] == candidate) & (table["concurrency"] == concurrency)]
    assert len(rows) == 1
    return rows.iloc[0]


def test_both_figures_follow_from_the_tables() -> None:
    run = make_run(rounds=3)
    result = found(run)
    assert (result.speed_from, result.gpus) == ("tpot_s_p50", 4)
    points = points_table(run)
    own = points[(points["candidate"] == "eager") & (points["concurrency"] == 16)]
    throughput = own["output_tokens_per_s"].to_list()
    mean = at(result.means, "eager", 16)
    expected = (throughput[0] * throughput[1] * throughput[2]) ** (1 / 3) / 4
    assert mean["per_gpu"] == pytest.approx(expected)
    assert mean["per_user"] == pytest.approx(3 / sum(own["tpot_s_p50"]))
    assert mean["rounds"] == 3
    first = result.rounds[(result.rounds["candidate"] == "eager") & (result.rounds["round"] == 1)]
    one = at(first, "eager", 16)
    assert one["per_user"] == pytest.approx(1 / own["tpot_s_p50"].iloc[0])
    assert one["per_gpu"] == pytest.approx(throughput[0] / 4)


def test_without_times_the_speed_is_throughput_over_users() -> None:
    run = without_times(make_run(rounds=1))
    result = found(run)
    assert result.speed_from == "output_tokens_per_s"
    mean = at(result.means, "eager", 64)
    assert mean["per_user"] == pytest.approx(mean["per_gpu"] * 4 / 64)


def test_all_runs_shown_together_use_one_figure() -> None:
    with_times, without = points_table(make_run()), points_table(without_times(make_run()))
    assert speed_from([with_times]) == "tpot_s_p50"
    assert speed_from([with_times, without]) == "output_tokens_per_s"


@pytest.mark.parametrize("value", [0.0, None])
def test_a_time_that_is_no_time_is_not_divided_by(value: float | None) -> None:
    run = make_run(rounds=1)
    first = run.points[0]
    assert first.figures is not None
    tpot = msgspec.structs.replace(first.figures.tpot_s, p50=value, mean=value)
    figures = msgspec.structs.replace(first.figures, tpot_s=tpot)
    points = (msgspec.structs.replace(first, figures=figures), *run.points[1:])
    result = found(msgspec.structs.replace(run, points=points))
    assert result.speed_from == "output_tokens_per_s"


def test_a_cpu_or_an_unknown_number_of_gpus_leaves_the_whole_server() -> None:
    about = make_run(rounds=1).run
    on_cpu = msgspec.structs.replace(
        about, key=msgspec.structs.replace(about.key, arch="cpu-x86_64")
    )
    unknown = msgspec.structs.replace(
        about, scope=msgspec.structs.replace(about.scope, device_count=None)
    )
    assert [gpus_of(one) for one in (about, on_cpu, unknown)] == [4, None, None]


def test_nobody_admissible_has_more_of_both_than_the_front() -> None:
    run = make_run({"a": 1.0, "b": 1.2, "wrong": 1.5}, rounds=2)
    means = found(run, make_judgement(run, rejected={"wrong": "garbage"})).means
    front = means[means["front"]]
    assert set(front["candidate"]) == {"b"}
    for _, point in front.iterrows():
        others = means[means["candidate"] != "wrong"]
        more = (others["per_gpu"] > point["per_gpu"]) & (others["per_user"] > point["per_user"])
        assert not more.any()


def test_an_invalid_point_takes_no_part() -> None:
    run = make_run(rounds=1)
    bad = msgspec.structs.replace(run.points[0], status="not_steady", reason="cut")
    result = found(msgspec.structs.replace(run, points=(bad, *run.points[1:])))
    assert len(result.rounds) == len(run.points) - 1
    assert len(result.means) == len(run.points) - 1


def test_an_empty_run_has_none() -> None:
    result = found(make_run(rounds=0))
    assert not len(result.means) and not len(result.rounds)
