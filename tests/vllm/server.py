"""Real vLLM servers on a CPU, one after the other."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from autotune.engines.base import Command
from autotune.engines.process import ServerProcess, free_ports, tail
from autotune.engines.readiness import NotReady, wait_until_ready
from autotune.load.client import Endpoint

from .checkpoint import POSITIONS

_READY_TIMEOUT_S = 600.0
_T = TypeVar("_T")


async def with_server(
    checkpoint: Path, *, dtype: str, log_file: Path, ask: Callable[[Endpoint], Awaitable[_T]]
) -> _T:
    """Serve a checkpoint while ``ask`` runs, and return what it returns."""
    (port,) = free_ports(1)
    argv = [os.environ["AUTOTUNE_TEST_VLLM"], "serve", str(checkpoint)]
    argv += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--dtype", dtype, "--max-model-len", str(POSITIONS), "--max-num-seqs", "32"]
    # The batches of a crowd are to be as large as they can be.
    argv += ["--max-num-batched-tokens", "4096", "--enforce-eager"]
    environment = {
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    command = Command(argv=tuple(argv), environment=environment, model="tiny")
    base_url = f"http://127.0.0.1:{port}"
    with ServerProcess(command, log_file=log_file, stop_timeout_s=30) as server:
        try:
            await wait_until_ready(server, command, base_url=base_url, timeout_s=_READY_TIMEOUT_S)
        except NotReady as error:
            raise AssertionError("\n".join([str(error), *tail(server.log())])) from error
        return await ask(Endpoint(base_url=base_url, model=command.model))
