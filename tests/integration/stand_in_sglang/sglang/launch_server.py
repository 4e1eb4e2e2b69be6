"""Answers as SGLang's server does, over real TCP; what each backend does is a table below.

python -m sglang.launch_server --model-path DIR --moe-runner-backend flashinfer_cutlass ...
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from tests.integration.fake_server import Server, send_json
from tests.probe.toy_teacher import Toy

AUTO_IS = "flashinfer_trtllm_routed"
# How the answers of each backend come: see `fake_server`.
BEHAVIOUR = {"flashinfer_trtllm_routed": "good", "deep_gemm": "garbage"}
USUAL = "good_slow"
# Fluent, and the same text as all others: only its log-probabilities tell.
OFF = {"brand_new": 2.0}
FUSED_FUNCTION = """\
[2026-12-02 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/layers/moe/moe_runner/runner.py", line 1
    raise NotImplementedError(
NotImplementedError: Runner backend MoeRunnerBackend.MARLIN requires a fused func for a2a \
backend none, but none is registered.

[2026-12-02 10:00:00] Received sigquit from a child process. It usually means the child failed.
"""


class StandIn(Server):
    """One server; ``flushes`` counts how often its cache was emptied."""

    def __init__(self, options: argparse.Namespace) -> None:
        runs = AUTO_IS if options.moe_runner_backend == "auto" else options.moe_runner_backend
        self.runs = "triton_kernel" if runs == "triton" else runs
        self.flushes = 0
        self.toy = Toy(wrong=OFF.get(runs, 0.0))
        super().__init__(
            argparse.Namespace(backend=BEHAVIOUR.get(runs, USUAL), model=options.served_model_name)
        )

    async def _answer(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if path == "/server_info":
            answer = {"moe_runner_backend": self.runs, "moe_a2a_backend": "none"}
            await send_json(writer, answer)
        elif path.partition("?")[0] == "/flush_cache":
            self.flushes += 1
            print(f"Cache flushed {self.flushes}", flush=True)
            await send_json(writer, {})
        elif path == "/generate":
            await send_json(writer, self.toy.generate(body))
        else:
            await super()._answer(path, body, writer)


def main() -> None:
    parser = argparse.ArgumentParser()
    for flag in ("--model-path", "--served-model-name", "--moe-runner-backend"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--port", type=int, required=True)
    options, _ = parser.parse_known_args()
    if options.moe_runner_backend == "marlin":
        sys.exit(FUSED_FUNCTION)
    # What a kernel library would tune at start-up, and find again if it lay there before.
    tuned = Path(os.environ["SGLANG_CACHE_DIR"]) / "flashinfer" / "autotune"
    print("tuned before" if tuned.exists() else "tuning anew", flush=True)
    tuned.mkdir(parents=True, exist_ok=True)
    asyncio.run(StandIn(options).serve(options.port))


if __name__ == "__main__":
    main()
