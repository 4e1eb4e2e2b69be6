"""The device that kernels run on, and what it could do at most: its roof.

Roofs are measured here by a large product and a large copy, so that they are this machine's and
no data sheet's; what few bits could do beyond bfloat16 is taken from the published figures.
"""

import os
import platform
import time
from collections.abc import Callable

import torch

from autotune.decisions.arch import device_label
from autotune.environment import processor_name
from autotune.errors import UsageError
from autotune.kernels.backends.protocol import Device
from autotune.kernels.schema import Roof

_ROOF_SECONDS = 0.15
_CPU_SIDE, _GPU_SIDE = 768, 8192
_CPU_COPY_BYTES, _GPU_COPY_BYTES = 2**27, 2**31
# How much more a tensor core multiplies in fewer bits, against bfloat16, dense: NVIDIA's data
# sheets of H100/H200 (FP8 twice) and B200/GB200 (FP8 twice, FP4 four times).
_SPEED_UP = {
    "sm90": {"fp8": 2.0, "fp8_block": 2.0},
    "sm10": {"fp8": 2.0, "fp8_block": 2.0, "mxfp8": 2.0, "nvfp4": 4.0, "mxfp4": 2.0},
}


def find_device(asked: str) -> Device:
    """Return the device that ``asked`` names: ``auto``, ``cpu`` or ``cuda``.

    Raises:
        UsageError: ``cuda`` where there is none.
    """
    if asked != "cpu" and torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return Device(
            kind="cuda",
            name=device_label(properties.name),
            arch=f"sm{properties.major}{properties.minor}",
            capability=(properties.major, properties.minor),
            memory_bytes=properties.total_memory,
        )
    if asked == "cuda":
        raise UsageError("--device cuda: torch sees no NVIDIA GPU here: use --device cpu")
    return Device(
        kind="cpu",
        name=processor_name(),
        arch=f"cpu-{platform.machine()}",
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def free_bytes(device: Device) -> int:
    """Return how much memory can still be had."""
    if device.kind == "cuda":
        free, _ = torch.cuda.mem_get_info()
        cached = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return int(free + cached)
    import psutil  # type: ignore[import-untyped]

    return int(psutil.virtual_memory().available)


def measure_roof(device: Device, scheme: str) -> Roof:
    """Measure what ``device`` can do: a product of square matrices, and a copy.

    The product in bfloat16 or in float32, whichever is faster: not every CPU multiplies bfloat16.
    A product of n x n matrices is ``2 n^3`` operations; a copy reads and writes each byte.
    """
    on_gpu = device.kind == "cuda"
    side = _GPU_SIDE if on_gpu else _CPU_SIDE
    size = _GPU_COPY_BYTES if on_gpu else _CPU_COPY_BYTES
    product_s = min(_product_s(side, dtype, device) for dtype in (torch.bfloat16, torch.float32))
    source = torch.ones(size, dtype=torch.uint8, device=device.kind)
    target = torch.empty_like(source)
    copy_s = _best_s(lambda: target.copy_(source), device)
    family = device.arch[:4]
    factor = _SPEED_UP.get(family, {}).get(scheme, 1.0)
    source_words = "measured: product in bfloat16 or float32, copy"
    if factor != 1.0:
        source_words += f"; times {factor:g} for {scheme}, by NVIDIA's data sheet"
    return Roof(
        flops_per_s=2.0 * side**3 / product_s * factor,
        bytes_per_s=2.0 * size / copy_s,
        source=source_words,
    )


def _product_s(side: int, dtype: torch.dtype, device: Device) -> float:
    left = torch.randn(side, side, device=device.kind).to(dtype)
    return _best_s(lambda: left @ left, device)


def _best_s(call: Callable[[], object], device: Device) -> float:
    """Return the shortest time of a call: a roof is what the device can do, not what it does."""
    call()
    best, begun = float("inf"), time.perf_counter()
    while time.perf_counter() - begun < _ROOF_SECONDS:
        if device.kind == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        if device.kind == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best
