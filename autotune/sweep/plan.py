"""Which launches a sweep makes, in which order, and what each of them measures. Pure.

The plan follows from the config alone, so an interrupted sweep finds its place again. A round
launches every candidate once, in random order; the concurrencies come in an order drawn once a
round and shared by all candidates, as are prompts and seeds: what differs within a round is the
backend and nothing else. Before the first round, the reference is launched once to be held
against itself: what it answers is what all others are held against.
"""

import hashlib
import random

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


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All launches, in order."""

    launches: tuple[PlannedLaunch, ...]

    def at(self, round_number: int) -> tuple[PlannedLaunch, ...]:
        """The launches of one round."""
        return tuple(launch for launch in self.launches if launch.round == round_number)


def make_plan(config: SweepConfig) -> Plan:
    """Return the plan that a config asks for: the reference to be probed first, then the rounds."""
    reference = next(one for one in config.candidate_list() if one.name == config.reference)
    launches = [PlannedLaunch(candidate=reference, round=0, position=1, concurrencies=())]
    for round_number in range(1, config.decision.rounds + 1):
        draw = random.Random(point_seed(config, round_number, concurrency=0, use="order"))
        candidates = list(config.candidate_list())
        concurrencies = list(config.load.concurrency)
        draw.shuffle(candidates)
        draw.shuffle(concurrencies)
        launches += (
            PlannedLaunch(
                candidate=candidate,
                round=round_number,
                position=position,
                concurrencies=tuple(concurrencies),
            )
            for position, candidate in enumerate(candidates, start=1)
        )
    return Plan(launches=tuple(launches))


def point_seed(config: SweepConfig, round_number: int, *, concurrency: int, use: str) -> int:
    """Return a seed that differs for each round, concurrency and use, whatever the candidate."""
    text = f"{config.load.seed}:{round_number}:{concurrency}:{use}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
