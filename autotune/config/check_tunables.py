"""What tunables, and the place where their study is kept, must satisfy beyond types. Pure."""

import math
import re
from collections.abc import Mapping
from graphlib import CycleError
from urllib.parse import parse_qsl, urlsplit

from autotune.config.nearest import nearest
from autotune.config.schema import CandidateConfig, SweepConfig
from autotune.decisions.schema import check_name
from autotune.environment import looks_secret
from autotune.errors import ConfigError
from autotune.records.schema import Tunable
from autotune.tunables import Value, can_be, in_order, text_of, trial_name, values_of

STORAGE_VARIABLE = "AUTOTUNE_STORAGE"
_STORAGE_KINDS = ("sqlite", "postgresql", "mysql")
_ARGUMENT = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]*", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Numbers are kept as floats by Optuna, which holds whole ones exactly up to here.
_LARGEST = 2**53
_NARROWEST = 1e-6
_MOST_TO_EXHAUST = 100_000
_EXAMPLE = "e.g. postgresql+psycopg://user@host/database"


def check_tunables(config: SweepConfig) -> None:
    """Check everything about tunables and their search.

    Raises:
        UsageError: a value that can't be searched; the message starts with its key.
    """
    listed = config.candidate_configs()
    names = [str(one.name) for one in listed]
    parameters: dict[str, str] = {}
    for candidate in listed:
        for name in candidate.tunables:
            where = f"candidates.{candidate.name}.tunables.{name}"
            check_name("candidates.tunables:", name)
            parameter = f"{candidate.name}.{name}"
            if parameter in parameters:
                raise ConfigError(
                    f"{where}: a study would mix it up with {parameters[parameter]}: rename it"
                )
            parameters[parameter] = where
        if candidate.tunables:
            _check_candidate(candidate, names, config)
    if config.search.storage is not None:
        check_storage(config.search.storage, key="search.storage", published=True)


def check_storage(url: str, *, key: str, published: bool) -> None:
    """Check the URL of a study's storage.

    Args:
        url: as a user wrote it; it is never repeated in a message, since it may hold a password.
        key: where it was written, for the message.
        published: whether others get to read it, so that it must hold no secret.

    Raises:
        ConfigError: it is none of Optuna's databases, or would publish a password.
    """
    try:
        parts = urlsplit(url)
        password, query = parts.password, parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise ConfigError(f"{key}: not an URL: {_EXAMPLE}") from None
    kind = parts.scheme.partition("+")[0]
    if kind not in _STORAGE_KINDS or "://" not in url or not url.isprintable():
        raise ConfigError(
            f"{key}: not the URL of a database that Optuna knows "
            f"({', '.join(_STORAGE_KINDS)}): {_EXAMPLE}"
        )
    if kind == "sqlite" and parts.path in ("", "/", "/:memory:"):
        raise ConfigError(
            f"{key}: names no file, so that the study would be lost: sqlite:///NAME.db, or leave "
            "it out for a file in the run folder"
        )
    if published and (password is not None or any(looks_secret(name) for name, _ in query)):
        raise ConfigError(
            f"{key}: it holds a password, and a config is published with its run: set the "
            f"environment variable {STORAGE_VARIABLE} to the whole URL instead, or leave the "
            "password to PGPASSWORD or ~/.pgpass"
        )


def _check_candidate(candidate: CandidateConfig, names: list[str], config: SweepConfig) -> None:
    where = f"candidates.{candidate.name}.tunables"
    check_name("candidates: the name of a trial", trial_name(str(candidate.name), 9999))
    numbered = re.compile(rf"{re.escape(str(candidate.name))}-t[0-9]{{4,}}")
    for name in names:
        if numbered.fullmatch(name):
            raise ConfigError(
                f"candidates: {name!r} is how a trial of {candidate.name!r} would be called: "
                "choose another name"
            )
    steered: dict[str, str] = {}
    for name, tunable in candidate.tunables.items():
        key = f"{where}.{name}"
        target = _check_target(tunable, candidate, config, key=key)
        if target in steered:
            raise ConfigError(f"{key}: {target} is steered by {steered[target]!r} already")
        steered[target] = name
        _check_values(tunable, key=key)
        if config.search.sampler == "brute_force":
            _check_countable(tunable, key=key)
    for name in candidate.tunables:
        _check_conditions(name, candidate.tunables, key=f"{where}.{name}.when")
    try:
        in_order(candidate.tunables)
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise ConfigError(f"{where}: 'when' goes in a circle: {circle}") from None


def _check_target(
    tunable: Tunable, candidate: CandidateConfig, config: SweepConfig, *, key: str
) -> str:
    """Return what the tunable steers: an argument or a variable that nobody else sets."""
    if (tunable.argument is None) == (tunable.variable is None):
        raise ConfigError(f"{key}: give exactly one of argument and variable")
    target = tunable.argument if tunable.argument is not None else str(tunable.variable)
    if looks_secret(target):
        raise ConfigError(
            f"{key}: {target[:80]!r} looks like a secret, and a config is published with its run"
        )
    if tunable.variable is not None:
        if not _VARIABLE.fullmatch(target):
            raise ConfigError(f"{key}.variable: {target[:80]!r} can't be a variable")
        taken = {*config.engine.environment, *candidate.environment}
        place = "environment"
    else:
        if not _ARGUMENT.fullmatch(target):
            raise ConfigError(
                f"{key}.argument: {target[:80]!r} is no argument: write its name alone, "
                "e.g. --chunked-prefill-size"
            )
        given = (*config.engine.arguments, *candidate.arguments)
        taken = {one.partition("=")[0] for one in given}
        place = "arguments"
    if target in taken:
        raise ConfigError(f"{key}: {target} is set by the {place} already: remove it there or here")
    return target


def _check_values(tunable: Tunable, *, key: str) -> None:
    """Check that there is a choice at all, and that no two of its values are the same launch."""
    bounds = (tunable.low, tunable.high)
    if bool(tunable.choices) == (bounds != (None, None)):
        raise ConfigError(f"{key}: give either choices, or low and high")
    if tunable.choices:
        if tunable.step is not None or tunable.log:
            raise ConfigError(f"{key}: step and log go with low and high, not with choices")
        _check_choices(tunable, key=key)
        return
    if tunable.low is None or tunable.high is None:
        raise ConfigError(f"{key}: give both low and high")
    _check_range(tunable, tunable.low, tunable.high, key=key)


def _check_choices(tunable: Tunable, *, key: str) -> None:
    seen: list[Value] = []
    for value in tunable.choices:
        if isinstance(value, int | float) and not isinstance(value, bool):
            _check_number(value, key=f"{key}.choices")
        if value is True and tunable.variable is not None:
            raise ConfigError(
                f'{key}.choices: true is no variable\'s value: write what it is to be, e.g. "1"'
            )
        if isinstance(value, str) and "\0" in value:
            raise ConfigError(f"{key}.choices: a NUL character can't be part of a value")
        clash = next((one for one in seen if _alike(one, value)), None)
        if clash is not None:
            raise ConfigError(
                f"{key}.choices: {_shown(clash)} and {_shown(value)} can't be told apart: "
                "give each value once"
            )
        seen.append(value)


def _alike(one: Value, other: Value) -> bool:
    """Whether two choices are one launch, or one to Optuna: 1, 1.0 and "1", or 1 and true."""
    if one == other:
        return True
    return (
        not isinstance(one, bool)
        and not isinstance(other, bool)
        and (text_of(one) == text_of(other))
    )


def _check_range(tunable: Tunable, low: float, high: float, *, key: str) -> None:
    step = tunable.step
    for part, value in (("low", low), ("high", high), ("step", step)):
        if value is not None:
            _check_number(value, key=f"{key}.{part}")
    if not low < high:
        raise ConfigError(f"{key}: low ({low}) must be less than high ({high})")
    if tunable.log:
        if step is not None:
            raise ConfigError(f"{key}: log goes without step")
        if low <= 0:
            raise ConfigError(f"{key}: log needs a low above 0, not {low}")
    whole = isinstance(low, int) and isinstance(high, int)
    if step is None:
        if not whole and high - low < _NARROWEST * max(abs(low), abs(high)):
            raise ConfigError(f"{key}: from {low} to {high} there is nothing to tell apart")
        return
    if step <= 0:
        raise ConfigError(f"{key}: step must be more than 0, not {step}")
    if whole and isinstance(step, float):
        raise ConfigError(
            f"{key}: a step of {step} between whole numbers: write low = {float(low)} for others"
        )
    if step < _NARROWEST * max(abs(low), abs(high)):
        raise ConfigError(f"{key}: steps of {step} are too small to tell apart: take larger ones")
    steps = (high - low) / step
    if abs(steps - round(steps)) > _NARROWEST or round(steps) < 1:
        last = low + math.floor(steps + _NARROWEST) * step
        raise ConfigError(
            f"{key}: steps of {step} from {low} don't reach {high}, the last one is "
            f"{text_of(last)}: change high or step"
        )


def _check_number(value: float, *, key: str) -> None:
    # Whole numbers may be too large for isfinite(), but not for a comparison.
    if abs(value) > _LARGEST or not math.isfinite(value):
        raise ConfigError(f"{key}: {value} isn't a number that can be searched")


def _check_countable(tunable: Tunable, *, key: str) -> None:
    values = values_of(tunable)
    if values is None:
        raise ConfigError(
            f"{key}: brute_force tries every value, and here is no end of them: give a step, or "
            'take search.sampler = "tpe"'
        )
    if len(values) > _MOST_TO_EXHAUST:
        raise ConfigError(
            f"{key}: brute_force would try {len(values):,} values: take larger steps, or "
            'search.sampler = "tpe"'
        )


def _check_conditions(name: str, tunables: Mapping[str, Tunable], *, key: str) -> None:
    for other, wanted in tunables[name].when.items():
        if other == name:
            raise ConfigError(f"{key}: {name!r} can't depend on itself")
        if other not in tunables:
            raise ConfigError(
                f"{key}: {other!r} is no tunable of this candidate{nearest(other, tuple(tunables))}"
            )
        if not wanted:
            raise ConfigError(f"{key}.{other}: the list is empty, so that {name!r} is never used")
        for value in wanted:
            if not can_be(tunables[other], value):
                raise ConfigError(
                    f"{key}.{other}: it is never {_shown(value)}, but {_possible(tunables[other])}"
                )


def _possible(tunable: Tunable) -> str:
    if tunable.choices:
        return ", ".join(_shown(value) for value in tunable.choices)
    steps = f" in steps of {tunable.step}" if tunable.step is not None else ""
    return f"from {tunable.low} to {tunable.high}{steps}"


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
