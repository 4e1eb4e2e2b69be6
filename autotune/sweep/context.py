"""Everything a sweep knows before its first launch: engine, checkpoint, device, decision key.

Found out once, checked together, so that whatever can't work is said before anything starts.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import msgspec

from autotune.config.check import nearest
from autotune.config.schema import SweepConfig
from autotune.decisions.schema import DecisionKey, Geometry, Scope
from autotune.engines import synthetic
from autotune.engines.base import Command, Engine, LaunchSite
from autotune.engines.registry import find_engine
from autotune.environment import (
    Environment,
    arch_of,
    device_of,
    kernel_libraries,
    kernel_variables,
    read_environment,
)
from autotune.errors import ConfigError, EngineError, InputError
from autotune.load.workload import read_prompts
from autotune.model import ModelFacts, facts_from_config, read_model
from autotune.records.folder import RunFolder
from autotune.records.schema import Candidate

_BUILD_TIMEOUT_S = 600.0


class SweepContext(msgspec.Struct, frozen=True, kw_only=True):
    """A config with what was found out about it on this machine."""

    config: SweepConfig
    folder: RunFolder
    engine: Engine
    model: ModelFacts
    model_folder: Path
    environment: Environment
    device: Literal["cpu", "cuda"]
    key: DecisionKey
    scope: Scope

    @property
    def tokenizer_file(self) -> Path | None:
        """The checkpoint's tokenizer.json, if it has one."""
        path = self.model_folder / "tokenizer.json"
        return path if path.is_file() else None

    def site(self, candidate: Candidate, *, port: int) -> LaunchSite:
        """Where a launch of ``candidate`` takes place."""
        load, probe = self.config.load, self.config.probe
        return LaunchSite(
            model_folder=self.model_folder.absolute(),
            scratch=(self.folder.work / "candidates" / candidate.name).absolute(),
            port=port,
            device=self.device,
            max_concurrency=max(load.concurrency),
            max_tokens=max(
                load.input_tokens + load.output_tokens, probe.long_prompt_tokens + probe.max_tokens
            ),
        )

    def command(self, candidate: Candidate, *, port: int) -> Command:
        """The exact command of a launch of ``candidate``."""
        site = self.site(candidate, port=port)
        return self.engine.command(candidate, config=self.config, site=site)


def read_context(config: SweepConfig, folder: RunFolder) -> SweepContext:
    """Find out what a sweep needs to know; nothing is launched or written.

    Raises:
        ConfigError: an unknown engine or backend, or a GPU is asked for and there is none.
        InputError: the checkpoint can't be used.
        EngineError: the engine isn't installed.
    """
    engine = find_engine(config.engine.name)
    if engine.version() is None:
        raise EngineError(
            f"engine.name: {engine.name} isn't installed in this Python environment: install it, "
            "e.g. pip install 'moe-autotune[cpu]'"
        )
    _check_backends(config, engine)
    model, model_folder = _read_checkpoint(config, folder)
    _check_lengths(config, model)
    if config.load.prompts is not None:
        read_prompts(Path(config.load.prompts))
    environment = read_environment(os.environ)
    device = _device(config, environment)
    return SweepContext(
        config=config,
        folder=folder,
        engine=engine,
        model=model,
        model_folder=model_folder,
        environment=environment,
        device=device,
        key=DecisionKey(
            model=config.model.architecture or model.architecture,
            quantization=config.model.quantization,
            arch=arch_of(environment, device),
        ),
        scope=_scope(config, engine=engine, model=model, environment=environment, device=device),
    )


def build_model(context: SweepContext) -> None:
    """Make the synthetic checkpoint, if the config asks for one and it isn't there yet.

    Raises:
        EngineError: the checkpoint can't be made; the message holds the last lines of output.
    """
    if context.config.model.synthetic is None or context.model_folder.is_dir():
        return
    seed = str(context.config.model.seed)
    argv = [sys.executable, "-m", synthetic.__name__, str(context.model_folder), "--seed", seed]
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise EngineError(f"model: no checkpoint after {_BUILD_TIMEOUT_S:g} s") from None
    except subprocess.CalledProcessError as error:
        last = "; ".join(error.stderr.strip().splitlines()[-3:])
        raise EngineError(f"model: the checkpoint can't be made: {last}") from None


def _check_backends(config: SweepConfig, engine: Engine) -> None:
    known = (*engine.backends(), *config.engine.extra_backends)
    for candidate in config.candidate_list():
        if candidate.backend not in known:
            raise ConfigError(
                f"candidates: {engine.name} has no MoE backend {candidate.backend!r}"
                f"{nearest(candidate.backend, known)}. Known are {', '.join(known)}; list one that "
                "this installation has beyond these under engine.extra_backends"
            )


def _read_checkpoint(config: SweepConfig, folder: RunFolder) -> tuple[ModelFacts, Path]:
    if config.model.path is not None:
        path = Path(config.model.path)
        return read_model(path), path
    facts = facts_from_config(synthetic.config(), where="synthetic model")
    return facts, folder.work / "model"


def _check_lengths(config: SweepConfig, model: ModelFacts) -> None:
    if model.max_positions is None:
        return
    load, probe = config.load, config.probe
    for key, tokens in (
        ("load.input_tokens + load.output_tokens", load.input_tokens + load.output_tokens),
        (
            "probe.long_prompt_tokens + probe.max_tokens",
            probe.long_prompt_tokens + probe.max_tokens,
        ),
    ):
        if tokens > model.max_positions:
            raise ConfigError(
                f"{key}: {tokens} tokens don't fit the model's {model.max_positions} positions: "
                "ask for less"
            )


def _device(config: SweepConfig, environment: Environment) -> Literal["cpu", "cuda"]:
    asked = config.engine.device
    if asked == "auto":
        return "cuda" if environment.gpus else "cpu"
    if asked == "cuda" and not environment.gpus:
        raise ConfigError(
            "engine.device: 'cuda' is asked for, but nvidia-smi shows no GPU here: run this on a "
            'machine with one, or set device = "cpu"'
        )
    return asked


def _scope(
    config: SweepConfig,
    *,
    engine: Engine,
    model: ModelFacts,
    environment: Environment,
    device: str,
) -> Scope:
    geometry = Geometry.parse(config.model.geometry) if config.model.geometry else model.geometry
    if geometry is None:
        raise InputError(
            "model: config.json doesn't give the MoE layer's sizes: set model.geometry to "
            '"hidden size,expert width,experts,top-k"'
        )
    name, count = device_of(environment, device)
    dtype = config.engine.dtype if config.engine.dtype != "auto" else model.dtype
    steering = kernel_variables({**os.environ, **config.engine.environment})
    return Scope(
        engine=engine.name,
        geometry=geometry,
        engine_version=engine.version(),
        dtype=dtype,
        tp=config.parallel.tp,
        ep=config.parallel.ep,
        dp=config.parallel.dp,
        a2a_backend=config.parallel.a2a_backend,
        a2a_mode=config.parallel.a2a_mode,
        device_name=name,
        device_count=count,
        kernel_libraries=kernel_libraries(environment),
        kernel_environment=steering,
    )
