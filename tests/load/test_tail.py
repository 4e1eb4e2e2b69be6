"""Requests that follow a point's measured ones: they enter no figure, and their failures count."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.load.client import Endpoint, run_async
from autotune.load.judge import judge_point
from autotune.load.metrics import figures
from autotune.load.point import measure_point
from autotune.load.requests_table import read_requests, write_requests
from autotune.load.workload import Prompt
from tests.load.synthetic import lock_step, request

WARMUP = [Prompt(text=f"w{i} two three") for i in range(4)]
MEASURED = [Prompt(text=f"p{i} two three") for i in range(16)]
TAIL = [
    Prompt(text=f"t{i} is longer than they are", max_tokens=9, role="probe")
    if i % 4 == 0
    else Prompt(text=f"t{i} two three", role="filler")
    for i in range(8)
]
ROLES = ["measured"] * 16 + ["probe", "filler", "filler", "filler"] * 2


def measure(stub, *, options=None, **behaviour):
    async def run():
        async with stub.running(stub.Behaviour(**behaviour)) as server:
            point = await measure_point(
                Endpoint(base_url=f"http://127.0.0.1:{server.port}", model="tiny"),
                WARMUP,
                MEASURED,
                tail=TAIL,
                concurrency=4,
                max_tokens=6,
                asked_input_tokens=3,
                asked_output_tokens=6,
                **(options or {}),
            )
            return point, server.stats

    return run_async(run())


def with_role(record, role):
    return msgspec.structs.replace(record, role=role)


def tail_of(requests, *roles, **fields):
    """Requests that were sent after all of ``requests``, a second apart."""
    first = max(one.sent_at_s for one in requests)
    return [
        with_role(
            request(
                len(requests) + i,
                sent=first + 1 + i,
                chunks=(first + 2 + i, first + 9 + i),
                **({"input_tokens": 999, "cached_tokens": 500} | fields),
            ),
            role,
        )
        for i, role in enumerate(roles)
    ]


def test_a_tail_is_asked_last_and_enters_no_figure(stub):
    point, stats = measure(stub, token_delay_s=0.002)
    assert (point.status, point.reason) == ("ok", None)
    assert stats.requests == 28 and stats.peak_in_flight == 4
    assert [one.role for one in point.requests] == ROLES
    measured = [one for one in point.requests if one.role == "measured"]
    assert figures(measured, concurrency=4) == point.figures
    assert point.figures.output_tokens_mean == 6.0 and point.figures.input_tokens_mean == 3.0
    last = max(one.sent_at_s for one in measured)
    assert all(one.sent_at_s >= last for one in point.requests if one.role != "measured")


def test_a_tail_starts_while_the_last_measured_requests_run(stub):
    point, _ = measure(stub, token_delay_s=0.005)
    ended = max(one.ended_at_s for one in point.requests if one.role == "measured")
    assert min(one.sent_at_s for one in point.requests if one.role != "measured") <= ended


def test_a_tails_answers_come_back_in_the_order_of_its_prompts(stub):
    point, stats = measure(stub, token_delay_s=0.002)
    assert [answer.record.index for answer in point.tail] == list(range(16, 24))
    assert [answer.record.role for answer in point.tail] == ROLES[16:]
    assert [answer.record.output_tokens for answer in point.tail] == [9, 6, 6, 6] * 2
    assert [answer.text for answer in point.tail[:2]] == [" tok" * 9, " tok" * 6]
    asked = {body["prompt"]: body["max_tokens"] for body in stats.bodies}
    assert all(asked[prompt.text] == (prompt.max_tokens or 6) for prompt in TAIL)


def test_roles_survive_in_the_table(stub, tmp_path: Path):
    point, _ = measure(stub)
    write_requests(tmp_path / "requests.parquet", point.requests)
    assert read_requests(tmp_path / "requests.parquet") == point.requests
    assert [one.role for one in read_requests(tmp_path / "requests.parquet")] == ROLES


@pytest.mark.parametrize(
    ("behaviour", "options", "status", "said"),
    [
        ({"fault": "http_500", "fault_from": 20}, {}, "request_errors", "http_error"),
        ({"fault": "close_server", "fault_from": 22}, {}, "crashed", "connection"),
        ({"fault": "hang", "fault_from": 22}, {"stall_timeout_s": 0.3}, "stalled", "timeout"),
    ],
)
def test_a_server_that_breaks_in_the_tail_has_broken(stub, behaviour, options, status, said):
    point, _ = measure(stub, options=options, token_delay_s=0.001, **behaviour)
    assert point.status == status
    assert said in point.reason
    # What a run that was cut short didn't ask says nothing.
    assert status == "stalled" or len(point.tail) == 8
    assert not point.tail or {answer.record.outcome for answer in point.tail} != {"ok"}
    assert point.figures is not None and point.figures.output_tokens_mean == 6.0


def test_what_was_never_sent_is_no_answer(stub):
    point, _ = measure(stub, token_delay_s=0.001, fault="close_server", fault_from=8)
    assert point.status == "crashed"
    assert point.tail == []


def test_a_point_that_was_interrupted_has_no_tail(stub):
    async def run():
        stop = asyncio.Event()
        async with stub.running(stub.Behaviour(token_delay_s=0.005)) as server:
            return await measure_point(
                Endpoint(base_url=f"http://127.0.0.1:{server.port}", model="tiny"),
                WARMUP,
                MEASURED,
                tail=TAIL,
                concurrency=4,
                max_tokens=6,
                stop=stop,
                on_progress=lambda progress: stop.set() if progress.finished >= 17 else None,
            )

    point = run_async(run())
    assert point.interrupted and point.tail == [] and point.figures is None


def judge(requests, **options):
    return judge_point(requests, figures(requests, concurrency=4), concurrency=4, **options)


def codes(verdict):
    return [warning.code for warning in verdict.warnings]


def test_a_tail_of_another_shape_is_no_mismatch_and_no_warning():
    requests = lock_step(4, 84)
    tailed = [*requests, *tail_of(requests, *["probe", "filler"] * 4)]
    verdict = judge(tailed, asked_input_tokens=10, asked_output_tokens=8)
    assert (verdict.status, verdict.warnings) == ("ok", ())


def test_failures_in_the_tail_count():
    requests = lock_step(4, 84)
    failing = tail_of(requests, "probe", "filler", "probe", "filler", outcome="http_error")
    verdict = judge([*requests, *failing])
    assert verdict.status == "request_errors"
    assert "4 of 88 requests failed (4 http_error)" in verdict.reason
    few = [*lock_step(4, 200), *tail_of(lock_step(4, 200), "probe", outcome="timeout")]
    assert (judge(few).status, codes(judge(few))) == ("ok", ["request_failures"])


def test_a_healthy_tail_does_not_dilute_failures_of_measured_requests():
    requests = lock_step(4, 84)
    bad = [
        msgspec.structs.replace(one, outcome="bad_stream", chunk_at_s=()) if one.index == 9 else one
        for one in requests
    ]
    assert judge(bad).status == "request_errors"
    healthy = tail_of(bad, *["filler"] * 200)
    assert "1 of 84" in judge([*bad, *healthy]).reason


def test_a_crash_in_the_tail_is_a_crash():
    """All measured requests went well, and so did their last three."""
    requests = lock_step(4, 84)
    gone = tail_of(requests, "probe", "filler", "filler", outcome="connection")
    verdict = judge([*requests, *gone], not_sent=5)
    assert verdict.status == "crashed"
    assert "3 of 87 requests failed (3 connection), 5 more were not sent" in verdict.reason
    silent = tail_of(requests, "probe", "filler", outcome="timeout")
    assert judge([*requests, *silent], not_sent=5).status == "stalled"


measured_runs = st.builds(
    lock_step, st.sampled_from([1, 4, 16]), st.integers(32, 64), tokens=st.integers(2, 9)
)
roles = st.lists(st.sampled_from(["probe", "filler"]), min_size=1, max_size=9)


@given(measured_runs, roles, st.integers(1, 999), st.sampled_from(["ok", "timeout"]))
def test_no_tail_changes_any_figure(requests, asked, tokens, outcome):
    tail = tail_of(requests, *asked, output_tokens=tokens, outcome=outcome)
    for concurrency in (1, 4):
        alone = figures(requests, concurrency=concurrency)
        assert figures([*requests, *tail], concurrency=concurrency) == alone
        assert figures([*tail, *requests], concurrency=concurrency) == alone


def test_a_tail_alone_has_no_figures():
    assert figures(tail_of([request()], "probe", "filler"), concurrency=1) is None
