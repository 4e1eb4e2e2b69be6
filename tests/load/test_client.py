import asyncio
import gc
import time

import pytest

from autotune.load.client import Endpoint, Progress, ask, open_session, run_async, run_closed_loop
from autotune.load.workload import Prompt

PROMPTS = [Prompt(text=f"p{i} two three") for i in range(24)]


def served(stub, main, **behaviour):
    """Run ``main(endpoint, stub)`` against a stub server of that behaviour."""

    async def run():
        async with stub.running(stub.Behaviour(**behaviour)) as server:
            return await main(endpoint(server), server)

    return run_async(run())


def endpoint(server, **fields):
    return Endpoint(base_url=f"http://127.0.0.1:{server.port}", model="tiny", **fields)


def loop(target, prompts=PROMPTS, *, concurrency=8, max_tokens=6, **options):
    return run_closed_loop(
        target, prompts, concurrency=concurrency, max_tokens=max_tokens, **options
    )


def outcomes(run):
    return [answer.record.outcome for answer in run.answers()]


@pytest.mark.parametrize("concurrency", [1, 3, 8, 24])
def test_exactly_the_concurrency_is_in_flight(stub, concurrency):
    async def main(target, server):
        run = await loop(target, concurrency=concurrency)
        return run, server.stats

    run, stats = served(stub, main, token_delay_s=0.002)
    assert stats.peak_in_flight == concurrency
    assert stats.requests == 24 and len(stats.received_at_s) == 24
    assert outcomes(run) == ["ok"] * 24
    assert (run.not_sent, run.stopped) == (0, None)


def test_stamps_are_in_order_and_on_the_servers_clock(stub):
    async def main(target, server):
        run = await loop(target)
        return run, server.stats

    run, stats = served(stub, main, token_delay_s=0.002)
    for raw in run.requests:
        name = f"p{raw.index}"
        assert raw.sent_at_s <= stats.received_at_s[name] <= stats.first_token_at_s[name]
        assert stats.first_token_at_s[name] <= raw.stamps[0]
        assert [*raw.stamps, raw.ended_at_s] == sorted([*raw.stamps, raw.ended_at_s])
    records = [answer.record for answer in run.answers()]
    assert min(record.sent_at_s for record in records) == 0.0
    assert all(len(record.chunk_at_s) == 6 for record in records)


def test_what_is_asked_of_the_server(stub):
    async def main(target, server):
        fields = {"base_url": target.base_url + "/v1/", "model": "tiny"}
        await loop(Endpoint(**fields), [Prompt(token_ids=(5, 6))])
        await loop(
            Endpoint(**fields, kind="chat", ignore_eos=True, extra_body={"top_k": 1}), [PROMPTS[0]]
        )
        return server.stats.bodies

    plain, chat = served(stub, main)
    common = {
        "model": "tiny",
        "max_tokens": 6,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert plain == common | {"prompt": [5, 6]}
    messages = [{"role": "user", "content": "p0 two three"}]
    assert chat == common | {"messages": messages, "ignore_eos": True, "top_k": 1}


def test_a_prompt_may_ask_for_its_own_length(stub):
    async def main(target, server):
        own = Prompt(text="p0 two", max_tokens=2)
        answers = await ask(target, [own, PROMPTS[1]], max_tokens=6, timeout_s=20)
        return answers, [body["max_tokens"] for body in server.stats.bodies]

    answers, asked = served(stub, main)
    assert asked == [2, 6]
    assert [answer.record.output_tokens for answer in answers] == [2, 6]


def test_requests_keep_their_prompts_roles(stub):
    # Many more than the loop sends before it gives up: on a busy machine requests that were cut
    # end late, between those that are refused.
    roles = ["measured", "filler", "probe"] * 80
    prompts = [Prompt(text=f"p{index} two three", role=role) for index, role in enumerate(roles)]

    async def main(target, server):
        return await loop(target, prompts, concurrency=4)

    run = served(stub, main, token_delay_s=0.001, fault="close_server", fault_from=14)
    answers = run.answers_to(prompts)
    assert [answer.record.role for answer in answers] == roles
    assert [answer.record.index for answer in answers] == list(range(240))
    by_index = {answer.record.index: answer.record.role for answer in run.answers()}
    assert all(by_index[index] == roles[index] for index in by_index) and run.not_sent > 0


def test_headers_reach_the_server():
    async def main():
        seen = []

        async def handle(reader, writer):
            seen.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
            writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n")
            writer.write(b"Set-Cookie: a=b\r\n\r\n")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            target = Endpoint(
                base_url=f"http://127.0.0.1:{port}",
                model="m",
                headers={"Authorization": "Bearer x"},
            )
            run = await loop(target, PROMPTS[:2], concurrency=1)
        return seen, outcomes(run)

    seen, found = run_async(main())
    assert found == ["http_error"] * 2
    assert all("authorization: bearer x\r\n" in head for head in seen)
    assert all("accept-encoding: identity\r\n" in head for head in seen)
    assert not any("cookie" in head for head in seen)


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        ({}, "completions"),
        ({"tokens_per_event": 4}, "completions"),
        ({"word": " né日", "cut_bytes": 7}, "completions"),
        ({"channel": "reasoning_content", "role_first": True, "token_delay_s": 0.001}, "chat"),
        ({"channel": "tool_calls"}, "chat"),
        ({"cut_bytes": 1}, "chat"),
    ],
)
def test_answers_are_whole_however_they_are_sent(stub, behaviour, kind):
    async def main(target, server):
        chat = endpoint(server, kind=kind)
        return await ask(chat, PROMPTS[:4], max_tokens=6, timeout_s=20, concurrency=4)

    for answer in served(stub, main, **behaviour):
        reasons = behaviour.get("channel") == "reasoning_content"
        said = answer.reasoning if reasons else answer.text
        assert said == answer.text + answer.reasoning == behaviour.get("word", " tok") * 6
        record = answer.record
        assert (record.outcome, record.output_tokens, record.input_tokens) == ("ok", 6, 3)
        assert record.finish_reason == "length"


@pytest.mark.parametrize(
    ("behaviour", "outcome", "said"),
    [
        ({"fault": "http_500"}, "http_error", "HTTP 500: out of"),
        ({"fault": "hang"}, "timeout", "within 0.2 s"),
        ({"fault": "hang_mid_stream", "token_delay_s": 0.001}, "timeout", "within 0.2 s"),
        ({"fault": "die_mid_stream", "token_delay_s": 0.001}, "bad_stream", "connection lost"),
        ({"fault": "error_in_stream", "token_delay_s": 0.001}, "bad_stream", "CUDA"),
        ({"fault": "no_end"}, "bad_stream", "neither [DONE]"),
        ({"fault": "empty"}, "empty", "no text"),
    ],
)
def test_faults_are_named(stub, behaviour, outcome, said):
    async def main(target, server):
        return await ask(target, PROMPTS[:3], max_tokens=6, timeout_s=0.2, concurrency=3)

    for answer in served(stub, main, **behaviour):
        assert answer.record.outcome == outcome
        assert said in answer.record.error


def test_no_usage_is_no_count(stub):
    async def main(target, server):
        return await ask(target, PROMPTS[:1], max_tokens=6, timeout_s=20)

    (answer,) = served(stub, main, usage=False)
    assert (answer.record.outcome, answer.record.output_tokens) == ("ok", None)


def test_a_dead_server_is_not_hammered(stub):
    async def main(target, server):
        run = await loop(target, concurrency=4)
        return run

    run = served(stub, main, token_delay_s=0.001, fault="close_server", fault_from=9)
    found = outcomes(run)
    assert found[:4] == ["ok"] * 4
    assert found[-1] == "connection"
    assert len(run.requests) + run.not_sent == 24 and run.not_sent > 0
    assert "can't be reached" in run.stopped


def test_asking_a_server_that_is_not_there():
    target = Endpoint(base_url="http://127.0.0.1:1", model="m")
    answers = run_async(ask(target, PROMPTS[:9], max_tokens=1, timeout_s=5, concurrency=2))
    assert [a.record.index for a in answers] == list(range(9))
    assert {a.record.outcome for a in answers} == {"connection"}
    assert "not sent" in answers[-1].record.error


def test_a_silent_server_ends_the_run(stub):
    async def main(target, server):
        return await loop(target, concurrency=4, stall_timeout_s=0.3)

    run = served(stub, main, fault="hang", fault_from=6)
    assert outcomes(run).count("timeout") == 4
    assert (len(run.requests), run.not_sent) == (10, 14)
    assert "no byte" in run.stopped


def test_stopping_leaves_out_what_was_in_flight(stub):
    async def main(target, server):
        stop = asyncio.Event()

        def report(progress):
            if progress.finished == 8:
                stop.set()

        run = await loop(target, concurrency=4, stop=stop, on_progress=report)
        return run, [task.get_coro().__qualname__ for task in asyncio.all_tasks()]

    run, tasks = served(stub, main, token_delay_s=0.005)
    assert run.stopped == "stopped on request"
    assert set(outcomes(run)) == {"ok"}
    assert 8 <= len(run.requests) < 24 and len(run.requests) + run.not_sent == 24
    assert "_Loop.work" not in tasks


def test_progress_counts_failures(stub):
    seen = []

    async def main(target, server):
        await loop(target, PROMPTS[:5], concurrency=1, on_progress=seen.append)

    served(stub, main, token_delay_s=0.001, fault="http_500", fault_from=3)
    assert seen[-1] == Progress(finished=5, failed=2, total=5)
    assert [progress.finished for progress in seen] == [1, 2, 3, 4, 5]


def test_connections_are_kept_between_runs_of_one_session(stub):
    async def main(target, server):
        async with open_session(target, concurrency=4) as session:
            await loop(target, concurrency=4, session=session)
            before = set(server.connections)
            await loop(target, concurrency=4, session=session)
            return before, set(server.connections)

    before, after = served(stub, main, token_delay_s=0.001)
    assert len(before) == 4 and before == after


def test_an_error_in_progress_reporting_is_raised(stub):
    async def main(target, server):
        def report(progress):
            raise RuntimeError("our own mistake")

        await loop(target, on_progress=report)

    with pytest.raises(RuntimeError, match="our own mistake"):
        served(stub, main)


def test_the_collector_is_off_while_measuring_and_back_after(stub):
    async def main(target, server):
        states = []
        await loop(target, on_progress=lambda _: states.append(gc.isenabled()))
        return states

    assert gc.isenabled()
    assert not any(served(stub, main))
    assert gc.isenabled()


def test_no_prompts_is_an_empty_run(stub):
    async def main(target, server):
        return await loop(target, [])

    assert served(stub, main).requests == []


def test_the_clock_is_shared_and_monotonic():
    assert time.get_clock_info("perf_counter").monotonic
