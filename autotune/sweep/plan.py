"""In which order a sweep launches, and what each launch measures. Pure.

The order follows from the config alone, so an interrupted sweep finds its place again. A round
launches every candidate that is still in the race (`autotune.sweep.race`) once, in random order;
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
    config: SweepConfig, round_number: int, candidates: Iterable[Candidate]
) -> tuple[PlannedLaunch, ...]:
    """Return a round's launches in order; who else takes part doesn't change two ones' order."""
    concurrencies = list(config.load.concurrency)
    random.Random(point_seed(config, round_number, concurrency=0, use="order")).shuffle(
        concurrencies
    )
    order = sorted(
        candidates,
        key=lambda one: point_seed(config, round_number, concurrency=0, use=f"place:{one.name}"),
    )
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
