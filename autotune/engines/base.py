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


class Support(msgspec.Struct, frozen=True):
    """Whether a candidate can run here; ``reason`` is one sentence, empty when ``ok``."""

    ok: bool
    reason: str = ""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One server launch: ``environment`` is added to ours; ``model`` is the served name."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    model: str


class LaunchSite(msgspec.Struct, frozen=True, kw_only=True):
    """Where a launch takes place.

    ``model_folder`` is the checkpoint, ``scratch`` a folder that the launch may write to,
    ``device`` what the engine was told to run on, ``max_concurrency`` and ``max_tokens`` the
    most requests in flight and the most tokens (prompt and answer) that one of them may hold.
    """

    model_folder: Path
    scratch: Path
    port: int
    device: Literal["cpu", "cuda"]
    max_concurrency: int
    max_tokens: int


class ServerTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine's HTTP interface can do."""

    takes_token_ids: bool
    takes_ignore_eos: bool


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

    def supports(
        self, candidate: Candidate, *, config: SweepConfig, device: str, model: ModelFacts
    ) -> Support:
        """Whether launching ``candidate`` on ``device`` is worth a try, before one is spent."""
        ...

    def command(self, candidate: Candidate, *, config: SweepConfig, site: LaunchSite) -> Command:
        """The exact command of a launch. Pure: nothing is written."""
        ...

    def prepare(self, candidate: Candidate, *, config: SweepConfig, site: LaunchSite) -> None:
        """Write what ``command`` refers to (a checkpoint folder of the candidate's own, ...)."""
        ...

    def resolved_backend(self, log: str) -> str | None:
        """The backend that really runs, read from the server's log; ``None`` if it doesn't say."""
        ...

    def read_failure(self, log: str) -> Failure | None:
        """Name the failure that a log tells of, ``None`` where none is recognised."""
        ...
