"""A sweep config's file: TOML in, a validated `SweepConfig` out, and back; its digest."""

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from autotune.config.check import check_config
from autotune.config.nearest import nearest
from autotune.config.schema import (
    BudgetConfig,
    CandidateConfig,
    DecisionConfig,
    EngineConfig,
    LoadConfig,
    ModelConfig,
    ParallelConfig,
    ProbeConfig,
    ScreenConfig,
    SearchConfig,
    SweepConfig,
    TaskConfig,
)
from autotune.errors import ConfigError, UsageError
from autotune.records.folder import read_whole
from autotune.records.rule import Limit
from autotune.records.schema import Tunable


def read_config(path: Path) -> SweepConfig:
    """Read and validate a sweep config.

    Raises:
        ConfigError: the file is missing or unreadable, isn't TOML, has an unknown key or a
            value that can't be swept. The message names file, key and, where known, the line.
    """
    try:
        text = read_whole(path).decode("utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file: name a sweep config, see configs/sweeps/"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file in UTF-8 (byte {error.start})") from None
    return parse_config(text, where=str(path))


def parse_config(text: str, *, where: str) -> SweepConfig:
    """Validate a config's text; ``where`` names its file in messages.

    Raises:
        ConfigError: as `read_config`.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not valid TOML: {error}") from None
    _refuse_unknown_keys(data, text=text, where=where)
    try:
        config = msgspec.convert(data, SweepConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(_place(str(error), text=text, where=where)) from None
    try:
        check_config(config)
    except UsageError as error:
        raise ConfigError(f"{where}: {error}") from None
    return config


def dump_config(config: SweepConfig) -> str:
    """Return the config as TOML with every default filled in; `parse_config` reads it back."""
    return tomli_w.dumps(_without_none(msgspec.to_builtins(config)), multiline_strings=False)


def config_digest(config: SweepConfig) -> str:
    """Return the SHA-256 of the filled-in config: equal only for equal sweeps.

    What doesn't change what is measured isn't part of it: the budget, which says how long to go
    on, the place where the search's study is kept, and the one that a screen was read from.
    """
    return hashlib.sha256(msgspec.json.encode(_measured(config), order="sorted")).hexdigest()


def changed_keys(old: SweepConfig, new: SweepConfig) -> tuple[str, ...]:
    """Name the keys in which two configs' sweeps differ, e.g. ``load.concurrency``."""
    before, after = (_flatten(_measured(one)) for one in (old, new))
    keys = sorted(before.keys() | after.keys())
    return tuple(key for key in keys if before.get(key) != after.get(key))


def _measured(config: SweepConfig) -> dict[str, Any]:
    """The filled-in config as plain values, without what doesn't change what is measured."""
    search = msgspec.structs.replace(config.search, storage=None)
    same = msgspec.structs.replace(config, budget=BudgetConfig(), search=search)
    measured: dict[str, Any] = msgspec.to_builtins(same)
    if config.screen_file is None:
        # Nothing is screened: such a sweep has the digest that it had before there were screens.
        del measured["screen"]
    else:
        # The run folder keeps what the file said.
        del measured["screen"]["file"]
    return measured


def _refuse_unknown_keys(data: dict[str, Any], *, text: str, where: str) -> None:
    known = _known_keys()
    for path, key in _keys(data):
        allowed = known.get(path)
        if allowed is not None and key not in allowed:
            full = f"{path}.{key}" if path else key
            raise ConfigError(
                f"{where}{_line(text, full)}: unknown key {full!r}{nearest(key, allowed)}. "
                f"Known here: {', '.join(allowed)}"
            )


def _known_keys() -> dict[str, tuple[str, ...]]:
    sections = {
        "": SweepConfig,
        "model": ModelConfig,
        "engine": EngineConfig,
        "parallel": ParallelConfig,
        "candidates": CandidateConfig,
        "candidates.tunables": Tunable,
        "load": LoadConfig,
        "probe": ProbeConfig,
        "probe.task": TaskConfig,
        "decision": DecisionConfig,
        "decision.limits": Limit,
        "search": SearchConfig,
        "budget": BudgetConfig,
        "screen": ScreenConfig,
    }
    return {path: kind.__struct_fields__ for path, kind in sections.items()}


def _keys(data: dict[str, Any]) -> list[tuple[str, str]]:
    found = [("", key) for key in data]
    for section, value in data.items():
        for table in _tables(value):
            found += [(section, key) for key in table]
            for name in ("task", "limits", "tunables"):
                inner = table.get(name)
                if name == "tunables" and isinstance(inner, dict):
                    # Below names of the user's own.
                    inner = list(inner.values())
                found += [(f"{section}.{name}", key) for one in _tables(inner) for key in one]
    return found


def _tables(value: Any) -> list[dict[str, Any]]:
    tables = value if isinstance(value, list) else [value]
    return [table for table in tables if isinstance(table, dict)]


def _place(message: str, *, text: str, where: str) -> str:
    """Turn msgspec's "Expected `int`, got `str` - at `$.load.concurrency[0]`" into ours."""
    problem, _, path = message.partition(" - at `$.")
    key = path.rstrip("`")
    plain = re.sub(r"\[[^]]*\]", "", key)
    return f"{where}{_line(text, plain)}: {key or 'config'}: {problem}"


def _line(text: str, key: str) -> str:
    """Return ``:LINE`` of a dotted key where it is plainly written, else nothing."""
    *section, name = key.split(".")
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?", line)
        if header:
            current = header[1]
            if current == key:
                return f":{number}"
        elif current == ".".join(section) and re.match(rf'\s*"?{re.escape(name)}"?\s*=', line):
            return f":{number}"
    return ""


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return value


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flatten(item, f"{prefix}.{key}" if prefix else key)
    return flat
