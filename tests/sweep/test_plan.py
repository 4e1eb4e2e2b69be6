from hypothesis import given
from hypothesis import strategies as st

from autotune.config import SweepConfig, parse_config
from autotune.sweep.plan import make_plan, point_seed


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
rounds = {rounds}
"""
    return parse_config(text, where="plan.toml")


seeds = st.integers(0, 2**31)
sizes = st.integers(1, 6)


@given(seeds, sizes, sizes, sizes)
def test_each_round_launches_each_candidate_once(
    seed: int, rounds: int, candidates: int, levels: int
) -> None:
    asked = config(seed=seed, rounds=rounds, candidates=candidates, levels=levels)
    plan = make_plan(asked)
    assert plan == make_plan(asked)
    assert len(plan.launches) == 1 + rounds * candidates
    for number in range(1, rounds + 1):
        launches = plan.at(number)
        assert {launch.candidate.name for launch in launches} == {
            candidate.name for candidate in asked.candidate_list()
        }
        assert [launch.position for launch in launches] == list(range(1, candidates + 1))
        # One order of concurrencies a round, the same for all its candidates.
        assert len({launch.concurrencies for launch in launches}) == 1
        assert sorted(launches[0].concurrencies) == sorted(asked.load.concurrency)
    assert [launch.round for launch in plan.launches] == sorted(
        launch.round for launch in plan.launches
    )


@given(seeds, sizes, sizes)
def test_the_reference_is_launched_first_to_be_probed(
    seed: int, rounds: int, candidates: int
) -> None:
    asked = config(seed=seed, rounds=rounds, candidates=candidates)
    first, *others = make_plan(asked).launches
    assert (first.candidate.name, first.round, first.position) == ("b0", 0, 1)
    assert first.concurrencies == ()
    assert make_plan(asked).at(0) == (first,)
    assert min(launch.round for launch in others) == 1
    assert all(launch.concurrencies for launch in others)


def orders(asked: SweepConfig) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    plan = make_plan(asked)
    return [
        (tuple(launch.candidate.name for launch in plan.at(n)), plan.at(n)[0].concurrencies)
        for n in range(1, asked.decision.rounds + 1)
    ]


def test_orders_differ_between_rounds_and_seeds() -> None:
    drawn = [order for seed in range(10) for order in orders(config(seed=seed))]
    # 576 orders are possible, so that a few of 30 may coincide, but hardly more.
    assert len(set(drawn)) >= 25


def test_no_candidate_is_favoured_by_its_place() -> None:
    first = [make_plan(config(seed=seed)).at(1)[0].candidate.name for seed in range(400)]
    assert all(60 <= first.count(f"b{number}") <= 140 for number in range(4))


def test_more_rounds_leave_the_earlier_ones_as_they_were() -> None:
    assert orders(config(rounds=5))[:3] == orders(config(rounds=3))


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
