"""Decisions, requests and folders of them to test with; the figures are the first real ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from autotune.decisions import (
    Choice,
    DecisionFile,
    DecisionKey,
    Entry,
    Evidence,
    EvidenceRow,
    Geometry,
    RejectedCandidate,
    ResolveRequest,
    Scope,
    Store,
    encode,
)

MODEL = "MiniMaxM2ForCausalLM"
QUANTIZATION = "modelopt_fp4"
GEOMETRY = Geometry(3072, 1536, 256, 8)
ROUTED = "flashinfer_trtllm_routed"
CUTLASS = "flashinfer_cutlass"
THROUGHPUT = {
    CUTLASS: {1: 142.9, 16: 1646.0, 64: 4528.1, 128: 7194.9},
    ROUTED: {1: 198.7, 16: 2100.9, 64: 5978.6, 128: 9716.7},
    "flashinfer_cutedsl": {1: 201.5, 16: 1824.9, 64: 4936.0, 128: 8346.7},
}
SCOPE = Scope(
    engine="sglang",
    geometry=GEOMETRY,
    engine_version="0.5.9",
    dtype="bfloat16",
    tp=4,
    ep=1,
    dp=1,
    attention_dp=1,
    a2a_backend="none",
    device_name="NVIDIA GB200",
    device_count=4,
    kernel_libraries={"flashinfer-python": "0.7.1"},
    kernel_environment={"SGLANG_X": "1"},
    also_arch=("sm103",),
    also_arch_reason="the kernels of SM10X are the same",
)


def origin_entry(
    *,
    scope: Mapping[str, Any] | None = None,
    choice: Mapping[str, Any] | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> Entry:
    """The first decision there was, with changes to its three parts."""
    rows = tuple(
        EvidenceRow(
            candidate=f"sglang-{backend}",
            backend=backend,
            concurrency=concurrency,
            rounds=3,
            output_tokens_per_s=figure,
        )
        for backend, figures in THROUGHPUT.items()
        for concurrency, figure in figures.items()
    )
    chosen = Choice(
        backend=ROUTED,
        candidate=f"sglang-{ROUTED}",
        outcome="decisive",
        verdict="pass",
        reason="fastest at the production concurrencies",
        rounds=3,
        baseline=CUTLASS,
        baseline_role="reference",
        ratio=1.31,
    )
    measured = Evidence(
        run="minimax-m2-nvfp4-gb200",
        measured_at="2026-03-01T12:00:00Z",
        tables={"points.csv": "0" * 64},
        rows=rows,
        rejected=(
            RejectedCandidate(
                candidate="sglang-flashinfer_trtllm",
                backend="flashinfer_trtllm",
                reason="its answers are corrupted text",
                verdict="fail",
            ),
        ),
    )
    return Entry(
        scope=msgspec.structs.replace(SCOPE, **(scope or {})),
        choice=msgspec.structs.replace(chosen, **(choice or {})),
        evidence=msgspec.structs.replace(measured, **(evidence or {})),
    )


def decision(*entries: Entry, **key: str) -> DecisionFile:
    named = {"model": MODEL, "quantization": QUANTIZATION, "arch": "sm100", **key}
    return DecisionFile(
        schema_version=1, key=DecisionKey(**named), entries=entries or (origin_entry(),)
    )


def path_of(root: Path, key: DecisionKey) -> Path:
    return root / key.arch / key.model / f"{key.quantization}.json"


def put(root: Path, *files: DecisionFile) -> Store:
    """Write the files where they belong and return a store over the folder."""
    root.mkdir(exist_ok=True)
    for file in files:
        path = path_of(root, file.key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(file))
    return Store([root])


def request(**changes: Any) -> ResolveRequest:
    """The launch that `origin_entry` was measured for, with changes."""
    same = ResolveRequest(
        model=MODEL,
        quantization=QUANTIZATION,
        arch="sm100",
        geometry=GEOMETRY,
        engine="sglang",
        engine_version="0.5.9",
        dtype="bfloat16",
        tp=4,
        ep=1,
        dp=1,
        attention_dp=1,
        a2a_backend="none",
        a2a_mode="auto",
        device_name="NVIDIA GB200",
        device_count=4,
        kernel_libraries={"flashinfer-python": "0.7.1"},
        kernel_environment={"SGLANG_X": "1"},
    )
    return msgspec.structs.replace(same, **changes)
