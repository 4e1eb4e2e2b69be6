"""The stub server lives with the benchmark, which isn't a package: load it from its file."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

_STUB = Path(__file__).parents[2] / "benchmarks" / "stub.py"


@pytest.fixture(scope="session")
def stub() -> ModuleType:
    spec = importlib.util.spec_from_file_location("load_stub", _STUB)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
