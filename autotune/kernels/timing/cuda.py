"""Timing calls on an NVIDIA GPU: a CUDA graph replayed between two events.

A graph leaves out what Python and the launches cost, as servers do. A call that can't be captured
(it waits for the GPU, or allocates with the driver) is run as it is, and the record says so.
"""

from collections.abc import Callable

import torch

_WARM_CALLS = 3
# Half of the cache would survive a flush of the cache's own size if lines are kept by use.
_FLUSH_FACTOR = 2


class CudaTimer:
    """Times one call on the current CUDA device.

    Args:
        call: enqueues the work; what it returns is kept alive by the graph.
        cold_cache: whether the L2 cache is overwritten before each call.
    """

    def __init__(self, call: Callable[[], object], *, cold_cache: bool) -> None:
        self._flush = _flush_buffer() if cold_cache else None
        captured = _capture(call)
        self.graph = captured is not None
        self._run: Callable[[], object] = captured.replay if captured is not None else call

    def times_s(self, calls: int) -> tuple[float, ...]:
        """Return the time of each of ``calls`` calls, in seconds, after an untimed one."""
        starts = [torch.cuda.Event(enable_timing=True) for _ in range(calls)]
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(calls)]
        self._run()
        for start, end in zip(starts, ends, strict=True):
            if self._flush is not None:
                self._flush.zero_()
            start.record()
            self._run()
            end.record()
        torch.cuda.synchronize()
        return tuple(s.elapsed_time(e) * 1e-3 for s, e in zip(starts, ends, strict=True))


def _capture(call: Callable[[], object]) -> torch.cuda.CUDAGraph | None:
    """Capture ``call``, ``None`` if it can't be."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_CALLS):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            call()
        graph.replay()
        torch.cuda.synchronize()
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    return graph


def _flush_buffer() -> torch.Tensor:
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return torch.empty(_FLUSH_FACTOR * properties.L2_cache_size, dtype=torch.uint8, device="cuda")
