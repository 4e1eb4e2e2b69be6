"""A sweep config's file: TOML in, a validated `SweepConfig` out, and back; its digest."""

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from autotune.config.check import check_config, nearest
from autotune.config.schema import (
    CandidateConfig,
    DecisionConfig,
    EngineConfig,
    LoadConfig,
    ModelConfig,
    ParallelConfig,
    ProbeConfig,
    SweepConfig,
)
from autotune.errors import ConfigError, UsageError
from autotune.records.folder import read_whole


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
    """Return the SHA-256 of the filled-in config: equal only for equal sweeps."""
    return hashlib.sha256(msgspec.json.encode(config, order="sorted")).hexdigest()


def changed_keys(old: SweepConfig, new: SweepConfig) -> tuple[str, ...]:
    """Name the keys in which two configs differ, e.g. ``load.concurrency``."""
    before, after = _flatten(msgspec.to_builtins(old)), _flatten(msgspec.to_builtins(new))
    keys = sorted(before.keys() | after.keys())
    return tuple(key for key in keys if before.get(key) != after.get(key))


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
        "load": LoadConfig,
        "probe": ProbeConfig,
        "decision": DecisionConfig,
    }
    return {path: kind.__struct_fields__ for path, kind in sections.items()}


def _keys(data: dict[str, Any]) -> list[tuple[str, str]]:
    found = [("", key) for key in data]
    for section, value in data.items():
        tables = value if isinstance(value, list) else [value]
        found += [(section, key) for table in tables if isinstance(table, dict) for key in table]
    return found


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
