"""The SGLang engine: its commands word by word, what it refuses, what it asks a running server."""

import asyncio
import gzip
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from aiohttp import web

from autotune.config import SweepConfig, parse_config
from autotune.engines.base import Command, LaunchSite, Support
from autotune.engines.process import free_ports
from autotune.engines.registry import engine_names, find_engine
from autotune.engines.sglang import engine as engine_module
from autotune.engines.sglang.catalog import read_catalog
from autotune.engines.sglang.engine import SGLangEngine
from autotune.environment import kernel_variables
from autotune.errors import EngineError
from autotune.records.schema import Candidate
from tests.engines.conformance import candidate_of, check_engine, make_site, make_target

ENGINE = SGLangEngine()
MODES = [
    (name, mode)
    for name, row in read_catalog().a2a.items()
    if row.mode_argument is not None
    for mode in row.modes
]
# Far above what any of these takes on a busy machine: it only tells a hang.
DEADLINE_S = 60.0
Value = TypeVar("Value")


@pytest.fixture(autouse=True)
def as_if_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers depend on the release: here it is always the same one."""
    monkeypatch.setattr(SGLangEngine, "version", lambda self: "0.5.23")


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_FLUSH_PAUSE_S", 0.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, no_pauses: None) -> None:
    monkeypatch.setattr(engine_module, "_ANSWER_TIMEOUT_S", 0.3)


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


# -- what every engine must


def test_keeps_to_what_every_engine_must(tmp_path: Path, no_pauses: None) -> None:
    check_engine(ENGINE, tmp_path)


def test_is_registered() -> None:
    assert "sglang" in engine_names()
    assert isinstance(find_engine("sglang"), SGLangEngine)


def test_auto_is_a_backend_beside_the_catalogs() -> None:
    assert ENGINE.backends()[0] == "auto"
    assert set(ENGINE.backends()) == {"auto", *read_catalog().runners}


def test_the_default_modes_are_the_catalogs() -> None:
    modes = ENGINE.traits.a2a_modes
    assert modes["deepep"] == "auto" and modes["deepep_v2"] == "direct"
    assert "none" not in modes and "flashinfer" not in modes and "megamoe" not in modes
    assert ENGINE.traits.takes_token_ids and ENGINE.traits.takes_ignore_eos


# -- commands


def test_a_plain_command_is_exact(tmp_path: Path) -> None:
    site = gpu_site(tmp_path)
    command = command_of(make_config(), site)
    assert list(command.argv) == expected(site, "--tp-size", "1")
    assert command.model == "autotune-demo-auto-18000"
    compiled = site.compiled
    assert command.environment == {
        "AUTOTUNE_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        "SGLANG_CACHE_DIR": str(site.tuned),
        "CUDA_CACHE_PATH": str(compiled / "nv"),
        "FLASHINFER_WORKSPACE_BASE": str(compiled / "flashinfer"),
        "SGLANG_CUTE_AOT_CACHE_DIR": str(compiled / "cute_aot"),
        "SGLANG_DG_CACHE_DIR": str(compiled / "deep_gemm"),
        "SGLANG_JIT_CACHE_DIR": str(compiled / "jit"),
        "TILELANG_CACHE_DIR": str(compiled / "tilelang"),
        "TORCHINDUCTOR_CACHE_DIR": str(compiled / "inductor"),
        "TRITON_CACHE_DIR": str(compiled / "triton"),
    }


@pytest.mark.parametrize(
    ("parallel", "words", "running"),
    [
        ("tp = 4", "--tp-size 4", 8),
        ("tp = 4\nep = 4", "--tp-size 4 --ep-size 4", 8),
        ("tp = 2\ndp = 3", "--tp-size 2 --dp-size 3", 8),
        ("tp = 4\nattention_dp = 2", "--tp-size 4 --dp-size 2 --enable-dp-attention", 16),
        (
            'tp = 4\nep = 4\na2a_backend = "deepep"',
            "--tp-size 4 --ep-size 4 --moe-a2a-backend deepep",
            8,
        ),
        (
            'tp = 4\nep = 4\nattention_dp = 4\na2a_backend = "deepep"\na2a_mode = "low_latency"',
            "--tp-size 4 --ep-size 4 --dp-size 4 --enable-dp-attention --moe-a2a-backend deepep "
            "--deepep-mode low_latency",
            32,
        ),
    ],
)
def test_sizes_and_all_to_all_are_exact(
    parallel: str, words: str, running: int, tmp_path: Path
) -> None:
    site = gpu_site(tmp_path)
    command = command_of(make_config(parallel=parallel), site)
    # Only ever more than the concurrency: replicas take as many as all of them together.
    assert list(command.argv) == expected(site, *words.split(), running=running)


@pytest.mark.parametrize(("a2a", "mode"), MODES)
def test_each_mode_goes_to_its_backends_flag(a2a: str, mode: str, tmp_path: Path) -> None:
    parallel = f'tp = 4\nep = 4\na2a_backend = "{a2a}"\na2a_mode = "{mode}"'
    site = gpu_site(tmp_path)
    flag = read_catalog().a2a[a2a].mode_argument
    words = f"--tp-size 4 --ep-size 4 --moe-a2a-backend {a2a} {flag} {mode}"
    command = command_of(make_config(parallel=parallel), site)
    assert list(command.argv) == expected(site, *words.split())


def test_without_a_mode_the_servers_default_is_left_alone(tmp_path: Path) -> None:
    parallel = 'tp = 4\nep = 4\na2a_backend = "deepep"'
    command = command_of(make_config(parallel=parallel), gpu_site(tmp_path))
    assert "--deepep-mode" not in command.argv


def test_quantization_and_dtype_are_named_where_given(tmp_path: Path) -> None:
    site = gpu_site(tmp_path)
    config = make_config(quantization="modelopt_fp4", engine='dtype = "bfloat16"')
    words = "--quantization modelopt_fp4 --dtype bfloat16 --tp-size 1"
    assert list(command_of(config, site).argv) == expected(site, *words.split())


def test_a_checkpoint_on_the_hub_is_launched_by_its_name(tmp_path: Path) -> None:
    command = command_of(make_config(), gpu_site(tmp_path, model="owner/name"))
    assert value(command, "--model-path") == "owner/name"
    assert command.environment["HF_HUB_OFFLINE"] == "1", "nothing is downloaded by a launch"


def test_two_nodes_are_told_where_to_meet_and_who_they_are(tmp_path: Path) -> None:
    config = make_config(
        engine='launch_prefix = ["srun", "--nodes=2"]', parallel="tp = 8\nnodes = 2"
    )
    site = gpu_site(tmp_path, coordinator="node-0:20000")
    argv = command_of(config, site).argv
    wrapper = (sys.executable, "-m", "autotune.engines.node_rank", "SLURM_NODEID")
    assert argv[:6] == ("srun", "--nodes=2", *wrapper)
    assert list(argv[6:]) == [
        *expected(site, "--tp-size", "8"),
        *("--nnodes", "2", "--dist-init-addr", "node-0:20000"),
    ]


def test_another_launchers_variable_is_passed_on(tmp_path: Path) -> None:
    config = make_config(
        engine='launch_prefix = ["mpirun"]\nnode_rank_variable = "OMPI_COMM_WORLD_RANK"',
        parallel="tp = 8\nnodes = 2",
    )
    argv = command_of(config, gpu_site(tmp_path, coordinator="a:1")).argv
    assert argv[1:5] == (
        *(sys.executable, "-m", "autotune.engines.node_rank"),
        "OMPI_COMM_WORLD_RANK",
    )


def test_one_node_needs_no_wrapper(tmp_path: Path) -> None:
    config = make_config(engine='launch_prefix = ["numactl", "-N", "0"]')
    site = gpu_site(tmp_path, coordinator="node-0:20000")
    argv = command_of(config, site).argv
    assert list(argv) == ["numactl", "-N", "0", *expected(site, "--tp-size", "1")]


def test_extra_arguments_come_last_and_extra_variables_win(tmp_path: Path) -> None:
    own = '{ backend = "triton", arguments = ["--max-running-requests", "1"], '
    own += 'environment = { SGLANG_X = "own", TRITON_CACHE_DIR = "/own" } }'
    config = make_config(
        engine='arguments = ["--mem-fraction-static", "0.8"]\n'
        'environment = { SGLANG_X = "all", SGLANG_CACHE_DIR = "/all" }',
        candidates=f"[{own}]",
        reference="triton",
    )
    site = gpu_site(tmp_path)
    command = command_of(config, site)
    common = expected(site, "--tp-size", "1", named="triton")
    assert list(command.argv) == [
        *common,
        *("--mem-fraction-static", "0.8", "--max-running-requests", "1"),
    ]
    assert command.environment["SGLANG_X"] == "own"
    assert command.environment["SGLANG_CACHE_DIR"] == "/all"
    assert command.environment["TRITON_CACHE_DIR"] == "/own"


@pytest.mark.parametrize("concurrency", [1, 7, 512])
@pytest.mark.parametrize("parallel", ["tp = 8", "tp = 8\nattention_dp = 8", "tp = 2\ndp = 4"])
def test_the_highest_concurrency_is_really_reachable(
    concurrency: int, parallel: str, tmp_path: Path
) -> None:
    """Whatever the dispatcher does: each attention group and each replica may hold them all."""
    config = make_config(parallel=parallel)
    command = command_of(config, gpu_site(tmp_path, max_concurrency=concurrency))
    # SGLang divides it by the attention groups, not by the replicas.
    each = int(value(command, "--max-running-requests")) // config.parallel.attention_dp
    assert each >= concurrency
    assert int(value(command, "--cuda-graph-max-bs-decode")) >= concurrency


def test_no_launch_is_steered_by_an_earlier_decision(tmp_path: Path) -> None:
    for backend in ("auto", "triton"):
        config = make_config(candidates=f'["{backend}"]', reference=backend)
        assert command_of(config, gpu_site(tmp_path)).environment["AUTOTUNE_DISABLE"] == "1"


def test_every_cache_folder_is_inside_the_run_folder(tmp_path: Path) -> None:
    command = command_of(make_config(), gpu_site(tmp_path))
    folders = {name: text for name, text in command.environment.items() if "/" in text}
    assert len(folders) == 9
    assert all(Path(text).is_relative_to(tmp_path) for text in folders.values())
    assert len(set(folders.values())) == len(folders)


def test_our_own_variables_are_in_no_scope(tmp_path: Path) -> None:
    """A server started without autotune has none of them: they mustn't tell it apart."""
    assert kernel_variables(command_of(make_config(), gpu_site(tmp_path)).environment) == {}


def test_prepare_writes_nothing(tmp_path: Path) -> None:
    site = gpu_site(tmp_path / "site")
    before = sorted(tmp_path.rglob("*"))
    ENGINE.prepare(candidate_of(make_config()), config=make_config(), site=site)
    assert sorted(tmp_path.rglob("*")) == before


# -- what is refused before a launch


def support(
    backend: str, *, arch: str = "sm100", config: SweepConfig | None = None, **changes: Any
) -> Support:
    asked = config or make_config(**changes)
    candidate = msgspec.structs.replace(candidate_of(asked), name=backend, backend=backend)
    target = msgspec.structs.replace(make_target("cuda"), arch=arch)
    return ENGINE.supports(candidate, config=asked, target=target)


SPANNING = 'tp = 4\nep = 4\na2a_backend = "{}"'


@pytest.mark.parametrize(
    ("backend", "changes"),
    [
        ("auto", {}),
        ("triton", {}),
        ("flashinfer_cutlass", {"quantization": "modelopt_fp4"}),
        ("flashinfer_trtllm_routed", {"quantization": "modelopt_fp4", "parallel": "tp = 4"}),
        ("flashinfer_cutedsl", {"quantization": "modelopt_fp4"}),
        ("deep_gemm", {"quantization": "fp8", "parallel": SPANNING.format("deepep")}),
        ("auto", {"quantization": "fp8", "parallel": SPANNING.format("megamoe")}),
    ],
)
def test_what_may_work_is_tried(backend: str, changes: dict[str, str]) -> None:
    assert support(backend, **changes) == Support(True)


@pytest.mark.parametrize(
    ("backend", "changes", "words"),
    [
        ("triton", {"quantization": "modelopt_fp4"}, ("modelopt_fp4", "triton")),
        ("flashinfer_trtllm", {"arch": "sm90"}, ("sm100", "sm90")),
        ("hpc_ops", {"quantization": "fp8"}, ("sm90", "sm100")),
        (
            "flashinfer_cutlass",
            {"quantization": "modelopt_fp4", "parallel": "tp = 8\nep = 2"},
            ("ep = 1 or tp", "not 2"),
        ),
        # Resolution lets it pass; the runner itself refuses it.
        (
            "flashinfer_trtllm_routed",
            {"quantization": "modelopt_fp4", "parallel": SPANNING.format("deepep")},
            ("no fused function", "deepep"),
        ),
        ("triton", {"parallel": SPANNING.format("deepep")}, ("no conversion", "deepep_normal")),
        (
            "triton",
            {"parallel": SPANNING.format("deepep_v2"), "quantization": "fp8"},
            ("deep_gemm", "triton"),
        ),
        (
            "deep_gemm",
            {"parallel": SPANNING.format("deepep") + '\na2a_mode = "fastest"'},
            ("--deepep-mode", "fastest"),
        ),
        ("auto", {"parallel": 'a2a_backend = "pigeons"'}, ("pigeons", "no all-to-all backend")),
        ("brand_new", {}, ("brand_new", "no MoE runner")),
    ],
)
def test_what_is_known_to_fail_is_refused(
    backend: str, changes: dict[str, str], words: tuple[str, ...]
) -> None:
    refused = support(backend, **changes)
    assert not refused.ok
    assert all(word in refused.reason for word in words), refused.reason


def test_an_extra_backend_is_tried() -> None:
    assert support("brand_new", engine='extra_backends = ["brand_new"]') == Support(True)
    # Whoever lists a known one says that this installation has another of that name.
    config = make_config(
        engine='extra_backends = ["triton"]', quantization="modelopt_fp4", candidates='["triton"]',
        reference="triton",
    )  # fmt: skip
    assert support("triton", config=config) == Support(True)


@pytest.mark.parametrize("a2a", [name for name, row in read_catalog().a2a.items() if row.spans_tp])
@pytest.mark.parametrize("backend", ["auto", "brand_new"])
def test_a_spanning_all_to_all_needs_ep_to_be_said(a2a: str, backend: str) -> None:
    """SGLang would raise it: the decision would be for a size that nobody ran."""
    engine = 'extra_backends = ["brand_new"]'
    refused = support(backend, engine=engine, parallel=f'tp = 4\nep = 2\na2a_backend = "{a2a}"')
    assert not refused.ok
    assert refused.reason.endswith("set parallel.ep = 4")


def test_replicas_and_attention_groups_exclude_each_other() -> None:
    refused = support("auto", parallel="tp = 4\ndp = 2\nattention_dp = 2")
    assert not refused.ok and "dp" in refused.reason and "attention_dp" in refused.reason


@pytest.mark.parametrize(
    ("a2a", "groups", "ok"),
    [
        ("flashinfer", 1, False),
        ("flashinfer", 2, False),
        ("flashinfer", 4, True),
        ("flashinfer_megamoe", 2, False),
        ("pplx", 1, False),
        ("pplx", 2, True),
        ("deepep", 1, True),
        ("deepep", 2, True),
    ],
)
def test_an_all_to_all_backend_may_need_attention_groups(a2a: str, groups: int, ok: bool) -> None:
    parallel = SPANNING.format(a2a) + f"\nattention_dp = {groups}"
    answer = support("auto", parallel=parallel)
    assert answer.ok == ok, answer.reason
    assert ok or "parallel.attention_dp = " in answer.reason


RESERVED = {
    "--model-path /m": "model.path",
    "--model=/m": "model.path",
    "--quantization fp8": "model.quantization",
    "--dtype bfloat16": "engine.dtype",
    "--device cpu": "engine.device",
    "--tp-size 2": "parallel.tp",
    "--tp 2": "parallel.tp",
    "--tensor-parallel-size=2": "parallel.tp",
    "--ep 2": "parallel.ep",
    "--ep-size 2": "parallel.ep",
    "--dp 2": "parallel.dp",
    "--dp-size=2": "parallel.dp",
    "--attn-dp-size 2": "parallel.attention_dp",
    "--enable-dp-attention": "parallel.attention_dp",
    "--moe-a2a-backend deepep": "parallel.a2a_backend",
    "--moe-a2a deepep": "parallel.a2a_backend",
    "--deepep-mode normal": "parallel.a2a_mode",
    "--flashinfer-a2a-dispatch-type bf16": "parallel.a2a_mode",
    "--moe-runner-backend triton": "candidates",
    "--moe-runner triton": "candidates",
    "--nnodes 2": "parallel.nodes",
    "--node-rank 0": "engine.node_rank_variable",
    "--dist-init-addr a:1": "engine.coordinator",
    "--port 1": "a free port is taken",
    "--host 0.0.0.0": "this machine only",
    "--served-model-name x": "a name of its own",
}


@pytest.mark.parametrize(("given", "key"), RESERVED.items())
@pytest.mark.parametrize("whose", ["engine", "candidate"])
def test_a_reserved_flag_is_refused_with_its_key(given: str, key: str, whose: str) -> None:
    words = json.dumps(given.split())
    if whose == "engine":
        config = make_config(engine=f"arguments = {words}")
    else:
        config = make_config(candidates=f'[{{ backend = "auto", arguments = {words} }}]')
    refused = support("auto", config=config)
    assert not refused.ok
    assert given.split()[0].partition("=")[0] in refused.reason and key in refused.reason


@pytest.mark.parametrize(
    "flag",
    [
        "--mem-fraction-static",
        "--deepep-config",
        "--model-loader-extra-config",
        "--dist-timeout",
        "--ep-num-redundant-experts",
        "--attention-backend",
        "--pp-size",
    ],
)
def test_other_flags_are_let_through(flag: str) -> None:
    assert support("auto", engine=f'arguments = ["{flag}", "1"]') == Support(True)


def test_a_file_of_arguments_is_refused() -> None:
    """SGLang merges the file before the command line, so that it may set what is reserved."""
    assert not support("auto", engine='arguments = ["--config", "server.yaml"]').ok


# -- asking a running server

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CONNECTED_LOG = "ServerArgs(model_path='/m', moe_runner_backend='triton', tp_size=1)\n"


@asynccontextmanager
async def serving(routes: Mapping[str, Handler]) -> AsyncIterator[str]:
    """A server on a free port that knows these paths."""
    app = web.Application()
    for path, handler in routes.items():
        app.router.add_route("*", path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def run(ask: Coroutine[Any, Any, Value]) -> Value:
    async def bounded() -> Value:
        async with asyncio.timeout(DEADLINE_S):
            return await ask

    return asyncio.run(bounded())


def resolved(routes: Mapping[str, Handler], *, log: str = "") -> str | None:
    async def ask() -> str | None:
        async with serving(routes) as base_url:
            return await ENGINE.resolved_backend(base_url=base_url, log=log)

    return run(ask())


def answering(body: bytes | str | dict[str, Any], *, status: int = 200, **more: Any) -> Handler:
    content = json.dumps(body) if isinstance(body, dict) else body
    raw = content.encode() if isinstance(content, str) else content

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=raw, status=status, **more)

    return answer


INFORMATION = {"moe_runner_backend": "flashinfer_cutlass", "moe_a2a_backend": "none"}


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
def test_the_server_says_what_it_resolved(path: str) -> None:
    assert resolved({path: answering(INFORMATION)}, log=CONNECTED_LOG) == "flashinfer_cutlass"


def test_the_newer_path_counts() -> None:
    routes = {
        "/server_info": answering(INFORMATION),
        "/get_server_info": answering({"moe_runner_backend": "triton"}),
    }
    assert resolved(routes) == "flashinfer_cutlass"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (CONNECTED_LOG, "triton"),
        (CONNECTED_LOG + CONNECTED_LOG.replace("triton", "marlin"), "marlin"),
        (CONNECTED_LOG.replace("triton", "auto"), None),
        ("nothing of it", None),
        ("moe_runner_backend='" + "x" * 10_000 + "'", None),
        ("moe_runner_backend='../../etc'", None),
    ],
)
def test_the_log_tells_where_neither_path_is_known(log: str, expected: str | None) -> None:
    assert resolved({}, log=log) == expected


async def redirect_forever(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(request.path)


async def hang_up(request: web.Request) -> web.StreamResponse:
    """A body that ends before its announced length."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"moe_')
    assert request.transport is not None
    request.transport.abort()
    return response


GARBLED = {
    "broken JSON": answering('{"moe_runner_backend": "fl'),
    "HTML": answering("<!doctype html><h1>502</h1>", content_type="text/html"),
    "a list": answering("[1, 2]"),
    "a word": answering('"triton"'),
    "nothing": answering(""),
    "not UTF-8": answering(b'{"moe_runner_backend": "\xff\xfe"}'),
    "another charset": answering(b"\x81", content_type="application/json", charset="utf-16"),
    "not gzip": answering(b"{}", headers={"Content-Encoding": "gzip"}),
    "a huge number": answering('{"moe_runner_backend": ' + "9" * 10_000 + "}"),
    "HTTP 401": answering(INFORMATION, status=401),
    "HTTP 500": answering(INFORMATION, status=500),
    "redirects": redirect_forever,
    "cut off": hang_up,
    "deep nesting": answering("[" * 200_000),
}


@pytest.mark.parametrize(
    "answer",
    [case if not callable(case) else pytest.param(case, id=name) for name, case in GARBLED.items()],
)
def test_an_answer_that_says_nothing_leaves_it_to_the_log(answer: Handler) -> None:
    routes = {"/server_info": answer, "/get_server_info": answer}
    assert resolved(routes, log=CONNECTED_LOG) == "triton"


def test_an_answer_without_the_key_leaves_it_to_the_log() -> None:
    assert resolved({"/server_info": answering({"version": "1"})}, log=CONNECTED_LOG) == "triton"


@pytest.mark.parametrize("told", [None, 7, ["triton"], {"name": "triton"}])
def test_a_value_that_is_no_name_is_none(told: Any) -> None:
    assert resolved({"/server_info": answering({"moe_runner_backend": told})}) is None


@pytest.mark.parametrize("content", [b"x" * 30_000_000, b" " * 30_000_000 + b"{}"])
def test_a_huge_body_is_no_trouble(content: bytes) -> None:
    assert resolved({"/server_info": answering(content)}) is None
    squeezed = answering(gzip.compress(content), headers={"Content-Encoding": "gzip"})
    assert resolved({"/server_info": squeezed}) is None


def test_a_large_answer_is_read_to_its_end() -> None:
    whole = {"internal_states": ["x" * 1000] * 5000, **INFORMATION}
    assert resolved({"/server_info": answering(whole)}) == "flashinfer_cutlass"


async def never(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(DEADLINE_S)
    return web.Response()


async def without_end(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 100)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("slow", [never, without_end])
def test_a_server_that_never_answers_is_not_waited_for(slow: Handler, impatient: None) -> None:
    assert resolved({"/server_info": slow, "/get_server_info": slow}, log=CONNECTED_LOG) == "triton"


@pytest.mark.parametrize(
    ("information", "name"),
    [
        ({"moe_runner_backend": "auto", "moe_a2a_backend": "megamoe"}, "megamoe"),
        ({"moe_runner_backend": "auto", "moe_a2a_backend": "deepep"}, "auto"),
        ({"moe_runner_backend": "auto", "moe_a2a_backend": None}, "auto"),
        ({"moe_runner_backend": "deep_gemm", "moe_a2a_backend": "megamoe"}, "deep_gemm"),
    ],
)
def test_megamoe_goes_by_its_alias(information: dict[str, Any], name: str) -> None:
    assert resolved({"/server_info": answering(information)}) == name


def test_a_server_that_is_gone_says_nothing() -> None:
    gone = f"http://127.0.0.1:{free_ports(1)[0]}"
    assert run(ENGINE.resolved_backend(base_url=gone, log=CONNECTED_LOG)) == "triton"


# -- emptying the cache


class Cache:
    """Refuses to be emptied ``refusals`` times, as SGLang does while a request runs."""

    def __init__(self, refusals: int, *, text: str = "Flush cache failed.\n") -> None:
        self.refusals = refusals
        self.text = text
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.method)
        if len(self.asked) <= self.refusals:
            return web.Response(status=400, text=self.text)
        return web.Response(text="Cache flushed.\n")


def flush(handler: Handler, path: str = "/flush_cache") -> None:
    async def ask() -> None:
        async with serving({path: handler}) as base_url:
            await ENGINE.flush_cache(base_url=base_url)

    run(ask())


@pytest.mark.parametrize("refusals", [0, 1, 3])
def test_a_busy_server_is_asked_again(refusals: int, no_pauses: None) -> None:
    cache = Cache(refusals)
    flush(cache.answer)
    assert cache.asked == ["POST"] * (refusals + 1)


def test_a_server_that_keeps_refusing_is_told_with_its_words(no_pauses: None) -> None:
    cache = Cache(1000, text="there are 3 running requests")
    with pytest.raises(EngineError, match=r"/flush_cache failed 4 times.*HTTP 400: there are 3"):
        flush(cache.answer)
    assert len(cache.asked) == 4


def test_what_a_server_says_of_it_is_cut_short(no_pauses: None) -> None:
    with pytest.raises(EngineError) as caught:
        flush(Cache(1000, text="x" * 100_000).answer)
    assert len(str(caught.value)) < 400


def test_no_such_path_is_a_refusal(no_pauses: None) -> None:
    with pytest.raises(EngineError, match="HTTP 404"):
        flush(Cache(0).answer, path="/elsewhere")


async def drop(request: web.Request) -> web.StreamResponse:
    """No answer at all: the connection ends."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize("slow", [never, drop])
def test_a_server_that_hangs_is_given_up(slow: Handler, impatient: None) -> None:
    with pytest.raises(EngineError, match=r"failed 4 times"):
        flush(slow)


def test_a_gone_server_is_an_error(no_pauses: None) -> None:
    with pytest.raises(EngineError, match="Connect"):
        run(ENGINE.flush_cache(base_url=f"http://127.0.0.1:{free_ports(1)[0]}"))


def test_candidates_are_told_apart_by_the_served_name(tmp_path: Path) -> None:
    """A server left behind on the port must not be taken for the one that was launched."""
    config = make_config(candidates='["auto", { backend = "auto", name = "auto-b" }]')
    names = {
        ENGINE.command(candidate, config=config, site=gpu_site(tmp_path)).model
        for candidate in config.candidate_list()
    }
    assert names == {"autotune-demo-auto-18000", "autotune-demo-auto-b-18000"}
    assert all(isinstance(candidate, Candidate) for candidate in config.candidate_list())
