"""What many simulated sweeps come to: how often the race is right, and what it costs. Pure."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

import msgspec

from autotune.simulate.sweeps import Scenario, SimulatedSweep, simulate_sweep

MOST_RUNS = 1_000_000
_CONFIDENCE = 0.95


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures over ``runs`` independent sweeps of one scenario; rates are shares of them.

    Each sweep is one of these three: ``correct_rate``: a decision was reached (the outcome isn't
    ``open``), for the best candidate or one within ``delta`` of it; ``wrong_rate``: one was
    reached for another; ``open_rate``: none was reached. ``leads_rate`` counts the sweeps whose
    choice or leader is within ``delta`` of the best, decided or not, ``false_decisive_rate`` those
    that are ``decisive`` although another candidate is truly as good or better.
    Launches count the reference's before the first round; ``p95_launches`` is what 95% of the
    sweeps need at most. ``intervals`` holds the 95% interval of each rate and of the mean number
    of launches: what other seeds would give.
    """

    scenario: Scenario
    runs: int
    seed: int
    correct_rate: float
    wrong_rate: float
    open_rate: float
    leads_rate: float
    false_decisive_rate: float
    mean_launches: float
    p95_launches: int
    exhaustive_launches: int
    launches_share: float
    outcomes: dict[str, int]
    intervals: dict[str, tuple[float, float]]


def simulate(scenario: Scenario, *, runs: int, seed: int) -> Summary:
    """Simulate ``runs`` sweeps and sum them up.

    Each has a generator of its own, seeded by ``seed`` and its number, so that neither their
    order nor how many there are changes any of them.

    Raises:
        ValueError: a setting out of its range; the message begins with its name.
    """
    if not 1 <= runs <= MOST_RUNS:
        raise ValueError(f"runs {runs}: give 1 to {MOST_RUNS}")
    scenario.check()
    sweeps = [simulate_sweep(scenario, random.Random(f"{seed}:{number}")) for number in range(runs)]
    return summarize(scenario, sweeps, seed=seed)


def summarize(scenario: Scenario, sweeps: Sequence[SimulatedSweep], *, seed: int) -> Summary:
    """Sum up the sweeps that were simulated of a scenario, one or more."""
    # What is exactly delta behind is within delta, whatever the last bit says.
    delta = math.log1p(scenario.rule.delta) + 1e-12
    right = [sweep.behind is not None and sweep.behind <= delta for sweep in sweeps]
    decided = [sweep.outcome != "open" for sweep in sweeps]
    counts = {
        "correct_rate": sum(a and b for a, b in zip(right, decided, strict=True)),
        "wrong_rate": sum(b and not a for a, b in zip(right, decided, strict=True)),
        "open_rate": len(sweeps) - sum(decided),
        "leads_rate": sum(right),
        "false_decisive_rate": sum(s.outcome == "decisive" and s.rivalled for s in sweeps),
    }
    launches = sorted(sweep.launches for sweep in sweeps)
    mean = fmean(launches)
    outcomes = Counter(sweep.outcome for sweep in sweeps)
    intervals = {name: wilson(count, len(sweeps)) for name, count in counts.items()}
    half = 0.0
    if len(launches) > 1:
        half = _quantile() * stdev(launches) / math.sqrt(len(launches))
    return Summary(
        scenario=scenario,
        runs=len(sweeps),
        seed=seed,
        **{name: count / len(sweeps) for name, count in counts.items()},
        mean_launches=mean,
        p95_launches=launches[math.ceil(0.95 * len(launches)) - 1],
        exhaustive_launches=scenario.exhaustive_launches,
        launches_share=mean / scenario.exhaustive_launches,
        outcomes={name: outcomes[name] for name in ("decisive", "within_delta", "open")},
        intervals=intervals | {"mean_launches": (mean - half, mean + half)},
    )


def wilson(count: int, runs: int) -> tuple[float, float]:
    """Return the 95% interval of a share that was seen ``count`` times in ``runs``.

    Wilson's (*Journal of the American Statistical Association* 22, 1927, pp. 209-212): unlike the
    simpler one, it doesn't shrink to nothing where all or none were seen.
    """
    share, z = count / runs, _quantile()
    weight = 1 + z * z / runs
    centre = (share + z * z / (2 * runs)) / weight
    half = z / weight * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    # Exactly 0 and 1 at the ends, where the arithmetic leaves a last bit.
    return (
        0.0 if count == 0 else max(0.0, centre - half),
        1.0 if count == runs else min(1.0, centre + half),
    )


def _quantile() -> float:
    return NormalDist().inv_cdf(1 - (1 - _CONFIDENCE) / 2)
