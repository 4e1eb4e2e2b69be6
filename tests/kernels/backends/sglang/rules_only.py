"""Asks for support in a process of its own, where it shows what that imports."""

import sys

from autotune.kernels.backends.sglang.registry import SGLANG_BACKENDS
from tests.kernels.backends.flashinfer.rules_only import PROBLEMS

if __name__ == "__main__":
    for backend in SGLANG_BACKENDS:
        for problem in PROBLEMS:
            backend.supports(problem)
            backend.working_bytes(problem, tokens=64)
    assert not {"torch", "triton", "sglang", "sgl_kernel"} & set(sys.modules)
