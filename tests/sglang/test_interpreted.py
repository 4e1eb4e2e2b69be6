"""SGLang's Triton kernels, called through our adapter and run by Triton's interpreter.

Slow as it is, it is the kernel itself: a GPU's rounding of sums and what CUDA does are left out.
"""

import json
import os
import subprocess
import sys

import pytest

from autotune.kernels.quantization.tolerance import tolerance

from .interpreted_cases import BREAKABLE, LAYERS, ROUTERS
from .routings import ROUNDING

Figures = dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def figures() -> Figures:
    """What the program finds, in a process whose Triton interprets from the start."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.sglang.interpreted"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_what_the_oracle_says(name: str, figures: Figures) -> None:
    _, scheme = LAYERS[name]
    assert 0 < figures["layers"][name] < tolerance(scheme).dequantized_rms


@pytest.mark.parametrize("name", BREAKABLE)
def test_rows_in_the_wrong_order_are_seen(name: str, figures: Figures) -> None:
    assert figures["broken"][name] > 0.3


@pytest.mark.parametrize("name", ROUTERS)
def test_the_routing_kernel_has_our_rule(name: str, figures: Figures) -> None:
    assert figures["routers"][name] < ROUNDING
