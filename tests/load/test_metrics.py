import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.load.metrics import distribution, figures, itl_s, peak_streaming, tpot_s, ttft_s
from tests.load.synthetic import closed_loop, lock_step, request, staggered

LADDER = [1, 2, 3, 7, 16, 64, 128]


def test_figures_of_two_requests_by_hand():
    a = request(0, sent=0.0, chunks=(1.0, 2.0), ended=2.1)
    b = request(1, sent=2.1, chunks=(3.1, 4.1), ended=4.2, cached_tokens=4)
    found = figures([a, b], concurrency=1)
    assert found.window_s == pytest.approx(2.1)
    assert found.output_tokens_per_s == pytest.approx(2 / 2.1)
    assert found.total_tokens_per_s == pytest.approx(12 / 2.1)
    assert found.requests_per_s == pytest.approx(1 / 2.1)
    assert found.whole_run_output_tokens_per_s == pytest.approx(4 / 4.2)
    assert found.achieved_concurrency == pytest.approx(2.0 / 2.1)
    assert found.peak_streaming == 1
    assert (found.input_tokens_mean, found.cached_tokens_mean) == (10.0, 2.0)
    assert found.ttft_s.mean == pytest.approx(1.0)
    assert found.latency_s.mean == pytest.approx(2.0)
    assert found.tpot_s.mean == pytest.approx(1.0)


@pytest.mark.parametrize("concurrency", LADDER)
@pytest.mark.parametrize("rounds", [2, 3, 5, 10])
@pytest.mark.parametrize("server", [lock_step, staggered])
def test_an_ideal_server_reaches_its_concurrency(server, concurrency, rounds):
    for extra in (0, 1, concurrency // 2):
        requests = server(concurrency, rounds * concurrency + extra)
        found = figures(requests, concurrency=concurrency)
        assert 0.95 <= found.achieved_concurrency <= 1.02


@pytest.mark.parametrize("concurrency", LADDER)
@pytest.mark.parametrize("rounds", [2, 3, 10])
def test_lock_step_throughput_is_exact(concurrency, rounds):
    found = figures(lock_step(concurrency, rounds * concurrency), concurrency=concurrency)
    assert found.output_tokens_per_s == pytest.approx(concurrency * 8 / 2.0, rel=1e-3)
    assert found.requests_per_s == pytest.approx(concurrency / 2.0, rel=1e-3)
    assert found.total_tokens_per_s == pytest.approx(concurrency * 18 / 2.0, rel=1e-3)
    assert found.peak_streaming == concurrency


@pytest.mark.parametrize("concurrency", [16, 64, 128])
def test_staggered_throughput_is_close(concurrency):
    found = figures(staggered(concurrency, 10 * concurrency), concurrency=concurrency)
    truth = concurrency * 8 / 2.0
    assert 0.96 * truth <= found.output_tokens_per_s <= 1.03 * truth


def test_idle_slots_are_seen():
    slow_client = closed_loop(4, 40, lambda: (0.5, 2.0), tokens=8, idle=0.5)
    assert figures(slow_client, concurrency=4).achieved_concurrency == pytest.approx(0.8, rel=0.03)


def test_a_server_side_cap_shows_in_peak_streaming_alone():
    # 8 in flight, but only 2 answered at a time: the others wait for their first token.
    capped = [
        request(i, sent=max(0, i // 2 - 3) * 2.0, chunks=(i // 2 * 2.0 + 0.5, i // 2 * 2.0 + 2.0))
        for i in range(40)
    ]
    found = figures(capped, concurrency=8)
    assert found.achieved_concurrency > 0.94
    assert found.peak_streaming == 2


def test_sent_all_at_once_the_window_is_the_whole_run():
    found = figures([request(i, sent=i * 1e-5, chunks=(1.0, 2.0)) for i in range(4)], concurrency=4)
    assert found.window_s == pytest.approx(2.0)
    assert found.output_tokens_per_s == pytest.approx(4.0)


def test_failed_requests_give_no_figures():
    assert figures([request(outcome="timeout", chunks=())], concurrency=1) is None
    good, bad = request(0), request(1, sent=2.0, chunks=(), outcome="http_error", ended=3.0)
    found = figures([good, bad], concurrency=1)
    assert (found.window_s, found.output_tokens_per_s, found.ttft_s.n) == (2.0, 1.0, 1)


def test_without_usage_nothing_is_invented():
    found = figures(
        [request(0), request(1, sent=2.0, chunks=(3.0, 4.0), output_tokens=None)], concurrency=1
    )
    assert found.output_tokens_per_s is None
    assert found.total_tokens_per_s is None
    assert found.whole_run_output_tokens_per_s is None
    assert (found.ttft_s.n, found.tpot_s.n, found.itl_s.n) == (2, 1, 1)


def test_several_tokens_in_a_chunk_share_its_gap():
    four_each = request(chunks=(1.0, 2.0, 3.0), output_tokens=12)
    assert itl_s(four_each) == [0.25] * 8
    assert tpot_s(four_each) == pytest.approx(2.0 / 11)
    together = request(chunks=(1.0, 1.0, 2.0, 2.0))
    assert itl_s(together) == [0.5, 0.5]
    assert ttft_s(together) == 1.0
    assert tpot_s(request(chunks=(1.0,))) is None
    assert itl_s(request(chunks=(1.0,))) == []


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=12))
def test_peak_is_the_most_that_overlap(spans):
    spans = [tuple(sorted(span)) for span in spans]
    expected = max((sum(a <= t <= b for a, b in spans) for t in range(21)), default=0)
    assert peak_streaming([request(chunks=span) for span in spans]) == expected


@given(st.lists(st.floats(0, 100), min_size=1, max_size=400))
def test_percentiles_agree_with_numpy_where_n_carries_them(values):
    found = distribution(values)
    assert found.n == len(values)
    assert found.mean == pytest.approx(np.mean(values))
    for name, needed in {"p50": 1, "p90": 29, "p95": 59, "p99": 299}.items():
        value = getattr(found, name)
        if len(values) < needed:
            assert value is None
        else:
            assert value == pytest.approx(np.percentile(values, int(name[1:])))


def test_no_values_have_no_percentiles():
    assert (distribution([]).n, distribution([]).mean) == (0, None)


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 5), st.floats(0, 5)), min_size=1))
def test_figures_are_never_negative_and_never_raise(rows):
    requests = [request(i, sent=s, chunks=(s + a, s + a + b)) for i, (s, a, b) in enumerate(rows)]
    found = figures(requests, concurrency=2)
    assert found.achieved_concurrency is None or found.achieved_concurrency >= 0
    assert found.output_tokens_per_s is None or found.output_tokens_per_s >= 0
    assert 1 <= found.peak_streaming <= len(rows)
