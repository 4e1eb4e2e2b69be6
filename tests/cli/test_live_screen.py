"""The live view's process: when it is wanted, and what becomes of it."""

import contextlib
import io
import os
import pty
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from autotune.cli import screen as screen_module
from autotune.cli.screen import Screen, listening, wants_live
from autotune.sweep.progress import Noted

TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
VARIABLES = ("CI", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a terminal that can do all."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in TERMINAL.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@contextlib.contextmanager
def terminal() -> Iterator[None]:
    """Make stderr a terminal."""
    ours, theirs = pty.openpty()
    with open(theirs, "w") as file, contextlib.redirect_stderr(file):
        yield
    os.close(ours)


@pytest.mark.parametrize(
    ("given", "live"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, True),
        ({"TERM": "dumb"}, False),
        ({"CI": "true"}, False),
        ({"CI": "false"}, True),
        ({"TTY_INTERACTIVE": "0"}, False),
        ({"COLUMNS": "30"}, False),
        ({"LINES": "6"}, False),
    ],
)
def test_which_terminals_get_a_view(
    given: dict[str, str], live: bool, variables: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        variables.setenv(name, value)
    with terminal():
        assert wants_live(plain=False) is live
        assert not wants_live(plain=True)


def test_no_view_where_stderr_is_no_terminal(variables: pytest.MonkeyPatch) -> None:
    variables.setenv("FORCE_COLOR", "1")
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert not wants_live(plain=False)
        with listening(plain=False) as tell:
            tell(Noted(text="in a plain \x1b[1mline"))
    assert said.getvalue() == "in a plain \\x1b[1mline\n"


def test_a_view_that_dies_leaves_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Any = subprocess.Popen

    def dies_at_once(argv: list[str], **options: Any) -> Any:
        process = real([argv[0], "-I", "-S", "-c", "raise SystemExit(3)"], **options)
        process.wait()
        return process

    monkeypatch.setattr(screen_module.subprocess, "Popen", dies_at_once)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        screen = Screen()
        screen.tell(Noted(text="one"))
        screen.tell(Noted(text="two"))
        screen.close()
    shown = said.getvalue().replace("\x1b[?25h", "").split("\n")
    assert [line for line in shown if line] == [
        "the live view has ended: going on without it", "one", "two"
    ]  # fmt: skip


def test_what_is_printed_meanwhile_is_told() -> None:
    told: list[str] = []
    lines = screen_module._Lines(lambda event: told.append(event.text))  # type: ignore[union-attr]
    print("a warning\nof two lines, and", end=" ", file=lines)
    print("a half", file=lines)
    assert told == ["a warning", "of two lines, and a half"]
