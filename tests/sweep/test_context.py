"""What a sweep finds out before its first launch: checkpoint, platform, and what keeps it here."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from autotune.config import parse_config
from autotune.config.schema import ModelConfig
from autotune.decisions.schema import Geometry
from autotune.engines.sglang.engine import SGLangEngine
from autotune.engines.witness import witness_folder
from autotune.errors import ConfigError, InputError
from autotune.records.folder import RunFolder
from autotune.sweep.checkpoint import read_checkpoint
from autotune.sweep.context import SweepContext, read_context
from autotune.sweep.workloads import check_prompts
from tests.cli.command import autotune, check_refused, command
from tests.integration.workbench import MODEL_CONFIG, snapshot

REPOSITORY = "owner/name"
REVISION = "0123456789abcdef0123456789abcdef01234567"
SIZES = 'architecture = "MiniMaxM2ForCausalLM"\ngeometry = "3072,1536,256,8"'
FakeSmi = Callable[..., None]


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No GPU, an empty hub cache, no SGLang; returns the folder of programs that are found."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    hub = tmp_path / "home" / "hub"
    monkeypatch.setenv("HF_HOME", str(hub.parent))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    # Read once, when the module is imported: for what runs in this process.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))
    return programs


@pytest.fixture
def gpus(bare_machine: Path) -> FakeSmi:
    """Put an nvidia-smi in place that reports GPUs of a compute capability."""

    def report(capability: str, *, count: int = 1, name: str = "NVIDIA GB200") -> None:
        row = f"{name}, {capability}, 580.1, 189471 MiB, 2062 MHz"
        program = bare_machine / "nvidia-smi"
        program.write_text("#!/bin/sh\n" + f"echo '{row}'\n" * count)
        program.chmod(0o755)

    return report


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SGLangEngine, "version", lambda self: "0.5.23")


def download(home: Path, *, name: str = REPOSITORY, **files: str) -> Path:
    """Lay a checkpoint out as the hub's client does, and return its snapshot's folder."""
    repository = home / "hub" / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(REVISION)
    folder = repository / "snapshots" / REVISION
    folder.mkdir(parents=True)
    content = {"config.json": json.dumps(MODEL_CONFIG), "model.safetensors": "", **files}
    for number, (file, text) in enumerate(content.items()):
        blob = repository / "blobs" / str(number)
        blob.parent.mkdir(exist_ok=True)
        blob.write_text(text)
        (folder / file).symlink_to(blob)
    return folder


def text_of(
    *,
    model: str = f'repository = "{REPOSITORY}"\n{SIZES}',
    engine: str = 'name = "sglang"',
    parallel: str = "",
) -> str:
    return f"""
name = "demo"
candidates = ["auto", "triton"]
reference = "triton"
[model]
{model}
[engine]
{engine}
[load]
concurrency = [1, 8]
input_tokens = 8
[parallel]
{parallel}
"""


def context_of(folder: Path, **changes: str) -> SweepContext:
    config = parse_config(text_of(**changes), where="demo.toml")
    return read_context(config, RunFolder(folder / "run"))


def write(folder: Path, **changes: str) -> Path:
    path = folder / "demo.toml"
    path.write_text(text_of(**changes))
    return path


# -- the checkpoint


def test_a_checkpoint_on_the_hub_is_found_where_it_was_downloaded(tmp_path: Path) -> None:
    folder = download(tmp_path / "home")
    found = read_checkpoint(ModelConfig(repository=REPOSITORY))
    assert found.served == REPOSITORY, "a server is told the name, as its users would"
    assert found.folder is not None and found.folder.resolve() == folder.resolve()
    assert found.facts.geometry == Geometry(128, 32, 16, 4)
    assert found.facts.vocabulary_size == 2048
    assert found.name == f"{REPOSITORY}@{REVISION}"
    assert found.problem is None


def test_a_configuration_without_weights_is_no_checkpoint(tmp_path: Path) -> None:
    (download(tmp_path / "home") / "model.safetensors").unlink()
    found = read_checkpoint(ModelConfig(repository=REPOSITORY))
    assert found.problem is not None and "without its weights" in found.problem


def test_what_config_json_says_comes_before_the_configs_word(tmp_path: Path) -> None:
    download(tmp_path / "home")
    model = ModelConfig(repository=REPOSITORY, architecture="Other", geometry="1,1,1,1")
    assert read_checkpoint(model).facts.geometry == Geometry(128, 32, 16, 4)


def test_another_checkpoint_of_the_owner_is_not_taken_for_it(tmp_path: Path) -> None:
    download(tmp_path / "home", name="owner/name-2")
    with pytest.raises(InputError, match="owner/name isn't on this machine"):
        read_checkpoint(ModelConfig(repository=REPOSITORY))


def test_one_that_was_never_downloaded_is_a_problem() -> None:
    model = ModelConfig(
        repository=REPOSITORY, architecture="MiniMaxM2ForCausalLM", geometry="3072,1536,256,8"
    )
    found = read_checkpoint(model)
    assert found.folder is None and found.served == REPOSITORY
    assert found.facts.geometry == Geometry(3072, 1536, 256, 8)
    assert found.problem is not None and "hf download owner/name" in found.problem


@pytest.mark.parametrize("model", [{}, {"architecture": "X"}, {"geometry": "1,1,1,1"}])
def test_without_sizes_not_even_a_plan_can_be_made(model: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"model\.architecture and model\.geometry"):
        read_checkpoint(ModelConfig(repository=REPOSITORY, **model))


@pytest.mark.parametrize("name", ["own--er/name", "own..er/name", "owner/name.git", "owner/n-"])
def test_what_the_hub_itself_refuses_is_told(name: str) -> None:
    with pytest.raises(InputError, match=r"model\.repository: ") as caught:
        read_checkpoint(ModelConfig(repository=name))
    assert "\n" not in str(caught.value)


def test_the_witness_is_served_from_where_it_was_installed() -> None:
    found = read_checkpoint(ModelConfig(witness="minimax-m2"))
    assert found.folder == witness_folder("minimax-m2") and found.served == str(found.folder)
    assert found.facts.geometry == Geometry(128, 32, 16, 4)
    assert found.problem is None


def test_a_download_that_broke_off_is_told(tmp_path: Path) -> None:
    folder = download(tmp_path / "home")
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match="isn't on this machine"):
        read_checkpoint(ModelConfig(repository=REPOSITORY))


def test_a_broken_config_in_the_cache_is_told_with_its_place(tmp_path: Path) -> None:
    folder = download(tmp_path / "home", **{"config.json": "{"})
    with pytest.raises(InputError, match="not valid JSON") as caught:
        read_checkpoint(ModelConfig(repository=REPOSITORY))
    assert str(folder / "config.json") in str(caught.value)


def tokenizer() -> str:
    """A small one in which each word of a prompt is a token."""
    words = {f"w{number}": number for number in range(200)}
    made = Tokenizer(models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.decoder = decoders.WordPiece(prefix="##")
    return str(made.to_str())


def test_its_tokenizer_makes_the_prompts(tmp_path: Path) -> None:
    folder = download(tmp_path / "home", **{"tokenizer.json": tokenizer()})
    context = context_of(
        tmp_path,
        model=f'repository = "{REPOSITORY}"',
        engine='name = "transformers"\ndevice = "cpu"\nextra_backends = ["auto", "triton"]',
    )
    assert context.tokenizer_file is not None
    assert context.tokenizer_file.resolve() == (folder / "tokenizer.json").resolve()
    assert context.checkpoint.served == REPOSITORY
    check_prompts(context)


def test_without_a_tokenizer_there_are_no_text_prompts(tmp_path: Path) -> None:
    download(tmp_path / "home")
    context = context_of(
        tmp_path,
        model=f'repository = "{REPOSITORY}"',
        engine='name = "transformers"\ndevice = "cpu"\nextra_backends = ["auto", "triton"]',
    )
    assert context.tokenizer_file is None
    with pytest.raises(InputError, match=r"no tokenizer\.json"):
        check_prompts(context)


def test_the_hubs_folder_is_the_users_own(tmp_path: Path) -> None:
    """As a program of its own, which reads HF_HOME when it starts."""
    download(tmp_path / "home")
    config = write(
        tmp_path,
        model=f'repository = "{REPOSITORY}"',
        engine='name = "sglang"\ndevice = "cuda"\narch = "sm100"',
    )
    result = command("sweep", config, "--dry-run", folder=tmp_path)
    assert result.returncode == 2
    assert "(MiniMaxM2ForCausalLM, none, sm100)" in result.stdout
    assert f"--model-path {REPOSITORY}" in result.stdout
    assert "hf download" not in result.stderr and "no GPU" in result.stderr


# -- what keeps a sweep from running here

ON_SM100 = 'name = "sglang"\ndevice = "cuda"\narch = "sm100"'


def test_everything_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    problems = context_of(tmp_path, engine=ON_SM100).problems
    assert len(problems) == 3
    for problem, words in zip(
        problems,
        ("no GPU is present here", "hf download owner/name", "sglang isn't installed"),
        strict=True,
    ):
        assert words in problem and "\n" not in problem


def test_nothing_is_missing_where_all_is_there(
    tmp_path: Path, gpus: FakeSmi, installed: None
) -> None:
    gpus("10.0", count=4)
    download(tmp_path / "home")
    context = context_of(tmp_path, engine=ON_SM100, parallel="tp = 2\ndp = 2")
    assert context.problems == ()
    assert (context.device, context.key.arch) == ("cuda", "sm100")
    assert (context.scope.device_name, context.scope.device_count) == ("GB200", 4)


def test_a_server_takes_no_more_devices_than_it_is_given(
    tmp_path: Path, gpus: FakeSmi, installed: None
) -> None:
    gpus("10.0", count=8)
    download(tmp_path / "home")
    scope = context_of(tmp_path, engine=ON_SM100, parallel="tp = 4\nattention_dp = 4").scope
    assert (scope.device_count, scope.tp, scope.dp, scope.attention_dp) == (4, 4, 1, 4)


@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_another_arch_is_a_problem(
    device: str, tmp_path: Path, gpus: FakeSmi, installed: None
) -> None:
    gpus("9.0")
    download(tmp_path / "home")
    engine = f'name = "sglang"\ndevice = "{device}"\narch = "sm100"'
    context = context_of(tmp_path, engine=engine)
    (problem,) = context.problems
    assert "engine.arch" in problem and "sm100" in problem and "sm90" in problem
    assert context.key.arch == "sm100", "the plan is for what the sweep is meant for"


def test_without_a_gpu_the_arch_must_be_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"engine\.device: no GPU.*engine\.arch"):
        context_of(tmp_path, engine='name = "sglang"\ndevice = "cuda"')


def test_without_arch_the_machine_says_it(tmp_path: Path, gpus: FakeSmi, installed: None) -> None:
    gpus("10.3")
    download(tmp_path / "home")
    context = context_of(tmp_path, engine='name = "sglang"')
    assert (context.key.arch, context.problems) == ("sm103", ())


def test_a_plan_for_a_gpu_is_one_for_a_gpu(tmp_path: Path) -> None:
    context = context_of(tmp_path, engine='name = "sglang"\ndevice = "auto"\narch = "sm100"')
    assert context.problems and context.device == "cuda"


CASES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "no GPU": ({"engine": ON_SM100}, ("no GPU is present here",)),
    "not downloaded": ({"engine": ON_SM100}, ("owner/name isn't on this machine", "hf download")),
    "not installed": ({"engine": ON_SM100}, ("sglang isn't installed",)),
    "another arch": (
        {
            "model": 'witness = "minimax-m2"',
            "engine": 'name = "transformers"\ndevice = "cpu"\narch = "sm100"\n'
            'extra_backends = ["auto", "triton"]',
        },
        ("engine.arch: the sweep is meant for sm100, this machine has cpu-",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_printed_all_the_same(name: str, tmp_path: Path) -> None:
    changes, words = CASES[name]
    config = write(tmp_path, **changes)
    before = snapshot(tmp_path)
    result = autotune("sweep", config, "--run", "run", "--dry-run", folder=tmp_path)
    assert result.returncode == 2
    assert "7 launches to make" in result.stdout and "schedule:" in result.stdout
    assert "\n  triton: " in result.stdout and "\n  auto: " in result.stdout
    assert all(word in result.stderr for word in words), result.stderr
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr
    assert snapshot(tmp_path) == before and not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", CASES)
def test_a_sweep_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    changes, words = CASES[name]
    config = write(tmp_path, **changes)
    before = snapshot(tmp_path)
    for run in (["--run", "run"], []):
        check_refused(autotune("sweep", config, *run, folder=tmp_path), "demo.toml", *words)
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "run").exists() and not (tmp_path / "results").exists()


# -- where launches take place


def test_nodes_meet_at_the_configs_address_or_on_this_machine(
    tmp_path: Path, gpus: FakeSmi, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus("10.0")
    download(tmp_path / "home")
    monkeypatch.setattr("socket.gethostname", lambda: "node-0")
    prefix = ON_SM100 + '\nlaunch_prefix = ["srun"]'
    for engine, nodes, expected in (
        (prefix, 2, "node-0:7"),
        (prefix + '\ncoordinator = "head:5"', 2, "head:5"),
        (prefix, 1, None),
    ):
        context = context_of(tmp_path, engine=engine, parallel=f"tp = 8\nnodes = {nodes}")
        candidate = context.config.candidate_list()[0]
        site = context.site(candidate, port=1, round_number=1, meeting_port=7)
        assert site.coordinator == expected


@pytest.mark.parametrize("share", [False, True])
def test_what_kernels_are_tuned_to_is_the_launchs_own_or_shared(
    share: bool, tmp_path: Path, gpus: FakeSmi, installed: None
) -> None:
    gpus("10.0")
    download(tmp_path / "home")
    engine = ON_SM100 + f"\nshare_kernel_tuning = {str(share).lower()}"
    context = context_of(tmp_path, engine=engine)
    sites = [
        context.site(candidate, port=1, round_number=number, meeting_port=2)
        for candidate in context.config.candidate_list()
        for number in (1, 2, 3)
    ]
    assert len({site.tuned for site in sites}) == (1 if share else 6)
    assert len({site.compiled for site in sites}) == 1
    for site in sites:
        for folder in (site.tuned, site.compiled, site.scratch):
            assert folder.is_absolute() and folder.is_relative_to(tmp_path / "run")
        # Wiped before a launch: nothing else may lie in it.
        assert not site.compiled.is_relative_to(site.tuned)
        assert not site.scratch.is_relative_to(site.tuned)
