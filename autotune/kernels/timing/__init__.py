"""Timing calls: `host` by the processor's clock, `cuda` by the GPU's own."""

from typing import Protocol


class Timer(Protocol):
    """Times one call. ``graph`` says whether a CUDA graph of it is replayed."""

    graph: bool

    def times_s(self, calls: int) -> tuple[float, ...]:
        """Return the time of each of ``calls`` calls in a row, in seconds."""
        ...
