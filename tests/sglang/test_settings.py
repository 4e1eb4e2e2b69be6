"""The settings in a decision's scope, against SGLang's own arguments and command line.

A sweep reads them from the command line that it starts a server with, the plugin from the
arguments that the server parsed: for the same command line they have to be the same.
"""

import argparse
import functools
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autotune.engines.sglang.settings import _SETTINGS, settings_in, settings_of

# None means that --lora-paths decides; settings_of looks at both.
OTHER_DEFAULTS = {"enable_lora": None}
VALUES: dict[str, tuple[str, ...]] = {
    "disaggregation_mode": ("null", "prefill", "decode"),
    "dwdp_size": ("1", "2"),
    "ep_num_redundant_experts": ("0", "8"),
    "flashinfer_mxfp4_moe_precision": ("default", "bf16", "fp8"),
    "elastic_ep_backend": ("mooncake", "nixl"),
    "init_expert_location": ("trivial", "/placement.json"),
    "attn_cp_size": ("1", "2"),
    "lora_backend": ("csgmv", "triton_v2"),
    "model_impl": ("auto", "transformers"),
    "rl_on_policy_target": ("fsdp",),
    "deepep_config": ("/config.json",),
    "deepep_dispatcher_output_dtype": ("auto", "bf16"),
    "ep_dispatch_algorithm": ("static", "dynamic"),
    "kt_num_gpu_experts": ("4", "8"),
    "shared_experts_tp_size": ("1", "2"),
    "uno_lora_path": ("/adapter",),
    "kt_weight_path": ("/weights", "a=b"),
    "moe_dp_size": ("1", "4"),
    "nnodes": ("1", "2"),
    "pp_size": ("1", "2"),
    "speculative_algorithm": ("EAGLE", "NGRAM"),
}
OTHER_ARGUMENTS = (
    ["--tp-size", "4"],
    ["--quantization=fp8"],
    ["--trust-remote-code"],
    ["--mem-fraction-static", "0.8"],
    ["--moe-runner-backend", "triton"],
    ["--served-model-name", "enable-lora"],
    ["--enable-mixed-chunk"],
    ["--enable-lora-overlap-loading"],
)


@functools.cache
def parser() -> argparse.ArgumentParser:
    from sglang.srt.server_args import ServerArgs

    made = argparse.ArgumentParser()
    ServerArgs.add_cli_args(made)
    return made


def parsed(arguments: list[str]) -> Any:
    from sglang.srt.server_args import ServerArgs

    given = parser().parse_args(["--model-path", "/nowhere", *arguments])
    return ServerArgs.from_cli_args(given)


def flags_of(name: str) -> list[str]:
    """The flags of SGLang that set a field."""
    return [
        flag
        for action in parser()._actions
        if action.dest == name
        for flag in action.option_strings
    ]


def spellings(name: str) -> st.SearchStrategy[list[str]]:
    flags = st.sampled_from(flags_of(name))
    if _SETTINGS[name] is False:
        return flags.map(lambda flag: [flag])
    values = st.sampled_from(VALUES[name])
    return st.builds(lambda flag, value: [flag, value], flags, values) | st.builds(
        lambda flag, value: [f"{flag}={value}"], flags, values
    )


def adapters() -> st.SearchStrategy[list[str]]:
    paths = st.lists(st.sampled_from(["one=/a", "/b", "two=/c"]), min_size=1, max_size=3)
    return paths.map(lambda given: ["--lora-paths", *given])


SETTINGS = st.one_of(*(spellings(name) for name in _SETTINGS), adapters())


def test_each_has_values_to_try() -> None:
    assert set(VALUES) == {name for name, default in _SETTINGS.items() if default is not False}


@pytest.mark.parametrize("name", _SETTINGS)
def test_each_is_a_field_with_that_default(name: str) -> None:
    from sglang.srt.server_args import ServerArgs

    (field,) = [field for field in msgspec.structs.fields(ServerArgs) if field.name == name]
    assert field.default == OTHER_DEFAULTS.get(name, _SETTINGS[name])
    assert type(field.default) is type(OTHER_DEFAULTS.get(name, _SETTINGS[name]))


@pytest.mark.parametrize("name", _SETTINGS)
def test_each_has_the_flag_of_its_name(name: str) -> None:
    assert f"--{name.replace('_', '-')}" in flags_of(name)
    (action,) = [action for action in parser()._actions if action.dest == name]
    assert (action.nargs == 0) is (_SETTINGS[name] is False)


def test_without_any() -> None:
    assert settings_of(parsed([])) == settings_in([]) == {}


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SETTINGS | st.sampled_from(OTHER_ARGUMENTS), max_size=6))
@example([["--lora-paths", "one=/a"]])
@example([["--pp-size", "2"], ["--pipeline-parallel-size", "1"]])
def test_both_readings_agree(pieces: list[list[str]]) -> None:
    arguments = [argument for piece in pieces for argument in piece]
    assert settings_in(arguments) == settings_of(parsed(arguments))


def test_no_adapters_is_no_lora() -> None:
    assert settings_in(["--lora-paths"]) == settings_of(parsed(["--lora-paths"]))


def test_no_other_flag_is_taken_for_one() -> None:
    ours = {flag for name in _SETTINGS for flag in flags_of(name)} | {"--lora-paths"}
    ours.add("--ep")  # Read as ep_num_redundant_experts, but a sweep takes it from parallel.ep.
    others = [flag for action in parser()._actions for flag in action.option_strings]
    wrong = {flag: settings_in([flag, "3"]) for flag in others if flag not in ours}
    assert {flag: found for flag, found in wrong.items() if found} == {}


def beginnings() -> list[str]:
    """Every shorter spelling that SGLang's parser takes for one of our flags, and only for it."""
    everything = [flag for action in parser()._actions for flag in action.option_strings]
    found = []
    for flag in {flag for name in (*_SETTINGS, "lora_paths") for flag in flags_of(name)}:
        for end in range(len("--") + 1, len(flag)):
            begun = [other for other in everything if other.startswith(flag[:end])]
            if begun == [flag]:
                found.append(flag[:end])
    return sorted(found)


def check_beginnings(flags: list[str]) -> None:
    wrong = []
    for short in flags:
        flag = next(
            flag
            for action in parser()._actions
            for flag in action.option_strings
            if flag.startswith(short)
        )
        name = next(action.dest for action in parser()._actions if flag in action.option_strings)
        values = VALUES.get(name, ("one=/a",) if name == "lora_paths" else ())[-1:]
        arguments = [short, *values]
        if settings_in(arguments) != settings_of(parsed(arguments)):
            wrong.append((arguments, settings_in(arguments), settings_of(parsed(arguments))))
    assert not wrong


def test_a_flags_beginning_counts_as_the_flag() -> None:
    names = {f"--{name.replace('_', '-')}" for name in _SETTINGS}
    check_beginnings([short for short in beginnings() if any(n.startswith(short) for n in names)])


def test_an_aliass_beginning_counts_as_the_flag() -> None:
    names = {f"--{name.replace('_', '-')}" for name in _SETTINGS}
    rest = [short for short in beginnings() if not any(n.startswith(short) for n in names)]
    assert rest
    check_beginnings(rest)


@pytest.mark.parametrize("text", ["02", "+2", " 2"])
def test_a_number_in_another_spelling(text: str) -> None:
    assert settings_in(["--pp-size", text]) == settings_of(parsed(["--pp-size", text]))
