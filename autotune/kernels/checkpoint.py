"""Which layer a checkpoint holds, and how it is quantized: from its config.json. No torch."""

import json
from pathlib import Path
from typing import Any

import msgspec

from autotune.errors import InputError, UsageError
from autotune.kernels.model_layer import layer_of
from autotune.kernels.scheme_names import scheme_name
from autotune.kernels.spec import LayerSpec
from autotune.model import facts_from_config, language_sizes, read_config
from autotune.records.folder import read_if_there

# ModelOpt's older checkpoints say it here alone.
_MODELOPT_FILE = "hf_quant_config.json"
_MODELOPT = {"NVFP4": "nvfp4", "FP8": "fp8", "MXFP8": "mxfp8"}
_BLOCK = [128, 128]


class CheckpointLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint's MoE layer; ``scheme`` is how its experts are quantized."""

    architecture: str
    layer: LayerSpec
    scheme: str


def read_layer(folder: Path, *, routing: str | None, quantization: str | None) -> CheckpointLayer:
    """Read what a checkpoint's MoE layer is. No weights are needed.

    Args:
        folder: holds config.json.
        routing: a rule's short name that overrides the architecture's own.
        quantization: a name that overrides the checkpoint's own.

    Raises:
        InputError: config.json can't be read or says no sizes.
        UsageError: its routing or quantization isn't known, and nothing overrides it.
    """
    data = read_config(folder)
    facts = facts_from_config(data, where=str(folder / "config.json"))
    if facts.geometry is None:
        raise InputError(
            f"{folder}/config.json: says no sizes of a MoE layer: name a MoE model, or give "
            "--geometry and --routing instead"
        )
    sizes = language_sizes(data)
    return CheckpointLayer(
        architecture=facts.architecture,
        layer=layer_of(facts.architecture, facts.geometry, sizes, routing=routing),
        scheme=scheme_name(quantization) if quantization else checkpoint_scheme(sizes, folder),
    )


def checkpoint_scheme(sizes: dict[str, Any], folder: Path) -> str:
    """Return the scheme of a checkpoint's experts.

    Args:
        sizes: config.json's content.
        folder: may hold what ModelOpt writes beside it.

    Raises:
        UsageError: the checkpoint is quantized in a way that has no reference here.
        InputError: ModelOpt's file can't be read.
    """
    section = sizes.get("quantization_config")
    if not isinstance(section, dict):
        section = _modelopt_section(folder)
    if not section:
        return "bf16"
    method = section.get("quant_method")
    algorithm = section.get("quant_algo")
    blocks = section.get("weight_block_size")
    found: str | None = None
    if method == "fp8" and blocks in (None, _BLOCK):
        found = "fp8_block" if blocks else "fp8"
    elif method == "mxfp4":
        found = "mxfp4"
    elif isinstance(algorithm, str) and (method is None or str(method).startswith("modelopt")):
        found = _MODELOPT.get(algorithm)
    if found is None:
        told = ", ".join(str(one)[:40] for one in (method, algorithm, blocks) if one is not None)
        raise UsageError(
            f"{folder}: how its experts are quantized ({told or 'not said'}) has no reference "
            "here: say it with --quantization"
        )
    return found


def _modelopt_section(folder: Path) -> dict[str, Any]:
    path = folder / _MODELOPT_FILE
    data = read_if_there(path)
    if data is None:
        return {}
    try:
        section = json.loads(data)["quantization"]
    except (ValueError, KeyError, TypeError, RecursionError):
        section = None
    if not isinstance(section, dict):
        raise InputError(f"{path}: not what ModelOpt writes: say the scheme with --quantization")
    return section
