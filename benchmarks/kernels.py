"""What the layer sweep's harness adds to the time of a kernel.

    python benchmarks/kernels.py [--calls 20000]

Prints one JSON object. ``empty_call_s``: what the harness measures of a call that does nothing,
as the median of blocks. ``share_of_100_us``: that, of a kernel of 100 us. ``spin``: a call that
waits for 100 us by the same clock, and what the harness says it took. Where torch sees a GPU:
what the harness measures of the smallest kernel there is.
"""

import argparse
import json
import statistics
import time
from typing import Any

from autotune.kernels.timing import Timer
from autotune.kernels.timing.host import HostTimer

_KERNEL_S = 100e-6
_BLOCKS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--calls", type=int, default=20_000)
    calls = parser.parse_args().calls
    empty_s = _median_s(HostTimer(_nothing), calls)
    spin_s = _median_s(HostTimer(_spin), calls // 20)
    result: dict[str, Any] = {
        "empty_call_s": empty_s,
        "share_of_100_us": empty_s / _KERNEL_S,
        "spin": {"asked_s": _KERNEL_S, "measured_s": spin_s, "ratio": spin_s / _KERNEL_S},
    }
    gpu = _gpu(calls)
    if gpu is not None:
        result["gpu"] = gpu
    print(json.dumps(result, indent=2))


def _median_s(timer: Timer, calls: int) -> float:
    """The median over blocks of each block's median."""
    block = max(1, calls // _BLOCKS)
    return statistics.median(statistics.median(timer.times_s(block)) for _ in range(_BLOCKS))


def _nothing() -> None:
    """What an empty call is."""


def _spin() -> None:
    end = time.perf_counter_ns() + round(_KERNEL_S * 1e9)
    while time.perf_counter_ns() < end:
        pass


def _gpu(calls: int) -> dict[str, float] | None:
    import torch

    if not torch.cuda.is_available():
        return None
    from autotune.kernels.timing.cuda import CudaTimer

    one = torch.zeros(1, device="cuda")
    smallest_s = _median_s(CudaTimer(lambda: one.add_(1), cold_cache=False), min(calls, 4000))
    return {"smallest_kernel_s": smallest_s, "share_of_100_us": smallest_s / _KERNEL_S}


if __name__ == "__main__":
    main()
