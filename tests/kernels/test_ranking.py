"""What records mean: latencies, ranks and verdicts, by hand and in any order."""

import math
import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from autotune.kernels.ranking import latency, rank, round_medians, screen
from autotune.kernels.schema import Block, KernelPoint, PointStatus
from tests.kernels.records import config, point, run

FAILED: tuple[PointStatus, ...] = ("unsupported", "oom", "crashed", "stalled", "failed")


def test_the_median_keeps_an_interrupted_call_out() -> None:
    found = round_medians(point(medians=(2e-3, 3e-3)))
    assert found == {0: 2e-3, 1: 3e-3}


def test_a_latency_is_a_geometric_mean_with_students_interval() -> None:
    """Against scipy's interval of the mean of logarithms."""
    medians = [1.0e-3, 1.2e-3, 0.9e-3, 1.05e-3, 1.4e-3]
    logs = [math.log(value) for value in medians]
    found = latency(point(medians=medians))
    assert found is not None and found.low_s is not None and found.high_s is not None
    assert found.n == 5
    assert found.latency_s == pytest.approx(statistics.geometric_mean(medians))
    low, high = stats.t.interval(0.95, 4, loc=statistics.fmean(logs), scale=stats.sem(logs))
    assert (found.low_s, found.high_s) == pytest.approx((math.exp(low), math.exp(high)))


def test_a_latency_by_hand() -> None:
    """Rounds of 1 and 4: their geometric mean is 2, their logarithms lie ln 2 from its."""
    found = latency(point(medians=(1.0, 4.0)))
    assert found is not None and found.low_s is not None and found.high_s is not None
    assert found.latency_s == pytest.approx(2.0)
    # t(0.975, 1) = 12.7062; the standard error is sqrt(2) ln 2 / sqrt(2).
    assert found.high_s / found.latency_s == pytest.approx(2**12.7062, rel=1e-4)
    assert found.latency_s / found.low_s == pytest.approx(2**12.7062, rel=1e-4)


def test_one_round_has_no_interval_and_none_no_latency() -> None:
    one = latency(point(medians=(2e-3,)))
    assert one is not None
    assert (one.latency_s, one.low_s, one.high_s, one.n) == (2e-3, None, None, 1)
    assert latency(point(medians=())) is None


def test_equal_rounds_are_exactly_their_time() -> None:
    found = latency(point(medians=(3e-3,) * 4))
    assert found is not None and found.low_s is not None and found.high_s is not None
    assert found.latency_s == 3e-3
    assert found.low_s == pytest.approx(3e-3) == found.high_s


def test_calls_that_took_no_time_have_a_latency() -> None:
    """A clock may be too coarse: a logarithm of zero isn't one."""
    found = latency(point(medians=(0.0, 0.0, 0.0)))
    assert found is not None and found.latency_s > 0


def test_a_block_without_calls_is_no_round() -> None:
    empty = KernelPoint(
        backend="fast", tokens=1, status="ok", blocks=(Block(0, 0, ()), Block(1, 0, (2e-3,)))
    )
    assert round_medians(empty) == {1: 2e-3}


def test_ranks_the_right_ones_by_latency() -> None:
    ranked = rank(
        [
            point("slow", medians=(2e-3, 2.2e-3, 1.8e-3)),
            point("fast", medians=(1e-3, 1.1e-3, 0.9e-3)),
            point("wrong", medians=(1e-4,) * 3, status="wrong", reason="off"),
            point("emulated", medians=(1e-4,) * 3, emulated=True),
            *(point(status, medians=(1e-4,) * 3, status=status) for status in FAILED),
            point("untimed", medians=()),
        ]
    )
    assert [one.backend for one in ranked] == ["fast", "slow"]
    fastest, other = ranked
    assert (fastest.ratio, fastest.ratio_low, fastest.ratio_high) == (1.0, None, None)
    # Every round has the same ratio, however much the rounds themselves differ.
    assert other.ratio == pytest.approx(2.0)
    assert other.ratio_low == pytest.approx(2.0) == other.ratio_high
    assert other.low_s is not None and other.low_s < other.latency_s


def test_ratios_are_of_rounds_that_both_have() -> None:
    ranked = rank(
        [
            point("fast", medians=(1.0, 10.0, 1.0), rounds=(0, 1, 2)),
            point("slow", medians=(30.0, 3.0), rounds=(1, 2)),
        ]
    )
    assert ranked[1].ratio == pytest.approx(3.0)
    assert ranked[1].n == 2


def test_without_a_shared_round_latencies_are_compared() -> None:
    ranked = rank(
        [
            point("fast", medians=(1.0, 1.0), rounds=(0, 1)),
            point("slow", medians=(5.0, 5.0), rounds=(2, 3)),
        ]
    )
    assert [(one.backend, one.ratio) for one in ranked] == [("fast", 1.0), ("slow", 5.0)]
    assert (ranked[1].ratio_low, ranked[1].ratio_high) == (None, None)


def test_a_tie_is_broken_by_name() -> None:
    ranked = rank([point("b"), point("a")])
    assert [(one.backend, one.ratio) for one in ranked] == [("a", 1.0), ("b", 1.0)]


def test_nothing_right_is_no_rank() -> None:
    assert rank([]) == ()
    assert rank([point(status="wrong"), point(emulated=True)]) == ()


def _screened(points: Sequence[KernelPoint]) -> dict[str, tuple[str, float | None, str]]:
    found = screen(run(), points)
    return {one.backend: (one.verdict, one.ratio, one.reason) for one in found.backends}


def test_a_backend_is_right_where_it_is_everywhere() -> None:
    found = _screened(
        [
            point("fast", 1),
            point("fast", 16),
            point("slow", 1, medians=(4e-3, 4.4e-3, 3.6e-3)),
            point("slow", 16, medians=(1e-3, 1.1e-3, 0.9e-3)),
        ]
    )
    assert found["fast"] == ("right", 1.0, "")
    verdict, ratio, reason = found["slow"]
    assert (verdict, reason) == ("right", "")
    assert ratio == pytest.approx(2.0)  # of 4 and 1


def test_one_wrong_batch_is_enough() -> None:
    found = _screened(
        [point("fast", 1), point("fast", 16, status="wrong", reason="off"), point("slow", 1)]
    )
    assert found["fast"] == ("wrong", None, "off")
    assert found["slow"][:2] == ("right", None)  # no rank at 16 tokens


@pytest.mark.parametrize("status", FAILED)
def test_a_batch_that_failed_says_nothing_of_right_and_wrong(status: PointStatus) -> None:
    failed = point("slow", 16, status=status, medians=(), reason="no room")
    found = _screened([point("fast", 1), point("fast", 16), point("slow", 1), failed])
    assert found["slow"] == ("right", None, "no room")
    alone = _screened([point("fast", 1), point("fast", 16), failed])
    assert alone["slow"] == ("unknown", None, "no room")


def test_what_is_wrong_is_told_before_what_failed() -> None:
    points = [
        point("fast", 1, status="oom", reason="no room"),
        point("fast", 16, status="wrong", reason="off"),
    ]
    assert _screened(points)["fast"] == ("wrong", None, "off")


def test_an_emulated_backend_has_a_verdict_and_no_ratio() -> None:
    found = _screened([point("fast", tokens, emulated=True) for tokens in (1, 16)])
    assert found["fast"] == ("right", None, "")


def test_a_screen_names_what_it_is_of() -> None:
    found = screen(run(config(tokens=(16, 1), architecture="MixtralForCausalLM")), [])
    assert list(found.ranks.items()) == [(1, ()), (16, ())]
    assert (found.geometry, found.architecture) == (config().layer.geometry, "MixtralForCausalLM")
    assert (found.scheme, found.arch, found.device_name) == ("bf16", "cpu-x86_64", "a processor")
    assert [(one.backend, one.verdict) for one in found.backends] == [
        ("fast", "unknown"),
        ("slow", "unknown"),
    ]


_times = st.floats(1e-7, 1e3)
_points = st.builds(
    point,
    st.sampled_from(["fast", "slow", "other"]),
    st.sampled_from([1, 16]),
    medians=st.lists(_times, max_size=4),
    status=st.sampled_from(["ok", "ok", "ok", "wrong", *FAILED]),
    emulated=st.booleans(),
    reason=st.sampled_from(["", "off", "no room"]),
)
_sets = st.lists(_points, max_size=6, unique_by=lambda one: (one.backend, one.tokens))


@given(_sets, st.randoms())
def test_the_order_of_records_has_no_meaning(
    points: list[KernelPoint], shuffler: random.Random
) -> None:
    asked = run(config(backends=("fast", "slow", "other")))
    shuffled = list(points)
    shuffler.shuffle(shuffled)
    assert screen(asked, shuffled) == screen(asked, points)
    for tokens in (1, 16):
        there = [one for one in points if one.tokens == tokens]
        assert rank([one for one in shuffled if one.tokens == tokens]) == rank(there)


@given(_sets)
def test_a_rank_is_sorted_and_the_fastest_has_one(points: list[KernelPoint]) -> None:
    ranked = rank([one for one in points if one.tokens == 1])
    assert [one.latency_s for one in ranked] == sorted(one.latency_s for one in ranked)
    assert [one.ratio for one in ranked[:1]] == [1.0] * len(ranked[:1])
    for one in ranked:
        assert one.n >= 1
        assert (one.low_s is None) == (one.n == 1)
        if one.low_s is not None and one.high_s is not None:
            # Equal rounds: the mean of logarithms is exact to its rounding only.
            assert one.low_s <= one.latency_s * (1 + 1e-12)
            assert one.high_s >= one.latency_s * (1 - 1e-12)
