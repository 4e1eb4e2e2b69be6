import asyncio

import pytest

from autotune.errors import UsageError
from autotune.load.client import Endpoint, run_async
from autotune.load.point import measure_point
from autotune.load.workload import Prompt

WARMUP = [Prompt(text=f"w{i} two three") for i in range(4)]
PROMPTS = [Prompt(text=f"p{i} two three") for i in range(24)]


def measure(stub, *, prompts=PROMPTS, options=None, **behaviour):
    async def run():
        async with stub.running(stub.Behaviour(**behaviour)) as server:
            point = await measure_point(
                Endpoint(base_url=f"http://127.0.0.1:{server.port}", model="tiny"),
                WARMUP,
                prompts,
                concurrency=4,
                max_tokens=6,
                asked_input_tokens=3,
                asked_output_tokens=6,
                **(options or {}),
            )
            return point, server.stats

    return run_async(run())


def codes(point):
    return {warning.code for warning in point.warnings}


def test_a_point_is_warmed_up_measured_and_judged(stub):
    point, stats = measure(stub, token_delay_s=0.002)
    assert (point.status, point.reason, point.interrupted) == ("ok", None, False)
    assert stats.requests == 28
    assert [record.index for record in point.requests] == list(range(24))
    assert "window_short" in codes(point)
    assert point.figures.output_tokens_mean == 6.0
    assert point.figures.achieved_concurrency > 0.5


def test_the_warm_up_has_drained_before_the_first_measured_request(stub):
    _, stats = measure(stub, token_delay_s=0.002)
    received = stats.received_at_s
    assert max(received[f"w{i}"] for i in range(4)) < min(received[f"p{i}"] for i in range(24))
    assert stats.peak_in_flight == 4


def test_a_capped_server_is_said(stub):
    point, _ = measure(stub, token_delay_s=0.002, max_running=1)
    assert "server_queues" in codes(point)


@pytest.mark.parametrize(
    ("behaviour", "options", "status", "said"),
    [
        ({"word": ""}, {}, "request_errors", "24 empty"),
        ({"usage": False}, {}, "length_mismatch", "include_usage"),
        ({"fault": "http_500", "token_delay_s": 0.001}, {}, "request_errors", "24 http_error"),
        (
            {"fault": "close_server", "fault_from": 12, "token_delay_s": 0.001},
            {},
            "crashed",
            "not sent",
        ),
        ({"fault": "close_server", "token_delay_s": 0.001}, {}, "crashed", "connection)"),
        (
            {"fault": "hang", "fault_from": 12},
            {"stall_timeout_s": 0.2},
            "stalled",
            "4 timeout",
        ),
        ({"fault": "hang"}, {"stall_timeout_s": 0.2}, "stalled", "in the warm-up: no byte"),
    ],
)
def test_failures_are_named(stub, behaviour, options, status, said):
    point, _ = measure(stub, options=options, **behaviour)
    assert point.status == status
    assert said in point.reason


def test_a_server_that_is_gone_from_the_start():
    point = run_async(
        measure_point(
            Endpoint(base_url="http://127.0.0.1:1", model="m"),
            WARMUP,
            PROMPTS,
            concurrency=4,
            max_tokens=6,
        )
    )
    assert (point.status, point.figures, point.requests) == ("crashed", None, [])
    assert "in the warm-up" in point.reason


def test_other_lengths_than_asked(stub):
    point, _ = measure(stub, prompts=[Prompt(text=f"p{i} two") for i in range(24)])
    assert point.status == "length_mismatch"
    assert "asked were 3" in point.reason


@pytest.mark.parametrize("stop_after", [0, 6])
def test_an_interrupted_point_says_so(stub, stop_after):
    async def run():
        stop = asyncio.Event()
        if stop_after == 0:
            stop.set()

        def report(progress):
            if progress.finished == stop_after:
                stop.set()

        async with stub.running(stub.Behaviour(token_delay_s=0.002)) as server:
            return await measure_point(
                Endpoint(base_url=f"http://127.0.0.1:{server.port}", model="tiny"),
                WARMUP,
                PROMPTS,
                concurrency=4,
                max_tokens=6,
                stop=stop,
                on_progress=report,
            )

    point = run_async(run())
    assert point.interrupted and point.figures is None and point.status != "ok"


@pytest.mark.parametrize(("warmups", "count", "concurrency"), [(3, 24, 4), (4, 7, 4), (4, 24, 0)])
def test_too_few_prompts_are_refused(warmups, count, concurrency):
    with pytest.raises(UsageError, match="can't be measured"):
        run_async(
            measure_point(
                Endpoint(base_url="http://127.0.0.1:1", model="m"),
                WARMUP[:warmups],
                PROMPTS[:count],
                concurrency=concurrency,
                max_tokens=6,
            )
        )
