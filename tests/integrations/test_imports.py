"""What importing a plugin costs a server: the standard library and msgspec alone."""

import json
import subprocess
import sys

import pytest

# typing_extensions is msgspec's own, where it is installed.
ALLOWED = {"autotune", "msgspec", "typing_extensions"}
# What the rest of the package uses, and what a plugin must leave to its engine.
HEAVY = {
    "aiohttp",
    "huggingface_hub",
    "matplotlib",
    "numpy",
    "optuna",
    "pandas",
    "psutil",
    "pyarrow",
    "rich",
    "scipy",
    "sglang",
    "tokenizers",
    "torch",
    "transformers",
    "typer",
    "uvloop",
}


def imported_by(statement: str) -> set[str]:
    """The packages that a statement imports in a fresh interpreter."""
    script = (
        f"import sys, json; before = set(sys.modules); {statement}; "
        "print(json.dumps(sorted({name.split('.')[0] for name in set(sys.modules) - before})))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(ran.stdout))


@pytest.mark.parametrize(
    "module",
    [
        "autotune.integrations",
        "autotune.integrations.startup",
        "autotune.integrations.sglang_launch",
        "autotune.integrations.sglang",
    ],
)
def test_a_plugin_imports_nothing_heavy(module: str) -> None:
    found = imported_by(f"import {module}")
    assert not found & HEAVY
    assert found - set(sys.stdlib_module_names) - ALLOWED == set()


def test_without_sglang_the_plugin_says_so_and_raises_nothing() -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['sglang'] = None; "
            "from autotune.integrations.sglang import register; register()",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    (line,) = ran.stderr.splitlines()
    assert line.startswith("autotune: disabled: ") and "install sglang" in line
