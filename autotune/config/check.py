"""What a config's values must satisfy beyond their types: names, roles, sums and ranges."""

import re

from autotune.config.check_limits import check_limits
from autotune.config.check_tunables import check_tunables
from autotune.config.nearest import nearest
from autotune.config.schema import LoadConfig, ModelConfig, SweepConfig
from autotune.decisions.schema import Geometry, check_name
from autotune.environment import looks_secret
from autotune.errors import ConfigError

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LARGEST_PORT = 65_535
_ADDRESS = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{1,5})")


def check_config(config: SweepConfig) -> None:
    """Check what types can't say.

    Raises:
        UsageError: a value that can't be swept; the message starts with its key.
    """
    check_name("name", config.name)
    check_name("engine.name", config.engine.name)
    check_name("model.quantization", config.model.quantization)
    check_name("parallel.a2a_backend", config.parallel.a2a_backend)
    for key, name in (
        ("engine.arch", config.engine.arch),
        ("parallel.a2a_mode", config.parallel.a2a_mode),
    ):
        if name is not None:
            check_name(key, name)
    _check_model(config.model)
    _refuse_secrets(config)
    _check_launch(config)
    _check_candidates(config)
    check_tunables(config)
    _check_load(config.load)
    _check_decision(config)
    check_limits(config)
    check_screen(config)


def _check_model(model: ModelConfig) -> None:
    if [model.path, model.repository, model.witness].count(None) != 2:
        raise ConfigError("model: give exactly one of path, repository and witness")
    if model.path == "":
        raise ConfigError("model.path: it is empty: name a checkpoint folder")
    if model.repository is not None and not _REPOSITORY.fullmatch(model.repository):
        raise ConfigError(
            f"model.repository: {model.repository[:140]!r} is no name on the hub, e.g. "
            "nvidia/MiniMax-M2.7-NVFP4"
        )
    if model.architecture is not None:
        check_name("model.architecture", model.architecture)
    if model.geometry is not None:
        Geometry.parse(model.geometry)


def _refuse_secrets(config: SweepConfig) -> None:
    """A config is copied into its run folder and checked in: a secret in it would be published."""
    engine = config.engine
    names = [*engine.environment, *engine.arguments, *engine.launch_prefix]
    for candidate in config.candidate_list():
        names += [*candidate.environment, *candidate.arguments]
    for name in names:
        if looks_secret(name):
            raise ConfigError(
                f"{name.partition('=')[0]}: looks like a secret, and a config is published with "
                "its run: set it in the shell's environment instead, which servers inherit"
            )


def _check_candidates(config: SweepConfig) -> None:
    candidates = config.candidate_list()
    if not candidates:
        raise ConfigError("candidates: the list is empty: name at least one backend")
    names = [candidate.name for candidate in candidates]
    for candidate in candidates:
        check_name("candidates: backend", candidate.backend)
        check_name("candidates: name", candidate.name)
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"candidates: {name!r} is listed twice: give each its own name, e.g. "
                f'{{ backend = "{name}", name = "{name}-b" }}'
            )
    for role, wanted in (("reference", config.reference), ("incumbent", config.incumbent)):
        if wanted is not None and wanted not in names:
            raise ConfigError(
                f"{role}: {wanted!r} is not among the candidates ({', '.join(names)})"
                f"{nearest(wanted, names)}"
            )


def _check_load(load: LoadConfig) -> None:
    if not load.concurrency:
        raise ConfigError("load.concurrency: the list is empty: name at least one, e.g. [1, 16]")
    for concurrency in load.concurrency:
        if load.concurrency.count(concurrency) > 1:
            raise ConfigError(f"load.concurrency: {concurrency} is listed twice")
        requests = max(load.min_requests, load.requests_per_slot * concurrency)
        if requests < 2 * concurrency:
            raise ConfigError(
                f"load.requests_per_slot: {requests} requests at concurrency {concurrency} never "
                "reach a steady state: send at least 2 per slot"
            )


def check_screen(config: SweepConfig) -> None:
    """Check the name of a screen's file, which the command line may have given.

    Raises:
        ConfigError: no file can be called that, or no config could hold it.
    """
    file = config.screen_file
    if file is None:
        return
    # An argument may hold bytes that are no text; the run folder's config is a text file.
    if not file or "\0" in file or not file.isprintable():
        raise ConfigError(
            f"screen.file: {file[:140]!r} can't be a file's name: name a layer sweep's kernels.json"
        )


def _check_decision(config: SweepConfig) -> None:
    weights, concurrencies = config.decision.weights, config.load.concurrency
    if weights and len(weights) != len(concurrencies):
        raise ConfigError(
            f"decision.weights: {len(weights)} weights for {len(concurrencies)} concurrencies: "
            "give one each"
        )
    try:
        config.rule().check(concurrencies)
    except ValueError as error:
        raise ConfigError(f"{_section(str(error))}{error}") from None


def _section(problem: str) -> str:
    if problem.startswith("task_"):
        return "probe.task: "
    judged = ("tolerated_", "rejected_", "false_alarm")
    return "probe." if problem.startswith(judged) else "decision."


def _check_launch(config: SweepConfig) -> None:
    """What can't be an argument or a variable would only fail at the launch."""
    environments = [config.engine.environment]
    arguments = [*config.engine.launch_prefix, *config.engine.arguments]
    for candidate in config.candidate_list():
        environments.append(candidate.environment)
        arguments += candidate.arguments
    for environment in environments:
        for name, value in environment.items():
            if not _VARIABLE.fullmatch(name) or "\0" in value:
                raise ConfigError(f"environment: {name!r} can't be a variable, or its value one's")
    if any("\0" in argument for argument in arguments):
        raise ConfigError("arguments: a NUL character can't be part of an argument")
    engine = config.engine
    if not _VARIABLE.fullmatch(engine.node_rank_variable):
        raise ConfigError(
            f"engine.node_rank_variable: {engine.node_rank_variable!r} can't be a variable"
        )
    if engine.coordinator is not None:
        address = _ADDRESS.fullmatch(engine.coordinator)
        if address is None or not 1 <= int(address[2]) <= _LARGEST_PORT:
            raise ConfigError(
                f"engine.coordinator: {engine.coordinator!r} isn't host:port, e.g. 10.0.0.1:20000"
            )
        if config.parallel.nodes == 1:
            raise ConfigError(
                "engine.coordinator: one node meets nobody: set parallel.nodes, or remove it"
            )
    if config.parallel.nodes > 1 and not engine.launch_prefix:
        raise ConfigError(
            f"parallel.nodes: {config.parallel.nodes} nodes need an engine.launch_prefix that "
            'starts the server on each of them, e.g. ["srun", "--ntasks-per-node=1"]'
        )
    if not config.engine.dtype.isidentifier():
        raise ConfigError(f"engine.dtype: {config.engine.dtype!r} is no dtype, e.g. bfloat16")
