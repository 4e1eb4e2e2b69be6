"""What start-up pays: python benchmarks/resolve.py [ROUNDS].

Prints JSON: medians of interleaved fresh interpreters, and their ratios to an empty interpreter
and to one that only imports msgspec (which every engine that autotune serves has loaded anyway).
The decision files are made in a temporary folder.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from autotune.decisions import (
    Choice,
    DecisionFile,
    DecisionKey,
    Entry,
    Evidence,
    EvidenceRow,
    Geometry,
    Scope,
    encode,
)

ARCHS = ("cpu-x86_64", "sm100", "sm103", "sm120", "sm90")
QUANTIZATIONS = ("bf16", "fp8", "modelopt_fp4", "mxfp4")
MODELS = 50  # 5 archs x 50 models x 4 quantizations: 1,000 files
RESOLVE = """
import sys
from autotune.decisions import Geometry, ResolveRequest, Store, resolve
request = ResolveRequest(
    model="Model7ForCausalLM", quantization="fp8", arch="sm100", engine="sglang",
    geometry=Geometry(3072, 1536, 256, 8), tp=4, ep=1, dp=1, a2a_backend="none",
)
assert resolve(request, Store([sys.argv[1]])).status == "applied"
"""
IN_PROCESS = """
import time
store = Store([sys.argv[1]])
began = time.perf_counter()
for _ in range(200):
    resolve(request, store)
print((time.perf_counter() - began) / 200)
"""


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder))
        programs = {
            "empty_interpreter": "pass",
            "import_msgspec": "import msgspec",
            "import_decisions": "import autotune.decisions",
            "import_and_resolve": RESOLVE,
        }
        seconds: dict[str, list[float]] = {name: [] for name in programs}
        for round_number in range(rounds + 1):
            for name, program in programs.items():
                took = run_once(program, folder)
                if round_number > 0:  # The first round fills the disk and bytecode caches.
                    seconds[name].append(took)
        one = subprocess.run(
            [sys.executable, "-c", RESOLVE + IN_PROCESS, folder],
            check=True,
            capture_output=True,
            text=True,
        )
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    figures = {
        "files": files,
        "rounds": rounds,
        "python": sys.version.split()[0],
        "median_s": {name: round(value, 5) for name, value in medians.items()},
        "ratio_to_empty_interpreter": ratios(medians, "empty_interpreter"),
        "ratio_to_import_msgspec": ratios(medians, "import_msgspec"),
        "resolve_in_process_s": round(float(one.stdout), 6),
    }
    print(json.dumps(figures, indent=2))


def ratios(medians: dict[str, float], base: str) -> dict[str, float]:
    return {name: round(value / medians[base], 2) for name, value in medians.items()}


def run_once(program: str, folder: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, folder], check=True)
    return time.perf_counter() - began


def write_files(root: Path) -> int:
    """Write the files and return how many there are."""
    count = 0
    for arch in ARCHS:
        for number in range(MODELS):
            folder = root / arch / f"Model{number}ForCausalLM"
            folder.mkdir(parents=True)
            for quantization in QUANTIZATIONS:
                key = DecisionKey(folder.name, quantization, arch)
                (folder / f"{quantization}.json").write_bytes(encode(decision(key)))
                count += 1
    return count


def decision(key: DecisionKey) -> DecisionFile:
    """Return a file of ordinary size: two entries of three candidates at four concurrencies."""
    return DecisionFile(schema_version=1, key=key, entries=(entry(tp=4), entry(tp=8)))


def entry(*, tp: int) -> Entry:
    backends = ("flashinfer_cutlass", "flashinfer_trtllm_routed", "triton")
    rows = tuple(
        EvidenceRow(
            candidate=f"sglang-{backend}",
            backend=backend,
            concurrency=concurrency,
            rounds=3,
            output_tokens_per_s=100.0 * concurrency + number,
            ttft_mean_s=0.1,
            ttft_p99_s=0.2,
            latency_mean_s=1.5,
            latency_p99_s=2.5,
        )
        for number, backend in enumerate(backends)
        for concurrency in (1, 16, 64, 128)
    )
    return Entry(
        scope=Scope(
            engine="sglang",
            geometry=Geometry(3072, 1536, 256, 8),
            engine_version="0.5.9",
            tp=tp,
            ep=1,
            dp=1,
            a2a_backend="none",
        ),
        choice=Choice(
            backend=backends[1],
            candidate=f"sglang-{backends[1]}",
            outcome="decisive",
            verdict="pass",
            reason="fastest",
            rounds=3,
        ),
        evidence=Evidence(
            run="benchmark", measured_at="2026-03-01", tables={"points.csv": "0" * 64}, rows=rows
        ),
    )


if __name__ == "__main__":
    main()
