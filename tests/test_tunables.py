"""Settings are counted, told apart and turned into launches without a draw."""

from graphlib import CycleError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.records.schema import Candidate, Tunable
from autotune.tunables import (
    Value,
    apply,
    can_be,
    count_settings,
    every_setting,
    in_force,
    in_order,
    rounded,
    same,
    text_of,
    trial_name,
    values_of,
)

PARENT = Candidate(
    name="a", engine="e", backend="b", arguments=("--keep", "1"), environment={"X": "1"}
)


def argument(**fields: object) -> Tunable:
    return Tunable(argument="--it", **fields)  # type: ignore[arg-type]


@st.composite
def spaces(draw: st.DrawFn) -> dict[str, Tunable]:
    """Up to four tunables with few values, each depending on some of those before."""
    found: dict[str, Tunable] = {}
    for place in range(draw(st.integers(1, 4))):
        when: dict[str, tuple[Value, ...]] = {}
        for other in draw(st.sets(st.sampled_from(sorted(found)))) if found else ():
            values = list(values_of(found[other]) or ())
            when[other] = tuple(draw(st.lists(st.sampled_from(values), min_size=1, max_size=2)))
        kind = draw(st.sampled_from(["choices", "whole", "steps"]))
        ranges: dict[str, object] = {
            "choices": {"choices": (True, False, "x")},
            "whole": {"low": -1, "high": 1},
            "steps": {"low": 0.1, "high": 0.3, "step": 0.1},
        }
        fields = ranges[kind]
        assert isinstance(fields, dict)
        found[f"t{place}"] = Tunable(argument=f"--t{place}", when=when, **fields)
    return found


@given(spaces())
def test_every_setting_is_there_once_and_is_a_launch_of_its_own(space: dict[str, Tunable]) -> None:
    settings = list(every_setting(space) or ())
    assert settings
    launches = {apply(PARENT, space, values=one, name="a-t0000").arguments for one in settings}
    assert len(launches) == len(settings) == count_settings(space, at_most=10**6)
    for values in settings:
        for name, tunable in space.items():
            assert (name in values) == in_force(tunable, values)


@given(spaces(), st.integers(0, 20))
def test_settings_are_counted_up_to_a_bound(space: dict[str, Tunable], bound: int) -> None:
    whole = len(list(every_setting(space) or ()))
    assert count_settings(space, at_most=bound) == min(bound, whole)


@given(spaces(), st.randoms())
def test_the_order_of_a_config_changes_nothing(space: dict[str, Tunable], order: object) -> None:
    names = sorted(space, reverse=True)
    other = {name: space[name] for name in names}
    assert in_order(space) == in_order(other)
    for values in every_setting(space) or ():
        turned = {name: values[name] for name in reversed(values)}
        assert apply(PARENT, space, values=values, name="x") == apply(
            PARENT, other, values=turned, name="x"
        )


def test_a_range_without_steps_has_no_end() -> None:
    space = {"a": argument(low=0.5, high=1.0)}
    assert every_setting(space) is None
    assert count_settings(space, at_most=7) == 7


def test_very_many_settings_are_counted_only_as_far_as_asked() -> None:
    space = {
        "a": Tunable(argument="--a", low=0, high=2**50),
        "b": Tunable(argument="--b", low=0.0, high=1e6, step=0.001),
    }
    assert count_settings(space, at_most=5) == 5


@pytest.mark.parametrize(
    ("tunable", "values"),
    [
        (argument(low=1, high=4), [1, 2, 3, 4]),
        (argument(low=1, high=7, step=3), [1, 4, 7]),
        (argument(low=1, high=3, log=True), [1, 2, 3]),
        (argument(low=0.1, high=0.7, step=0.2), [0.1, 0.3, 0.5, 0.7]),
        (argument(choices=(True, "x")), [True, "x"]),
    ],
)
def test_the_values_of_a_tunable(tunable: Tunable, values: list[Value]) -> None:
    assert list(values_of(tunable) or ()) == values


@pytest.mark.parametrize(
    ("tunable", "value", "possible"),
    [
        (argument(low=1, high=7, step=3), 4, True),
        (argument(low=1, high=7, step=3), 4.0, True),
        (argument(low=1, high=7, step=3), 5, False),
        (argument(low=1, high=7), 8, False),
        (argument(low=1, high=7), True, False),
        (argument(low=1, high=7), "4", False),
        (argument(low=0.1, high=0.7, step=0.2), 0.3, True),
        (argument(low=0.1, high=0.7, step=0.2), 0.4, False),
        (argument(low=0.1, high=0.7), 0.1234, True),
        (argument(low=0.1, high=0.7), float("nan"), False),
        (argument(choices=(True, "x")), True, True),
        (argument(choices=(True, "x")), 1, False),
    ],
)
def test_what_a_tunable_can_be(tunable: Tunable, value: Value, possible: bool) -> None:
    assert can_be(tunable, value) is possible


@given(spaces())
def test_all_of_a_tunables_values_are_possible(space: dict[str, Tunable]) -> None:
    for tunable in space.values():
        assert all(can_be(tunable, value) for value in values_of(tunable) or ())


def test_a_circle_is_an_error() -> None:
    with pytest.raises(CycleError):
        in_order({"a": argument(when={"b": (1,)}), "b": argument(when={"a": (1,)})})


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        (True, ("--it",)),
        (False, ()),
        (8192, ("--it", "8192")),
        (0.9, ("--it", "0.9")),
        (1e-5, ("--it", "1e-05")),
        ("auto", ("--it", "auto")),
        (-1, ("--it=-1",)),
        ("--x", ("--it=--x",)),
    ],
)
def test_an_argument_is_written(value: Value, arguments: tuple[str, ...]) -> None:
    made = apply(PARENT, {"it": argument(choices=(value,))}, values={"it": value}, name="n")
    assert made.arguments == ("--keep", "1", *arguments)
    assert (made.name, made.backend, made.environment) == ("n", "b", {"X": "1"})


@pytest.mark.parametrize(("value", "environment"), [(2, {"Y": "2"}), (False, {}), ("", {"Y": ""})])
def test_a_variable_is_set(value: Value, environment: dict[str, str]) -> None:
    tunable = Tunable(variable="Y", choices=(value,))
    made = apply(PARENT, {"it": tunable}, values={"it": value}, name="n")
    assert made.environment == {"X": "1", **environment}
    assert made.arguments == PARENT.arguments
    assert PARENT.environment == {"X": "1"}


def test_true_is_not_one() -> None:
    assert same(True, True) and same(1, 1.0)
    assert not same(True, 1) and not same(0, False) and not same("1", 1)


@given(st.floats(0.7, 0.95))
def test_a_drawn_number_stays_within_its_range(value: float) -> None:
    tunable = argument(low=0.7, high=0.95)
    short = rounded(value, tunable)
    assert isinstance(short, float) and 0.7 <= short <= 0.95
    assert short == pytest.approx(value, rel=1e-11)
    assert float(text_of(short)) == short


def test_trials_are_named_after_their_parent() -> None:
    assert trial_name("triton", 7) == "triton-t0007"
    assert trial_name("triton", 12345) == "triton-t12345"
