"""Configs, sites and commands to test the SGLang engine with."""

import sys
from pathlib import Path
from typing import Any

import msgspec

from autotune.config import SweepConfig, parse_config
from autotune.engines.base import Command, LaunchSite
from autotune.engines.sglang.engine import SGLangEngine
from tests.engines.conformance import candidate_of, make_site

ENGINE = SGLangEngine()


def make_config(
    *,
    engine: str = "",
    parallel: str = "",
    quantization: str = "none",
    candidates: str = '["auto"]',
    reference: str = "auto",
) -> SweepConfig:
    """A config of the SGLang engine; ``engine`` and ``parallel`` are more TOML of these tables."""
    text = f"""
name = "demo"
candidates = {candidates}
reference = "{reference}"
[model]
repository = "owner/name"
quantization = "{quantization}"
[load]
concurrency = [1, 8]
[engine]
name = "sglang"
{engine}
[parallel]
{parallel}
"""
    return parse_config(text, where="demo.toml")


def gpu_site(folder: Path, **changes: Any) -> LaunchSite:
    return msgspec.structs.replace(make_site(folder), device="cuda", **changes)


def command_of(config: SweepConfig, site: LaunchSite) -> Command:
    return ENGINE.command(candidate_of(config), config=config, site=site)


def expected(site: LaunchSite, *parallel: str, running: int = 8, named: str = "auto") -> list[str]:
    """The command for ``named``, with what follows from [parallel] and [model] in its place."""
    return [
        *(sys.executable, "-m", "sglang.launch_server"),
        *("--model-path", site.model, "--served-model-name", f"autotune-demo-{named}-{site.port}"),
        *("--host", "127.0.0.1", "--port", "18000", "--device", "cuda"),
        *parallel,
        *("--moe-runner-backend", named),
        *("--max-running-requests", str(running), "--cuda-graph-max-bs-decode", "8"),
    ]


def value(command: Command, flag: str) -> str:
    return command.argv[command.argv.index(flag) + 1]
