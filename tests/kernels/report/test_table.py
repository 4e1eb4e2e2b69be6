import math

import pytest

from autotune.kernels.ranking import latency
from autotune.kernels.report.table import COLUMNS, kernels_table
from tests.kernels.records import config, point, run

RUN = run()


def test_there_is_a_row_a_point_in_the_order_of_batches_and_backends() -> None:
    points = [point("slow", 16), point("fast", 1), point("slow", 1), point("fast", 16)]
    table = kernels_table(RUN, points)
    assert list(table.columns) == list(COLUMNS)
    assert list(zip(table["tokens"], table["backend"], strict=True)) == [
        (1, "fast"),
        (1, "slow"),
        (16, "fast"),
        (16, "slow"),
    ]


def test_rates_follow_from_work_and_latency() -> None:
    one = point("fast", 16, medians=(2e-3, 2e-3, 2e-3))
    row = kernels_table(RUN, [one]).iloc[0]
    measured = latency(one)
    assert measured is not None
    assert row["latency_s"] == measured.latency_s == pytest.approx(2e-3)
    # 1e9 operations and 1e6 bytes in 2 ms, on a roof of 1e11 operations and 1e10 bytes a second.
    assert row["flops_per_s"] == pytest.approx(5e11)
    assert row["bytes_per_s"] == pytest.approx(5e8)
    assert row["roofline_latency_s"] == pytest.approx(1e-2)
    assert row["bound_by"] == "compute"
    assert row["share_of_roofline"] == pytest.approx(5.0)
    assert row["rounds"] == 3
    assert row["calls"] == 9


def test_the_fastest_right_backend_is_what_others_are_held_against() -> None:
    points = [
        point("fast", 16, medians=(1e-3, 1e-3, 1e-3)),
        point("slow", 16, medians=(3e-3, 3e-3, 3e-3)),
    ]
    table = kernels_table(RUN, points).set_index("backend")
    assert table.loc["fast", "ratio_to_fastest"] == 1.0
    assert table.loc["slow", "ratio_to_fastest"] == pytest.approx(3.0)


def test_a_wrong_backend_has_figures_and_no_ratio() -> None:
    points = [
        point("fast", 16, status="wrong", reason="relative RMS 1.4"),
        point("slow", 16, medians=(3e-3, 3e-3, 3e-3)),
    ]
    table = kernels_table(RUN, points).set_index("backend")
    assert math.isfinite(table.loc["fast", "latency_s"])
    assert math.isnan(table.loc["fast", "ratio_to_fastest"])
    assert table.loc["slow", "ratio_to_fastest"] == 1.0


def test_what_is_emulated_has_a_latency_and_no_rates() -> None:
    row = kernels_table(run(config(scheme="nvfp4")), [point("fast", 16, emulated=True)]).iloc[0]
    assert math.isfinite(row["latency_s"])
    for column in ("flops_per_s", "bytes_per_s", "share_of_roofline", "ratio_to_fastest"):
        assert math.isnan(row[column]), column


def test_control_characters_never_reach_the_table() -> None:
    row = kernels_table(RUN, [point(status="wrong", reason="a\x1b[2Jb\nc")]).iloc[0]
    assert row["reason"].isprintable()


def test_no_points_give_an_empty_table() -> None:
    assert len(kernels_table(RUN, [])) == 0
