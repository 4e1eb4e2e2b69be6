"""Screens as a layer sweep leaves them, made up, for candidates of the transformers engine."""

import platform
from typing import Any, Literal

import msgspec

from autotune.config import SweepConfig, parse_config
from autotune.decisions.schema import Geometry
from autotune.kernels.backends.protocol import EngineBackend
from autotune.kernels.schema import BackendSummary, Screen

Verdict = Literal["right", "wrong", "unknown"]
# The witness's: what the configs of these tests serve.
GEOMETRY = Geometry(128, 32, 16, 4)


def summary(
    kernel: str,
    *backends: str,
    verdict: Verdict = "right",
    ratio: float | None = None,
    reason: str = "",
    engine: str = "transformers",
) -> BackendSummary:
    """What a layer sweep says of ``kernel``, which stands for the engine's ``backends``."""
    return BackendSummary(
        backend=kernel,
        stands_for=tuple(EngineBackend(engine, name) for name in backends),
        verdict=verdict,
        ratio=ratio,
        reason=reason,
    )


def screen(*summaries: BackendSummary, **changes: Any) -> Screen:
    """A screen of the witness's layer on this machine."""
    made = Screen(
        geometry=GEOMETRY,
        architecture="MiniMaxM2ForCausalLM",
        scheme="bf16",
        arch=f"cpu-{platform.machine()}",
        device_name="a processor",
        backends=summaries,
        ranks={},
    )
    return msgspec.structs.replace(made, **changes)


def config(
    *candidates: str,
    table: str = "",
    incumbent: str | None = None,
    seed: int = 0,
    engine: str = "transformers",
) -> SweepConfig:
    """A sweep of the witness with these candidates, the first of which is the reference.

    ``table`` is what its ``[screen]`` says beside the file's name.
    """
    role = "" if incumbent is None else f'incumbent = "{incumbent}"'
    text = f"""
name = "screened"
candidates = {list(candidates)!r}
reference = "{candidates[0]}"
{role}
[model]
witness = "minimax-m2"
[engine]
name = "{engine}"
device = "cpu"
dtype = "bfloat16"
[load]
concurrency = [1, 4]
input_tokens = 16
output_tokens = 8
seed = {seed}
[screen]
file = "kernels.json"
{table}
"""
    return parse_config(text, where="sweep.toml")
