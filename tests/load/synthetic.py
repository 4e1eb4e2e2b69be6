"""Made-up requests of servers whose true figures are known."""

import heapq
import random

from autotune.records.schema import RequestRecord


def request(index=0, *, sent=0.0, chunks=(1.0, 2.0), outcome="ok", **fields):
    """A request whose chunks arrived at the given seconds."""
    fields = {"input_tokens": 10, "output_tokens": len(chunks), "cached_tokens": 0} | fields
    ended = fields.pop("ended", chunks[-1] if chunks else sent)
    return RequestRecord(
        index=index,
        outcome=outcome,
        sent_at_s=sent,
        ended_at_s=ended,
        chunk_at_s=tuple(chunks) if outcome == "ok" else (),
        **fields,
    )


def lock_step(concurrency, count, *, latency=2.0, ttft=0.5, tokens=8, jitter=1e-4):
    """All slots begin and end together, but for the client's microseconds."""
    rng = random.Random(concurrency * 1000 + count)
    return closed_loop(
        concurrency,
        count,
        lambda: (ttft, latency + rng.uniform(0, jitter)),
        tokens=tokens,
    )


def staggered(concurrency, count, *, latency=2.0, ttft=0.5, tokens=8, spread=0.5):
    """Answers of different length in time, so that slots drift apart."""
    rng = random.Random(concurrency * 1000 + count)
    return closed_loop(
        concurrency,
        count,
        lambda: (ttft, latency * rng.uniform(1 - spread, 1 + spread)),
        tokens=tokens,
    )


def closed_loop(concurrency, count, times, *, tokens, rate=lambda at_s: 1.0, idle=0.0):
    """A client that holds ``concurrency`` in flight; ``times()`` gives (ttft, latency)."""
    slots = [0.0] * concurrency
    made = []
    for index in range(count):
        sent = heapq.heappop(slots)
        ttft, latency = times()
        slow = 1 / rate(sent)
        step = (latency - ttft) * slow / (tokens - 1)
        chunks = [sent + ttft * slow + i * step for i in range(tokens)]
        made.append(request(index, sent=sent, chunks=chunks))
        heapq.heappush(slots, chunks[-1] + idle)
    return made
