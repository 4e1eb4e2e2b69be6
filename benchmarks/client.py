"""How fast and how honest the load generator is, on one core against a stub that costs nothing.

    python benchmarks/client.py [--requests 12800] [--concurrency 128]

Prints one JSON object. ``saturated``: the stub sends 32 tokens at once, so the client is the
bottleneck; its TTFT is then concurrency / rate by Little's law and says nothing of the stub.
``paced``: the stub sends a token every 10 ms, so the client has time to spare, and its first
stamp is compared with the stub's own on the same clock: that difference is the TTFT bias.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean
from typing import Any

from autotune.load.client import ClosedLoopRun, Endpoint, open_session, run_async, run_closed_loop
from autotune.load.metrics import figures, percentile
from autotune.load.workload import Prompt

TOKENS = 32
_STUB = Path(__file__).with_name("stub.py")


def main() -> None:
    arguments = _arguments()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0]})
    stub_core = cores[1] if len(cores) > 1 else cores[0]
    count, concurrency = arguments.requests, arguments.concurrency
    result: dict[str, Any] = {"concurrency": concurrency, "tokens_per_request": TOKENS}
    with _stub({}, core=stub_core) as url:
        result["saturated"] = _ours(url, count, concurrency=concurrency, tag="saturated")
        others = _openai(url, count // 4, concurrency=concurrency)
    if others is not None:
        ours = result["saturated"]["output_tokens_per_s"]
        result["openai_package"] = others
        result["ratio_to_openai_package"] = round(ours / others["output_tokens_per_s"], 1)
    with _stub({"token_delay_s": 0.01}, core=stub_core) as url:
        result["paced"] = _ours(url, 10 * concurrency, concurrency=concurrency, tag="paced")
    print(json.dumps(result, indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--requests", type=int, default=12800)
    parser.add_argument("--concurrency", type=int, default=128)
    return parser.parse_args()


def _ours(url: str, count: int, *, concurrency: int, tag: str) -> dict[str, Any]:
    endpoint = Endpoint(base_url=url, model="stub")
    warmup = [Prompt(text=f"warm-up-{i} " + "x " * 31) for i in range(2 * concurrency)]
    prompts = [Prompt(text=f"{tag}-{i} " + "x " * 31) for i in range(count)]

    async def measure() -> ClosedLoopRun:
        async with open_session(endpoint, concurrency=concurrency) as session:
            for some in (warmup, prompts):
                run = await run_closed_loop(
                    endpoint,
                    some,
                    concurrency=concurrency,
                    max_tokens=TOKENS,
                    session=session,
                )
        return run

    run = run_async(measure())
    stats = _stats(url)
    records = [answer.record for answer in run.answers()]
    found = figures(records, concurrency=concurrency)
    assert found is not None and all(record.outcome == "ok" for record in records)
    return {
        "requests": count,
        "output_tokens_per_s": round(found.whole_run_output_tokens_per_s or 0),
        "client_in_flight_mean": round(concurrency * (found.achieved_concurrency or 0), 2),
        "stub_in_flight_peak": stats["peak_in_flight"],
        "client_cpu_share": round(run.busy, 3),
        "client_ttft_ms": _summary([1000 * (r.chunk_at_s[0] - r.sent_at_s) for r in records]),
        "ttft_bias_ms": _summary(_bias_ms(run, stats, tag)),
        "sent_to_received_ms": _summary(_way_there_ms(run, stats, tag)),
    }


def _bias_ms(run: ClosedLoopRun, stats: dict[str, Any], tag: str) -> list[float]:
    """The client's TTFT less the stub's own: both ways of the network and of the client."""
    bias = []
    for raw in run.requests:
        name = f"{tag}-{raw.index}"
        own = stats["first_token_at_s"][name] - stats["received_at_s"][name]
        bias.append(1000 * (raw.stamps[_first_token(raw.chunks)] - raw.sent_at_s - own))
    return bias


def _way_there_ms(run: ClosedLoopRun, stats: dict[str, Any], tag: str) -> list[float]:
    received = stats["received_at_s"]
    return [1000 * (received[f"{tag}-{raw.index}"] - raw.sent_at_s) for raw in run.requests]


def _first_token(chunks: list[bytes]) -> int:
    return next(i for i, chunk in enumerate(chunks) if b'"text"' in chunk)


def _openai(url: str, count: int, *, concurrency: int) -> dict[str, Any] | None:
    """The same closed loop with the ``openai`` package's streaming client, if it is installed."""
    try:
        from openai import AsyncOpenAI
    except ImportError:
        return None

    async def loop() -> float:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            pending = iter(range(count))

            async def slot() -> None:
                for i in pending:
                    stream = await client.completions.create(
                        model="stub",
                        prompt=f"openai-{i} " + "x " * 31,
                        max_tokens=TOKENS,
                        temperature=0,
                        stream=True,
                        stream_options={"include_usage": True},
                    )
                    async for _ in stream:
                        pass

            began = time.perf_counter()
            await asyncio.gather(*(slot() for _ in range(concurrency)))
            return time.perf_counter() - began

    took_s = run_async(loop())
    return {
        "requests": count,
        "output_tokens_per_s": round(count * TOKENS / took_s),
        "stub_in_flight_peak": _stats(url)["peak_in_flight"],
    }


def _summary(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "mean": round(fmean(ordered), 3),
        "p50": round(percentile(ordered, 0.5), 3),
        "p99": round(percentile(ordered, 0.99), 3),
    }


def _stats(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/stats", timeout=30) as response:
        found: dict[str, Any] = json.load(response)
        return found


@contextmanager
def _stub(behaviour: dict[str, Any], *, core: int) -> Iterator[str]:
    """Run the stub in a process and on a core of its own; end it afterwards."""
    process = subprocess.Popen(
        [sys.executable, str(_STUB), json.dumps(behaviour)], stdout=subprocess.PIPE, text=True
    )
    try:
        with suppress(OSError):
            os.sched_setaffinity(process.pid, {core})
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait(timeout=10)


if __name__ == "__main__":
    main()
