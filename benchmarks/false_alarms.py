"""How often an honest backend is failed, and a broken one passed, over many draws of prompts.

    .venv/bin/python benchmarks/false_alarms.py [--draws 200] [--pool 300]

Prints JSON: for each backend how many draws gave each verdict, and how many other tokens it wrote
per token of the reference. The witness answers, in this process; see tests/bench/false_alarms.py.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from autotune.engines.witness import witness_folder
from tests.bench.false_alarms import (
    BROKEN,
    HONEST,
    NOISY,
    Answers,
    answer,
    count_verdicts,
    rate_per_token,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--pool", type=int, default=300, help="prompts to draw from")
    arguments = parser.parse_args()
    folder = witness_folder("minimax-m2")
    figures = {"draws": arguments.draws, "pool": arguments.pool, "backends": {}}
    for variants, reference in (({**HONEST, **BROKEN}, "eager"), (NOISY, "noisy")):
        given: dict[str, Answers] = answer(folder, variants, count=arguments.pool)
        counts = count_verdicts(given, draws=arguments.draws, reference=reference)
        for name in given:
            if name != reference:
                rate = rate_per_token(given, name, reference=reference)
                figures["backends"][name] = {**counts[name], "other_tokens": round(rate, 4)}
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
