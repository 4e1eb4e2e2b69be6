"""Everything a sweep knows before its first launch: engine, checkpoint, device, decision key.

Found out once, checked together, so that whatever can't work is said before anything starts.
"""

import os
import socket
from pathlib import Path
from typing import Literal

import msgspec

from autotune.config.nearest import nearest
from autotune.config.schema import SweepConfig
from autotune.decisions.schema import DecisionKey, Geometry, Scope
from autotune.engines.base import Engine, LaunchSite, Support, Target
from autotune.engines.registry import find_engine
from autotune.environment import (
    Environment,
    arch_of,
    device_of,
    kernel_libraries,
    kernel_variables,
    read_environment,
)
from autotune.errors import ConfigError, InputError
from autotune.load.workload import read_prompts
from autotune.model import ModelFacts, full_dtype
from autotune.records.folder import RunFolder
from autotune.records.schema import Candidate
from autotune.sweep.checkpoint import Checkpoint, read_checkpoint
from autotune.sweep.screen_file import InForce, check_layer, other_dtype, screen_in_force
from autotune.sweep.screening import Screening


class SweepContext(msgspec.Struct, frozen=True, kw_only=True):
    """A config with what was found out about it on this machine.

    ``problems`` are the reasons why nothing can be launched here, one sentence each: a plan can
    be made all the same. ``screening`` is what a sweep of the layer alone says of the candidates,
    ``None`` where there is none.
    """

    config: SweepConfig
    folder: RunFolder
    engine: Engine
    model: ModelFacts
    checkpoint: Checkpoint
    environment: Environment
    device: Literal["cpu", "cuda"]
    key: DecisionKey
    scope: Scope
    problems: tuple[str, ...] = ()
    screening: Screening | None = None

    @property
    def tokenizer_file(self) -> Path | None:
        """The checkpoint's tokenizer.json, if it has one."""
        folder = self.checkpoint.folder
        path = folder / "tokenizer.json" if folder is not None else None
        return path if path is not None and path.is_file() else None

    def site(
        self, candidate: Candidate, *, port: int, round_number: int, meeting_port: int
    ) -> LaunchSite:
        """Where a launch of ``candidate`` takes place.

        ``meeting_port`` is for the nodes of a server that spans several.
        """
        load, probe, engine = self.config.load, self.config.probe, self.config.engine
        work = self.folder.work.absolute()
        scratch = work / "candidates" / candidate.name
        coordinator = None
        if self.config.parallel.nodes > 1:
            coordinator = engine.coordinator or f"{socket.gethostname()}:{meeting_port}"
        return LaunchSite(
            model=self.checkpoint.served,
            checkpoint=self.checkpoint.folder,
            scratch=scratch,
            compiled=work / "compiled",
            tuned=work / "tuned"
            if engine.share_kernel_tuning
            else scratch / "tuned" / str(round_number),
            port=port,
            coordinator=coordinator,
            device=self.device,
            max_concurrency=max(load.concurrency),
            max_tokens=max(
                load.input_tokens + load.output_tokens,
                self.config.long_prompt_tokens() + probe.max_tokens,
            ),
        )

    def supports(self, candidate: Candidate) -> Support:
        """Whether a launch of ``candidate`` is worth a try."""
        target = Target(device=self.device, arch=self.key.arch, model=self.model)
        support = self.engine.supports(candidate, config=self.config, target=target)
        if support.ok and self.screening is not None:
            left_out = self.screening.left_out(candidate)
            return support if left_out is None else Support(False, f"screen: {left_out}")
        return support


def read_context(config: SweepConfig, folder: RunFolder) -> SweepContext:
    """Find out what a sweep needs to know; nothing is launched or written.

    What keeps a sweep from running on this machine, though not from being planned, is listed in
    the context's ``problems``. The context's config names the run folder's own screen, where the
    sweep was begun with one.

    Raises:
        ConfigError: an unknown engine or backend, an arch that can't be told, or a screen of
            another layer.
        InputError: the checkpoint or the screen can't be used.
        RunFolderError: the sweep was begun with another screen.
    """
    screen = screen_in_force(config, folder)
    config = screen.config
    engine = find_engine(config.engine.name)
    _check_backends(config, engine)
    checkpoint = read_checkpoint(config.model)
    _check_lengths(config, checkpoint.facts)
    if config.load.prompts is not None:
        read_prompts(Path(config.load.prompts))
    environment = read_environment(os.environ)
    platform = _platform(config, environment)
    problems = [platform.problem, checkpoint.problem]
    if engine.version() is None:
        problems.append(
            f"{engine.name} isn't installed in this Python environment: install it, e.g. pip "
            f"install {engine.name}"
        )
    context = SweepContext(
        config=config,
        folder=folder,
        engine=engine,
        model=checkpoint.facts,
        checkpoint=checkpoint,
        environment=environment,
        device=platform.device,
        key=DecisionKey(
            model=config.model.architecture or checkpoint.facts.architecture,
            quantization=config.model.quantization,
            arch=platform.arch,
        ),
        scope=_scope(
            config,
            engine=engine,
            model=checkpoint.facts,
            environment=environment,
            device=platform.device,
        ),
        problems=tuple(problem for problem in problems if problem is not None),
    )
    return context if screen.screen is None else _screened(context, screen)


def _screened(context: SweepContext, found: InForce) -> SweepContext:
    """Return the context with what a layer sweep says of its candidates."""
    assert found.screen is not None
    check_layer(found, key=context.key, scope=context.scope, checkpoint=context.checkpoint.folder)
    notes = (*found.notes, *other_dtype(found.screen, context.scope))
    screening = Screening(config=context.config, screen=found.screen, notes=notes)
    able = [one.name for one in context.config.candidate_list() if context.supports(one).ok]
    screened = msgspec.structs.replace(context, screening=screening)
    left = [one.name for one in context.config.candidate_list() if screened.supports(one).ok]
    if len(left) < 2 <= len(able):
        # Whoever is alone wins: that would be the layer's word and nobody's measurement.
        who = f"only {left[0]}" if left else "nobody"
        problem = (
            f"the screen leaves {who} to launch, and a layer alone never decides: set "
            'screen.wrong = "flag", raise screen.slower_than, or list more candidates'
        )
        return msgspec.structs.replace(screened, problems=(*context.problems, problem))
    return screened


def _check_backends(config: SweepConfig, engine: Engine) -> None:
    known = (*engine.backends(), *config.engine.extra_backends)
    for candidate in config.candidate_list():
        if candidate.backend not in known:
            raise ConfigError(
                f"candidates: {engine.name} has no MoE backend {candidate.backend!r}"
                f"{nearest(candidate.backend, known)}. Known are {', '.join(known)}; list one that "
                "this installation has beyond these under engine.extra_backends"
            )


def _check_lengths(config: SweepConfig, model: ModelFacts) -> None:
    if model.max_positions is None:
        return
    load, probe = config.load, config.probe
    for key, tokens in (
        ("load.input_tokens + load.output_tokens", load.input_tokens + load.output_tokens),
        (
            "probe.long_prompt_tokens + probe.max_tokens",
            config.long_prompt_tokens() + probe.max_tokens,
        ),
    ):
        if tokens > model.max_positions:
            raise ConfigError(
                f"{key}: {tokens} tokens don't fit the model's {model.max_positions} positions: "
                "ask for less"
            )


class _Platform(msgspec.Struct, frozen=True, kw_only=True):
    device: Literal["cpu", "cuda"]
    arch: str
    problem: str | None = None


def _platform(config: SweepConfig, environment: Environment) -> _Platform:
    """The device and its arch; the config's word for the arch where the GPU isn't here."""
    engine = config.engine
    # An arch that is named says which of the two it is for.
    on_gpu = not engine.arch.startswith("cpu-") if engine.arch else bool(environment.gpus)
    if engine.device == "cpu" or (engine.device == "auto" and not on_gpu):
        device: Literal["cpu", "cuda"] = "cpu"
    else:
        device = "cuda"
    if device == "cuda" and not environment.gpus:
        told = "no GPU is present here (nvidia-smi shows none), and the sweep is meant for one"
        if engine.arch is None:
            raise ConfigError(
                f"engine.device: {told} (cuda): run this on a machine with one, set device = "
                '"cpu", or say the arch that it is meant for (engine.arch) to print its plan'
            )
        return _Platform(device=device, arch=engine.arch, problem=told)
    arch = arch_of(environment, device)
    if engine.arch not in (None, arch):
        return _Platform(
            device=device,
            arch=str(engine.arch),
            problem=f"engine.arch: the sweep is meant for {engine.arch}, this machine has {arch}",
        )
    parallel = config.parallel
    needed = -(-parallel.tp * parallel.dp // parallel.nodes)
    if device == "cuda" and needed > len(environment.gpus):
        told = f"parallel: {needed} GPUs are needed on each node, this one has "
        return _Platform(device=device, arch=arch, problem=told + str(len(environment.gpus)))
    return _Platform(device=device, arch=arch)


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
    parallel = config.parallel
    name: str | None
    name, count = device_of(environment, device)
    if device == "cuda":
        # How many the server uses, which isn't how many the machine has.
        count = parallel.tp * parallel.dp
        name = name if environment.gpus else None
    mode = engine.traits.a2a_modes.get(parallel.a2a_backend)
    return Scope(
        engine=engine.name,
        geometry=geometry,
        engine_version=engine.version(),
        dtype=_dtype(config, model, device=device),
        tp=parallel.tp,
        ep=parallel.ep,
        dp=parallel.dp,
        attention_dp=parallel.attention_dp,
        a2a_backend=parallel.a2a_backend,
        a2a_mode=parallel.a2a_mode or mode,
        engine_settings=engine.settings(config),
        device_name=name,
        device_count=count,
        kernel_libraries=kernel_libraries(environment.packages),
        kernel_environment=kernel_variables({**os.environ, **config.engine.environment}),
    )


def _dtype(config: SweepConfig, model: ModelFacts, *, device: str) -> str | None:
    """What the server computes in, ``None`` where only it knows."""
    if config.engine.dtype != "auto":
        return full_dtype(config.engine.dtype)
    # On GPUs, engines compute float32 checkpoints in a shorter type, by rules of their own.
    return None if device == "cuda" and model.dtype == "float32" else model.dtype
