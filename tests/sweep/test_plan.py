from hypothesis import given
from hypothesis import strategies as st

from autotune.config import SweepConfig, parse_config
from autotune.sweep.plan import (
    PlannedLaunch,
    first_launch,
    most_launches,
    plan_round,
    point_seed,
)


def config(*, seed: int = 0, rounds: int = 3, candidates: int = 4, levels: int = 4) -> SweepConfig:
    names = [f"b{number}" for number in range(candidates)]
    text = f"""
name = "plan"
candidates = {names!r}
reference = "b0"
[model]
witness = "minimax-m2"
[engine]
name = "transformers"
[load]
concurrency = {[2**number for number in range(levels)]}
seed = {seed}
[decision]
min_rounds = {rounds}
max_rounds = {rounds}
"""
    return parse_config(text, where="plan.toml")


seeds = st.integers(0, 2**31)
sizes = st.integers(1, 6)


def planned(asked: SweepConfig, number: int) -> tuple[PlannedLaunch, ...]:
    return plan_round(asked, number, asked.candidate_list())


@given(seeds, sizes, sizes, sizes)
def test_a_round_launches_each_candidate_once(
    seed: int, number: int, candidates: int, levels: int
) -> None:
    asked = config(seed=seed, candidates=candidates, levels=levels)
    launches = planned(asked, number)
    assert launches == planned(asked, number)
    names = {candidate.name for candidate in asked.candidate_list()}
    assert {launch.candidate.name for launch in launches} == names
    assert [launch.position for launch in launches] == list(range(1, candidates + 1))
    assert {launch.round for launch in launches} == {number}
    # One order of concurrencies a round, the same for all its candidates.
    assert len({launch.concurrencies for launch in launches}) == 1
    assert sorted(launches[0].concurrencies) == sorted(asked.load.concurrency)


@given(seeds, sizes)
def test_the_reference_is_launched_first_to_be_probed(seed: int, candidates: int) -> None:
    first = first_launch(config(seed=seed, candidates=candidates))
    assert (first.candidate.name, first.round, first.position) == ("b0", 0, 1)
    assert first.concurrencies == ()


@given(seeds, sizes, st.data())
def test_who_rests_leaves_the_others_order(seed: int, number: int, data: st.DataObject) -> None:
    asked = config(seed=seed)
    names = [launch.candidate.name for launch in planned(asked, number)]
    kept = data.draw(st.sets(st.sampled_from(names), min_size=1))
    some = [one for one in asked.candidate_list() if one.name in kept]
    launches = plan_round(asked, number, some)
    assert [one.candidate.name for one in launches] == [name for name in names if name in kept]
    assert launches[0].concurrencies == planned(asked, number)[0].concurrencies


def orders(asked: SweepConfig) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    return [
        (
            tuple(launch.candidate.name for launch in planned(asked, number)),
            planned(asked, number)[0].concurrencies,
        )
        for number in range(1, 4)
    ]


def test_orders_differ_between_rounds_and_seeds() -> None:
    drawn = [order for seed in range(10) for order in orders(config(seed=seed))]
    # 576 orders are possible, so that a few of 30 may coincide, but hardly more.
    assert len(set(drawn)) >= 25


def test_no_candidate_is_favoured_by_its_place() -> None:
    first = [planned(config(seed=seed), 1)[0].candidate.name for seed in range(400)]
    assert all(60 <= first.count(f"b{number}") <= 140 for number in range(4))


def test_the_most_launches_are_those_of_all_rounds_and_the_first_one() -> None:
    assert most_launches(config(candidates=3, rounds=4)) == 1 + 3 * 4


def test_a_seed_differs_for_each_round_concurrency_and_use() -> None:
    asked = config()
    drawn = {
        point_seed(asked, number, concurrency=concurrency, use=use)
        for number in (1, 2, 3)
        for concurrency in (1, 11, 111)
        for use in ("order", "warmup:1", "measured:1", "measured:2")
    }
    assert len(drawn) == 36
    assert point_seed(config(seed=1), 1, concurrency=1, use="x") != point_seed(
        asked, 1, concurrency=1, use="x"
    )


def test_a_seed_is_the_same_in_every_process() -> None:
    """Pinned: an interrupted sweep must find its place again in another process."""
    assert point_seed(config(), 1, concurrency=1, use="x") == 17_964_064_961_173_687_852
