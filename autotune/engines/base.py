"""What an engine must answer so that a sweep can launch it: the protocol and its values.

An engine knows names, flags and endpoints of one server program. It starts nothing itself
(`process`), measures nothing (`autotune.load`) and judges nothing.
"""

from pathlib import Path
from typing import Literal, Protocol

import msgspec

from autotune.config.schema import SweepConfig
from autotune.model import ModelFacts
from autotune.records.schema import Candidate, LaunchStatus

# How much of a log's end is read: enough for the tracebacks of every rank of a node, of which the
# first one tells and the others follow.
LOG_BYTES = 4 * 2**20


class Support(msgspec.Struct, frozen=True):
    """Whether a candidate can run here; ``reason`` is one sentence, empty when ``ok``."""

    ok: bool
    reason: str = ""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One server launch: ``environment`` is added to ours; ``model`` is the served name."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    model: str


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate is to run on: the device, its arch (``sm100``) and the model."""

    device: Literal["cpu", "cuda"]
    arch: str
    model: ModelFacts


class LaunchSite(msgspec.Struct, frozen=True, kw_only=True):
    """Where a launch takes place.

    ``model`` is what the server is told to serve (a folder, or the hub's name for it where the
    config gives one), ``checkpoint`` the folder in which it lies, if it is here, ``scratch`` a
    folder that the launch may write to, ``compiled`` one for compiled kernels that all launches of
    a sweep share, and ``tuned`` one for what kernels were tuned to, which is this launch's own
    unless the config shares it. ``coordinator`` is where the nodes meet (``host:port``), if there
    are several. ``device`` is what the engine was told to run on, ``max_concurrency`` and
    ``max_tokens`` the most requests in flight and the most tokens (prompt and answer) that one of
    them may hold.
    """

    model: str
    checkpoint: Path | None
    scratch: Path
    compiled: Path
    tuned: Path
    port: int
    coordinator: str | None = None
    device: Literal["cpu", "cuda"]
    max_concurrency: int
    max_tokens: int


class ServerTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine's HTTP interface can do, and what else a sweep must know of the engine.

    ``log_probabilities`` names the way in which a server tells the log-probabilities of a given
    text (`autotune.probe.teacher`): SGLang's ``/generate``, or ``echo`` with ``logprobs`` of
    ``/v1/completions``; ``None`` where it can't. ``a2a_modes`` are the default modes of its
    all-to-all backends; ``tunes_kernels`` tells whether kernels are tuned at start-up, so that two
    launches may run different ones.
    """

    takes_token_ids: bool
    takes_ignore_eos: bool
    log_probabilities: Literal["generate", "echo"] | None = None
    a2a_modes: dict[str, str] = {}
    tunes_kernels: bool = False


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failed launch as read from its log: a named status and the telling line."""

    status: LaunchStatus
    reason: str


class Engine(Protocol):
    """One serving engine. `tests/engines/conformance.py` checks what each must keep to."""

    name: str
    traits: ServerTraits

    def version(self) -> str | None:
        """The installed version, ``None`` if the engine isn't installed. Imports nothing heavy."""
        ...

    def backends(self) -> tuple[str, ...]:
        """Names of the MoE backends that the catalog knows."""
        ...

    def supports(self, candidate: Candidate, *, config: SweepConfig, target: Target) -> Support:
        """Whether launching ``candidate`` on ``target`` is worth a try, before one is spent."""
        ...

    def settings(self, config: SweepConfig) -> dict[str, str]:
        """What else of a launch, given in the config, changes what the MoE layers run.

        They are part of a decision's scope, under the names that the engine's plugin uses too.
        Defaults are left out; an engine without a plugin returns an empty one.
        """
        ...

    def command(self, candidate: Candidate, *, config: SweepConfig, site: LaunchSite) -> Command:
        """The exact command of a launch. Pure: nothing is written."""
        ...

    def prepare(self, candidate: Candidate, *, config: SweepConfig, site: LaunchSite) -> None:
        """Write what ``command`` refers to (a checkpoint folder of the candidate's own, ...)."""
        ...

    async def resolved_backend(self, *, base_url: str, log: str) -> str | None:
        """The backend that the running server says it uses, ``None`` if it doesn't say."""
        ...

    async def flush_cache(self, *, base_url: str) -> None:
        """Empty the prefix cache, where the server has one, so that no point helps the next.

        Raises:
            EngineError: the server refused.
        """
        ...

    def read_failure(self, log: str) -> Failure | None:
        """Name the failure that a log tells of, ``None`` where none is recognised."""
        ...
