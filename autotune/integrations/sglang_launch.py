"""Read a launch from SGLang's arguments as they are when its rules per model are asked.

At that stage values lie in three layers: what the user gave, what earlier steps resolved, and
what the model's own rules are about to declare. A decision's scope is compared with the outcome
of all three.
"""

import datetime
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from autotune.decisions import ResolveRequest
from autotune.decisions.request import AUTO
from autotune.engines.sglang.catalog import effective_ep
from autotune.engines.sglang.settings import settings_of
from autotune.engines.sglang.table import read_catalog
from autotune.environment import (
    kernel_libraries,
    processor_name,
    read_gpus,
)
from autotune.model import ModelFacts, facts_from_config, full_dtype, read_model

FIELD = "moe_runner_backend"
_OTHER_VENDORS = ("is_hip", "is_npu", "is_xpu", "is_musa", "is_mps")
_SM_FLAGS = {"is_sm90": "sm90", "is_sm100": "sm100", "is_sm110": "sm110", "is_sm120": "sm120"}

Declarations = Sequence[tuple[str, Mapping[str, Any]]]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A launch as a request, and what SGLang's own rule for the model says (``None``: nothing)."""

    request: ResolveRequest
    own_choice: str | None = None
    own_rule: str | None = None


def read_launch(
    server_args: Any,
    hf_config: Any,
    *,
    declared: Declarations,
    kernel_environment: Mapping[str, str],
) -> Launch:
    """Return the launch that SGLang is about to make.

    Args:
        server_args: SGLang's arguments, not yet resolved.
        hf_config: the checkpoint's configuration.
        declared: what the rules for the model declare, in order, ours left out.
        kernel_environment: the kernel-steering variables that the server was started with.

    Raises:
        AutotuneError: the checkpoint's configuration can't be read.
    """
    from sglang.srt.arg_groups.overrides import model_config_of, resolving_view

    given = _Values(resolving_view(server_args), declared)
    model_config = model_config_of(server_args)
    facts = _facts(given, hf_config)
    catalog = read_catalog()
    a2a_backend = str(given.get("moe_a2a_backend", None) or "none")
    a2a = catalog.a2a.get(a2a_backend)
    tp, dp, attention_dp = _sizes(given)
    device = str(given.get("device", None) or "cuda")
    return Launch(
        request=ResolveRequest(
            model=facts.architecture,
            quantization=_quantization(given, model_config),
            arch=arch_of_this_machine(device),
            backend=AUTO,
            geometry=facts.geometry,
            engine="sglang",
            engine_version=_version(),
            dtype=_dtype(given, model_config),
            tp=tp,
            ep=effective_ep(
                catalog, a2a_backend=a2a_backend, ep=int(given.get("ep_size", 1)), tp=tp
            ),
            dp=dp,
            attention_dp=attention_dp,
            a2a_backend=a2a_backend,
            a2a_mode=_mode(
                given, a2a.mode_argument if a2a else None, a2a.default_mode if a2a else None
            ),
            engine_settings=settings_of(server_args),
            device_name=_device_name(device),
            device_count=tp * dp,
            kernel_libraries=kernel_libraries(),
            kernel_environment=dict(kernel_environment),
            today=datetime.datetime.now(datetime.UTC).date(),
        ),
        **_own_choice(declared),
    )


def arch_of_this_machine(device: str) -> str:
    """Return the arch as decisions name it, from the facts that SGLang itself goes by."""
    if device == "cpu":
        return f"cpu-{platform.machine()}"
    from sglang.srt.runtime_context import get_platform

    facts = get_platform()
    if any(getattr(facts, flag) for flag in _OTHER_VENDORS):
        return "unknown"  # Their numbers mean other chips.
    # First what SGLang reads without starting CUDA, which would spoil its forking.
    if facts.device_sm:
        return f"sm{facts.device_sm}"
    major, minor = facts.device_capability or (None, None)
    if major is not None:
        return f"sm{major}{minor}"
    named = [arch for flag, arch in _SM_FLAGS.items() if getattr(facts, flag)]
    return named[0] if named else "unknown"


class _Values:
    """The arguments' values with the model rules' declarations on top, the last one counting."""

    def __init__(self, view: Any, declared: Declarations) -> None:
        self._view = view
        self._declared: dict[str, Any] = {}
        for _, fields in declared:
            self._declared.update(fields)

    def get(self, name: str, default: Any) -> Any:
        if name in self._declared:
            return self._declared[name]
        return getattr(self._view, name, default)


def _facts(given: _Values, hf_config: Any) -> ModelFacts:
    folder = Path(str(given.get("model_path", "")))
    changed = str(given.get("json_model_override_args", None) or "{}") != "{}"
    # The file says what a sweep read; the object may have its keys renamed.
    if not changed and (folder / "config.json").is_file():
        return read_model(folder)
    return facts_from_config(hf_config.to_dict(), where="the model's configuration")


def _quantization(given: _Values, model_config: Any) -> str:
    named = given.get("quantization", None) or getattr(model_config, "quantization", None)
    return "none" if named in (None, "unquant") else str(named)


def _dtype(given: _Values, model_config: Any) -> str:
    """A rule for the model may declare one (gpt-oss's does); else what SGLang computed."""
    named = str(given.get("dtype", None) or AUTO)
    if named == AUTO:
        named = str(model_config.dtype).removeprefix("torch.")
    return full_dtype(named)


def _sizes(given: _Values) -> tuple[int, int, int]:
    """Return tp, replicas and attention groups."""
    replicas, groups = int(given.get("dp_size", 1)), given.get("attn_dp_size", None)
    if groups is None:
        # Releases in which dp_size meant either.
        groups, replicas = (
            (replicas, 1) if given.get("enable_dp_attention", False) else (1, replicas)
        )
    return int(given.get("tp_size", 1)), replicas, int(groups)


def _mode(given: _Values, argument: str | None, default: str | None) -> str | None:
    if argument is None:
        return None
    value = given.get(argument.removeprefix("--").replace("-", "_"), None)
    return str(value) if value is not None else default


def _own_choice(declared: Declarations) -> dict[str, str]:
    for rule, fields in reversed(declared):
        if fields.get(FIELD) not in (None, AUTO):
            return {"own_choice": str(fields[FIELD]), "own_rule": rule}
    return {}


def _version() -> str | None:
    import sglang

    return getattr(sglang, "__version__", None)


def _device_name(device: str) -> str | None:
    """The name that a sweep would record; asked of nvidia-smi, so that CUDA isn't started here."""
    if device == "cpu":
        return processor_name()
    gpus = read_gpus()
    return gpus[0].name if gpus else None
