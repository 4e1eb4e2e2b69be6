"""What a backend of the layer must answer: the protocol, and the values that cross it.

A backend turns a layer's weights into what its kernel holds, and a batch into a call without
arguments, which is what is timed. It measures nothing and judges nothing. No torch is imported
here unless types are checked, so that names and support can be listed without it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from autotune.engines.base import Support
from autotune.kernels.spec import LayerSpec

if TYPE_CHECKING:
    from torch import Tensor

    from autotune.kernels.layer import Batch, Layer

__all__ = ["Backend", "Calibration", "Call", "Device", "EngineBackend", "Prepared", "Problem"]

Call = Callable[[], "Tensor"]


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What kernels run on.

    Attributes:
        kind: torch's word.
        name: as the driver says it.
        arch: ``sm100``, ``cpu-x86_64``.
        capability: CUDA's compute capability, (10, 0) for SM100; ``None`` elsewhere.
        memory_bytes: all of it.
    """

    kind: Literal["cpu", "cuda"]
    name: str
    arch: str
    capability: tuple[int, int] | None = None
    memory_bytes: int = 0


class Problem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backend is asked to compute, and on what.

    ``scheme`` is the name of how weights and activations are quantized
    (`autotune.kernels.quantization.schemes`).
    """

    spec: LayerSpec
    scheme: str
    device: Device


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The largest magnitudes that a checkpoint's static activation scales are made of.

    Attributes:
        tokens_amax: of the layer's input.
        activated_amax: of what comes out of the activation.
    """

    tokens_amax: float
    activated_amax: float


class EngineBackend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An engine's name for the kernel path that a backend stands for."""

    engine: str
    backend: str


class Prepared(Protocol):
    """A backend with one layer's weights in the form that its kernel takes."""

    def bind(self, batch: "Batch") -> Call:
        """Return the call that computes the output for ``batch``, bfloat16 [tokens, hidden].

        Whatever an engine does once a start-up (choosing tiles, allocating) is done here; what it
        does in each forward pass (quantizing the input, say) belongs into the call.
        """
        ...


class Backend(Protocol):
    """One way to compute a MoE layer.

    Attributes:
        name: what records and tables call it.
        stands_for: the engines' names for it, none if no engine has it.
        routes: whether it reads the logits itself; otherwise it is given the routing, and its
            time lacks what an engine's own routing kernel takes.
        emulates: whether it computes a quantized layer in higher precision: right or wrong means
            something then, its time doesn't.
    """

    name: str
    stands_for: tuple[EngineBackend, ...]
    routes: bool

    def emulates(self, scheme: str) -> bool: ...

    def supports(self, problem: Problem) -> Support:
        """Whether it can compute ``problem`` here; a reason names the rule that it breaks.

        Imports nothing heavy where it can be told without.
        """
        ...

    def working_bytes(self, problem: Problem, *, tokens: int) -> int:
        """About how much memory a call takes beyond the weights; 0 if little.

        What doesn't fit is a recorded row then, before the system ends the process for it.
        """
        ...

    def prepare(self, layer: "Layer", problem: Problem, calibration: Calibration) -> Prepared:
        """Turn a layer's weights into what the kernel takes; the layer is left as it is."""
        ...
