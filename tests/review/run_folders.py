"""Run folders on disk with the synthetic records of `tests.records.builders`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from autotune.decide.entry import merge_entry
from autotune.decisions import decode, encode
from autotune.derive import derive, entry_of
from autotune.records.folder import LoadedRun, RunFolder
from tests.records.builders import launch, make_run

ENVIRONMENT = {
    "cores": 64,
    "gpus": [
        {"name": "H200", "compute_capability": "9.0", "driver_version": "570.1"},
        {"name": "H200", "compute_capability": "9.0", "driver_version": "570.1"},
    ],
    "kernel_variables": {"NCCL_ALGO": "ring", "SGLANG_X": "1"},
    "machine": "x86_64",
    "packages": {"sglang": "0.5.12", "torch": "2.9.0"},
    "processor": "EPYC",
}
BEGAN, ENDED = "2026-01-02T03:04:05Z", "2026-01-02T03:05:06Z"


def put_run(
    path: Path, run: LoadedRun | None = None, *, environment: Mapping[str, Any] = ENVIRONMENT
) -> Path:
    """Write a run's records into ``path``; its launches ended on 2 January 2026."""
    run = run or make_run()
    folder = RunFolder(path)
    _put(path / "run.json", run.run)
    reference = run.run.reference
    for record in (*run.launches, *([launch(reference, 0, 0)] if reference else [])):
        if record.ended_at is None:
            record = msgspec.structs.replace(record, started_at=BEGAN, ended_at=ENDED)
        _put(folder.launch_file(record.candidate, record.round), record)
    for point in run.points:
        _put(folder.point_file(point.candidate, point.round, point.concurrency), point)
    (path / "environment.json").write_text(json.dumps(environment))
    return path


def decide(path: Path, *, into: Path | None = None, accept_inconclusive: bool = False) -> None:
    """Write a run's decision as `autotune decide --accept` does, without its report."""
    derived = derive(path, accept_inconclusive=accept_inconclusive)
    entry = entry_of(derived, accepted=derived.judgement.blockers)
    assert entry is not None
    key = derived.loaded.run.key
    (path / "decision.json").write_bytes(encode(merge_entry(None, key, entry)))
    if into is not None:
        file = into / key.arch / key.model / f"{key.quantization}.json"
        before = decode(file.read_bytes(), where="") if file.exists() else None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(merge_entry(before, key, entry)))


def _put(path: Path, record: msgspec.Struct) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(record))


def contents(path: Path) -> dict[str, bytes]:
    """Return every file below ``path``, to see that nothing was written."""
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}
