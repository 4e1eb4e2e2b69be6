"""What a candidate's tunables can be set to, and what a setting makes of the candidate. Pure.

A setting gives a value to each tunable that is in force. How settings are drawn is
`autotune.search`'s; what is refused in a config is `autotune.config.check_tunables`'.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import islice

from autotune.records.schema import Candidate, Tunable

Value = bool | int | float | str
Setting = dict[str, Value]

# Enough for any setting, and few enough that steps of 0.1 don't end in ...0000000004.
_DIGITS = 12


def trial_name(parent: str, number: int) -> str:
    """Return the name of a trial's candidate, e.g. ``triton-t0007``."""
    return f"{parent}-t{number:04d}"


def in_order(tunables: Mapping[str, Tunable]) -> tuple[str, ...]:
    """Return the names so that each comes after those that it depends on.

    Raises:
        graphlib.CycleError: some depend on each other.
    """
    # Sorted: a record doesn't keep the order in which a config lists them.
    order = TopologicalSorter({name: sorted(tunables[name].when) for name in sorted(tunables)})
    return tuple(name for name in order.static_order() if name in tunables)


def in_force(tunable: Tunable, values: Mapping[str, Value]) -> bool:
    """Whether a tunable plays a part beside these values of the ones that it depends on."""
    return all(
        name in values and any(same(values[name], one) for one in wanted)
        for name, wanted in tunable.when.items()
    )


def same(one: Value, other: Value) -> bool:
    """Whether two values are the same setting; in Python ``True == 1``, in a launch it isn't."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def text_of(value: Value) -> str:
    """Return a value as it is written in a command line or a variable."""
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)


def rounded(value: Value, tunable: Tunable) -> Value:
    """Return a drawn number with few digits, still within its range; other values as they are."""
    if not isinstance(value, float) or tunable.low is None or tunable.high is None:
        return value
    return min(max(float(text_of(value)), float(tunable.low)), float(tunable.high))


def values_of(tunable: Tunable) -> Sequence[Value] | None:
    """Return all values of a tunable, ``None`` where there is no end of them."""
    if tunable.low is None or tunable.high is None:
        return tunable.choices
    low, high, step = tunable.low, tunable.high, tunable.step
    if isinstance(low, int) and isinstance(high, int) and not isinstance(step, float):
        return range(low, high + 1, step or 1)
    if step is None:
        return None
    return _Steps(low, step, count=round((high - low) / step) + 1)


def can_be(tunable: Tunable, value: Value) -> bool:
    """Whether a tunable may have this value."""
    if tunable.low is None or tunable.high is None:
        return any(same(one, value) for one in tunable.choices)
    if isinstance(value, bool | str) or not tunable.low <= value <= tunable.high:
        return False
    values = values_of(tunable)
    if values is None:
        return True
    place = round((value - tunable.low) / (tunable.step or 1))
    return place < len(values) and math.isclose(
        float(values[place]), value, rel_tol=1e-9, abs_tol=1e-12
    )


def every_setting(tunables: Mapping[str, Tunable]) -> Iterator[Setting] | None:
    """Return all settings, one after the other; ``None`` where there is no end of them."""
    if any(values_of(tunable) is None for tunable in tunables.values()):
        return None
    return _settings(tunables, in_order(tunables), {})


def count_settings(tunables: Mapping[str, Tunable], *, at_most: int) -> int:
    """Return how many settings there are, or ``at_most`` if there are as many or more."""
    settings = every_setting(tunables)
    return at_most if settings is None else sum(1 for _ in islice(settings, at_most))


def apply(
    parent: Candidate, tunables: Mapping[str, Tunable], *, values: Mapping[str, Value], name: str
) -> Candidate:
    """Return what is launched: the parent under another name, with the drawn values added.

    Args:
        parent: the listed candidate.
        tunables: its tunables, by name.
        values: the setting.
        name: the new candidate's name.
    """
    arguments, environment = list(parent.arguments), dict(parent.environment)
    for key, value in sorted(values.items()):
        tunable = tunables[key]
        if value is False:
            continue
        if tunable.variable is not None:
            environment[tunable.variable] = text_of(value)
        elif tunable.argument is not None:
            arguments += _written(tunable.argument, value)
    return Candidate(
        name=name,
        engine=parent.engine,
        backend=parent.backend,
        arguments=tuple(arguments),
        environment=environment,
    )


def _written(argument: str, value: Value) -> list[str]:
    if value is True:
        return [argument]
    text = text_of(value)
    # What begins with a dash would be read as the next argument.
    return [f"{argument}={text}"] if text.startswith("-") else [argument, text]


def _settings(
    tunables: Mapping[str, Tunable], names: Sequence[str], chosen: Setting
) -> Iterator[Setting]:
    if not names:
        yield dict(chosen)
        return
    name, *others = names
    if not in_force(tunables[name], chosen):
        yield from _settings(tunables, others, chosen)
        return
    for value in values_of(tunables[name]) or ():
        yield from _settings(tunables, others, {**chosen, name: value})


class _Steps(Sequence[Value]):
    """Numbers in equal steps, made when they are asked for: there may be very many."""

    def __init__(self, low: float, step: float, *, count: int) -> None:
        self._low, self._step, self._count = low, step, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> float:  # type: ignore[override]
        if not 0 <= place < self._count:
            raise IndexError(place)
        return float(text_of(float(self._low + place * self._step)))
