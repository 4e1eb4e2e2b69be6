"""Every published table at hand is imported with what it lacks, or refused with one message."""

from typing import Any

import pytest

from autotune.errors import InputError
from autotune.importers import import_tidy
from tests.importers.builders import CREATED_AT, DATA, ORIGIN, options

# Table -> the options that it lacks, points, rows used, candidates, concurrencies, rounds.
IMPORTED: dict[str, tuple[dict[str, Any], int, int, tuple[str, ...], tuple[int, ...], int]] = {
    "sglang_32229_minimax_m27_nvfp4_gb200": (
        {},
        12,
        12,
        ("flashinfer_cutlass", "flashinfer_trtllm_routed", "flashinfer_cutedsl"),
        (1, 16, 64, 128),
        1,
    ),
    "sglang_28355_qwen35_397b_fp8_h100": (
        {},
        8,
        8,
        ("triton", "flashinfer_cutlass"),
        (16, 32, 64, 128),
        1,
    ),
    "sglang_31470_megamoe_c32_c128_c1024": (
        {"arch": "sm100"},
        4,
        4,
        ("flashinfer_trtllm_routed", "flashinfer_megamoe"),
        (32, 1024),
        1,
    ),
    "sglang_39210_megamoe_split_repeats": (
        {"arch": "sm100", "concurrency": 256},
        6,
        18,
        ("megamoe", "split_a2a_flashinfer", "split_a2a_none"),
        (256,),
        2,
    ),
    "sglang_20394_minimax_m25_fp8_gb200": (
        {"concurrency": 64, "rename": {"triton(default)": "triton"}},
        2,
        2,
        ("flashinfer_trtllm_routed", "triton"),
        (64,),
        1,
    ),
    "vllm_44220_qwen3_30b_bf16_h200": (
        {"concurrency": 512},
        2,
        6,
        ("triton", "flashinfer_cutlass"),
        (512,),
        1,
    ),
}

# Table -> options, and what the message says.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "sglang_20394_minimax_m25_fp8_gb200": ({}, "line 5: .*--rename 'triton.default.=triton'"),
    "sglang_31470_megamoe_c32_c128_c1024": ({}, "doesn't say arch: give --arch"),
    "sglang_39210_megamoe_split_repeats": ({"arch": "sm100"}, "line 2: no concurrency"),
    "vllm_44220_qwen3_30b_bf16_h200": ({}, "line 2: no concurrency"),
    "sglang_38884_mxfp4_sm90_marlin_cutlass": ({}, "a phase or a sweep of its own"),
    "sglang_39691_qwen3_30b_fp8_gb200_prefill": ({}, "the time of a whole batch"),
    "sglang_39691_qwen3_30b_fp8_gb200_ttft": ({}, "one request of a batch"),
    "sglang_39797_glm53flash_fp8_gb200_accuracy": ({}, "accuracy, not speed"),
    "sglang_24478_h20_triton_config_old_new": ({}, "a ratio, not a measurement"),
    "vllm_42209_deepseekv4_dep1_ttft": ({}, "doesn't say which statistic"),
    "vllm_54742_qwen3_30b_bf16_h100nvl": ({}, "says neither tokens nor requests"),
    "flashinfer_5301_b300_moe_kernel_A": ({}, "a kernel on its own"),
}


def test_each_table_has_an_expected_result() -> None:
    assert {path.stem for path in DATA.glob("*.csv")} == IMPORTED.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", IMPORTED)
def test_imports_with_what_the_table_lacks(name: str) -> None:
    given, points, used, candidates, concurrencies, rounds = IMPORTED[name]
    imported = import_tidy(DATA / f"{name}.csv", options(**given), created_at=CREATED_AT)
    run = imported.run.run
    assert (len(imported.run.points), imported.used_rows) == (points, used)
    assert tuple(candidate.name for candidate in run.candidates) == candidates
    assert run.concurrencies == concurrencies
    assert {point.round for point in imported.run.points} == set(range(1, rounds + 1))
    assert run.source is not None and run.source.startswith("https://github.com/")
    assert not imported.run.launches and not imported.run.probes


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_with_one_message(name: str) -> None:
    given, message = REFUSED[name]
    with pytest.raises(InputError, match=message) as caught:
        import_tidy(DATA / f"{name}.csv", options(**given), created_at=CREATED_AT)
    text = str(caught.value)
    assert f"{name}.csv" in text and text.isprintable()


def test_origin_becomes_what_it_says_and_no_more() -> None:
    imported = import_tidy(ORIGIN, options(), created_at=CREATED_AT)
    run = imported.run.run
    assert str(run.key) == "(MiniMaxM2ForCausalLM, modelopt_fp4, sm100)"
    assert (run.kind, run.name, run.created_at) == ("import", ORIGIN.stem, CREATED_AT)
    assert (run.scope.engine, run.scope.device_name, run.scope.device_count) == (
        "sglang",
        "GB200",
        4,
    )
    assert run.scope.tp is None and run.scope.ep is None and run.workload.input_tokens is None
    assert imported.skipped == ()
    figures = {(point.candidate, point.concurrency): point.figures for point in imported.run.points}
    best = figures["flashinfer_trtllm_routed", 128]
    assert best is not None and best.output_tokens_per_s == 9716.7
    assert best.ttft_s.mean is None and best.requests_per_s is None
    assert {warning.code for point in imported.run.points for warning in point.warnings} == {
        "unit_inferred"
    }


def test_repeats_become_rounds_and_milliseconds_seconds() -> None:
    name = "sglang_39210_megamoe_split_repeats"
    given = IMPORTED[name][0]
    imported = import_tidy(DATA / f"{name}.csv", options(**given), created_at=CREATED_AT)
    second = next(
        point for point in imported.run.points if point.candidate == "megamoe" and point.round == 2
    )
    assert second.figures is not None
    assert second.figures.output_tokens_per_s == 9626.88
    assert second.figures.ttft_s.mean == pytest.approx(4.64533)
    assert second.figures.latency_s.mean == pytest.approx(20.31447)
