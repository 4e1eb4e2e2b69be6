import ast
import importlib.metadata
import json
import sys
from pathlib import Path

import msgspec
import pytest

from autotune.engines.base import Command
from autotune.engines.registry import engine_names, find_engine
from autotune.engines.transformers import TransformersEngine
from autotune.environment import usable_cores
from autotune.errors import ConfigError, EngineError

from .conformance import candidate_of, check_engine, make_config, make_site, make_target, snapshot

ENGINE = TransformersEngine()
# As transformers 5.24.0 prints it.
REFUSED = (
    'ValueError: Specified `experts_implementation="bogus"` is not supported. The only possible '
    'arguments are `experts_implementation="eager"`, `experts_implementation="grouped_mm"`, and '
    '`experts_implementation="batched_mm"`.'
)


def test_keeps_to_what_every_engine_must(tmp_path: Path) -> None:
    check_engine(ENGINE, tmp_path)


def test_is_registered() -> None:
    assert "transformers" in engine_names()
    assert isinstance(find_engine("transformers"), TransformersEngine)


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"engine\.name: no engine 'sgalng': .*transformers"):
        find_engine("sgalng")


def test_the_command_is_exact(tmp_path: Path) -> None:
    config = make_config(ENGINE, extra='dtype = "float32"')
    site = make_site(tmp_path)
    folder, beside = site.scratch / "model", Path(sys.executable).parent / "transformers"
    command = ENGINE.command(candidate_of(config), config=config, site=site)
    assert command.argv == (
        str(beside) if beside.is_file() else "transformers",
        "serve",
        str(folder),
        "--continuous-batching",
        *("--device", "cpu", "--dtype", "float32", "--attn-implementation", "sdpa"),
        *("--host", "127.0.0.1", "--port", "18000"),
        # 8 requests of 640 tokens in blocks of 256, and a block more for each request.
        *("--cb-block-size", "256", "--cb-num-blocks", "28", "--cb-max-batch-tokens", "512"),
    )
    assert command.environment == {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(site.scratch / "huggingface"),
        "TORCHINDUCTOR_CACHE_DIR": str(site.scratch / "inductor"),
        "OMP_WAIT_POLICY": "passive",
        "OMP_NUM_THREADS": str(usable_cores()),
    }
    assert command.model == str(folder)


@pytest.mark.parametrize(("concurrency", "tokens"), [(1, 1), (1, 257), (3, 100), (64, 2048)])
def test_the_cache_has_room_for_every_request(
    concurrency: int, tokens: int, tmp_path: Path
) -> None:
    site = msgspec.structs.replace(
        make_site(tmp_path), max_concurrency=concurrency, max_tokens=tokens
    )
    config = make_config(ENGINE)
    command = ENGINE.command(candidate_of(config), config=config, site=site)
    each = -(-tokens // option(command, "--cb-block-size"))
    assert option(command, "--cb-num-blocks") >= concurrency * each
    assert option(command, "--cb-max-batch-tokens") >= concurrency


def option(command: Command, name: str) -> int:
    return int(command.argv[command.argv.index(name) + 1])


def test_prepare_links_the_checkpoint_and_names_the_backend(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    before = snapshot(site.checkpoint)
    for backend in ("eager", "batched_mm"):
        config = make_config(ENGINE)
        candidate = msgspec.structs.replace(candidate_of(config), backend=backend)
        ENGINE.prepare(candidate, config=config, site=site)
        made = site.scratch / "model"
        content = json.loads((made / "config.json").read_text())
        original = json.loads((site.checkpoint / "config.json").read_text())
        assert content == original | {"experts_implementation": backend}
        assert not (made / "config.json").is_symlink()
        for name in ("tokenizer.json", "model.safetensors"):
            assert (made / name).resolve() == (site.checkpoint / name).resolve()
        assert {path.name for path in made.iterdir()} == set(before)
    assert snapshot(site.checkpoint) == before


def test_prepare_says_what_it_cannot_write(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    site.scratch.write_text("in the way")
    with pytest.raises(EngineError, match="can't prepare the checkpoint"):
        ENGINE.prepare(candidate_of(make_config(ENGINE)), config=make_config(ENGINE), site=site)


@pytest.mark.parametrize("backend", ["deepgemm", "deepgemm_megamoe", "sonicmoe"])
def test_refuses_a_gpu_backend_on_a_cpu(backend: str) -> None:
    config = make_config(ENGINE)
    candidate = msgspec.structs.replace(candidate_of(config), backend=backend)
    refused = ENGINE.supports(candidate, config=config, target=make_target("cpu"))
    assert not refused.ok
    assert backend in refused.reason and "NVIDIA GPU" in refused.reason
    assert ENGINE.supports(candidate, config=config, target=make_target("cuda")).ok


@pytest.mark.parametrize("parallel", ["tp = 2", "ep = 2", "dp = 2", 'a2a_backend = "deepep"'])
def test_refuses_more_than_one_device(parallel: str) -> None:
    config = make_config(ENGINE, extra=f"[parallel]\n{parallel}")
    support = ENGINE.supports(candidate_of(config), config=config, target=make_target("cuda"))
    assert not support.ok and "one device" in support.reason


def test_tries_a_backend_that_the_catalog_does_not_know() -> None:
    config = make_config(ENGINE)
    candidate = msgspec.structs.replace(candidate_of(config), backend="brand_new")
    assert ENGINE.supports(candidate, config=config, target=make_target("cpu")).ok


def test_recognises_a_refused_backend() -> None:
    log = f"Traceback (most recent call last):\n  File x\n{REFUSED}\nINFO: shutting down\n"
    failure = ENGINE.read_failure(log)
    assert failure is not None and failure.status == "unsupported"
    assert failure.reason == REFUSED.removeprefix("ValueError: ")


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.15 GiB.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't "
        "allocate memory: you tried to allocate 137438953472 bytes. Error code 12",
        pytest.param("torch.AcceleratorError: CUDA error: out of memory"),
        pytest.param("MemoryError"),
    ],
)
def test_recognises_exhausted_memory(line: str) -> None:
    failure = ENGINE.read_failure(f"INFO: loading\n  {line}\nINFO: shutting down\n")
    assert failure is not None and failure.status == "oom"
    assert failure.reason == line


def test_the_catalog_names_what_the_installed_package_has() -> None:
    try:
        files = importlib.metadata.files("transformers") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("transformers isn't installed")
    found = {"eager"}  # allowed by name in modeling_utils, without a function of its own
    for name in ("moe.py", "finegrained_fp8.py"):
        (path,) = (p for p in files if p.parts[-2:] == ("integrations", name))
        found |= registered(ast.parse(Path(str(path.locate())).read_text(encoding="utf-8")))
    assert set(ENGINE.backends()) == found


def registered(tree: ast.Module) -> set[str]:
    """The keys of ``_global_mapping`` in a module's ``...ExpertsInterface`` classes."""
    names: set[str] = set()
    for kind in ast.walk(tree):
        if isinstance(kind, ast.ClassDef) and kind.name.endswith("ExpertsInterface"):
            for line in kind.body:
                if isinstance(line, ast.Assign) and isinstance(line.value, ast.Dict):
                    names |= {str(ast.literal_eval(key)) for key in line.value.keys if key}
    return names


def test_a_checkpoint_of_the_hub_is_served_from_where_it_lies(tmp_path: Path) -> None:
    config = make_config(ENGINE)
    site = msgspec.structs.replace(make_site(tmp_path), model="owner/name")
    ENGINE.prepare(candidate_of(config), config=config, site=site)
    made = site.scratch / "model"
    assert (made / "model.safetensors").read_bytes() == b"weights"
    command = ENGINE.command(candidate_of(config), config=config, site=site)
    assert command.model == str(made) and "owner/name" not in command.argv
