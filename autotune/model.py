"""What a checkpoint says of itself: architecture, MoE geometry, dtype, quantization.

Read from config.json alone, with the standard library: no weights, no engine.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from autotune.decisions.schema import Geometry, check_name
from autotune.errors import InputError, UsageError

# The names that released architectures use for the same quantity, most specific first:
# `intermediate_size` is the dense width where a separate expert width is given.
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_SHORT_DTYPES = {"half": "float16", "float": "float32"}
_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k")


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint's facts; ``None`` where config.json doesn't say."""

    architecture: str
    geometry: Geometry | None
    dtype: str | None
    quantization: str | None
    vocabulary_size: int | None
    max_positions: int | None


def read_model(folder: Path) -> ModelFacts:
    """Read ``folder/config.json``.

    Raises:
        InputError: no such folder, no config.json, not JSON, or no usable architecture name.
    """
    return facts_from_config(read_config(folder), where=str(folder / "config.json"))


def read_config(folder: Path) -> Any:
    """Return the content of ``folder/config.json``, whatever it is.

    Raises:
        InputError: no such folder, no config.json, or not JSON.
    """
    path = folder / "config.json"
    try:
        if not folder.is_dir():
            raise InputError(
                f"{folder}: no such model folder: name a folder that holds config.json"
            )
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{folder}: no config.json in this model folder: name the folder of a whole checkpoint"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON: {error}") from None


def language_sizes(data: dict[str, Any]) -> dict[str, Any]:
    """Return config.json's keys with those of the language model, where it is a part of one.

    Multimodal checkpoints keep the language model's sizes one level down.
    """
    nested = data.get("text_config")
    return {**data, **nested} if isinstance(nested, dict) else data


def full_dtype(name: str) -> str:
    """Return a dtype's full name where engines take a short one: ``float16`` for ``half``."""
    return _SHORT_DTYPES.get(name, name)


def facts_from_config(data: Any, *, where: str) -> ModelFacts:
    """Read the facts from config.json's content.

    Raises:
        InputError: ``data`` isn't an object with a usable ``architectures`` list.
    """
    if not isinstance(data, dict):
        raise InputError(f"{where}: expected a JSON object")
    architectures = data.get("architectures")
    if not isinstance(architectures, list) or not all(
        isinstance(name, str) for name in architectures or [None]
    ):
        raise InputError(f"{where}: names no architecture (key 'architectures')")
    try:
        architecture = check_name("architecture", architectures[0])
    except UsageError as error:
        raise InputError(f"{where}: {error}") from None
    sizes = language_sizes(data)
    dtype = sizes.get("dtype", sizes.get("torch_dtype"))
    return ModelFacts(
        architecture=architecture,
        geometry=_geometry(sizes),
        dtype=dtype if isinstance(dtype, str) else None,
        quantization=_quantization(sizes),
        vocabulary_size=_first(sizes, ("vocab_size",)),
        max_positions=_first(sizes, ("max_position_embeddings",)),
    )


def _geometry(sizes: dict[str, Any]) -> Geometry | None:
    hidden_size = _first(sizes, ("hidden_size",))
    expert_width = _first(sizes, _EXPERT_WIDTH)
    experts = _first(sizes, _EXPERTS)
    top_k = _first(sizes, _TOP_K)
    if hidden_size is None or expert_width is None or experts is None or top_k is None:
        return None
    if top_k > experts:
        return None
    return Geometry(hidden_size, expert_width, experts, top_k)


def _first(sizes: dict[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = sizes.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
    return None


def _quantization(data: dict[str, Any]) -> str | None:
    section = data.get("quantization_config")
    method = section.get("quant_method") if isinstance(section, dict) else None
    return method if isinstance(method, str) else None
