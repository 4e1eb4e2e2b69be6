"""What the correctness gate says of made-up servers: false alarms and power, by counting verdicts.

Honest servers part from the truth by rounding alone, at a rate per token, and it's either the same
each time or drawn anew; broken ones do what their name says. No model and no server: only the
judges are asked. Prints Markdown rows for docs/correctness.md::

    .venv/bin/python benchmarks/correctness.py [SEEDS]
"""

import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from autotune.records.schema import ProbeRecord
from tests.probe.builders import (
    PROMPTS,
    Asked,
    Server,
    fixed,
    judge,
    other,
    right,
    spoilt,
    sweep,
    wandering,
)

Make = Callable[[int], list[ProbeRecord]]


def by_chance(share: float, seed: int) -> Callable[[Asked], bool]:
    """Whether an answer is hit: each with the chance of ``share``."""
    return lambda asked: random.Random(repr((seed, asked))).random() < share


def stray(asked: Asked) -> str:
    return other("stray", asked)


def wrong(count: int, seed: int) -> Server:
    """The same wholly other answer to ``count`` of the prompts each time."""
    names = random.Random(seed).sample([prompt.name for prompt in PROMPTS], count)
    return spoilt(right, lambda asked: other("same", asked.prompt), lambda a: a.prompt in names)


def cases() -> dict[str, Make]:
    found: dict[str, Make] = {}
    for rate in (0.01, 0.02, 0.03, 0.05):
        found[f"honest: parts at {rate:.0%} of tokens, the same each time"] = (
            lambda seed, rate=rate: sweep(right, fixed(rate, seed=seed))
        )
    for rate in (0.003, 0.01, 0.03):
        found[f"honest: a copy of a reference that parts at {rate:.1%} of tokens, at random"] = (
            lambda seed, rate=rate: sweep(
                wandering(rate, seed=("reference", seed)), wandering(rate, seed=("copy", seed))
            )
        )
    found["parts at 0.3% of tokens at random, the reference never"] = lambda seed: sweep(
        right, wandering(0.003, seed=seed)
    )
    for share in (0.005, 0.01, 0.02, 0.05, 0.125):
        found[f"broken: {share:.1%} of answers fluently other"] = lambda seed, share=share: sweep(
            right, spoilt(right, stray, by_chance(share, seed))
        )
    for count in (2, 3, 6, 12, 16):
        found[f"broken: {count} of 25 prompts wholly other, the same each time"] = (
            lambda seed, count=count: sweep(right, wrong(count, seed))
        )
    return found


def print_row(name: str, counts: Counter[str]) -> None:
    told = " | ".join(str(counts[verdict]) for verdict in ("pass", "inconclusive", "fail"))
    print(f"| {name} | {told} |", flush=True)


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    for name, make in cases().items():
        counts = Counter(judge(make(seed)).verdict for seed in range(numbers[0] if numbers else 40))
        print_row(name, counts)


if __name__ == "__main__":
    main()
