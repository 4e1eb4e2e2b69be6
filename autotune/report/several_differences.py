"""In what several runs differ: circumstances, rule, machines, and candidates of one name. Pure.

Whether they may stand in one report at all is `autotune.report.several`'s.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from autotune.decisions.scope import PLATFORM_VARIABLES
from autotune.environment import Weight, weight_of
from autotune.records.schema import Candidate
from autotune.report.several import RunShown

NOT_RECORDED = "not recorded"
NOT_SET = "not set"
ABSENT = "not in it"
_DEEPEST = 8
# What isn't hard of a scope: it can make figures old or move them, not make a backend wrong.
_SOFT = ("engine_version", "device_count", "kernel_libraries.")
# The one is refused if it differs, the others say for whom an entry holds: nobody ran under them.
_APART = ("geometry", "also_arch", "also_arch_reason")
_ABOUT = (
    *("kind", "source", "checkpoint", "concurrencies", "reference", "incumbent"),
    *("search_rounds", "trials_per_round"),
)


@dataclass(frozen=True)
class Difference:
    """One field with each run's value, in the runs' order.

    ``weight`` is ``hard`` where the field can change which kernels run, as a server's start-up
    weighs it, and ``soft`` where it only moves figures; ``None`` where it is no circumstance.
    """

    field: str
    values: tuple[str, ...]
    weight: Weight | None = None


def scope_differences(runs: Sequence[RunShown]) -> list[Difference]:
    """Return what differs of key, scope (what is hard first), rule, and what else was recorded."""
    found = list(_unequal("arch", [run.run.key.arch for run in runs], weight="hard"))
    scopes = [dict(_leaves(_without(run.run.scope, _APART))) for run in runs]
    for what in _names(scopes):
        absent = NOT_SET if what.startswith(("engine_settings.", "kernel_env")) else NOT_RECORDED
        values = [scope.get(what, absent) for scope in scopes]
        found += _unequal(what, values, weight=_weight_in_scope(what))
    found.sort(key=lambda difference: difference.weight != "hard")
    rules = [dict(_leaves(msgspec.to_builtins(run.run.rule, str_keys=True))) for run in runs]
    for what in _names(rules):
        found += _unequal(f"rule.{what}", [rule.get(what, NOT_SET) for rule in rules])
    for what in _ABOUT:
        found += _unequal(what, [_about(getattr(run.run, what)) for run in runs])
    return found


def candidate_differences(runs: Sequence[RunShown]) -> list[Difference]:
    """Return the candidates that aren't in all runs, or aren't launched the same in all of them."""
    own = [{c.name: _launched(c) for c in run.run.candidates} for run in runs]
    return [
        difference
        for name in _names(own)
        for difference in _unequal(name, [one.get(name, ABSENT) for one in own])
    ]


def renamed_candidates(runs: Sequence[RunShown]) -> list[str]:
    """Return the names that stand for something else in one run than in another."""
    return [
        difference.field
        for difference in candidate_differences(runs)
        if len(set(difference.values) - {ABSENT}) > 1
    ]


def environment_differences(runs: Sequence[RunShown]) -> list[Difference]:
    """Return what differs between environment.json files, what is hard first.

    Args:
        runs: those that have such a file.
    """
    machines = [dict(_leaves(run.environment or {})) for run in runs]
    on_cpu = any(run.run.key.arch.startswith("cpu-") for run in runs)
    found: list[Difference] = []
    for what in _names(machines):
        absent = NOT_SET if what.startswith("kernel_variables.") else NOT_RECORDED
        values = [machine.get(what, absent) for machine in machines]
        found += _unequal(what, values, weight=weight_of(what, on_cpu=on_cpu))
    return sorted(found, key=lambda difference: difference.weight != "hard")


def _launched(candidate: Candidate) -> str:
    """All that a candidate is, on one line as a shell would take it."""
    variables = [f"{k}={shlex.quote(v)}" for k, v in sorted(candidate.environment.items())]
    parts = (*variables, candidate.engine, candidate.backend, shlex.join(candidate.arguments))
    return " ".join(part for part in parts if part)


def _weight_in_scope(what: str) -> Weight:
    variable = what.removeprefix("kernel_environment.")
    platform = variable != what and variable.startswith(PLATFORM_VARIABLES)
    return "soft" if platform or what.startswith(_SOFT) else "hard"


def _about(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def _names(tables: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(name for table in tables for name in table))


def _unequal(
    field: str, values: Sequence[str], *, weight: Weight | None = None
) -> Iterator[Difference]:
    if len(set(values)) > 1:
        yield Difference(field, tuple(values), weight)


def _without(struct: msgspec.Struct, apart: Sequence[str]) -> dict[str, Any]:
    plain = msgspec.to_builtins(struct, str_keys=True)
    return {name: value for name, value in plain.items() if name not in apart}


def _leaves(value: Any, name: str = "", *, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, text) of every leaf that says something; a deeper nest is cut."""
    if isinstance(value, Mapping | list) and value and depth >= _DEEPEST:
        yield name, "(more inside)"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key), depth=depth + 1)
    elif isinstance(value, list) and any(isinstance(inner, Mapping | list) for inner in value):
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{name}.{place}", depth=depth + 1)
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value)) or "none"
    elif value is not None:
        yield name, str(value)
