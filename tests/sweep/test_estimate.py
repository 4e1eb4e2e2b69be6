"""What a sweep is said to cost before it starts, and what it is warned of."""

import datetime
import itertools
import math
import random
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.config import SweepConfig, parse_config
from autotune.decide.compare import error_share
from autotune.decide.statistics import t_quantile
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.rule import Rule
from autotune.records.schema import LaunchRecord
from autotune.sweep.earlier import Earlier, Found, timing_of
from autotune.sweep.estimate import Estimate, Progress, estimate, launches_to_make
from autotune.sweep.plan import most_launches
from autotune.sweep.precision import gap_proven, gap_told, noise_of, rounds_needed
from autotune.sweep.race import next_round
from tests.decide.builders import launch, make_run, point, verdicts

NAMES = ("eager", "batched_mm", "grouped_mm")
NOTHING = Found(earlier=None)
TUNABLES = '{ block = { argument = "--block", choices = [1, 2, 3, 4, 5, 6, 7, 8] } }'


def config(*, decision: str = "", budget: str = "", tuned: bool = False) -> SweepConfig:
    last = f'{{ backend = "grouped_mm", tunables = {TUNABLES} }}' if tuned else '"grouped_mm"'
    return parse_config(
        f"""
name = "demo"
candidates = ["eager", "batched_mm", {last}]
reference = "eager"
[model]
witness = "minimax-m2"
[engine]
name = "transformers"
ready_timeout_s = 100
[load]
concurrency = [1, 16]
[decision]
{decision}
[budget]
{budget}
""",
        where="demo.toml",
    )


def timed(name: str, number: int, seconds: float, **fields: Any) -> LaunchRecord:
    began = datetime.datetime(2026, 1, 2, 3, 0, 0, tzinfo=datetime.UTC)
    ended = began + datetime.timedelta(seconds=seconds)
    times = {"started_at": began.isoformat(), "ended_at": ended.isoformat()}
    return launch(name, number, **(times | fields))


def measured(
    *, rounds: int = 3, deviation: float = 0.0, seconds: float = 600.0, seed: int = 1
) -> LoadedRun:
    """A run of rounds whose launches differ by so much within a round."""
    draw = random.Random(seed)
    launches, points = [timed("eager", 0, 60.0)], []
    for number, name in itertools.product(range(1, rounds + 1), NAMES):
        launches.append(timed(name, number, seconds))
        throughput = 100 * math.exp(draw.gauss(0, deviation))
        points += [point(name, number, c, throughput=throughput) for c in (1, 16)]
    return make_run(
        {name: [] for name in NAMES}, points=points, launches=launches, reference="eager"
    )


def earlier(run: LoadedRun) -> Found:
    timing = timing_of(run)
    assert timing is not None
    return Found(earlier=Earlier(run=run, folder="results/before", timing=timing))


def progress_of(run: LoadedRun) -> Progress:
    said: dict[str, CandidateVerdict] = verdicts(run)
    step = next_round(run, said)
    return Progress(run=run, race=run, verdicts=said, search_round=None, step=step)


def asked(
    sweep: SweepConfig,
    found: Found = NOTHING,
    *,
    launchable: Sequence[str] = NAMES,
    progress: Progress | None = None,
) -> Estimate:
    return estimate(sweep, found, launchable=launchable, progress=progress)


# -- how many launches


def test_launches_from_settled_early_to_nothing_settled() -> None:
    launches = asked(config(decision="max_rounds = 8")).launches
    assert (launches.made, launches.fewest, launches.most) == (0, 1 + 3 * 3, 1 + 8 * 3)


def test_the_most_are_those_of_the_plan() -> None:
    for sweep in (config(), config(tuned=True), config(decision="min_rounds = 4")):
        assert asked(sweep).launches.most == most_launches(sweep)


def test_a_search_launches_its_anchor_and_settings_and_adds_a_finalist() -> None:
    launches = asked(config(tuned=True)).launches
    # 3 search rounds of the anchor and 2 settings; then 3 candidates and a finalist.
    assert (launches.fewest, launches.most) == (1 + 9 + 3 * 4, 1 + 9 + 8 * 4)


def test_an_unsupported_candidate_costs_nothing() -> None:
    launches = asked(config(), launchable=("eager", "grouped_mm")).launches
    assert (launches.fewest, launches.most) == (1 + 3 * 2, 1 + 8 * 2)


def test_what_is_measured_is_not_to_make() -> None:
    run = measured(rounds=2)
    launches = asked(config(), progress=progress_of(run)).launches
    assert (launches.made, launches.fewest, launches.most) == (7, 3, 6 * 3)


def test_a_round_that_was_begun_is_completed_only() -> None:
    run = measured(rounds=2)
    run = msgspec.structs.replace(run, launches=run.launches[:-1])
    launches = asked(config(), progress=progress_of(run)).launches
    assert (launches.made, launches.fewest, launches.most) == (6, 1 + 3, 1 + 6 * 3)


def test_whoever_failed_is_not_to_launch_again() -> None:
    run = measured(rounds=2)
    failed = msgspec.structs.replace(run.launches[-1], status="oom")
    run = msgspec.structs.replace(run, launches=(*run.launches[:-1], failed))
    launches = asked(config(), progress=progress_of(run)).launches
    assert (launches.fewest, launches.most) == (2, 6 * 2)


def test_a_race_that_is_over_costs_nothing() -> None:
    found = asked(config(budget="max_launches = 1"), progress=progress_of(measured(rounds=8)))
    assert (found.launches.fewest, found.launches.most) == (0, 0)
    assert found.warnings == ()


@given(
    st.integers(1, 6), st.integers(0, 8), st.booleans(), st.sets(st.sampled_from(NAMES), min_size=1)
)
def test_fewest_is_never_more_than_most(
    least: int, more: int, tuned: bool, launchable: set[str]
) -> None:
    sweep = config(decision=f"min_rounds = {least}\nmax_rounds = {least + more}", tuned=tuned)
    found = launches_to_make(sweep, launchable=launchable, progress=None)
    assert 1 <= found.fewest <= found.most <= most_launches(sweep)


# -- time


def test_nothing_known_gives_no_time_but_a_bound_for_waiting() -> None:
    found = asked(config())
    assert found.expected_s is None and found.worst_s is None and found.timing is None
    assert found.waiting_s == 25 * 100


def test_time_is_that_of_earlier_launches() -> None:
    run = measured(rounds=2, seconds=500.0)
    slow = timed("eager", 3, 900.0)
    failed = timed("batched_mm", 3, 5000.0, status="ready_timeout")
    run = msgspec.structs.replace(run, launches=(*run.launches, slow, failed))
    found = asked(config(), earlier(run))
    assert found.timing is not None
    # Failed launches and the reference's first one, which has no load, aren't usual ones.
    assert (found.timing.launches, found.timing.longest_s) == (7, 900.0)
    assert found.expected_s == pytest.approx(10 * (6 * 500 + 900) / 7)
    assert found.worst_s == 25 * 900
    assert found.folder == "results/before"


def test_a_run_without_times_says_nothing_of_time() -> None:
    run = measured()
    bare = tuple(msgspec.structs.replace(one, started_at="yesterday") for one in run.launches)
    assert timing_of(msgspec.structs.replace(run, launches=bare)) is None


# -- precision


def test_noise_is_what_launches_differ_by_within_a_round() -> None:
    noise = noise_of(measured(rounds=200, deviation=0.03))
    assert noise is not None
    assert noise.deviation == pytest.approx(0.03, rel=0.1)
    assert (noise.rounds, noise.candidates, noise.degrees) == (200, 3, 199 * 2)


@pytest.mark.parametrize("rounds", [0, 1])
def test_one_round_tells_no_noise(rounds: int) -> None:
    assert noise_of(measured(rounds=rounds, deviation=0.03)) is None


def test_rounds_needed_as_told_in_the_paper() -> None:
    """K = 2 is a comparison of two means: 2 (1.645 * 0.03 / ln 1.02)^2 = 12.42."""
    assert rounds_needed(0.03, 0.02, confidence=0.95, candidates=2) == 13
    assert rounds_needed(0.03, 0.02, confidence=0.95, candidates=4) == 21
    assert rounds_needed(0.0, 0.02, confidence=0.95, candidates=2) == 1


deviations = st.floats(1e-4, 0.5)


@given(deviations, st.integers(1, 60), st.integers(2, 12), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_gap_is_the_inverse_of_the_rounds(
    deviation: float, rounds: int, candidates: int, confidence: float
) -> None:
    gap = gap_told(deviation, rounds, confidence=confidence, candidates=candidates)
    # A hair more than the gap takes no more rounds, a good part less takes more.
    for share, fits in ((1 + 1e-6, True), (0.9 * math.sqrt(rounds / (rounds + 1)), False)):
        needed = rounds_needed(
            deviation,
            math.expm1(math.log1p(gap) * share),
            confidence=confidence,
            candidates=candidates,
        )
        assert (needed <= rounds) is fits


@given(deviations, st.integers(3, 30), st.integers(2, 12))
def test_proof_takes_a_larger_gap_than_being_right(
    deviation: float, rounds: int, candidates: int
) -> None:
    rule = Rule(max_rounds=rounds)
    told = gap_told(deviation, rounds, confidence=1 - rule.alpha, candidates=candidates)
    assert gap_proven(deviation, rule, candidates=candidates) > told


def test_proof_is_by_the_rules_own_bounds() -> None:
    rule = Rule(max_rounds=8)
    half = t_quantile(1 - error_share(rule, candidates=3), 14) * 0.03 * math.sqrt(2 / 8)
    assert gap_proven(0.03, rule, candidates=3) == pytest.approx(math.expm1(half))
    assert gap_proven(0.03, Rule(min_rounds=1, max_rounds=1), candidates=3) == math.inf


def test_that_many_rounds_find_the_best_as_often_as_promised() -> None:
    """Simulated: the best leads by the gap exactly, the least favourable case."""
    draw, gap, deviation = random.Random(3), 0.05, 0.04
    rounds = rounds_needed(deviation, gap, confidence=0.95, candidates=4)
    of_mean = deviation / math.sqrt(rounds)
    right = sum(
        math.log1p(gap) + draw.gauss(0, of_mean) > max(draw.gauss(0, of_mean) for _ in range(3))
        for _ in range(4000)
    )
    assert 0.94 < right / 4000 < 0.99
    assert NormalDist().cdf(1.645) == pytest.approx(0.95, abs=1e-3)


# -- warnings


def test_a_quiet_pilot_warns_of_nothing() -> None:
    found = asked(config(), earlier(measured(deviation=0.001)))
    assert found.noise is not None and found.precision is not None
    assert found.precision.rounds_needed <= 3 and found.warnings == ()


def test_too_much_noise_is_told_with_what_can_be_settled_and_what_to_change() -> None:
    found = asked(config(), earlier(measured(rounds=20, deviation=0.05)))
    assert found.precision is not None and found.precision.rounds_needed > 8
    (warning,) = found.warnings
    assert "8 rounds can't be expected to settle differences of 2.0% (decision.delta)" in warning
    assert f"takes about {found.precision.rounds_needed}" in warning
    assert f"{found.precision.gap_told:.1%}" in warning
    for remedy in ("decision.max_rounds", "decision.delta", "load.min_requests"):
        assert remedy in warning
    # A coarser question can be settled.
    assert asked(config(decision="delta = 0.4"), earlier(measured(deviation=0.05))).warnings == ()


def test_enough_to_find_the_best_but_not_to_prove_it() -> None:
    found = asked(config(), earlier(measured(rounds=20, deviation=0.02)))
    assert found.precision is not None and found.precision.rounds_needed <= 8
    (warning,) = found.warnings
    assert "equals may end open" in warning


def test_too_few_rounds_for_any_claim_are_told() -> None:
    (warning,) = asked(config(decision="min_rounds = 1\nmax_rounds = 2")).warnings
    assert "max_rounds: 2 can't settle anything: a claim needs 3 rounds" in warning


def test_a_budget_that_cannot_settle_it_is_told() -> None:
    assert asked(config(budget="max_launches = 10")).warnings == ()
    (warning,) = asked(config(budget="max_launches = 9")).warnings
    assert warning.startswith("budget.max_launches: 9 can't settle it: that takes 10 launches")
    quiet = earlier(measured(deviation=0.001))
    # 10 launches of 10 minutes.
    assert asked(config(budget="max_hours = 1.7"), quiet).warnings == ()
    (warning,) = asked(config(budget="max_hours = 1.6"), quiet).warnings
    assert "budget.max_hours: 1.6 can't settle it: that takes about 1.67 hours" in warning
    # Without earlier launches nothing is known of hours.
    assert asked(config(budget="max_hours = 0.001")).warnings == ()


def test_what_is_spent_counts() -> None:
    run = measured(rounds=2, deviation=0.001)
    begun = progress_of(run)
    assert asked(config(budget="max_launches = 10"), earlier(run), progress=begun).warnings == ()
    (warning,) = asked(config(budget="max_launches = 9"), earlier(run), progress=begun).warnings
    assert "that takes 10 launches" in warning
    (warning,) = asked(config(budget="max_launches = 7"), earlier(run), progress=begun).warnings
    assert warning == "budget.max_launches: 7 launches are made: raise it to go on"
    (warning,) = asked(config(budget="max_hours = 1.4"), earlier(run), progress=begun).warnings
    # 6 launches of 10 minutes and one of 1, and 3 more.
    assert "that takes about 1.52 hours (10 launches" in warning
