"""The SGLang engine's commands, word by word."""

import sys
from pathlib import Path

import pytest

from autotune.engines.registry import engine_names, find_engine
from autotune.engines.sglang.engine import SGLangEngine
from autotune.engines.sglang.table import read_catalog
from autotune.environment import kernel_variables
from autotune.records.schema import Candidate
from tests.engines.conformance import candidate_of, check_engine
from tests.engines.sglang.builders import (
    ENGINE,
    command_of,
    expected,
    gpu_site,
    make_config,
    value,
)

MODES = [
    (name, mode)
    for name, row in read_catalog().a2a.items()
    if row.mode_argument is not None
    for mode in row.modes
]
# Far above what any of these takes on a busy machine: it only tells a hang.
DEADLINE_S = 60.0

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


def test_candidates_are_told_apart_by_the_served_name(tmp_path: Path) -> None:
    """A server left behind on the port must not be taken for the one that was launched."""
    config = make_config(candidates='["auto", { backend = "auto", name = "auto-b" }]')
    names = {
        ENGINE.command(candidate, config=config, site=gpu_site(tmp_path)).model
        for candidate in config.candidate_list()
    }
    assert names == {"autotune-demo-auto-18000", "autotune-demo-auto-b-18000"}
    assert all(isinstance(candidate, Candidate) for candidate in config.candidate_list())
