"""An engine as a third party would add one: its backends are the ways a server may behave."""

import re
import sys
from pathlib import Path

import aiohttp

from autotune.config.schema import SweepConfig
from autotune.engines.base import Command, Failure, LaunchSite, ServerTraits, Support, Target
from autotune.errors import EngineError
from autotune.records.schema import Candidate

SERVER = Path(__file__).with_name("fake_server.py")
BACKENDS = (
    "good",
    "good_b",
    "garbage",
    "http_500",
    "http_500_at_once",
    "dies_at_start",
    "hangs_at_start",
    "dies_mid_load",
    "wrong_model",
    "other_inside",
    "refuses",
    "daemonises",
    "needs_gpu",
    "keeps_cache",
    "auto",
)


class FakeEngine:
    """Launches `fake_server.py`, one behaviour a backend."""

    name = "fake"
    traits = ServerTraits(takes_token_ids=True, takes_ignore_eos=True, tunes_kernels=True)

    def version(self) -> str | None:
        return "1.2.3"

    def backends(self) -> tuple[str, ...]:
        return BACKENDS

    def supports(self, candidate: Candidate, *, config: SweepConfig, target: Target) -> Support:
        if candidate.backend == "needs_gpu" and target.device == "cpu":
            return Support(False, "needs_gpu runs on a GPU only")
        return Support(True)

    def command(self, candidate: Candidate, *, config: SweepConfig, site: LaunchSite) -> Command:
        argv = [*config.engine.launch_prefix, sys.executable, "-I", "-S", str(SERVER)]
        argv += ["--port", str(site.port), "--model", "fake-moe", "--backend", candidate.backend]
        argv += [*config.engine.arguments, *candidate.arguments]
        environment = {
            "FAKE_SCRATCH": str(site.scratch),
            "FAKE_TUNED": str(site.tuned),
            **config.engine.environment,
            **candidate.environment,
        }
        return Command(argv=tuple(argv), environment=environment, model="fake-moe")

    def prepare(self, candidate: Candidate, *, config: SweepConfig, site: LaunchSite) -> None:
        """Nothing is needed."""

    def settings(self, config: SweepConfig) -> dict[str, str]:
        return {}

    async def flush_cache(self, *, base_url: str) -> None:
        try:
            async with (
                aiohttp.ClientSession(trust_env=False) as session,
                session.post(f"{base_url}/flush_cache") as response,
            ):
                if response.status != 200:
                    raise EngineError(f"the fake server keeps its cache (HTTP {response.status})")
        except aiohttp.ClientError as error:
            raise EngineError(type(error).__name__) from None

    async def resolved_backend(self, *, base_url: str, log: str) -> str | None:
        said = re.search(r"^backend in use: (\w+)$", log, re.M)
        return said[1] if said and said[1] in BACKENDS else None

    def read_failure(self, log: str) -> Failure | None:
        refused = re.search(r"^RefusedError: (.*)$", log, re.M)
        if refused:
            return Failure(status="unsupported", reason=refused[1])
        return None
