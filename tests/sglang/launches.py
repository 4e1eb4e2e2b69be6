"""Launches of the real SGLang, compared: with the plugin, without it, and with a named backend."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from autotune.environment import kernel_variables
from autotune.integrations.sglang import register

from .real import on, resolve_on, resolved


class Outcome(NamedTuple):
    """What a launch came to: resolved arguments, or the error that stopped it."""

    server_args: Any
    error: str | None

    @property
    def backend(self) -> str | None:
        """The resolved MoE backend."""
        return None if self.error else resolved(self.server_args, "moe_runner_backend")

    @property
    def values(self) -> dict[str, Any]:
        """Every resolved value."""
        return self.server_args.resolved_dict()

    @property
    def declared(self) -> list[tuple[str, dict[str, Any]]]:
        """Who declared what, in order."""
        return list(self.server_args._resolved_overrides)


@contextmanager
def kept_environment() -> Iterator[None]:
    """Undo what a resolution sets in the environment, which would steer the next one."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def attempt(arch: str, checkpoint: Path, **arguments: Any) -> Outcome:
    """Resolve a launch; an error of SGLang's is an outcome, too."""
    with kept_environment():
        try:
            server_args = resolve_on(arch, checkpoint, **arguments)
            # What a server's start asks next, before it starts a process.
            with on(arch):
                server_args.check_server_args()
            return Outcome(server_args, None)
        except Exception as error:
            return Outcome(None, f"{type(error).__name__}: {error}")


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def plugged_in(decisions: Path | None, **variables: str) -> Iterator[list[str]]:
    """SGLang with a fresh plugin alone, as one server's start has it; yields what it logs."""
    heard = _Heard()
    logger = logging.getLogger("autotune")
    with (
        without_plugins(),
        kept_environment(),
        patch("autotune.decisions.store.shipped_folders", lambda: ()),
    ):
        steering = kernel_variables(os.environ)
        for name in [n for n in os.environ if n.startswith("AUTOTUNE_") or n in steering]:
            del os.environ[name]
        if decisions is not None:
            os.environ["AUTOTUNE_DECISIONS"] = str(decisions)
        os.environ.update(variables)
        register()
        logger.addHandler(heard)
        try:
            yield heard.lines
        finally:
            logger.removeHandler(heard)


@contextmanager
def without_plugins() -> Iterator[None]:
    """SGLang as it is without whatever predicate provider or hook was registered."""
    from sglang.srt.arg_groups import model_override_base, resolution_hooks

    predicates: list[Any] = model_override_base._PREDICATE_OVERRIDE_FNS
    kept, hooks = list(predicates), dict(resolution_hooks._HOOKS)
    predicates[:] = [pair for pair in kept if pair[1].__module__.startswith("sglang.")]
    resolution_hooks._HOOKS.clear()
    try:
        yield
    finally:
        predicates[:] = kept
        resolution_hooks._HOOKS.clear()
        resolution_hooks._HOOKS.update(hooks)


def differences(one: Outcome, other: Outcome) -> Sequence[str]:
    """The fields whose resolved values differ."""
    ours, theirs = _overlay(one), _overlay(other)
    names = {*ours, *theirs}
    return sorted(
        name
        for name in names
        if resolved(one.server_args, name) != resolved(other.server_args, name)
    )


def _overlay(outcome: Outcome) -> dict[str, Any]:
    """What was declared, the last of each counting; the rest is as it was given."""
    return {name: value for _, fields in outcome.declared for name, value in fields.items()}
