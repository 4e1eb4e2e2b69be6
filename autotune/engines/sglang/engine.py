"""The `sglang` engine: ``python -m sglang.launch_server``, one node or several.

Names and rules of its MoE backends are in ``catalog/sglang.toml``; how its failures read is in
`failures`. Nothing of sglang is imported here.
"""

import asyncio
import importlib.metadata
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from autotune.config.schema import ParallelConfig, SweepConfig
from autotune.decisions.request import AUTO
from autotune.engines.base import Command, Failure, LaunchSite, ServerTraits, Support, Target
from autotune.engines.sglang.catalog import effective_ep, refusal
from autotune.engines.sglang.failures import read_failure
from autotune.engines.sglang.settings import settings_in
from autotune.engines.sglang.table import read_catalog
from autotune.errors import EngineError
from autotune.records.schema import Candidate

_ANSWER_TIMEOUT_S = 10.0
_FLUSH_TRIES = 4
_FLUSH_PAUSE_S = 1.0
# A server's answers are bounded: the information holds what each rank's scheduler says of itself.
_MOST_INFORMATION = 32 * 2**20
_MOST_WORDS = 1000
_TUNED_VARIABLE = "SGLANG_CACHE_DIR"
# SGLang finds these out by itself, and has no such choice on the command line.
_FOUND_OUT = frozenset({"none", "minimax_m3_nvfp4"})
_NAME = re.compile(r"\w{1,64}", re.ASCII)
# Flags that follow from other keys of the config, and what to do instead: given twice, the run's
# records would be wrong.
_RESERVED = {
    "--attention-data-parallel-size": "set parallel.attention_dp",
    "--attn-dp-size": "set parallel.attention_dp",
    "--config": "what the file says belongs into this config",
    "--data-parallel-size": "set parallel.dp",
    "--deepep-mode": "set parallel.a2a_mode",
    "--deepep-v2-mode": "set parallel.a2a_mode",
    "--device": "set engine.device",
    "--dist-init-addr": "set engine.coordinator",
    "--dp-size": "set parallel.dp",
    "--dtype": "set engine.dtype",
    "--enable-dp-attention": "set parallel.attention_dp",
    "--ep": "set parallel.ep",
    "--ep-size": "set parallel.ep",
    "--expert-parallel-size": "set parallel.ep",
    "--flashinfer-a2a-dispatch-type": "set parallel.a2a_mode",
    "--host": "servers listen on this machine only",
    "--json-model-override-args": "serve a checkpoint that says so itself",
    "--max-running-requests": "it follows from load.concurrency",
    "--model": "set model.path",
    "--model-path": "set model.path",
    "--moe-a2a-backend": "set parallel.a2a_backend",
    "--moe-runner-backend": "name it among the candidates",
    "--nccl-init-addr": "set engine.coordinator",
    "--nnodes": "set parallel.nodes",
    "--node-rank": "set engine.node_rank_variable",
    "--port": "a free port is taken at each launch",
    "--quantization": "set model.quantization",
    "--served-model-name": "each launch has a name of its own",
    "--tensor-parallel-size": "set parallel.tp",
    "--tp-size": "set parallel.tp",
}


class SGLangEngine:
    """SGLang's server as a sweep's engine."""

    name = "sglang"

    @property
    def traits(self) -> ServerTraits:
        """Token ids and ``ignore_eos`` are taken; the modes are the server arguments' defaults."""
        rows = read_catalog().a2a.items()
        modes = {name: row.default_mode for name, row in rows if row.default_mode is not None}
        return ServerTraits(
            takes_token_ids=True,
            takes_ignore_eos=True,
            log_probabilities="generate",
            a2a_modes=modes,
            tunes_kernels=True,
        )

    def version(self) -> str | None:
        """The installed version of sglang."""
        try:
            return importlib.metadata.version("sglang")
        except importlib.metadata.PackageNotFoundError:
            return None

    def backends(self) -> tuple[str, ...]:
        """``auto`` and the names in ``catalog/sglang.toml``."""
        return (AUTO, *read_catalog().runners)

    def supports(self, candidate: Candidate, *, config: SweepConfig, target: Target) -> Support:
        """Refuse what the catalog knows to fail, and arguments that the config has keys for."""
        reason = next(self._objections(candidate, config, target), None)
        return Support(True) if reason is None else Support(False, reason)

    def _objections(
        self, candidate: Candidate, config: SweepConfig, target: Target
    ) -> Iterator[str]:
        yield from _reserved((*config.engine.arguments, *candidate.arguments))
        yield from _reserved_variables({**config.engine.environment, **candidate.environment})
        own = settings_in(candidate.arguments)
        if own:
            # A decision's scope holds them for all; a winner's arguments aren't applied to servers.
            yield f"{', '.join(own)} can't differ by candidate: set engine.arguments"
        given = config.parallel
        yield from _sizes(given)
        if candidate.backend in config.engine.extra_backends:
            return
        reason = refusal(
            read_catalog(),
            backend=candidate.backend,
            quantization=config.model.quantization,
            arch=target.arch,
            a2a_backend=given.a2a_backend,
            a2a_mode=given.a2a_mode,
            tp=given.tp,
            ep=given.ep,
            engine_version=self.version(),
            settings=settings_in(config.engine.arguments),
        )
        if reason is not None:
            yield reason

    def settings(self, config: SweepConfig) -> dict[str, str]:
        """The settings in ``engine.arguments``, and how many nodes the server spans."""
        return settings_in(("--nnodes", str(config.parallel.nodes), *config.engine.arguments))

    def command(self, candidate: Candidate, *, config: SweepConfig, site: LaunchSite) -> Command:
        """``python -m sglang.launch_server ...``, behind the launch prefix."""
        nodes = config.parallel.nodes
        # A name of its own: a server that somebody left behind on the port isn't taken for ours.
        name = f"autotune-{config.name}-{candidate.name}-{site.port}"
        argv = [*config.engine.launch_prefix]
        if nodes > 1:
            variable = config.engine.node_rank_variable
            argv += [sys.executable, "-m", "autotune.engines.node_rank", variable]
        argv += [sys.executable, "-m", "sglang.launch_server"]
        argv += ["--model-path", site.model, "--served-model-name", name]
        argv += ["--host", "127.0.0.1", "--port", str(site.port), "--device", site.device]
        if config.model.quantization not in _FOUND_OUT:
            argv += ["--quantization", config.model.quantization]
        if config.engine.dtype != "auto":
            argv += ["--dtype", config.engine.dtype]
        argv += _parallel(config)
        argv += ["--moe-runner-backend", candidate.backend]
        # Shared out over the attention groups, each of which may have to hold all requests: which
        # one gets the next is the dispatcher's choice.
        running = site.max_concurrency * config.parallel.attention_dp
        argv += ["--max-running-requests", str(running)]
        argv += ["--cuda-graph-max-bs-decode", str(site.max_concurrency)]
        if nodes > 1 and site.coordinator is not None:
            argv += ["--nnodes", str(nodes), "--dist-init-addr", site.coordinator]
        argv += [*config.engine.arguments, *candidate.arguments]
        environment = {
            **_environment(site),
            **config.engine.environment,
            **candidate.environment,
        }
        return Command(argv=tuple(argv), environment=environment, model=name)

    def prepare(self, candidate: Candidate, *, config: SweepConfig, site: LaunchSite) -> None:
        """Nothing: SGLang makes its cache folders itself."""

    async def resolved_backend(self, *, base_url: str, log: str) -> str | None:
        """What ``/server_info`` says, in older releases ``/get_server_info``, else the log."""
        for path in ("/server_info", "/get_server_info"):
            information = await _get_json(base_url + path)
            if information is not None and "moe_runner_backend" in information:
                return _backend_in(information)
        told = re.findall(r"moe_runner_backend='(\w{1,64})'", log, re.ASCII)
        # The log shows the arguments as they were given: `auto` there says nothing.
        return told[-1] if told and told[-1] != AUTO else None

    async def flush_cache(self, *, base_url: str) -> None:
        """Empty the radix cache; refused while a request runs, so that it is asked again.

        Raises:
            EngineError: the server refused each time, or doesn't answer.
        """
        problem = ""
        for attempt in range(_FLUSH_TRIES):
            if attempt:
                await asyncio.sleep(_FLUSH_PAUSE_S)
            try:
                async with (
                    _session() as session,
                    session.post(f"{base_url}/flush_cache") as response,
                ):
                    if response.status == 200:
                        return
                    words = await _read(response, _MOST_WORDS)
                    problem = f"HTTP {response.status}: {words.decode(errors='replace')[:200]}"
            except (aiohttp.ClientError, TimeoutError) as error:
                problem = type(error).__name__
        raise EngineError(f"/flush_cache failed {_FLUSH_TRIES} times, last with {problem}")

    def read_failure(self, log: str) -> Failure | None:
        """Name the failure that a log tells of; see `failures`."""
        return read_failure(log)


def _sizes(given: ParallelConfig) -> Iterator[str]:
    """Why SGLang refuses these sizes whatever the backend, or changes them."""
    if given.dp > 1 and given.attention_dp > 1:
        yield "SGLang takes replicas (dp) or attention_dp above 1, not both"
    if given.dp > 1 and given.nodes > 1:
        yield "SGLang's replicas (dp) don't span nodes: sweep one replica"
    for name, size in (("attention_dp", given.attention_dp), ("nodes", given.nodes)):
        if given.tp % size:
            yield f"parallel.tp = {given.tp} can't be divided by parallel.{name} = {size}"
    catalog = read_catalog()
    ep = effective_ep(catalog, a2a_backend=given.a2a_backend, ep=given.ep, tp=given.tp)
    if ep != given.ep:
        yield f"SGLang raises ep with a2a_backend {given.a2a_backend}: set parallel.ep = {ep}"
    row = catalog.a2a.get(given.a2a_backend)
    needed = row.attention_dp if row is not None else None
    wrong = {"tp": given.attention_dp != given.tp, "at least 2": given.attention_dp < 2}
    if row is not None and needed is not None and wrong[needed]:
        yield (
            f"a2a_backend {given.a2a_backend} needs parallel.attention_dp = {needed}, not "
            f"{given.attention_dp} ({row.attention_dp_source})"
        )


def _parallel(config: SweepConfig) -> list[str]:
    given = config.parallel
    argv = ["--tp-size", str(given.tp)]
    if given.ep > 1:
        argv += ["--ep-size", str(given.ep)]
    if given.dp > 1:
        argv += ["--dp-size", str(given.dp)]
    if given.attention_dp > 1:
        # The older spelling of --attn-dp-size, which all releases take.
        argv += ["--dp-size", str(given.attention_dp), "--enable-dp-attention"]
    if given.a2a_backend != "none":
        argv += ["--moe-a2a-backend", given.a2a_backend]
        row = read_catalog().a2a.get(given.a2a_backend)
        if given.a2a_mode is not None and row is not None and row.mode_argument is not None:
            argv += [row.mode_argument, given.a2a_mode]
    return argv


def _environment(site: LaunchSite) -> dict[str, str]:
    """Variables of every launch: no downloads, none of our decisions, caches inside the run folder.

    What FlashInfer tunes at start-up lies under ``SGLANG_CACHE_DIR``, a folder of the launch's
    own. Compiled kernels would lie there too: they are the same each time, so they are shared.
    """
    compiled = {
        "CUDA_CACHE_PATH": "nv",
        "FLASHINFER_WORKSPACE_BASE": "flashinfer",
        "SGLANG_CUTE_AOT_CACHE_DIR": "cute_aot",
        "SGLANG_DG_CACHE_DIR": "deep_gemm",
        "SGLANG_JIT_CACHE_DIR": "jit",
        "TILELANG_CACHE_DIR": "tilelang",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
    }
    return {
        "AUTOTUNE_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        _TUNED_VARIABLE: str(site.tuned),
        **{name: str(Path(site.compiled) / folder) for name, folder in compiled.items()},
    }


def _reserved(arguments: Sequence[str]) -> Iterator[str]:
    for argument in arguments:
        flag = argument.partition("=")[0]
        # argparse takes a flag's beginning for the whole: --tp for --tp-size.
        begun = [name for name in _RESERVED if name.startswith(flag) and len(flag) > len("--")]
        if begun:
            instead = _RESERVED[flag if flag in _RESERVED else begun[0]]
            yield f"{flag} can't be among the arguments: {instead}"


def _reserved_variables(environment: Iterable[str]) -> Iterator[str]:
    for name in environment:
        if name == _TUNED_VARIABLE:
            yield f"{name} can't be set: engine.share_kernel_tuning says who shares what is tuned"
        if name.startswith("AUTOTUNE_"):
            yield f"{name} can't be set: servers of a sweep start without any decision"


def _backend_in(information: dict[str, Any]) -> str | None:
    backend = information.get("moe_runner_backend")
    if not isinstance(backend, str) or not _NAME.fullmatch(backend):
        return None
    # SGLang turns a name that stands for an all-to-all backend into that one and `auto`.
    aliases = {row.alias_of_a2a: name for name, row in read_catalog().runners.items()}
    exchange = information.get("moe_a2a_backend")
    return aliases.get(exchange, AUTO) if backend == AUTO and exchange else backend


async def _get_json(url: str) -> dict[str, Any] | None:
    try:
        async with _session() as session, session.get(url) as response:
            if response.status != 200:
                return None
            body: Any = json.loads(await _read(response, _MOST_INFORMATION))
    except (aiohttp.ClientError, TimeoutError, ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body's first ``most`` bytes."""
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part[: most - size])
        size += len(parts[-1])
        if size >= most:
            break
    return b"".join(parts)


def _session() -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=_ANSWER_TIMEOUT_S)
    return aiohttp.ClientSession(trust_env=False, timeout=timeout)
