"""Problems that can be made without torch."""

from autotune.decisions.schema import Geometry
from autotune.kernels.backends.protocol import Device, Problem
from autotune.kernels.model_layer import MINIMAX
from autotune.kernels.scheme_names import SCHEME_NAMES
from autotune.kernels.spec import LayerSpec

_SPEC = LayerSpec(
    geometry=Geometry(hidden_size=3072, expert_width=1536, experts=256, top_k=8), routing=MINIMAX
)
_DEVICES = (
    Device(kind="cpu", name="a processor", arch="cpu-x86_64"),
    Device(kind="cuda", name="NVIDIA B200", arch="sm100", capability=(10, 0)),
)
PROBLEMS = tuple(
    Problem(spec=_SPEC, scheme=scheme, device=device)
    for scheme in SCHEME_NAMES
    for device in _DEVICES
)
