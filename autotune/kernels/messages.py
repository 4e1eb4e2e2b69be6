"""What the sweep says to a worker process, and what it hears: typed, as JSON over a pipe.

No torch: the sweep's own process computes nothing.
"""

import msgspec

from autotune.kernels.backends.protocol import Calibration, Device, Problem
from autotune.kernels.schema import KernelConfig, Numerics, PointStatus, Roof
from autotune.kernels.work import Work


class _Message(msgspec.Struct, kw_only=True, tag=True, forbid_unknown_fields=True):
    """What all messages share: their JSON says which one it is."""


class FindDevice(_Message):
    """Which device is here? Answered by `Found`."""

    asked: str


class BeOracle(_Message):
    """Make the layer, calibrate it, measure the roof. Answered by `Ready`."""

    config: KernelConfig
    problem: Problem


class Prepare(_Message):
    """Make the layer in a backend's form. Answered by `Ready`."""

    config: KernelConfig
    problem: Problem
    calibration: Calibration
    backend: str


class Answer(_Message):
    """Write the oracle's outputs for a batch to a file. Answered by `Answered`."""

    tokens: int
    path: str


class Check(_Message):
    """Compute a batch and compare it with what the oracle wrote. Answered by `Checked`."""

    tokens: int
    path: str


class Time(_Message):
    """Time a block of calls of the batch that was checked last. Answered by `Timed`."""


Request = FindDevice | BeOracle | Prepare | Answer | Check | Time


class Found(_Message):
    device: Device


class Ready(_Message):
    calibration: Calibration | None = None
    roof: Roof | None = None
    empty_call_s: float | None = None


class Answered(_Message):
    work: Work


class Checked(_Message):
    """``graph`` says whether a CUDA graph will be replayed."""

    numerics: Numerics
    first_call_s: float
    graph: bool


class Timed(_Message):
    times_s: tuple[float, ...]


class Failed(_Message):
    """What was asked for couldn't be done; the worker goes on."""

    status: PointStatus
    reason: str


Response = Found | Ready | Answered | Checked | Timed | Failed
