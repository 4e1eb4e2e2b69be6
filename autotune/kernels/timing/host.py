"""Timing calls on a CPU: a stamp before and after each.

A block is some calls in a row after an untimed one, which wakes sleeping threads and fills the
caches. Blocks of several backends are interleaved by the caller (`autotune.kernels.run`).
"""

import time
from collections.abc import Callable

from autotune.errors import UsageError

_MOST_CALLS = 200


class HostTimer:
    """Times one call on the CPU; ``graph`` is for the GPU's sake."""

    graph = False

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def times_s(self, calls: int) -> tuple[float, ...]:
        """Return the time of each of ``calls`` calls, in seconds."""
        if calls < 1:
            raise UsageError("a block has at least one call")
        call, clock = self._call, time.perf_counter_ns
        times = [0] * calls
        call()
        for number in range(calls):
            start = clock()
            call()
            times[number] = clock() - start
        return tuple(nanoseconds * 1e-9 for nanoseconds in times)


def calls_per_block(latency_s: float, *, block_s: float) -> int:
    """Return how many calls of ``latency_s`` fill about ``block_s``: 1 to 200."""
    return max(1, min(_MOST_CALLS, round(block_s / max(latency_s, 1e-9))))
