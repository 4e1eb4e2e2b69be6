"""The command line as its user meets it, and what every refusal of it looks like."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from autotune.__main__ import main

GOOD_CONFIG = """\
name = "cpu"
candidates = ["eager", "grouped_mm"]
reference = "eager"
[model]
witness = "minimax-m2"
[engine]
name = "transformers"
device = "cpu"
dtype = "float32"
[load]
concurrency = [1, 4]
input_tokens = 32
output_tokens = 16
"""


def command(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in ``folder``, with no decisions but the shipped ones."""
    return subprocess.run(
        [sys.executable, "-m", "autotune", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=_environment(),
        timeout=60,
    )


def autotune(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Do as `command`, in this process: a program's start is most of what it costs."""
    argv = ["autotune", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        stack.enter_context(mock.patch.object(sys, "argv", argv))
        stack.enter_context(mock.patch.dict(os.environ, _environment(), clear=True))
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("AUTOTUNE")}
    return own | {"NO_COLOR": "1", "COLUMNS": "200"}


def check_refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 2, nothing on stdout, one line on stderr that holds ``words``."""
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("autotune: ")
    assert result.stderr.endswith("\n") and result.stderr.count("\n") == 1, result.stderr
    for word in words:
        assert word in result.stderr
