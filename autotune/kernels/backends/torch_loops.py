"""The layer in torch alone, on any device: a loop over experts, gathered bmm, grouped products.

They stand for the experts implementations of ``transformers``, and are what other backends are
compared with where no kernel library is. A quantized layer is emulated: weights are dequantized
to bfloat16 once, activations rounded as a kernel would round them, products computed in bfloat16;
right and wrong mean something then, times don't. What is computed is `torch_compute`.
"""

import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from autotune.engines.base import Support
from autotune.kernels.backends.protocol import Calibration, Call, EngineBackend, Prepared, Problem
from autotune.kernels.scheme_names import SCALE_BLOCKS

if TYPE_CHECKING:
    from torch import Tensor

    from autotune.kernels.backends.torch_compute import Compute, HeldWeights
    from autotune.kernels.layer import Batch, Layer

Way = Literal["eager", "batched", "grouped"]
_BFLOAT16_BYTES = 2


class TorchBackend:
    """One way to compute the layer in torch.

    Args:
        name: ``torch_eager``, ...
        way: what is computed.
        stands_for: what transformers calls it, ``None`` if it doesn't have it.
        compiled: whether torch.compile makes kernels of it.
    """

    routes = False

    def __init__(
        self, name: str, way: Way, *, stands_for: str | None = None, compiled: bool = False
    ) -> None:
        self.name = name
        self.stands_for: tuple[EngineBackend, ...] = (
            (EngineBackend("transformers", stands_for),) if stands_for is not None else ()
        )
        self._way = way
        self._compiled = compiled

    def emulates(self, scheme: str) -> bool:
        return scheme != "bf16"

    def supports(self, problem: Problem) -> Support:
        sizes = problem.spec.geometry
        multiple = SCALE_BLOCKS[problem.scheme]
        if sizes.hidden_size % multiple or sizes.expert_width % multiple:
            return Support(
                False,
                f"{problem.scheme} shares a scale among {multiple} values: hidden size and width "
                f"must be multiples of it, not {sizes.hidden_size} and {sizes.expert_width}",
            )
        if self._way == "grouped" and (sizes.hidden_size % 8 or sizes.expert_width % 8):
            return Support(
                False,
                "grouped_mm takes rows of a multiple of 16 bytes: hidden size and width must be "
                f"multiples of 8, not {sizes.hidden_size} and {sizes.expert_width}",
            )
        return _can_compile(problem) if self._compiled else Support(True)

    def working_bytes(self, problem: Problem, *, tokens: int) -> int:
        sizes = problem.spec.geometry
        pairs = tokens * sizes.top_k
        if self._way == "batched":
            weights = 3 * sizes.hidden_size * sizes.expert_width
            return pairs * weights * _BFLOAT16_BYTES
        return 4 * pairs * (sizes.hidden_size + 3 * sizes.expert_width) * _BFLOAT16_BYTES

    def prepare(self, layer: "Layer", problem: Problem, calibration: Calibration) -> Prepared:
        import torch

        from autotune.kernels.backends.torch_compute import HeldWeights
        from autotune.kernels.held import roundings, weights_as_held

        def bfloat16(values: "Tensor | None") -> "Tensor | None":
            return None if values is None else values.to(torch.bfloat16)

        gate_up, down = weights_as_held(layer, problem.scheme, dtype=torch.bfloat16)
        weights = HeldWeights(
            gate_up=gate_up,
            down=down,
            gate_up_bias=bfloat16(layer.gate_up_bias),
            down_bias=bfloat16(layer.down_bias),
            activation=layer.spec.activation,
            roundings=roundings(problem.scheme, calibration),
        )
        return _PreparedTorch(self._compute(), weights)

    def _compute(self) -> "Compute":
        from autotune.kernels.backends import torch_compute

        match self._way:
            case "eager":
                return torch_compute.eager(compiled=self._compiled)
            case "batched":
                return torch_compute.batched(compiled=self._compiled)
            case "grouped":
                return torch_compute.grouped(compiled=self._compiled)


class _PreparedTorch:
    def __init__(self, compute: "Compute", weights: "HeldWeights") -> None:
        self._compute = compute
        self._weights = weights

    def bind(self, batch: "Batch") -> Call:
        compute, weights = self._compute, self._weights
        hidden_states = batch.hidden_states
        expert_ids, routing_weights = batch.routing.expert_ids, batch.routing.weights

        def call() -> "Tensor":
            return compute(hidden_states, expert_ids, routing_weights, weights)

        return call


def _can_compile(problem: Problem) -> Support:
    if problem.device.kind == "cpu":
        if not (shutil.which("g++") or shutil.which("clang++")):
            return Support(False, "torch.compile needs a C++ compiler on a CPU: no g++ was found")
        return Support(True)
    if find_spec("triton") is None:
        return Support(False, "torch.compile needs triton on a GPU, which isn't installed")
    return Support(True)


TORCH_BACKENDS = (
    TorchBackend("torch_eager", "eager", stands_for="eager"),
    TorchBackend("torch_batched", "batched", stands_for="batched_mm"),
    TorchBackend("torch_grouped_mm", "grouped", stands_for="grouped_mm"),
    TorchBackend("torch_eager_compiled", "eager", compiled=True),
    TorchBackend("torch_batched_compiled", "batched", compiled=True),
    TorchBackend("torch_grouped_mm_compiled", "grouped", compiled=True),
)
