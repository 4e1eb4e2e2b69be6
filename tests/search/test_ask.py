"""Which settings are drawn: never twice, the same again, and better ones with time."""

import random
import warnings

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.decide.search import TrialResult
from autotune.errors import AutotuneError, RunFolderError
from autotune.records.schema import Tunable
from autotune.search.ask import Sampler, ask_setting
from autotune.search.space import as_trial, constraints_of, state_of
from autotune.tunables import Setting, every_setting, in_force, same, values_of
from tests.test_tunables import spaces

SAMPLERS: tuple[Sampler, ...] = ("tpe", "random", "brute_force")
LINE = {"x": Tunable(argument="--x", low=0, high=100)}


def result(
    number: int, values: Setting, ratio: float | None = 1.0, **fields: object
) -> TrialResult:
    """A measured trial, unless ``fields`` say otherwise."""
    given: dict[str, object] = {
        "number": number,
        "round": 1,
        "parent": "a",
        "candidate": f"a-t{number:04d}",
        "values": values,
        "launched": True,
        "verdict": "pass",
        "ratio": ratio,
    }
    return TrialResult(**(given | fields))  # type: ignore[arg-type]


@given(spaces(), st.sampled_from(SAMPLERS), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_all_settings_are_drawn_and_none_twice(
    space: dict[str, Tunable], sampler: Sampler, seed: int
) -> None:
    wanted = list(every_setting(space) or ())[:12]
    drawn: list[TrialResult] = []
    for number in range(len(wanted)):
        values = ask_setting("a", space, results=drawn, sampler=sampler, seed=seed)
        for name, tunable in space.items():
            assert (name in values) == in_force(tunable, values)
            if name in values:
                assert any(same(values[name], one) for one in values_of(tunable) or ())
        assert values not in [one.values for one in drawn]
        drawn.append(result(number, values, ratio=1.0 + number % 3, launched=number % 2 == 0))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_records_and_seed_give_the_same_setting(sampler: Sampler) -> None:
    results = [result(number, {"x": 7 * number}, ratio=1 + number / 10) for number in range(8)]
    asked = [ask_setting("a", LINE, results=results, sampler=sampler, seed=s) for s in (1, 1, 2)]
    assert asked[0] == asked[1]


def test_tpe_learns_and_keeps_away_from_what_fails() -> None:
    """Everything above 50 fails; the closer to 40 below it, the better."""

    def drawn(sampler: Sampler, start: int) -> list[int]:
        seeds = random.Random(start)
        results: list[TrialResult] = []
        for number in range(24):
            seed = seeds.randrange(2**32)
            values = ask_setting("a", LINE, results=results, sampler=sampler, seed=seed)
            x = int(values["x"])
            told = (
                result(number, values, ratio=None, failure="oom: x", reason="oom: x")
                if x > 50
                else result(number, values, ratio=1 - abs(x - 40) / 100)
            )
            results.append(told)
        return [int(one.values["x"]) for one in results[8:]]

    names: tuple[Sampler, ...] = ("tpe", "random")
    late = {name: [x for n in range(6) for x in drawn(name, n)] for name in names}
    failed = {name: sum(x > 50 for x in values) for name, values in late.items()}
    near = {name: sum(abs(x - 40) <= 10 for x in values) for name, values in late.items()}
    assert failed["tpe"] < failed["random"]
    assert near["tpe"] > near["random"]


def test_an_endless_range_beside_a_dead_end_goes_on() -> None:
    """What a sampler insists on may be tried already; then any other is taken."""
    space = {
        "on": Tunable(argument="--on", choices=(True, False)),
        "share": Tunable(argument="--share", low=0.5, high=0.9, when={"on": (True,)}),
    }
    results = [result(0, {"on": False}, ratio=9.0)]
    results += [result(n, {"on": True, "share": 0.5 + n / 100}, ratio=0.1) for n in range(1, 9)]
    for seed in range(5):
        values = ask_setting("a", space, results=results, sampler="tpe", seed=seed)
        assert values["on"] is True


def test_a_space_that_only_seems_endless_is_told() -> None:
    space = {
        "kind": Tunable(argument="--kind", choices=("dead",)),
        "share": Tunable(argument="--s", low=0.1, high=0.2, when={"kind": ("never",)}),
    }
    with pytest.raises(AutotuneError, match=r"candidates\.a\.tunables: 1000 draws gave nothing"):
        ask_setting("a", space, results=[result(0, {"kind": "dead"})], sampler="random", seed=1)


def test_few_digits_are_drawn() -> None:
    space = {"share": Tunable(argument="--share", low=0.7, high=0.95)}
    values = ask_setting("a", space, results=[], sampler="random", seed=random.randrange(2**32))
    assert len(str(values["share"])) <= 14
    again = result(0, values)
    assert as_trial(again, space).params == {"a.share": values["share"]}


@pytest.mark.parametrize(
    ("fields", "state", "violated"),
    [
        ({}, "complete", set()),
        ({"launched": False, "ratio": None}, "running", set()),
        ({"ratio": None, "failure": "oom"}, "pruned", {"failed"}),
        ({"failure": "crashed"}, "complete", {"failed"}),
        ({"ratio": None}, "fail", set()),
        ({"verdict": "fail"}, "complete", {"wrong answers"}),
        ({"verdict": "inconclusive"}, "complete", set()),
        ({"over": {"ttft": 0.2, "tpot": -0.1}}, "complete", {"ttft"}),
        ({"over": {"ttft": None}}, "fail", set()),
    ],
)
def test_what_a_study_is_told(fields: dict[str, object], state: str, violated: set[str]) -> None:
    told = msgspec.structs.replace(result(0, {"x": 1}), **fields)
    assert state_of(told) == state
    if state in ("complete", "pruned"):
        constraints = constraints_of(told)
        assert {name for name, value in constraints.items() if value > 0} == violated
        assert as_trial(told, LINE).constraints == constraints


@pytest.mark.parametrize("values", [{"x": 101}, {"x": "1"}, {"y": 1}, {"x": 1, "y": 1}])
def test_a_trial_that_does_not_fit_is_named(values: Setting) -> None:
    with pytest.raises(RunFolderError, match=r"trials/0003\.json: doesn't fit the run's tunables"):
        ask_setting("a", LINE, results=[result(3, values)], sampler="tpe", seed=1)


def test_nobody_is_warned() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for sampler in SAMPLERS:
            ask_setting("a", LINE, results=[], sampler=sampler, seed=1)
    assert not caught
