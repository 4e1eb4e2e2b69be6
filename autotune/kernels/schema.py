"""What a layer sweep asks and records, as types: one record a run, one a (backend, tokens) point.

Records say what happened. Rank and verdict per backend are computed from them (`ranking`), at any
time and with the same result. Times are seconds. No torch.
"""

from typing import Annotated, Literal

import msgspec

from autotune.decisions.schema import Count, Geometry, check_name
from autotune.kernels.backends.protocol import Calibration, Device, EngineBackend
from autotune.kernels.spec import LayerSpec
from autotune.kernels.work import Work

SCHEMA_VERSION = 1
DEFAULT_TOKENS = (1, 16, 64, 128)
# An interval of fewer says little; a slow or busy machine makes no more than it has time for.
FEWEST_ROUNDS = 5

Tokens = Annotated[int, msgspec.Meta(ge=1, le=1_048_576)]
Rounds = Annotated[int, msgspec.Meta(ge=3, le=10_000)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**31)]

# ``wrong`` was computed and timed, and can't be trusted: its figures are shown, and never win.
PointStatus = Literal["ok", "wrong", "unsupported", "oom", "crashed", "stalled", "failed"]


class KernelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a layer sweep was asked for.

    Attributes:
        layer: the layer's sizes and rules.
        architecture: the model that it is of, if it is of one.
        scheme: how it is quantized.
        tokens: the batches.
        distribution: how tokens spread over experts, as written.
        backends: the names that take part, in order.
        rounds: how often each backend is timed at each batch, at most.
        batch_s: rounds end once timing a batch took this long, but not before `FEWEST_ROUNDS`.
        block_s: about how long one block of calls lasts.
        cold_cache: whether the GPU's L2 cache is emptied before each call.
        seed: of weights and inputs.
        timeout_s: how long a backend may be silent before it counts as stalled.
    """

    layer: LayerSpec
    architecture: str | None = None
    scheme: str = "bf16"
    tokens: tuple[Tokens, ...] = DEFAULT_TOKENS
    distribution: str = "uniform"
    backends: tuple[str, ...] = ()
    rounds: Rounds = 20
    batch_s: float = 5.0
    block_s: float = 0.005
    cold_cache: bool = False
    seed: Seed = 0
    timeout_s: float = 600.0


class Difference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far an output lies from what it is compared with.

    Attributes:
        relative_rms: root of the mean square of the difference, divided by that of the expected.
        cosine: of the angle between the two, all tokens joined.
        largest: the largest difference, divided by the root mean square of the expected.
        worst_token_rms: the largest relative RMS of a single token.
    """

    relative_rms: float
    cosine: float
    largest: float
    worst_token_rms: float


class Numerics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backend's output against the oracle.

    Attributes:
        tokens: how many of the batch's tokens were compared, spread evenly over it.
        dequantized: against the oracle with the weights that the kernel holds and the activations
            that it sees; this is what right and wrong are judged by.
        full: against the oracle on the unquantized weights: what the user loses.
        tolerance: the largest relative RMS to the dequantized oracle that is right.
        full_tolerance: the same to the full-precision oracle.
        problem: what is wrong; ``None`` if nothing is.
    """

    tokens: int
    dequantized: Difference | None
    full: Difference | None
    tolerance: float
    full_tolerance: float
    problem: str | None = None


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls of one backend in a row, each one's time, in seconds; ``position`` is its turn."""

    round: int
    position: int
    times_s: tuple[float, ...]


class KernelPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One backend at one batch.

    Attributes:
        backend: its name.
        tokens: the batch.
        status: ``ok``, or what went wrong.
        reason: one line, empty where nothing went wrong.
        stands_for: the engines' names of this path.
        routes: whether its time includes the routing.
        emulated: whether it computed in higher precision than the scheme says, so that its time
            says nothing of a kernel for it.
        graph: whether a CUDA graph was replayed.
        work: what a call computes and moves at least.
        numerics: against the oracle.
        first_call_s: the first call, compiling and tuning included.
        blocks: the timed calls.
    """

    schema_version: int = SCHEMA_VERSION
    backend: str
    tokens: Tokens
    status: PointStatus
    reason: str = ""
    stands_for: tuple[EngineBackend, ...] = ()
    routes: bool = False
    emulated: bool = False
    graph: bool = False
    work: Work | None = None
    numerics: Numerics | None = None
    first_call_s: float | None = None
    blocks: tuple[Block, ...] = ()

    def __post_init__(self) -> None:
        check_name("backend", self.backend)


class Roof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the device could do at most.

    Attributes:
        flops_per_s: multiplications and additions a second.
        bytes_per_s: of its memory.
        source: where the two come from, in a few words.
    """

    flops_per_s: float
    bytes_per_s: float
    source: str


class KernelRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A layer sweep.

    Attributes:
        config: what was asked for.
        device: what it ran on.
        roof: what the device could do, ``None`` if that couldn't be measured.
        calibration: the static scales' magnitudes, ``None`` if the layer couldn't be made.
        empty_call_s: what timing a call that does nothing gives: the harness's own share.
        started_at: UTC, ISO 8601.
    """

    schema_version: int = SCHEMA_VERSION
    config: KernelConfig
    device: Device
    roof: Roof | None = None
    calibration: Calibration | None = None
    empty_call_s: float | None = None
    started_at: str = ""


class Ranked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One backend at one batch, beside the fastest right one.

    ``ratio`` is its latency over that of the fastest, with Student's t interval of the rounds'
    ratios; the fastest has exactly 1.
    """

    backend: str
    latency_s: float
    low_s: float | None
    high_s: float | None
    n: int
    ratio: float
    ratio_low: float | None
    ratio_high: float | None


class BackendSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the sweep says of a backend over all batches.

    Attributes:
        backend: its name.
        stands_for: the engines' names of this path.
        verdict: ``right`` if every computed batch is, ``wrong`` if one isn't, ``unknown`` if none
            was computed.
        ratio: geometric mean of its ratios to the fastest, where it was right at every batch and
            nothing was emulated.
        reason: the first thing that went wrong.
    """

    backend: str
    stands_for: tuple[EngineBackend, ...]
    verdict: Literal["right", "wrong", "unknown"]
    ratio: float | None
    reason: str = ""


class Screen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``kernels.json``: what a sweep of servers may take from a sweep of the layer.

    Derived from the records beside it. ``ranks`` has, for each batch, the right backends, fastest
    first.
    """

    schema_version: int = SCHEMA_VERSION
    geometry: Geometry
    architecture: str | None
    scheme: str
    arch: str
    device_name: str
    backends: tuple[BackendSummary, ...]
    ranks: dict[Count, tuple[Ranked, ...]]
