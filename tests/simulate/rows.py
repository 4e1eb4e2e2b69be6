"""The scenarios of docs/simulations.md: what the method is held against, by table."""

import msgspec

from autotune.records.rule import Rule
from autotune.simulate import Noise, Scenario

SD = 0.021
# What launches of one setup were seen to differ by where it was noisier.
NOISY_SD = 0.0335
FIXED_ROUNDS = range(3, 9)
DROP_EARLY = Rule(drop_after=1)


def scenario(**fields: object) -> Scenario:
    """Four candidates, the best 5% ahead, launches that differ by 2.1%, unless ``fields`` say."""
    of_noise = {name: fields.pop(name) for name in Noise.__struct_fields__ if name in fields}
    noise = Noise(**({"sd": SD} | of_noise))  # type: ignore[arg-type]
    return Scenario(noise=noise, **fields)  # type: ignore[arg-type]


def equal(candidates: int, **fields: object) -> Scenario:
    """Candidates of which none is better."""
    return scenario(candidates=candidates, gap=0.0, equals=candidates, **fields)


def fixed(base: Scenario, rounds: int) -> Scenario:
    """The same with so many rounds of everybody: nobody is dropped, nothing is settled early."""
    rule = Rule(min_rounds=rounds, max_rounds=rounds, drop_after=rounds)
    return msgspec.structs.replace(base, rule=rule)


GAPS = {
    "4 candidates, the best 5% ahead": scenario(),
    "2 candidates": scenario(candidates=2),
    "6 candidates": scenario(candidates=6),
    "noisier: sd 3.35%": scenario(sd=NOISY_SD),
    "10% ahead": scenario(gap=0.10),
    "20% ahead": scenario(gap=0.20),
    "3% ahead": scenario(gap=0.03),
    "the best is the incumbent": scenario(incumbent="best"),
    "two equally good, the others 20% behind": scenario(gap=0.25, equals=2),
    "one fails when it is started": scenario(failing=1),
    "three of four fail": scenario(failing=3),
}
EQUALS = {f"{count} equal candidates": equal(count) for count in (2, 3, 4, 6)} | {
    "4 equal, quieter: sd 1%": equal(4, sd=0.01),
    "4 equal, noisier: sd 3.35%": equal(4, sd=NOISY_SD),
}
SPOILT = {
    "drift of 5% over the sweep": {"drift": 0.05},
    "drift of 20%": {"drift": 0.20},
    "autocorrelation 0.5": {"autocorrelation": 0.5},
    "heavy tails": {"tails": "heavy"},
    "one wild launch, 30% slower": {"wild": -0.3},
    "one wild launch, 30% faster": {"wild": 0.3},
}
ASSUMPTIONS = (
    {f"5% ahead, {name}": scenario(**fields) for name, fields in SPOILT.items()}
    | {f"4 equal, {name}": equal(4, **fields) for name, fields in SPOILT.items()}
    | {
        "2 candidates, one wild launch, 30% slower": scenario(candidates=2, wild=-0.3),
        "2 equal, heavy tails": equal(2, tails="heavy"),
    }
)
DROPS = {
    f"{name}, dropped after {rule.drop_after}": scenario(rule=rule, **fields)
    for name, fields in {
        "5% ahead, any launch 30% slower": {"wild": -0.3},
        "5% ahead, the best's first launch 30% slower": {"wild": -0.3, "wild_hits": "best"},
        "20% ahead, the best's first launch 30% slower": {
            "wild": -0.3, "wild_hits": "best", "gap": 0.2,
        },
        "20% ahead, the best's first launch 40% slower": {
            "wild": -0.4, "wild_hits": "best", "gap": 0.2,
        },
        "20% ahead": {"gap": 0.2},
    }.items()
    for rule in (DROP_EARLY, Rule())
}  # fmt: skip
AGAINST_FIXED = {"sd 2.1%": scenario(), "sd 3.35%": scenario(sd=NOISY_SD)}
