"""What an SGLang server says of itself (``/server_info``), as the benchmark keeps it in each line.

These are the server's resolved arguments, so that they tell the backend, the sizes and the version
that were measured. They also hold keys and passwords as they were given: a file with one isn't
taken, since the run folder would keep a copy of it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from autotune.decisions import one_line
from autotune.engines.sglang.settings import settings_in, settings_of
from autotune.importers.json_file import Fields

_AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """The MoE backend (``None``: not said), facts by `FACTS`, and what isn't taken."""

    backend: str | None = None
    facts: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def read_server_info(line: Fields) -> ServerFacts:
    """Read ``server_info`` of one line; servers other than SGLang's have none.

    Raises:
        InputError: it holds a value of another type than SGLang's.
    """
    info = line.fields("server_info")
    if info is None:
        return ServerFacts()
    if "tp_size" not in info.content:
        where = "prefill" if "prefill" in info.content else "tp_size"
        reason = {
            "prefill": "prefill and decode are servers of their own, which have no one backend",
            "tp_size": "not what SGLang says of itself",
        }[where]
        return ServerFacts(left_out=(f"{info.where}: {reason}",))
    facts = {
        "engine": "sglang",
        "engine_version": info.text("version"),
        "model": info.text("model_path"),
        "quant": info.text("quantization"),
        "tp": _told(info.count("tp_size", least=1)),
        "ep": _told(info.count("ep_size", least=1)),
        "a2a": info.text("moe_a2a_backend"),
        "engine_settings": _settings(info),
    } | _replicas(info)
    backend = info.text("moe_runner_backend")
    left_out: tuple[str, ...] = ()
    if backend == _AUTO:
        backend = None
        left_out = (f"{info.where}: moe_runner_backend auto: doesn't say what that chose",)
    return ServerFacts(
        backend=backend,
        facts={key: value for key, value in facts.items() if value is not None},
        left_out=left_out,
    )


def _replicas(info: Fields) -> dict[str, str | None]:
    """``dp_size`` counts replicas, or groups of attention, as the release and the flags have it."""
    size, groups = info.count("dp_size", least=1), info.count("attn_dp_size", least=1)
    if groups is None and info.content.get("enable_dp_attention") is True:
        return {"dp": "1", "attention_dp": _told(size)}
    return {"dp": _told(size), "attention_dp": _told(groups)}


def _settings(info: Fields) -> str:
    """The settings that are part of a decision's scope, as `context_of` reads them.

    A scope has them as they were asked for. Releases that don't keep their command line only tell
    what became of it, with what SGLang itself set for the model: rather too much than too little.
    """
    command = _command(info.content)
    if command:
        settings = settings_in(command)
    else:
        values = {
            key: one_line(value) if isinstance(value, str) else value
            for key, value in info.content.items()
            if isinstance(value, bool | int | str) or (key == "lora_paths" and value)
        }
        settings = settings_of(SimpleNamespace(**values))
    return json.dumps(settings, sort_keys=True)


def _command(content: Mapping[str, Any]) -> list[str]:
    command = content.get("launch_command")
    words = command if isinstance(command, list) else str(command or "").split()
    return [one_line(str(word)) for word in words]


def _told(value: int | None) -> str | None:
    return None if value is None else str(value)
