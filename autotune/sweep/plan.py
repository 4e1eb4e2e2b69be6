"""In which order a sweep launches, and what each launch measures. Pure.

The order follows from the config, and from the screen that the run folder keeps if there is one,
so an interrupted sweep finds its place again. A round launches every candidate that is still in
the race (`autotune.sweep.race`) once, in random order (but for a screened race's first round);
the concurrencies come in an order drawn once a round and shared by all candidates, as are prompts
and seeds: what differs within a round is the backend and nothing else. Before the first round, the
reference is launched once to be held against itself: what it answers is what all others are held
against.
"""

import hashlib
import random
from collections.abc import Iterable

import msgspec

from autotune.config.schema import SweepConfig
from autotune.records.schema import Candidate
from autotune.sweep.screening import Screening


class PlannedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """One server start to make; ``position`` counts within its round, from 1.

    In round 0 the reference is launched to be probed: it measures no concurrency.
    """

    candidate: Candidate
    round: int
    position: int
    concurrencies: tuple[int, ...]


def first_launch(config: SweepConfig) -> PlannedLaunch:
    """Return the launch before the first round: the reference, to be probed."""
    reference = next(one for one in config.candidate_list() if one.name == config.reference)
    return PlannedLaunch(candidate=reference, round=0, position=1, concurrencies=())


def plan_round(
    config: SweepConfig,
    round_number: int,
    candidates: Iterable[Candidate],
    *,
    screening: Screening | None = None,
) -> tuple[PlannedLaunch, ...]:
    """Return a round's launches in order; who else takes part doesn't change two ones' order.

    Args:
        config: the sweep.
        round_number: counts search rounds, too.
        candidates: who takes part.
        screening: what a sweep of the layer alone says: in the race's first round, likely leaders
            come first, those whose kernels are wrong last.
    """
    concurrencies = list(config.load.concurrency)
    random.Random(point_seed(config, round_number, concurrency=0, use="order")).shuffle(
        concurrencies
    )
    # Only there: an order that is the same in all rounds would mix a launch's position (a machine
    # that warms up, a slow hour) up with its backend for good, and no number of rounds tells them
    # apart. One round in such an order is worth it, since a budget or a person may end the sweep
    # early, and it is the leaders of whom something should be known by then.
    by_place = screening if round_number == config.search_rounds + 1 else None

    def place(one: Candidate) -> tuple[tuple[int, float], int]:
        drawn = point_seed(config, round_number, concurrency=0, use=f"place:{one.name}")
        return (0, 0.0) if by_place is None else by_place.place(one), drawn

    order = sorted(candidates, key=place)
    return tuple(
        PlannedLaunch(
            candidate=candidate,
            round=round_number,
            position=position,
            concurrencies=tuple(concurrencies),
        )
        for position, candidate in enumerate(order, start=1)
    )


def most_launches(config: SweepConfig) -> int:
    """Return how many launches a sweep makes if nobody drops out and nothing is settled early."""
    listed = config.candidate_configs()
    tuned = sum(bool(given.tunables) for given in listed)
    search = config.search_rounds * (1 + tuned * config.search.trials_per_round)
    return 1 + search + config.rule().max_rounds * (len(listed) + tuned)


def point_seed(config: SweepConfig, round_number: int, *, concurrency: int, use: str) -> int:
    """Return a seed that differs for each round, concurrency and use, whatever the candidate."""
    text = f"{config.load.seed}:{round_number}:{concurrency}:{use}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
