"""The `transformers` engine: ``transformers serve`` with continuous batching, on CPU or GPU.

Its MoE backend is the key ``experts_implementation`` of config.json; there is no flag. So each
candidate gets a checkpoint folder of its own: links to the shared files, and a config.json.
"""

import importlib.metadata
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

from autotune.config.schema import SweepConfig
from autotune.engines.base import Command, Failure, LaunchSite, ServerTraits, Support, Target
from autotune.environment import usable_cores
from autotune.errors import EngineError
from autotune.records.schema import Candidate

_CATALOG = Path(__file__).parent / "catalog" / "transformers.toml"
# Room for the paged key/value cache, in blocks of this many tokens: without a number, the CPU
# default takes 60% of the machine's memory.
_BLOCK_TOKENS = 256
_BATCH_TOKENS = 512
_OUT_OF_MEMORY = "OutOfMemoryError|MemoryError|CUDA error: out of memory"
_OUT_OF_MEMORY += "|DefaultCPUAllocator: can't allocate"


class TransformersEngine:
    """``transformers serve`` as a sweep's engine."""

    name = "transformers"
    traits = ServerTraits(takes_token_ids=False, takes_ignore_eos=False)

    def version(self) -> str | None:
        """The installed version of transformers."""
        try:
            return importlib.metadata.version("transformers")
        except importlib.metadata.PackageNotFoundError:
            return None

    def backends(self) -> tuple[str, ...]:
        """The names in ``catalog/transformers.toml``."""
        return tuple(_catalog())

    def supports(self, candidate: Candidate, *, config: SweepConfig, target: Target) -> Support:
        """Refuse more than one device, and a backend whose catalog row needs another one."""
        given = config.parallel
        sizes = (given.tp, given.ep, given.dp, given.attention_dp, given.nodes)
        if max(sizes) > 1 or given.a2a_backend != "none":
            return Support(False, "transformers serve is launched on one device: tp = ep = dp = 1")
        row = _catalog().get(candidate.backend)
        if row is not None and target.device not in row["devices"]:
            return Support(
                False, f"{candidate.backend} {row['needs']}; this run uses {target.device}"
            )
        return Support(True)

    def settings(self, config: SweepConfig) -> dict[str, str]:
        """None: no server of transformers starts from a decision."""
        return {}

    def command(self, candidate: Candidate, *, config: SweepConfig, site: LaunchSite) -> Command:
        """``transformers serve FOLDER --continuous-batching ...`` of this environment."""
        folder = site.scratch / "model"
        blocks = -(-site.max_concurrency * site.max_tokens // _BLOCK_TOKENS) + site.max_concurrency
        argv = [*config.engine.launch_prefix, _executable(), "serve", str(folder)]
        argv += ["--continuous-batching", "--device", site.device]
        argv += ["--dtype", config.engine.dtype, "--attn-implementation", "sdpa"]
        argv += ["--host", "127.0.0.1", "--port", str(site.port)]
        argv += ["--cb-block-size", str(_BLOCK_TOKENS), "--cb-num-blocks", str(blocks)]
        argv += ["--cb-max-batch-tokens", str(max(_BATCH_TOKENS, site.max_concurrency))]
        argv += [*config.engine.arguments, *candidate.arguments]
        environment = {
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(site.scratch / "huggingface"),
            "TORCHINDUCTOR_CACHE_DIR": str(site.scratch / "inductor"),
            # The load client shares the cores: threads that spin while idle would starve it.
            "OMP_WAIT_POLICY": "passive",
            "OMP_NUM_THREADS": str(usable_cores()),
            **config.engine.environment,
            **candidate.environment,
        }
        return Command(argv=tuple(argv), environment=environment, model=str(folder))

    def prepare(self, candidate: Candidate, *, config: SweepConfig, site: LaunchSite) -> None:
        """Make the candidate's checkpoint folder.

        Raises:
            EngineError: the folder can't be written, or the checkpoint isn't here.
        """
        folder, checkpoint = site.scratch / "model", site.checkpoint
        if checkpoint is None:
            raise EngineError(f"{site.model}: this checkpoint isn't on this machine")
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for path in sorted(checkpoint.resolve().iterdir()):
                if path.name != "config.json":
                    (folder / path.name).symlink_to(path)
            content = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
            content["experts_implementation"] = candidate.backend
            (folder / "config.json").write_text(json.dumps(content, indent=2) + "\n")
        except OSError as error:
            raise EngineError(f"{folder}: can't prepare the checkpoint: {error}") from error

    async def resolved_backend(self, *, base_url: str, log: str) -> str | None:
        """``transformers serve`` doesn't tell; it refuses a name that it can't honour."""
        return None

    async def flush_cache(self, *, base_url: str) -> None:
        """Nothing is kept from one request to the next."""

    def read_failure(self, log: str) -> Failure | None:
        """Recognise a refused backend and exhausted memory."""
        refused = re.search(r"^ValueError: (Specified `experts_implementation=.*)$", log, re.M)
        if refused:
            return Failure(status="unsupported", reason=refused[1])
        memory = re.search(rf"^.*({_OUT_OF_MEMORY}).*$", log, re.M)
        if memory:
            return Failure(status="oom", reason=memory[0].strip())
        return None


def _catalog() -> dict[str, dict[str, Any]]:
    return tomllib.loads(_CATALOG.read_text(encoding="utf-8"))


def _executable() -> str:
    """The ``transformers`` command beside our own interpreter, else the one on the path."""
    beside = Path(sys.executable).parent / "transformers"
    return str(beside) if beside.is_file() else "transformers"
