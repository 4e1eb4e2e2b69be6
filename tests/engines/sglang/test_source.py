from pathlib import Path

import pytest

from autotune.errors import EngineError
from tests.sglang.source import read_source

CHOICES = """
EXTRA = ["late"]
MOE_RUNNER_BACKEND_CHOICES = ["auto", "triton"]
MOE_RUNNER_BACKEND_CHOICES.append("added")
MOE_RUNNER_BACKEND_CHOICES.extend(EXTRA)
MOE_RUNNER_BACKEND_CHOICES += ["last"]
_A2A_EP_SPANNING_BACKENDS = frozenset({"deepep", "deepep"})
"""
REGISTRATIONS = """
@register_fused_func("none", "one")
@register_fused_func(a2a_backend_name="flashinfer", runner_backend_name="one")
def fused(): ...

register_pre_permute("deepep_ll", "one")(fused)
base.register_post_permute("one", "deepep_ll")(fused)
FusedOpPool.register_fused_func(a2a_name, runner_name, fused)
"""
HOOK = r"""
def handle_moe_kernel_config(args):
    if view.moe_runner_backend in ["one", "two"]:
        assert view.quantization in ["fp8", None] or checkpoint.is_special
        assert view.ep_size in [1, cfg.tp_size]
    if view.moe_runner_backend == "three" and view.quantization in ["fp8"]:
        assert view.ep_size == 1

def _moe_runner_fusion_disable(view):
    runner = view.moe_runner_backend
    if runner in ("one", "two"):
        return {"disable_shared_experts_fusion": True}
    if runner == "three":
        return {}
"""


def package(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / "srt" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_reads_choices_that_are_added_later(tmp_path: Path) -> None:
    facts = read_source(package(tmp_path, choices=CHOICES))
    assert facts.runners == ("auto", "triton", "added", "late", "last")
    assert facts.spanning == {"deepep"}


def test_reads_registrations_in_every_form(tmp_path: Path) -> None:
    facts = read_source(package(tmp_path, registrations=REGISTRATIONS))
    assert facts.fused == {("none", "one"), ("flashinfer", "one")}
    assert facts.pre_permutes == {("deepep_ll", "one")}
    assert facts.post_permutes == {("one", "deepep_ll")}


def test_reads_lists_asserted_per_runner(tmp_path: Path) -> None:
    facts = read_source(package(tmp_path, hook=HOOK))
    assert facts.quantizations == {"one": {"fp8", "none"}, "two": {"fp8", "none"}}
    assert facts.without_shared_fusion == {"one", "two"}


def test_what_a_release_lacks_is_said_to_be_unknown(tmp_path: Path) -> None:
    facts = read_source(package(tmp_path, empty="", computed="MOE_RUNNER_BACKEND_CHOICES = f()"))
    assert facts.version is None
    assert facts.runners is None
    assert facts.a2a is None
    assert facts.spanning is None
    assert facts.without_shared_fusion is None
    assert not facts.fused
    assert not facts.quantizations


def test_a_folder_without_sglang_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="it has no srt folder"):
        read_source(tmp_path)


def test_a_file_that_cant_be_parsed_is_named(tmp_path: Path) -> None:
    folder = package(tmp_path, broken="MOE_RUNNER_BACKEND_CHOICES = [\n")
    with pytest.raises(EngineError, match=r"broken\.py: can't be parsed"):
        read_source(folder)


def test_a_file_that_isnt_text_is_named(tmp_path: Path) -> None:
    folder = package(tmp_path, binary="")
    (folder / "srt" / "binary.py").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(EngineError, match=r"binary\.py: can't be read"):
        read_source(folder)
