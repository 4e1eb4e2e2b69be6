"""Fixtures of the tests against the real SGLang."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotune.environment import kernel_variables
from autotune.integrations.sglang import register


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A MiniMax-M2 checkpoint's configuration."""
    from .real import make_checkpoint

    return make_checkpoint(tmp_path / "checkpoint")


@pytest.fixture
def clean_registries() -> Iterator[None]:
    """Give SGLang its own rules and hooks back afterwards, and its environment."""
    from sglang.srt.arg_groups import model_override_base, overrides, resolution_hooks

    assert overrides is not None
    predicates = model_override_base._PREDICATE_OVERRIDE_FNS
    kept, hooks = list(predicates), {k: list(v) for k, v in resolution_hooks._HOOKS.items()}
    environment = dict(os.environ)
    yield
    predicates[:] = kept
    resolution_hooks._HOOKS.clear()
    resolution_hooks._HOOKS.update(hooks)
    os.environ.clear()
    os.environ.update(environment)


@pytest.fixture
def plug_in(
    clean_registries: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., None]:
    """Register the plugin as SGLang does, searching ``decisions`` alone, with more variables."""

    def plug(decisions: Path | None = None, **variables: str) -> None:
        monkeypatch.setattr("autotune.decisions.store.shipped_folders", lambda: (), raising=True)
        for name in [name for name in os.environ if name.startswith("AUTOTUNE_")]:
            monkeypatch.delenv(name)
        # What this machine, or a module that was imported, has set is no part of the launch.
        for name in kernel_variables(os.environ):
            monkeypatch.delenv(name)
        if decisions is not None:
            monkeypatch.setenv("AUTOTUNE_DECISIONS", str(decisions))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        register()

    return plug


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the plugin has logged so far."""
    caplog.set_level(logging.WARNING, logger="autotune")
    return lambda: [
        record.getMessage() for record in caplog.records if record.name.startswith("autotune")
    ]
