"""SGLang's backends. Importing it imports neither torch nor SGLang."""

from autotune.kernels.backends.protocol import Backend
from autotune.kernels.backends.sglang.triton_moe import TritonBackend

SGLANG_BACKENDS: tuple[Backend, ...] = (TritonBackend(),)
