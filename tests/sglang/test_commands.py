"""The commands that a sweep builds, read by SGLang's own parser: what is asked is what arrives."""

import argparse
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autotune.config import SweepConfig, parse_config, read_config
from autotune.decisions.schema import Geometry
from autotune.engines.base import LaunchSite, Target
from autotune.engines.sglang import engine as engine_module
from autotune.engines.sglang.engine import SGLangEngine
from autotune.engines.sglang.table import read_catalog
from autotune.model import ModelFacts
from autotune.records.schema import Candidate

from .launches import kept_environment
from .real import PLATFORMS, make_checkpoint, on, resolved

ENGINE = SGLangEngine()
CATALOG = read_catalog()
SWEEPS = Path(__file__).parents[2] / "configs" / "sweeps"
MODES: list[tuple[str, str | None]] = [
    *((name, None) for name in CATALOG.a2a),
    *((name, mode) for name, row in CATALOG.a2a.items() for mode in row.modes),
]
SIZES = [
    *({"tp": 1}, {"tp": 4}, {"tp": 4, "ep": 4}, {"tp": 2, "dp": 3}),
    {"tp": 8, "ep": 8, "attention_dp": 8},
]
QUANTIZATIONS = ["none", "modelopt_fp4", "fp8", "mxfp8"]
FACTS = ModelFacts(
    architecture="MiniMaxM2ForCausalLM",
    geometry=Geometry(3072, 1536, 256, 8),
    dtype="bfloat16",
    quantization=None,
    vocabulary_size=200064,
    max_positions=8192,
)


@functools.cache
def parser() -> argparse.ArgumentParser:
    from sglang.srt.server_args import ServerArgs

    made = argparse.ArgumentParser(exit_on_error=False)
    ServerArgs.add_cli_args(made)
    return made


def parse(argv: tuple[str, ...]) -> Any:
    """Server arguments as ``python -m sglang.launch_server`` makes them of its command line."""
    from sglang.srt.server_args import ServerArgs

    given = parser().parse_args(argv[argv.index("sglang.launch_server") + 1 :])
    given._radix_eviction_policy_explicitly_set = False
    return ServerArgs.from_cli_args(given)


def make_config(
    candidates: list[str],
    *,
    sizes: dict[str, int] | None = None,
    a2a: str = "none",
    mode: str | None = None,
    quantization: str = "none",
    nodes: int = 1,
    engine: str = "",
) -> SweepConfig:
    parallel = {**(sizes or {"tp": 1}), "nodes": nodes}
    lines = [f"{name} = {size}" for name, size in parallel.items()]
    lines += [f'a2a_backend = "{a2a}"'] + ([f'a2a_mode = "{mode}"'] if mode else [])
    text = f"""
name = "commands"
candidates = {candidates!r}
reference = "{candidates[0]}"
[model]
repository = "owner/name"
quantization = "{quantization}"
[load]
concurrency = [1, 64]
[engine]
name = "sglang"
launch_prefix = ["srun"]
{engine}
[parallel]
"""
    return parse_config(text + "\n".join(lines), where="commands.toml")


def site_of(config: SweepConfig, model: Path | str = "owner/name") -> LaunchSite:
    work = Path("/run/work")
    return LaunchSite(
        model=str(model),
        checkpoint=model,
        scratch=work / "scratch",
        compiled=work / "compiled",
        tuned=work / "tuned",
        port=30000,
        coordinator="node-0:20000" if config.parallel.nodes > 1 else None,
        device="cuda",
        max_concurrency=max(config.load.concurrency),
        max_tokens=2048,
    )


def check(config: SweepConfig, candidate: Candidate) -> None:
    """What SGLang reads from a candidate's command is what the config asks."""
    site = site_of(config)
    command = ENGINE.command(candidate, config=config, site=site)
    given, asked = parse(command.argv), config.parallel
    dp = asked.attention_dp if asked.attention_dp > 1 else asked.dp
    expected = {
        "model_path": site.model,
        "served_model_name": command.model,
        "host": "127.0.0.1",
        "port": site.port,
        "device": "cuda",
        "tp_size": asked.tp,
        "ep_size": asked.ep,
        "dp_size": dp,
        "enable_dp_attention": asked.attention_dp > 1,
        "moe_runner_backend": candidate.backend,
        "moe_a2a_backend": None if asked.a2a_backend == "none" else asked.a2a_backend,
        "max_running_requests": site.max_concurrency * asked.attention_dp,
        "cuda_graph_max_bs_decode": site.max_concurrency,
        "nnodes": asked.nodes,
        "dist_init_addr": site.coordinator,
        # SGLang finds the other two out itself, and takes no such choice.
        "quantization": None
        if config.model.quantization in ("none", "minimax_m3_nvfp4")
        else config.model.quantization,
        "dtype": config.engine.dtype,
    }
    row = CATALOG.a2a.get(asked.a2a_backend)
    if row is not None and row.mode_argument is not None:
        field = row.mode_argument.removeprefix("--").replace("-", "_")
        expected[field] = asked.a2a_mode or row.default_mode
    overridden = {word.removeprefix("--").replace("-", "_") for word in _own(config, candidate)}
    found = {name: getattr(given, name) for name in expected}
    found["moe_a2a_backend"] = None if found["moe_a2a_backend"] == "none" else asked.a2a_backend
    for name in overridden & set(expected):
        del found[name], expected[name]
    assert found == expected


def _own(config: SweepConfig, candidate: Candidate) -> list[str]:
    words = [*config.engine.arguments, *candidate.arguments]
    return [word.partition("=")[0] for word in words if word.startswith("--")]


def sweeps() -> Iterator[Any]:
    """Every candidate of every checked-in config of this engine."""
    for path in sorted(SWEEPS.glob("*.toml")):
        config = read_config(path)
        for candidate in config.candidate_list() if config.engine.name == "sglang" else ():
            yield pytest.param(config, candidate, id=f"{path.stem}-{candidate.name}")


@pytest.mark.parametrize(("config", "candidate"), list(sweeps()))
def test_every_command_of_the_checked_in_configs_is_taken(
    config: SweepConfig, candidate: Candidate
) -> None:
    check(config, candidate)


@pytest.mark.parametrize(("a2a", "mode"), MODES)
def test_the_grid_of_launches_is_taken(a2a: str, mode: str | None) -> None:
    for sizes, quantization, nodes in itertools.product(SIZES, QUANTIZATIONS, (1, 2)):
        config = make_config(
            ["auto"], sizes=sizes, a2a=a2a, mode=mode, quantization=quantization, nodes=nodes
        )
        check(config, config.candidate_list()[0])


@pytest.mark.parametrize("backend", ENGINE.backends())
def test_every_backend_is_taken(backend: str) -> None:
    config = make_config([backend])
    check(config, config.candidate_list()[0])


def quantizations() -> set[str]:
    """Every quantization that the catalog speaks of."""
    lists = (
        names
        for rules in (
            CATALOG.rules,
            *(row.rules for row in CATALOG.runners.values()),
            *(row.rules for row in CATALOG.a2a.values()),
        )
        for rule in rules
        for names in (
            rule.when_quantizations,
            rule.quantizations,
            rule.open_quantizations,
            rule.not_quantizations,
        )
    )
    return {name for names in lists for name in names} | set(CATALOG.direct_quantizations)


@pytest.mark.parametrize("quantization", sorted(quantizations()))
def test_every_quantization_of_the_catalog_can_be_asked_for(quantization: str) -> None:
    config = make_config(["auto"], quantization=quantization)
    check(config, config.candidate_list()[0])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "half", "float32"])
def test_dtypes_are_taken(dtype: str) -> None:
    config = make_config(["auto"], engine=f'dtype = "{dtype}"')
    check(config, config.candidate_list()[0])


def test_the_number_that_a_node_is_given_is_taken() -> None:
    """As `node_rank` puts it behind the command."""
    config = make_config(["auto"], sizes={"tp": 8}, nodes=2)
    command = ENGINE.command(config.candidate_list()[0], config=config, site=site_of(config))
    assert parse((*command.argv, "--node-rank", "1")).node_rank == 1


def test_attention_groups_resolve_to_themselves(checkpoint: Path) -> None:
    config = make_config(["triton"], sizes={"tp": 8, "attention_dp": 4}, engine='arch = "sm100"')
    server_args = resolve(config, config.candidate_list()[0], checkpoint)
    assert resolved(server_args, "attn_dp_size") == 4
    assert resolved(server_args, "dp_size") == 1
    # What each group may run at once, by SGLang's own division.
    assert resolved(server_args, "max_running_requests") // 4 == 64


def test_a_reserved_flag_cannot_be_spelled_otherwise() -> None:
    """Each spelling of what follows from the config is reserved, and nothing else is."""
    fields = {flag: action.dest for action in parser()._actions for flag in action.option_strings}
    reserved = set(engine_module._RESERVED)
    assert reserved <= set(fields), "flags that SGLang doesn't have"
    ours = {fields[flag] for flag in reserved}
    assert {flag for flag, field in fields.items() if field in ours} == reserved
    refused = {flag for flag in fields if any(engine_module._reserved([flag]))}
    assert refused == reserved


def test_every_flag_that_we_set_is_reserved_or_may_be_overridden() -> None:
    """What a config could silently contradict are sizes of the batch alone."""
    config = make_config(
        ["auto"],
        sizes={"tp": 8, "ep": 8, "attention_dp": 8},
        a2a="deepep",
        mode="normal",
        quantization="fp8",
        nodes=2,
        engine='dtype = "bfloat16"',
    )
    command = ENGINE.command(config.candidate_list()[0], config=config, site=site_of(config))
    after = command.argv[command.argv.index("sglang.launch_server") :]
    flags = {word for word in after if word.startswith("--")}
    assert flags - set(engine_module._RESERVED) == {
        "--cuda-graph-max-bs-decode",
    }


# -- resolved on a faked GPU


def resolve(config: SweepConfig, candidate: Candidate, checkpoint: Path) -> Any:
    """Have SGLang resolve a candidate's command, as its start does."""
    command = ENGINE.command(candidate, config=config, site=site_of(config, checkpoint))
    with kept_environment(), on(str(config.engine.arch)):
        server_args = parse(command.argv)
        server_args.resolve_once()
    return server_args


def minimax_sweeps() -> Iterator[Any]:
    for path in sorted(SWEEPS.glob("*.toml")):
        config = read_config(path)
        fits = config.engine.name == "sglang" and config.engine.arch in PLATFORMS
        if fits and config.model.architecture == FACTS.architecture:
            for candidate in config.candidate_list():
                yield pytest.param(config, candidate, id=f"{path.stem}-{candidate.name}")


NOT_LAUNCHED = {
    ("flashinfer_cutedsl", "megamoe"),
    ("flashinfer_trtllm_routed", "deepep"),
}


def check_resolved(config: SweepConfig, candidate: Candidate, checkpoint: Path) -> None:
    target = Target(device="cuda", arch=str(config.engine.arch), model=FACTS)
    support = ENGINE.supports(candidate, config=config, target=target)
    if not support.ok:
        assert (candidate.backend, config.parallel.a2a_backend) in NOT_LAUNCHED
        return
    server_args = resolve(config, candidate, checkpoint)
    runs = resolved(server_args, "moe_runner_backend")
    if candidate.backend == "auto":
        assert runs in ENGINE.backends()
    else:
        assert runs == candidate.backend
    # What the engine would read from /server_info, which says these same values.
    information = {
        "moe_runner_backend": runs,
        "moe_a2a_backend": resolved(server_args, "moe_a2a_backend"),
    }
    assert engine_module._backend_in(information) == runs
    assert resolved(server_args, "ep_size") == config.parallel.ep
    assert resolved(server_args, "tp_size") == config.parallel.tp
    a2a = resolved(server_args, "moe_a2a_backend") or "none"
    assert a2a == config.parallel.a2a_backend


@pytest.mark.parametrize(("config", "candidate"), list(minimax_sweeps()))
def test_a_candidate_of_the_minimax_config_stays_itself(
    config: SweepConfig, candidate: Candidate, checkpoint: Path
) -> None:
    check_resolved(config, candidate, checkpoint)


@pytest.mark.parametrize(
    "backend",
    [
        "flashinfer_cutlass",
        "flashinfer_trtllm",
        "flashinfer_trtllm_routed",
        "flashinfer_cutedsl",
        "marlin",
        "auto",
    ],
)
@pytest.mark.parametrize("sizes", [{"tp": 4}, {"tp": 4, "ep": 4}])
def test_the_origins_candidates_stay_themselves(
    backend: str, sizes: dict[str, int], checkpoint: Path
) -> None:
    config = make_config(
        [backend], sizes=sizes, quantization="modelopt_fp4", engine='arch = "sm100"'
    )
    check_resolved(config, config.candidate_list()[0], checkpoint)


@pytest.mark.parametrize("a2a", ["flashinfer", "deepep", "megamoe"])
@pytest.mark.parametrize("backend", ["flashinfer_cutedsl", "flashinfer_trtllm_routed", "auto"])
def test_with_an_all_to_all_backend_too(backend: str, a2a: str, checkpoint: Path) -> None:
    sizes = {"tp": 4, "ep": 4, "attention_dp": 4}
    config = make_config(
        [backend], sizes=sizes, a2a=a2a, quantization="modelopt_fp4", engine='arch = "sm100"'
    )
    check_resolved(config, config.candidate_list()[0], checkpoint)


def test_megamoe_as_a_candidate_is_told_by_its_alias(checkpoint: Path) -> None:
    config = make_config(
        ["megamoe"], sizes={"tp": 4, "ep": 4}, quantization="fp8", engine='arch = "sm100"'
    )
    server_args = resolve(config, config.candidate_list()[0], checkpoint)
    information = {
        name: resolved(server_args, name) for name in ("moe_runner_backend", "moe_a2a_backend")
    }
    assert engine_module._backend_in(information) == "megamoe"


@pytest.mark.parametrize("arch", ["sm90", "sm100", "sm120"])
def test_auto_on_other_archs_resolves(arch: str, checkpoint: Path) -> None:
    for quantization in ("none", "fp8"):
        config = make_config(["auto"], quantization=quantization, engine=f'arch = "{arch}"')
        server_args = resolve(config, config.candidate_list()[0], checkpoint)
        assert resolved(server_args, "moe_runner_backend") in ENGINE.backends()


def test_a_smaller_checkpoint_changes_nothing(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "qwen", "qwen3-moe")
    config = make_config(["triton"], sizes={"tp": 4}, engine='arch = "sm100"')
    candidate = msgspec.structs.replace(config.candidate_list()[0], name="anything")
    assert resolved(resolve(config, candidate, folder), "moe_runner_backend") == "triton"
