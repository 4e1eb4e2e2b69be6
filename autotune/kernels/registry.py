"""The backends there are, by name. Importing it imports neither torch nor a kernel library."""

from autotune.errors import UsageError
from autotune.kernels.backends.flashinfer.registry import FLASHINFER_BACKENDS
from autotune.kernels.backends.protocol import Backend
from autotune.kernels.backends.sglang.registry import SGLANG_BACKENDS
from autotune.kernels.backends.torch_loops import TORCH_BACKENDS

BACKENDS: tuple[Backend, ...] = (*TORCH_BACKENDS, *FLASHINFER_BACKENDS, *SGLANG_BACKENDS)


def find_backend(name: str) -> Backend:
    """Return the backend of that name.

    Raises:
        UsageError: there is none.
    """
    for backend in BACKENDS:
        if backend.name == name:
            return backend
    known = ", ".join(one.name for one in BACKENDS)
    raise UsageError(f"--backend {name[:80]!r}: no such kernel backend: one of {known}")
