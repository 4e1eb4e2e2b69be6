"""Decision files for the tests against the real SGLang, written as autotune writes them."""

from pathlib import Path
from typing import Any

from autotune.decisions import (
    Choice,
    DecisionFile,
    DecisionKey,
    Entry,
    Evidence,
    Geometry,
    Scope,
    encode,
)

MINIMAX = DecisionKey("MiniMaxM2ForCausalLM", "modelopt_fp4", "sm100")
GEOMETRY = Geometry(3072, 1536, 256, 8)


def make_decision(
    *, backend: str = "flashinfer_cutlass", key: DecisionKey = MINIMAX, **scope: Any
) -> DecisionFile:
    """A decision for the installed SGLang; ``scope`` changes what it was measured under."""
    import sglang

    circumstances: dict[str, Any] = {
        "engine": "sglang",
        "geometry": GEOMETRY,
        "engine_version": sglang.__version__,
        "dtype": "bfloat16",
        "tp": 4,
        "ep": 1,
        "dp": 1,
        "attention_dp": 1,
        "a2a_backend": "none",
    }
    entry = Entry(
        scope=Scope(**{**circumstances, **scope}),
        choice=Choice(
            backend=backend,
            candidate=backend,
            outcome="decisive",
            verdict="pass",
            reason="made for a test",
            rounds=3,
        ),
        evidence=Evidence(run="test", measured_at="2026-12-01", tables={}, rows=()),
    )
    return DecisionFile(schema_version=1, key=key, entries=(entry,))


def put_decision(folder: Path, **decision: Any) -> Path:
    """Write a decision where servers look for it below ``folder``, and return its file."""
    made = make_decision(**decision)
    path = folder / made.key.arch / made.key.model / f"{made.key.quantization}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(made))
    return path
