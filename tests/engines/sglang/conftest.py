"""Fixtures of the SGLang engine's tests."""

import pytest

from autotune.engines.sglang import engine as engine_module
from autotune.engines.sglang.engine import SGLangEngine


@pytest.fixture(autouse=True)
def as_if_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers depend on the release: here it is always the same one."""
    monkeypatch.setattr(SGLangEngine, "version", lambda self: "0.5.23")


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_FLUSH_PAUSE_S", 0.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, no_pauses: None) -> None:
    monkeypatch.setattr(engine_module, "_ANSWER_TIMEOUT_S", 0.3)
