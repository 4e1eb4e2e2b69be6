"""Records of a layer sweep, made up."""

from collections.abc import Sequence
from typing import Any

from autotune.kernels.backends.protocol import Calibration, Device, EngineBackend
from autotune.kernels.schema import (
    Block,
    Difference,
    KernelConfig,
    KernelPoint,
    KernelRun,
    Numerics,
    PointStatus,
    Roof,
)
from autotune.kernels.work import Work
from tests.kernels.layers import layer_spec

CPU_DEVICE = Device(kind="cpu", name="a processor", arch="cpu-x86_64", memory_bytes=2**34)


def config(**changes: Any) -> KernelConfig:
    asked: dict[str, Any] = {"tokens": (1, 16), "backends": ("fast", "slow"), "rounds": 3}
    return KernelConfig(layer=layer_spec(), **(asked | changes))


def run(asked: KernelConfig | None = None) -> KernelRun:
    return KernelRun(
        config=asked or config(),
        device=CPU_DEVICE,
        roof=Roof(flops_per_s=1e11, bytes_per_s=1e10, source="made up"),
        calibration=Calibration(tokens_amax=4.0, activated_amax=6.0),
        empty_call_s=1e-7,
        started_at="2026-01-01T00:00:00+00:00",
    )


def point(
    backend: str = "fast",
    tokens: int = 16,
    *,
    medians: Sequence[float] = (1e-3, 1.1e-3, 0.9e-3),
    status: PointStatus = "ok",
    emulated: bool = False,
    reason: str = "",
    rounds: Sequence[int] | None = None,
) -> KernelPoint:
    """A point whose blocks have these medians; each has a call that something else interrupted."""
    there = rounds if rounds is not None else range(len(medians))
    return KernelPoint(
        backend=backend,
        tokens=tokens,
        status=status,
        reason=reason,
        stands_for=(EngineBackend("sglang", f"engine_{backend}"),),
        emulated=emulated,
        work=Work(flops=1e9, bytes=1e6, experts_hit=8, busiest=3),
        numerics=Numerics(
            tokens=tokens,
            dequantized=Difference(
                relative_rms=0.003, cosine=0.99999, largest=0.01, worst_token_rms=0.004
            ),
            full=None,
            tolerance=0.0112,
            full_tolerance=0.0112,
            problem=reason or None if status == "wrong" else None,
        ),
        first_call_s=0.1,
        blocks=tuple(
            Block(number, 0, (median, 100 * median, 0.5 * median))
            for number, median in zip(there, medians, strict=True)
        ),
    )
