"""How good the setting is that a search of tunables ends with, by sampler and number of trials.

    .venv/bin/python benchmarks/search.py [--repeats 60]

Prints JSON: the true throughput of the setting that looked best, over the best possible one's (mean
and standard error over the repeats). Throughputs are made up: each repeat draws where the best of
four tunables lies; two launches of one setting differ by 2% (standard deviation).
"""

import argparse
import json
import math
import random
import statistics

import msgspec

from autotune.decide.search import TrialResult
from autotune.records.schema import Tunable
from autotune.search import ask
from autotune.tunables import Setting

NOISE = 0.02
PER_ROUND = 2
CHUNKS = (2048, 4096, 8192, 16384)
SPACE = {
    "chunk": Tunable(argument="--chunk", choices=CHUNKS),
    "graphs": Tunable(argument="--graphs", low=16, high=256, step=16),
    "fused": Tunable(argument="--fused", choices=(True, False)),
    "memory": Tunable(argument="--memory", low=0.7, high=0.95),
}
# Sampler, and the trials that it draws at random first.
SAMPLERS: tuple[tuple[ask.Sampler, int], ...] = (("random", 0), ("tpe", 10), ("tpe", 4), ("tpe", 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=60)
    repeats = parser.parse_args().repeats
    rows = []
    for trials in (6, 12, 24):
        for sampler, startup in SAMPLERS:
            found = [search(sampler, startup, trials, seed=seed) for seed in range(repeats)]
            error = statistics.stdev(found) / math.sqrt(repeats)
            rows.append(
                {
                    "trials": trials,
                    "sampler": sampler,
                    "startup_trials": startup,
                    "mean": round(statistics.fmean(found), 4),
                    "standard_error": round(error, 4),
                }
            )
    print(json.dumps(rows, indent=2))


def search(sampler: ask.Sampler, startup: int, trials: int, *, seed: int) -> float:
    """Return the true share of the best throughput that the setting chosen reaches."""
    ask.STARTUP_TRIALS = startup
    draw = random.Random(seed)
    best: Setting = {
        "chunk": draw.choice(CHUNKS),
        "graphs": draw.randrange(16, 257, 16),
        "fused": draw.random() < 0.5,
        "memory": draw.uniform(0.7, 0.95),
    }
    results: list[TrialResult] = []
    for _ in range(trials // PER_ROUND):
        asked: list[TrialResult] = []
        for _ in range(PER_ROUND):
            number = len(results) + len(asked)
            values = ask.ask_setting(
                "a",
                SPACE,
                results=[*results, *asked],
                sampler=sampler,
                seed=draw.randrange(2**32),
            )
            asked.append(
                TrialResult(
                    number=number,
                    round=number // PER_ROUND + 1,
                    parent="a",
                    candidate=f"a-t{number:04d}",
                    values=values,
                    launched=False,
                    verdict="pass",
                )
            )
        for one in asked:
            ratio = share(one.values, best) * math.exp(draw.gauss(0, NOISE))
            results.append(msgspec.structs.replace(one, launched=True, ratio=ratio))
    chosen = max(results, key=lambda one: one.ratio or 0.0)
    return share(chosen.values, best)


def share(values: Setting, best: Setting) -> float:
    """Return a setting's true throughput over the best one's."""
    chunk = abs(math.log2(float(values["chunk"]) / float(best["chunk"])))
    graphs = abs(float(values["graphs"]) - float(best["graphs"]))
    memory = abs(float(values["memory"]) - float(best["memory"]))
    fused = 0.0 if values["fused"] == best["fused"] else 0.05
    return 1 - 0.03 * chunk - 0.1 * graphs / 240 - 0.3 * memory - fused


if __name__ == "__main__":
    main()
