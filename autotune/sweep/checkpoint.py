"""The checkpoint that a sweep serves: a folder, one on the hub, or the witness that comes with us.

Nothing is downloaded here, and no weights are read.
"""

from pathlib import Path

import msgspec
from huggingface_hub import try_to_load_from_cache

from autotune.config.schema import ModelConfig
from autotune.decisions.schema import Geometry
from autotune.engines.witness import witness_folder
from autotune.errors import InputError
from autotune.model import ModelFacts, read_model

_WEIGHTS = frozenset({".safetensors", ".bin", ".gguf", ".pt", ".pth"})


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a checkpoint.

    ``served`` is what a server is told to serve: the folder, or the hub's name. ``folder`` is
    where it lies, ``None`` if it isn't here; ``problem`` says so. ``revision`` is the hub's commit.
    """

    facts: ModelFacts
    served: str
    folder: Path | None
    revision: str | None = None
    problem: str | None = None

    @property
    def name(self) -> str:
        """What was served, and which commit of it: ``owner/name@commit``, or the folder."""
        return f"{self.served}@{self.revision}" if self.revision else self.served


def read_checkpoint(model: ModelConfig) -> Checkpoint:
    """Find a config's checkpoint and read what it says of itself.

    Raises:
        InputError: its config.json is missing or can't be used.
    """
    if model.path is not None:
        return _in_folder(Path(model.path))
    if model.witness is not None:
        return _in_folder(witness_folder(model.witness))
    assert model.repository is not None  # one of the three is given: the config was checked
    try:
        cached = try_to_load_from_cache(model.repository, "config.json")
    except ValueError as error:
        raise InputError(f"model.repository: {error}") from None
    download = f"download it first, e.g. hf download {model.repository}"
    if not isinstance(cached, str):
        return Checkpoint(
            facts=_facts_as_told(model),
            served=model.repository,
            folder=None,
            problem=f"{model.repository} isn't on this machine: {download}",
        )
    folder = Path(cached).parent
    # Whoever only asked for the configuration left no more than that here.
    whole = any(path.suffix in _WEIGHTS for path in folder.iterdir())
    return Checkpoint(
        facts=read_model(folder),
        served=model.repository,
        folder=folder,
        revision=folder.name,
        problem=None if whole else f"{model.repository} is here without its weights: {download}",
    )


def _in_folder(folder: Path) -> Checkpoint:
    return Checkpoint(
        facts=read_model(folder), served=str(folder.absolute()), folder=folder.absolute()
    )


def _facts_as_told(model: ModelConfig) -> ModelFacts:
    if model.architecture is None or model.geometry is None:
        raise InputError(
            f"model.repository: {model.repository} isn't on this machine: download it first, or "
            "give model.architecture and model.geometry to print the plan without it"
        )
    return ModelFacts(
        architecture=model.architecture,
        geometry=Geometry.parse(model.geometry),
        dtype=None,
        quantization=None,
        vocabulary_size=None,
        max_positions=None,
    )
