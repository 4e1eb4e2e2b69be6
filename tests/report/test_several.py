"""Which runs may stand side by side, what they are called, and in what they are said to differ."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from autotune.decisions.schema import DecisionKey, Geometry
from autotune.errors import AutotuneError, InputError
from autotune.records.schema import Candidate, Workload
from autotune.report.several import MOST_RUNS, check_alike, label_runs, unknown_workloads
from autotune.report.several_differences import (
    candidate_differences,
    environment_differences,
    renamed_candidates,
    scope_differences,
)
from autotune.report.text import plot_label
from tests.report.several_runs import shown

UNKNOWN = Workload()


@pytest.mark.parametrize(
    ("paths", "labels"),
    [
        (["/a/first", "/a/second"], ["first", "second"]),
        (["/a/run", "/b/run", "/a/other"], ["a/run", "b/run", "other"]),
        (["/x/a/run", "/y/a/run"], ["run 1: run", "run 2: run"]),
        (["/a/bad\x1b[31m\nname", "/b/fine"], ["bad name", "fine"]),
        (["/a/\x1b[31m", "/a/\x1b[32m"], ["run 1: unnamed", "run 2: unnamed"]),
    ],
)
def test_each_run_has_a_name_of_its_own(paths: list[str], labels: list[str]) -> None:
    assert label_runs([Path(path) for path in paths]) == labels


@pytest.mark.parametrize("names", [("run-\u00e9", "run-\u00e8"), ("x" * 90 + "1", "x" * 90 + "2")])
def test_names_that_a_plot_shows_alike_are_told_apart(names: tuple[str, str]) -> None:
    labels = label_runs([Path("/a") / name for name in names])
    assert len({plot_label(label) for label in labels}) == 2


def test_a_run_named_twice_is_refused_by_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    for other in ("run", "link", "run/../run"):
        with pytest.raises(InputError, match="named twice"):
            label_runs([tmp_path / "run", tmp_path / other])


def test_more_runs_than_a_report_shows_are_refused() -> None:
    paths = [Path(f"/a/{number}") for number in range(MOST_RUNS + 1)]
    assert len(label_runs(paths[:-1])) == MOST_RUNS
    with pytest.raises(InputError, match=f"at most {MOST_RUNS}"):
        label_runs(paths)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"workload": {"digest": "12" * 32}},
            ("workload digest differs: abababababab in a, 121212121212 in b",),
        ),
        (
            {"workload": {"digest": "12" * 32, "input_tokens": 1024}},
            ("workload digest differs", "workload input tokens differs: 128 in a, 1024 in b"),
        ),
        (
            {"workload": Workload(output_tokens=16)},
            ("workload output tokens differs: 128 in a, 16 in b",),
        ),
        (
            {"key": DecisionKey("Other", "modelopt_fp4", "sm90")},
            ("model differs: MiniMaxM2ForCausalLM in a, Other in b",),
        ),
        (
            {"key": DecisionKey("MiniMaxM2ForCausalLM", "fp8", "sm90")},
            ("quantization differs: modelopt_fp4 in a, fp8 in b",),
        ),
        (
            {"scope": {"geometry": Geometry(3072, 1536, 128, 8)}},
            ("geometry", "3072,1536,256,8 in a, 3072,1536,128,8 in b"),
        ),
    ],
)
def test_runs_that_say_nothing_of_each_other_are_refused(
    changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(AutotuneError) as refused:
        check_alike([shown("a"), shown("b", **changes)])
    assert refused.value.exit_code == 2
    for word in words:
        assert word in str(refused.value)


def test_the_third_run_is_held_against_the_others_too() -> None:
    runs = [shown("a", workload=UNKNOWN), shown("b"), shown("c", workload={"digest": "0" * 64})]
    with pytest.raises(InputError, match="not recorded in a, abababababab in b, 000000000000 in c"):
        check_alike(runs)


def test_digests_that_begin_alike_are_shown_whole() -> None:
    other = "ab" * 31 + "cd"
    with pytest.raises(InputError, match=f"{other} in b"):
        check_alike([shown("a"), shown("b", workload={"digest": other})])


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": UNKNOWN},
        {"workload": Workload(input_tokens=128)},
        # A digest holds the prompts themselves, wherever their file lies.
        {"workload": {"prompts": "elsewhere.jsonl"}},
        {"key": DecisionKey("MiniMaxM2ForCausalLM", "modelopt_fp4", "sm100")},
        {"scope": {"engine_version": "0.6.0", "device_name": "B200"}},
    ],
)
def test_other_nodes_releases_and_unknown_workloads_are_let_through(
    changes: dict[str, Any],
) -> None:
    check_alike([shown("a"), shown("b", **changes)])


def test_what_nobody_recorded_of_a_workload_is_said() -> None:
    runs = [
        shown("a"),
        shown("b", workload=Workload(input_tokens=128)),
        shown("c", workload=UNKNOWN),
    ]
    assert unknown_workloads(runs) == [
        "b: not recorded: workload digest (prompts and sampling), tokens out; "
        "recorded: 128 tokens in",
        "c: not recorded: workload digest (prompts and sampling), tokens in, tokens out",
    ]


def test_each_field_that_differs_has_every_runs_value() -> None:
    scope = {
        "engine_version": "0.6.0",
        "device_name": "B200",
        "kernel_libraries": {"torch": "2.9"},
        "kernel_environment": {"SGLANG_X": "1", "NCCL_ALGO": "ring"},
        "engine_settings": {"lora": "on"},
        "tp": 8,
    }
    rule = msgspec.structs.replace(shown("a").run.rule, delta=0.1)
    runs = [shown("a"), shown("b", scope=scope, rule=rule, incumbent="grouped_mm"), shown("c")]
    found = {one.field: (one.weight, *one.values) for one in scope_differences(runs)}
    none, off = "not recorded", "not set"
    assert found == {
        "device_name": ("hard", "NVIDIA H200", "B200", "NVIDIA H200"),
        "tp": ("hard", none, "8", none),
        "engine_settings.lora": ("hard", off, "on", off),
        "kernel_environment.SGLANG_X": ("hard", off, "1", off),
        "kernel_environment.NCCL_ALGO": ("soft", off, "ring", off),
        "engine_version": ("soft", "0.5.12", "0.6.0", "0.5.12"),
        "kernel_libraries.torch": ("soft", none, "2.9", none),
        "rule.delta": (None, "0.02", "0.1", "0.02"),
        "incumbent": (None, "eager", "grouped_mm", "eager"),
    }
    weights = [one.weight for one in scope_differences(runs)]
    assert weights == sorted(weights, key=["hard", "soft", None].index)
    assert scope_differences([shown("a"), shown("b")]) == []


def test_one_name_for_two_candidates_is_noticed() -> None:
    one = shown("a")
    others = [
        Candidate(name="eager", engine="sglang", backend="eager"),
        Candidate(name="batched_mm", engine="sglang", backend="triton", arguments=("--x", "a b")),
        Candidate(name="new", engine="sglang", backend="new", environment={"V": "1"}),
    ]
    runs = [one, shown("b", candidates=tuple(others), reference="eager", incumbent="eager")]
    assert {d.field: d.values for d in candidate_differences(runs)} == {
        "batched_mm": ("sglang batched_mm", "sglang triton --x 'a b'"),
        "grouped_mm": ("sglang grouped_mm", "not in it"),
        "new": ("not in it", "V=1 sglang new"),
    }
    assert renamed_candidates(runs) == ["batched_mm"]


def test_environments_differ_by_dotted_names_the_hard_ones_first() -> None:
    one = {"cores": 2, "gpus": [{"name": "H200", "driver_version": "1"}], "packages": {"a": "1"}}
    other = {
        "cores": 4,
        "gpus": [{"name": "B200", "driver_version": "2"}],
        "packages": {},
        "kernel_variables": {"SGLANG_X": "1"},
    }
    runs = [shown("a", environment=one), shown("b", environment=other)]
    assert [(d.field, d.values, d.weight) for d in environment_differences(runs)] == [
        ("gpus.0.name", ("H200", "B200"), "hard"),
        ("kernel_variables.SGLANG_X", ("not set", "1"), "hard"),
        ("cores", ("2", "4"), "soft"),
        ("gpus.0.driver_version", ("1", "2"), "soft"),
        ("packages.a", ("1", "not recorded"), "soft"),
    ]


def test_a_hostile_environment_is_cut_not_followed() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = {"in": deep}
    runs = [shown("a", environment={"x": 1}), shown("b", environment={"deep": deep})]
    assert len(environment_differences(runs)) == 2
