import pytest

from autotune.load.judge import judge_point
from autotune.load.metrics import figures
from tests.load.synthetic import closed_loop, lock_step, request


def judge(requests, *, concurrency=4, **options):
    return judge_point(
        requests, figures(requests, concurrency=concurrency), concurrency=concurrency, **options
    )


def codes(verdict):
    return [warning.code for warning in verdict.warnings]


def long_run(**changes):
    """40 s in lock-step at concurrency 4: nothing to complain of."""
    requests = lock_step(4, 84)
    return [with_changes(r, **changes) for r in requests]


def with_changes(record, **changes):
    return type(record)(
        **{name: getattr(record, name) for name in record.__struct_fields__} | changes
    )


def failed(index, outcome, *, sent=50.0):
    return request(index, sent=sent, chunks=(), outcome=outcome, ended=sent + 1, error="boom")


def test_a_good_point_has_no_warnings():
    verdict = judge(long_run(), asked_input_tokens=10, asked_output_tokens=8)
    assert (verdict.status, verdict.reason, verdict.warnings) == ("ok", None, ())


def test_a_short_window_is_said():
    verdict = judge(lock_step(4, 40))
    assert (verdict.status, codes(verdict)) == ("ok", ["window_short"])
    warning = verdict.warnings[0]
    assert (warning.observed, warning.threshold) == ("18.0 s", "30 s")
    assert warning.remedy


@pytest.mark.parametrize("asked", [{"asked_input_tokens": 11}, {"asked_output_tokens": 9}])
def test_other_lengths_than_asked(asked):
    verdict = judge(long_run(), **asked)
    assert verdict.status == "length_mismatch"
    assert str(next(iter(asked.values()))) in verdict.reason


def test_three_percent_is_tolerated():
    assert judge(long_run(input_tokens=103), asked_input_tokens=100).status == "ok"
    assert judge(long_run(input_tokens=104), asked_input_tokens=100).status == "length_mismatch"


def test_without_usage_a_point_is_not_ok():
    verdict = judge(long_run(output_tokens=None))
    assert verdict.status == "length_mismatch"
    assert "include_usage" in verdict.reason


def test_few_failures_warn_and_many_fail():
    requests = [*lock_step(4, 200), failed(200, "http_error", sent=90.0)]
    verdict = judge(requests)
    assert (verdict.status, codes(verdict)) == ("ok", ["request_failures"])
    verdict = judge([*requests, *(failed(201 + i, "http_error") for i in range(3))])
    assert verdict.status == "request_errors"
    assert "4 of 204" in verdict.reason and "4 http_error" in verdict.reason
    assert "boom" in verdict.reason


def test_only_timeouts_is_stalled():
    requests = [*long_run(), *(failed(90 + i, "timeout") for i in range(4))]
    assert judge(requests).status == "stalled"
    assert judge([failed(i, "timeout") for i in range(4)], not_sent=7).status == "stalled"
    assert judge([*requests, failed(99, "empty")]).status == "request_errors"


def test_refused_at_the_end_is_crashed():
    requests = [*long_run(), *(failed(90 + i, "connection", sent=50 + i) for i in range(4))]
    verdict = judge(requests, not_sent=12)
    assert verdict.status == "crashed"
    assert "12 more were not sent" in verdict.reason
    back = request(99, sent=60.0, chunks=(61.0, 62.0))
    assert judge([*requests, back]).status == "request_errors"


def test_nothing_sent():
    assert judge_point([], None, concurrency=1, not_sent=3).status == "request_errors"
    assert judge_point([], None, concurrency=1).status == "request_errors"


def test_unsteady_points_are_named():
    requests = closed_loop(
        8, 320, lambda: (0.2, 1.0), tokens=8, rate=lambda at_s: max(0.3, 1 - at_s / 60)
    )
    verdict = judge(requests, concurrency=8)
    assert verdict.status == "not_steady" and "first half" in verdict.reason


def test_a_cut_ramp_is_said():
    requests = closed_loop(
        8, 320, lambda: (0.2, 1.0), tokens=8, rate=lambda at_s: 0.5 if at_s < 7 else 1.0
    )
    verdict = judge(requests, concurrency=8)
    assert (verdict.status, codes(verdict)) == ("ok", ["ramp_cut"])


@pytest.mark.parametrize(
    ("idle", "status", "warned"),
    [
        (0.02, "ok", []),
        (0.16, "ok", ["concurrency_low"]),
        (0.4, "concurrency_not_reached", ["concurrency_low"]),
    ],
)
def test_idle_slots(idle, status, warned):
    requests = closed_loop(4, 100, lambda: (0.5, 2.0), tokens=8, idle=idle)
    verdict = judge(requests)
    assert (verdict.status, codes(verdict)) == (status, warned)


def test_more_in_progress_than_asked_is_said():
    assert "concurrency_high" in codes(judge(long_run(), concurrency=3))


def test_a_server_that_queues_is_said():
    capped = [
        request(
            i,
            sent=max(0, i // 2 - 3) * 2.0,
            chunks=[i // 2 * 2.0 + 0.4 * k for k in range(1, 6)],
        )
        for i in range(60)
    ]
    verdict = judge(capped, concurrency=8)
    assert "server_queues" in codes(verdict)
    assert "at most 2 of 8" in verdict.warnings[-1].observed


def test_answers_in_one_piece_do_not_look_queued():
    at_once = [with_changes(r, chunk_at_s=(r.chunk_at_s[-1],) * 8) for r in long_run()]
    assert "server_queues" not in codes(judge(at_once))


def test_prefix_cache_hits_are_said():
    assert codes(judge(long_run(input_tokens=100, cached_tokens=1))) == []
    assert codes(judge(long_run(input_tokens=100, cached_tokens=2))) == ["prefix_cache_hit"]
    assert codes(judge(long_run(cached_tokens=None))) == []


def test_a_late_first_token_is_said_but_not_in_the_first_wave():
    requests = lock_step(4, 84)

    def late(record):
        chunks = (record.sent_at_s + 4.0, *(t + 4.0 for t in record.chunk_at_s[1:]))
        return with_changes(record, chunk_at_s=chunks)

    in_first = [late(r) if r.index == 2 else r for r in requests]
    in_later = [late(r) if r.index == 50 else r for r in requests]
    assert "ttft_tail" not in codes(judge(in_first))
    assert "ttft_tail" in codes(judge(in_later))
