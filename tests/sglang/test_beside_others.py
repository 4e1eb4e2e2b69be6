"""The plugin beside other plugins that use the same seams of SGLang."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .decisions import put_decision
from .launches import Outcome, attempt, plugged_in, without_plugins
from .real import resolved, sources

OURS = "AutotunePlugin.measured_moe_backend"
OWN, MEASURED = "flashinfer_trtllm_routed", "flashinfer_cutlass"
DEEPEP: dict[str, Any] = {"ep": 4, "a2a_backend": "deepep", "a2a_mode": "auto"}
Provider = Callable[[Any, Any], dict[str, Any]]
Hook = Callable[[Any, Callable[[Any], None]], None]


def fp4(checkpoint: Path, **arguments: Any) -> Outcome:
    return attempt("sm100", checkpoint, quantization="modelopt_fp4", **arguments)


@contextmanager
def beside(
    decisions: Path,
    *,
    provider: Provider | None = None,
    hook: Hook | None = None,
    first: bool,
    **variables: str,
) -> Iterator[list[str]]:
    """Our plugin and another, which registered before ours (``first``) or after it."""
    from sglang.srt.arg_groups import model_override_base, resolution_hooks

    with plugged_in(decisions, **variables) as lines:
        predicates: list[Any] = model_override_base._PREDICATE_OVERRIDE_FNS
        hooks = resolution_hooks._HOOKS["handle_a2a_moe"]
        if provider is not None:
            predicates.insert(len(predicates) - first, (lambda architecture: True, provider))
        if hook is not None:
            hooks.insert(len(hooks) - first, hook)
        yield lines


def both(test: Any) -> Any:
    return pytest.mark.parametrize("first", [True, False], ids=["before ours", "after ours"])(test)


@both
def test_another_value(first: bool, checkpoint: Path, tmp_path: Path) -> None:
    """Each declares its own field, and each sees the arguments as SGLang hands them on."""
    seen = []

    def theirs(server_args: Any, hf_config: Any) -> dict[str, Any]:
        from sglang.srt.arg_groups.overrides import resolving_view

        seen.append(resolving_view(server_args).moe_runner_backend)
        assert hf_config.architectures == ["MiniMaxM2ForCausalLM"]
        return {"page_size": 128}

    put_decision(tmp_path, backend=MEASURED)
    with beside(tmp_path, provider=theirs, first=first) as lines:
        ours = fp4(checkpoint)
    assert ours.backend == MEASURED
    assert resolved(ours.server_args, "page_size") == 128
    assert sources(ours.server_args, "page_size")[0].endswith("theirs")
    # We ask all rules what they say of our backend; what they answer then isn't declared.
    assert seen[0] == "auto" and set(seen) == {"auto", MEASURED}
    (line,) = lines
    assert f"in place of {OWN}" in line


def test_a_backend_that_another_declared_before(checkpoint: Path, tmp_path: Path) -> None:
    def theirs(server_args: Any, hf_config: Any) -> dict[str, Any]:
        return {"moe_runner_backend": "flashinfer_cutedsl"}

    put_decision(tmp_path, backend=MEASURED)
    with beside(tmp_path, provider=theirs, first=True) as lines:
        assert fp4(checkpoint).backend == MEASURED
    (line,) = lines
    assert "in place of flashinfer_cutedsl" in line and "theirs)" in line


@pytest.mark.parametrize("strict", [False, True])
def test_a_backend_that_another_declares_after(
    strict: bool, checkpoint: Path, tmp_path: Path
) -> None:
    """SGLang lets the last one win, and the log says that it wasn't ours."""

    def theirs(server_args: Any, hf_config: Any) -> dict[str, Any]:
        return {"moe_runner_backend": "flashinfer_cutedsl"}

    put_decision(tmp_path, backend=MEASURED, device_count=4)
    strictness = {"AUTOTUNE_STRICT": "1"} if strict else {}
    with beside(tmp_path, provider=theirs, first=False, **strictness) as lines:
        ours = fp4(checkpoint)
    told = f"{MEASURED} was applied, and a later step of SGLang made it flashinfer_cutedsl"
    assert len(lines) == 2 and told in lines[1]
    if strict:
        assert ours.error is not None and told in ours.error
    else:
        assert ours.backend == "flashinfer_cutedsl"


@both
@pytest.mark.parametrize("strict", [False, True])
def test_a_provider_that_raises(
    first: bool, strict: bool, checkpoint: Path, tmp_path: Path
) -> None:
    def theirs(server_args: Any, hf_config: Any) -> dict[str, Any]:
        raise ValueError("their own trouble")

    put_decision(tmp_path, backend=MEASURED, device_count=4)
    with beside(tmp_path, provider=theirs, first=first, AUTOTUNE_STRICT=str(int(strict))) as lines:
        ours = fp4(checkpoint)
    # SGLang stops for it without us, too.
    assert ours.error is not None and "their own trouble" in ours.error
    if first:
        assert not lines and ours.error == "ValueError: their own trouble"
    else:
        (line,) = lines
        assert line.startswith("autotune: invalid: ValueError: their own trouble;")


@both
def test_a_provider_that_returns_no_dictionary(
    first: bool, checkpoint: Path, tmp_path: Path
) -> None:
    put_decision(tmp_path, backend=MEASURED)
    with beside(tmp_path, provider=lambda args, config: None, first=first):  # type: ignore
        ours = fp4(checkpoint)
    assert ours.error is not None and "must return a dict" in ours.error


@both
@pytest.mark.parametrize("for_deepep", [True, False])
def test_another_sets_the_all_to_all_backend(
    first: bool, for_deepep: bool, checkpoint: Path, tmp_path: Path
) -> None:
    """The decision is compared with the launch that comes of all declarations together."""

    def theirs(server_args: Any, hf_config: Any) -> dict[str, Any]:
        return {"moe_a2a_backend": "deepep"}

    put_decision(tmp_path, backend="flashinfer_cutedsl", **(DEEPEP if for_deepep else {}))
    with beside(tmp_path, provider=theirs, first=first) as lines:
        ours = fp4(checkpoint)
    assert resolved(ours.server_args, "moe_a2a_backend") == "deepep"
    assert resolved(ours.server_args, "ep_size") == 4
    if for_deepep:
        assert ours.backend == "flashinfer_cutedsl"
        (line,) = lines
        assert line.startswith("autotune: applied (")
    else:
        assert ours.backend == OWN
        outside, warning = lines
        assert "a2a_backend is deepep, measured with none" in outside
        assert warning.startswith(f"autotune: warning: SGLang's own choice {OWN}")


def test_the_models_own_rule_sets_the_all_to_all_backend(checkpoint: Path, tmp_path: Path) -> None:
    from sglang.srt.arg_groups import model_override_base

    def theirs(server_args: Any, hf_config: Any) -> dict[str, Any]:
        return {"moe_a2a_backend": "deepep"}

    rules = model_override_base._MODEL_OVERRIDE_FNS["MiniMaxM2ForCausalLM"]
    put_decision(tmp_path, backend="flashinfer_cutedsl", **DEEPEP)
    rules.append(theirs)
    try:
        with plugged_in(tmp_path):
            assert fp4(checkpoint).backend == "flashinfer_cutedsl"
    finally:
        rules.remove(theirs)


@both
def test_another_sets_the_quantization(first: bool, checkpoint: Path, tmp_path: Path) -> None:
    def theirs(server_args: Any, hf_config: Any) -> dict[str, Any]:
        return {"quantization": "modelopt_fp4"}

    put_decision(tmp_path, backend=MEASURED)
    with beside(tmp_path, provider=theirs, first=first):
        assert attempt("sm100", checkpoint).backend == MEASURED


@both
def test_another_wraps_the_same_step(first: bool, checkpoint: Path, tmp_path: Path) -> None:
    calls = []

    def theirs(server_args: Any, previous: Callable[[Any], None]) -> None:
        calls.append("before")
        previous(server_args)
        calls.append(resolved(server_args, "moe_runner_backend"))

    put_decision(tmp_path, backend=MEASURED)
    with beside(tmp_path, hook=theirs, first=first) as lines:
        assert fp4(checkpoint).backend == MEASURED
    assert calls == ["before", MEASURED]
    assert len(lines) == 1


@pytest.mark.parametrize("decided", [True, False])
def test_another_replaces_the_same_step(decided: bool, checkpoint: Path, tmp_path: Path) -> None:
    """A hook that doesn't call the step, with ours around it."""
    if decided:
        put_decision(tmp_path, backend=MEASURED)
    with beside(tmp_path, hook=lambda args, previous: None, first=True) as lines:
        assert fp4(checkpoint).backend == (MEASURED if decided else OWN)
    assert len(lines) == 1


def test_another_changes_the_backend_in_that_step(checkpoint: Path, tmp_path: Path) -> None:
    def theirs(server_args: Any, previous: Callable[[Any], None]) -> None:
        from sglang.srt.arg_groups.overrides import declare_resolution

        previous(server_args)
        declare_resolution(server_args, "theirs", moe_runner_backend="flashinfer_cutedsl")

    put_decision(tmp_path, backend=MEASURED)
    with beside(tmp_path, hook=theirs, first=True) as lines:
        assert fp4(checkpoint).backend == "flashinfer_cutedsl"
    assert "a later step of SGLang made it flashinfer_cutedsl" in lines[1]


@both
def test_another_asks_the_rules_as_we_do(first: bool, checkpoint: Path, tmp_path: Path) -> None:
    """Two plugins that ask all rules don't ask one another without end."""
    asking = []

    def theirs(server_args: Any, hf_config: Any) -> dict[str, Any]:
        from sglang.srt.arg_groups.overrides import collect_model_override_declarations

        if asking:
            return {}
        asking.append(True)
        declared = collect_model_override_declarations(
            "MiniMaxM2ForCausalLM", server_args, hf_config
        )
        asking.clear()
        return {"enable_tf32_matmul": len(declared) > 1}

    put_decision(tmp_path, backend=MEASURED)
    with beside(tmp_path, provider=theirs, first=first) as lines:
        assert fp4(checkpoint).backend == MEASURED
    assert set(lines) == {lines[0]} and lines[0].startswith("autotune: applied (")


def test_another_asks_the_rules_and_the_line_is_logged_once(
    checkpoint: Path, tmp_path: Path
) -> None:
    asking = []

    def theirs(server_args: Any, hf_config: Any) -> dict[str, Any]:
        from sglang.srt.arg_groups.overrides import collect_model_override_declarations

        if not asking:
            asking.append(True)
            collect_model_override_declarations("MiniMaxM2ForCausalLM", server_args, hf_config)
            asking.clear()
        return {}

    put_decision(tmp_path, backend=MEASURED)
    with beside(tmp_path, provider=theirs, first=True) as lines:
        assert fp4(checkpoint).backend == MEASURED
    assert len(lines) == 1


def test_the_rules_logger_keeps_its_level(checkpoint: Path, tmp_path: Path) -> None:
    import logging

    rules = logging.getLogger("sglang.srt.arg_groups")
    level = rules.level
    with plugged_in(tmp_path):
        fp4(checkpoint)
    assert rules.level == level


def test_two_servers_in_one_process(checkpoint: Path, tmp_path: Path) -> None:
    """One line each, the same answer, and nothing of the first left over in the second."""
    put_decision(tmp_path, backend=MEASURED)
    with plugged_in(tmp_path) as lines:
        assert [fp4(checkpoint).backend for _ in range(2)] == [MEASURED, MEASURED]
        with without_plugins():
            alone = attempt("sm100", checkpoint, quantization="fp8")
        other = attempt("sm100", checkpoint, quantization="fp8")
    assert other.declared == alone.declared
    assert [line.split(" (")[0] for line in lines] == [
        "autotune: applied",
        "autotune: applied",
        "autotune: no_decision",
    ]
