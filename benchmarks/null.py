"""A null comparison: one backend, entered under two names, must never come out as a winner.

    .venv/bin/python benchmarks/null.py FOLDER [--runs 10]

Sweeps the embedded engine (`transformers serve` with the witness, on the CPU) as often as asked,
with one backend under two names; a variable that nothing reads tells the two apart, or they would
be taken for one. Each sweep has a run folder of its own below FOLDER, and its own seed. Prints each
run's outcome, launches and interval as JSON. Exits with 1 if one of them was called decisive.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

CONFIG = """\
name = "null-{number}"
candidates = [
  "grouped_mm",
  {{ backend = "grouped_mm", name = "grouped_mm-again", environment = {{ NULL_TEST = "again" }} }},
]
reference = "grouped_mm"
incumbent = "grouped_mm"

[model]
witness = "minimax-m2"

[engine]
name = "transformers"
device = "cpu"
dtype = "float32"
environment = {{ OMP_NUM_THREADS = "1" }}

[load]
concurrency = [1, 16]
input_tokens = 32
output_tokens = 16
requests_per_slot = 4
min_requests = 16
seed = {number}

[probe]
max_tokens = 8
long_prompt_tokens = 128

[decision]
max_rounds = 5
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    runs = [_sweep(arguments.folder, number) for number in range(1, arguments.runs + 1)]
    outcomes = Counter(run["outcome"] for run in runs)
    print(json.dumps({"outcomes": outcomes, "runs": runs}, indent=2))
    return 1 if outcomes["decisive"] else 0


def _sweep(folder: Path, number: int) -> dict[str, Any]:
    config = folder / f"null-{number}.toml"
    config.write_text(CONFIG.format(number=number))
    run = folder / f"null-{number}"
    command = [sys.executable, "-m", "autotune", "sweep", str(config), "--run", str(run), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{run}: the sweep ended with exit code {done.returncode}")
    judgement = json.loads(done.stdout)["judgement"]
    return {
        "run": number,
        "outcome": judgement["outcome"],
        "rounds": judgement["rounds"],
        "launches": len(list(run.glob("launches/*/*/launch.json"))),
        "behind": [one["behind"] for one in judgement["standings"] if one["behind"]],
    }


if __name__ == "__main__":
    sys.exit(main())
