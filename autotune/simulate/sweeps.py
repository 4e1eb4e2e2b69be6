"""One simulated sweep: the real race and the real rule, on made-up records. Pure.

`autotune.sweep.race.next_round` says who is launched, as in a sweep; each launch becomes the
records that a real one leaves, with throughputs that are drawn instead of measured; and
`autotune.decide.rule.judge_run` judges them. Nothing of the method is written twice.
"""

import math
import random
from collections.abc import Mapping
from typing import Literal

import msgspec

from autotune.decide.rule import judge_run
from autotune.decisions.schema import DecisionKey, Geometry, Outcome, Scope
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.rule import Rule
from autotune.records.schema import (
    Candidate,
    LaunchRecord,
    PointFigures,
    PointRecord,
    RunRecord,
    Workload,
)
from autotune.simulate.noise import Noise, NoiseSource
from autotune.sweep.race import Round, next_round

CONCURRENCIES = (1, 16, 64, 128)
# More than anybody sweeps; a simulation's time grows with the square of either.
MOST_CANDIDATES = 50
MOST_ROUNDS = 100
# What a throughput is off by: any number does, since only ratios are compared.
_TOKENS_PER_S = 1000.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """The truth that a sweep is to find, and what is in its way.

    The best of ``candidates`` is faster than all others by ``gap`` (0.05 = 5%); ``equals`` of
    them share the first place. ``failing`` of them, never the best, fail when they are first
    launched. The incumbent is one of the slower candidates (where there are none, one of the
    equal ones), which may be among those that fail, or the best, or there is none.
    """

    candidates: int = 4
    gap: float = 0.05
    equals: int = 1
    failing: int = 0
    incumbent: Literal["slower", "best", "none"] = "slower"
    noise: Noise = Noise()
    rule: Rule = Rule()

    @property
    def exhaustive_launches(self) -> int:
        """How many launches a sweep makes if nobody drops out and nothing is settled early.

        The first of them is the reference's, which is probed before the first round.
        """
        return 1 + self.candidates * self.rule.max_rounds

    def check(self) -> None:
        """Check ranges.

        Raises:
            ValueError: a setting out of its range; the message begins with its name.
        """
        if not 2 <= self.candidates <= MOST_CANDIDATES:
            raise ValueError(f"candidates {self.candidates}: give 2 to {MOST_CANDIDATES}")
        if not 0 <= self.gap <= 10:
            raise ValueError(
                f"gap {self.gap}: give how far the best is ahead, from 0 to 10: 0.05 is 5%"
            )
        if not 1 <= self.equals <= self.candidates:
            raise ValueError(
                f"equals {self.equals}: give how many share the first place, 1 to the "
                f"{self.candidates} candidates"
            )
        if not 0 <= self.failing < self.candidates:
            raise ValueError(
                f"failing {self.failing}: give fewer than the {self.candidates} candidates: the "
                "best one never fails"
            )
        self.noise.check()
        for name, value in (
            ("min_rounds", self.rule.min_rounds),
            ("max_rounds", self.rule.max_rounds),
            ("drop_after", self.rule.drop_after),
        ):
            if not 1 <= value <= MOST_ROUNDS:
                raise ValueError(f"{name} {value}: give 1 to {MOST_ROUNDS}")
        if self.rule.max_rounds < self.rule.min_rounds:
            raise ValueError(
                f"max_rounds {self.rule.max_rounds}: give at least min_rounds, which is "
                f"{self.rule.min_rounds}"
            )
        self.rule.check(CONCURRENCIES)


class SimulatedSweep(msgspec.Struct, frozen=True, kw_only=True):
    """What one simulated sweep came to.

    ``behind`` is how far the choice (where the outcome is ``open``: the leader) truly lies behind
    the best, in ln(throughput); ``None`` where there is none. ``rivalled`` says that another
    candidate that works is truly as good as it, or better.
    """

    outcome: Outcome
    behind: float | None
    rivalled: bool
    launches: int


def simulate_sweep(scenario: Scenario, generator: random.Random) -> SimulatedSweep:
    """Run one sweep to its end and judge it.

    Args:
        scenario: what is simulated; it has been checked (`Scenario.check`).
        generator: gives every number that is drawn.
    """
    truth = _draw_truth(scenario, generator)
    launcher = _Launcher(scenario, truth, generator)
    run = _begin(scenario, truth)
    verdicts = {
        name: CandidateVerdict(candidate=name, verdict="pass", reason="simulated")
        for name in truth.scores
    }
    run = launcher.launch_reference(run)
    while isinstance(step := next_round(run, verdicts), Round):
        run = launcher.launch_round(run, step)
    judgement = judge_run(run, verdicts)
    chosen = None if judgement.choice is None else truth.scores[judgement.choice]
    return SimulatedSweep(
        outcome=judgement.outcome,
        behind=None if chosen is None else -chosen,
        rivalled=any(
            name != judgement.choice and name not in truth.failing and score >= (chosen or 0.0)
            for name, score in truth.scores.items()
        ),
        launches=len(run.launches),
    )


class _Truth(msgspec.Struct, frozen=True, kw_only=True):
    """What no sweep is told: true scores (0 for the best), who fails, which launch is wild."""

    scores: Mapping[str, float]
    best: str
    incumbent: str | None
    failing: frozenset[str]
    wild: tuple[str, int]


class _Launcher:
    """Makes launches on the noise's clock: each is a record, with a point at each concurrency."""

    def __init__(self, scenario: Scenario, truth: _Truth, generator: random.Random) -> None:
        self._truth = truth
        self._generator = generator
        self._wild = math.log1p(scenario.noise.wild)
        self._noise = NoiseSource(
            scenario.noise,
            generator,
            launches=scenario.exhaustive_launches,
            points=len(CONCURRENCIES),
        )

    def launch_reference(self, run: LoadedRun) -> LoadedRun:
        """The launch before the first round: it is probed, measures nothing, and takes its time."""
        self._noise.next_launch()
        first = LaunchRecord(candidate=self._truth.best, round=0, position=1, status="ok")
        return msgspec.structs.replace(run, launches=(first,))

    def launch_round(self, run: LoadedRun, step: Round) -> LoadedRun:
        """The run with a round more; its launches come in random order, as a sweep's do."""
        order = list(step.names)
        self._generator.shuffle(order)
        launches, points = list(run.launches), list(run.points)
        for position, name in enumerate(order, start=1):
            off = self._noise.next_launch()
            fails = name in self._truth.failing
            launches.append(
                LaunchRecord(
                    candidate=name,
                    round=step.number,
                    position=position,
                    status="crashed" if fails else "ok",
                )
            )
            if not fails:
                points += self._points(name, step.number, off)
        return msgspec.structs.replace(run, launches=tuple(launches), points=tuple(points))

    def _points(self, name: str, round_number: int, off: tuple[float, ...]) -> list[PointRecord]:
        level = self._truth.scores[name]
        if (name, round_number) == self._truth.wild:
            level += self._wild
        return [
            PointRecord(
                candidate=name,
                round=round_number,
                concurrency=concurrency,
                status="ok",
                figures=PointFigures(output_tokens_per_s=_TOKENS_PER_S * math.exp(level + own)),
            )
            for concurrency, own in zip(CONCURRENCIES, off, strict=True)
        ]


def _draw_truth(scenario: Scenario, generator: random.Random) -> _Truth:
    """Deal the places: which of the listed candidates is best must not matter."""
    names = [f"candidate-{number}" for number in range(1, scenario.candidates + 1)]
    ranked = generator.sample(names, len(names))
    best = ranked[0]
    gap = math.log1p(scenario.gap)
    scores = {name: 0.0 if name in ranked[: scenario.equals] else -gap for name in names}
    incumbent = None
    if scenario.incumbent == "best":
        incumbent = best
    elif scenario.incumbent == "slower":
        incumbent = generator.choice(ranked[scenario.equals :] or ranked[1:])
    wild = (generator.choice(names), generator.randint(1, scenario.rule.max_rounds))
    return _Truth(
        scores=scores,
        best=best,
        incumbent=incumbent,
        failing=frozenset(generator.sample(ranked[1:], scenario.failing)),
        wild=(best, 1) if scenario.noise.wild_hits == "best" else wild,
    )


def _begin(scenario: Scenario, truth: _Truth) -> LoadedRun:
    record = RunRecord(
        kind="sweep",
        name="simulated",
        created_at="2026-01-01T00:00:00+00:00",
        key=DecisionKey("simulated", "none", "none"),
        scope=Scope(engine="simulated", geometry=Geometry(1, 1, 1, 1)),
        candidates=tuple(
            Candidate(name=name, engine="simulated", backend=name) for name in truth.scores
        ),
        concurrencies=CONCURRENCIES,
        rule=scenario.rule,
        workload=Workload(),
        # The best never fails, and what the others are held against has to answer.
        reference=truth.best,
        incumbent=truth.incumbent,
    )
    return LoadedRun(run=record, launches=(), points=(), probes=())
