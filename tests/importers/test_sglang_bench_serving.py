"""What SGLang's own lines say, against records: each figure, each fact, and what isn't taken."""

from pathlib import Path
from typing import Any

import pytest

from autotune.errors import InputError
from autotune.importers.sglang_bench_serving import looks_like
from autotune.records.schema import PointFigures
from tests.importers.tool_files import (
    SGLANG,
    changed,
    import_tool,
    lines_of,
    only_point,
    setting,
)

INFO = SGLANG / "with_server_info.jsonl"
PLAIN = SGLANG / "tagged.jsonl"


@pytest.mark.parametrize("path", sorted(SGLANG.glob("*.jsonl")), ids=lambda path: path.stem)
def test_each_file_is_told_by_its_content(path: Path) -> None:
    assert looks_like(path)


def test_each_figure_is_the_files_own_in_si_units() -> None:
    said = lines_of(SGLANG / "enough.jsonl")[0]
    point = only_point(import_tool(SGLANG / "enough.jsonl", backend="triton"))
    figures = point.figures
    assert figures is not None
    assert (point.candidate, point.round, point.concurrency, point.status) == (
        "triton",
        1,
        16,
        "ok",
    )
    assert (point.requests_ok, point.requests_sent) == (304, None)
    assert figures.output_tokens_per_s == said["output_throughput"]
    assert figures.whole_run_output_tokens_per_s == said["output_throughput"]
    assert figures.total_tokens_per_s == said["total_throughput"]
    assert figures.requests_per_s == said["request_throughput"]
    assert figures.window_s == said["duration"]
    assert figures.achieved_concurrency == said["concurrency"] / 16
    assert (figures.input_tokens_mean, figures.output_tokens_mean) == (32, 8)
    assert (figures.peak_streaming, figures.cached_tokens_mean) == (None, None)
    parts = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
    names = {"ttft_s": "ttft", "latency_s": "e2e_latency", "tpot_s": "tpot", "itl_s": "itl"}
    for ours, theirs in names.items():
        for part, prefix in parts.items():
            value = getattr(getattr(figures, ours), part)
            assert value == pytest.approx(said[f"{prefix}_{theirs}_ms"] / 1000)
    assert [getattr(figures, name).n for name in names] == [304, 304, None, None]
    assert {warning.code for warning in point.warnings} <= {"concurrency_low"}


def test_the_servers_own_word_is_the_scope_and_the_backend() -> None:
    imported = import_tool(INFO, engine=None, quantization=None)
    run = imported.run.run
    said = lines_of(INFO)[0]["server_info"]
    assert [each.backend for each in run.candidates] == [
        "flashinfer_trtllm_routed",
        "flashinfer_cutlass",
    ]
    assert (run.key.quantization, run.scope.engine) == ("modelopt_fp4", "sglang")
    assert run.scope.engine_version == said["version"]
    assert (run.scope.tp, run.scope.ep, run.scope.dp, run.scope.attention_dp) == (4, 1, 1, 1)
    assert run.scope.a2a_backend == "none"
    assert (run.workload.input_tokens, run.workload.output_tokens) == (32, 8)
    assert run.concurrencies == (4, 16)
    assert (imported.rows, imported.used_rows, len(imported.run.points)) == (4, 4, 4)


def test_settings_that_change_the_layers_are_in_the_scope_as_asked_for(tmp_path: Path) -> None:
    """SGLang itself turns some on for a model; a launch is compared by what was asked for."""
    info = lines_of(INFO)[0]["server_info"]
    assert info["disable_shared_experts_fusion"] is True
    assert import_tool(INFO).run.run.scope.engine_settings == {}

    def speculative(line: dict[str, Any]) -> None:
        line["server_info"]["launch_command"] += " --speculative-algorithm EAGLE --enable-eplb"

    with pytest.raises(InputError, match=r"line 2: engine_settings is '{}' here"):
        import_tool(changed(INFO, tmp_path, speculative))
    scope = import_tool(_single(tmp_path, speculative)).run.run.scope
    assert scope.engine_settings == {"speculative_algorithm": "EAGLE", "enable_eplb": "true"}


def test_releases_without_a_command_tell_what_became_of_it(tmp_path: Path) -> None:
    def older(line: dict[str, Any]) -> None:
        del line["server_info"]["launch_command"]
        line["server_info"]["pp_size"] = 2

    scope = import_tool(_single(tmp_path, older)).run.run.scope
    assert scope.engine_settings == {"disable_shared_experts_fusion": "true", "pp_size": "2"}


def test_groups_of_attention_are_no_replicas(tmp_path: Path) -> None:
    def older(line: dict[str, Any]) -> None:
        del line["server_info"]["attn_dp_size"]
        line["server_info"] |= {"dp_size": 4, "enable_dp_attention": True}

    single = _single(tmp_path, older)
    scope = import_tool(single).run.run.scope
    assert (scope.dp, scope.attention_dp) == (1, 4)


def test_auto_is_no_backend(tmp_path: Path) -> None:
    def auto(line: dict[str, Any]) -> None:
        line["server_info"]["moe_runner_backend"] = "auto"

    single = _single(tmp_path, auto)
    with pytest.raises(InputError, match="doesn't say which backend was measured"):
        import_tool(single)
    imported = import_tool(single, backend="triton")
    assert only_point(imported).candidate == "triton"
    assert any("moe_runner_backend auto: doesn't say" in each for each in imported.skipped)


@pytest.mark.parametrize(
    "said",
    [
        {"api_key": "hunter2"},
        {"ssl_keyfile_password": "hunter2"},
        {"launch_command": "launch_server --model-path x --api-key hunter2"},
        {"launch_command": ["launch_server", "--admin-api-key=hunter2"]},
    ],
)
def test_a_file_with_a_secret_is_refused_without_telling_it(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    single = _single(tmp_path, lambda line: line["server_info"].update(said))
    with pytest.raises(InputError, match=r"line 1: 'server_info\..*holds a secret") as caught:
        import_tool(single)
    assert "hunter2" not in str(caught.value)


def test_a_tag_is_the_label_unless_the_server_says_more(tmp_path: Path) -> None:
    assert only_point(import_tool(PLAIN)).candidate == "triton"
    single = _single(tmp_path, setting(tag="mine"))
    imported = import_tool(single)
    assert only_point(imported).candidate == "flashinfer_trtllm_routed"
    assert any("tag mine" in each for each in imported.skipped)


def test_a_range_of_lengths_is_no_length() -> None:
    imported = import_tool(SGLANG / "ranges.jsonl", backend="triton")
    workload = imported.run.run.workload
    assert (workload.input_tokens, workload.output_tokens) == (None, None)
    figures = only_point(imported).figures
    assert figures is not None and figures.input_tokens_mean is not None
    assert 16 <= figures.input_tokens_mean < 32


def test_a_rate_of_requests_is_no_concurrency(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 1: it sends 40 requests/s: an open loop"):
        import_tool(SGLANG / "rate.jsonl", backend="triton")
    mixed = tmp_path / "mixed.jsonl"
    parts = [SGLANG / "rate.jsonl", SGLANG / "repeated.jsonl"]
    mixed.write_text("".join(path.read_text().splitlines(keepends=True)[0] for path in parts))
    imported = import_tool(mixed, backend="triton")
    assert (imported.rows, imported.used_rows) == (2, 1)
    assert any("line 1: it sends 40" in each for each in imported.skipped)


def test_a_replayed_trace_is_no_concurrency(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="replays a trace"):
        import_tool(changed(PLAIN, tmp_path, setting(request_rate="trace")))


def test_all_at_once_needs_a_concurrency() -> None:
    path = SGLANG / "at_once.jsonl"
    with pytest.raises(InputError, match=r"line 1: doesn't say how many .*--concurrency"):
        import_tool(path, backend="triton")
    point = only_point(import_tool(path, backend="triton", concurrency=16))
    assert point.concurrency == 16
    assert [warning.code for warning in point.warnings] == [
        "concurrency_given",
        "concurrency_low",  # All were sent at once, and fewer and fewer were left.
    ]


def test_answers_that_came_whole_have_no_first_token() -> None:
    imported = import_tool(SGLANG / "not_streamed.jsonl", backend="triton")
    figures = only_point(imported).figures
    assert figures is not None and figures.latency_s.mean is not None
    assert figures.ttft_s == figures.tpot_s == figures.itl_s == PointFigures().ttft_s
    assert any("answers weren't streamed" in each for each in imported.skipped)


def test_failed_requests_are_counted_where_the_file_lists_them() -> None:
    point = only_point(import_tool(SGLANG / "failures.jsonl", backend="triton"))
    assert (point.requests_sent, point.requests_ok) == (20, 16)
    assert (point.status, point.reason) == ("request_errors", "4 of 20 requests failed")


def test_nothing_answered_is_a_point_without_figures(tmp_path: Path) -> None:
    nothing = setting(completed=0, mean_e2e_latency_ms=float("nan"), output_throughput=0.0)
    point = only_point(import_tool(changed(PLAIN, tmp_path, nothing)))
    assert (point.status, point.requests_ok, point.figures) == ("request_errors", 0, None)


def test_percentiles_need_as_many_requests_as_a_sweeps() -> None:
    imported = import_tool(SGLANG / "details.jsonl", backend="triton")
    figures = only_point(imported).figures
    assert figures is not None
    assert figures.latency_s.p50 is not None and figures.latency_s.p90 is None
    # 24 answers of 8 tokens have more than 59 gaps, and fewer than 299.
    assert figures.itl_s.p95 is not None and figures.itl_s.p99 is None
    assert any("p90 of ttft_s, latency_s, tpot_s" in each for each in imported.skipped)


def test_what_the_server_had_cached_is_told(tmp_path: Path) -> None:
    report = {"total_prompt_tokens": 1024, "total_cached_tokens": 512}
    point = only_point(import_tool(changed(PLAIN, tmp_path, setting(cache_report=report))))
    assert point.figures is not None and point.figures.cached_tokens_mean == 16
    assert "prefix_cache_hit" in {warning.code for warning in point.warnings}


def test_a_benchmark_of_turns_counts_no_input(tmp_path: Path) -> None:
    said = lines_of(PLAIN)[0]
    turns = setting(total_input_tokens=0, total_throughput=said["output_throughput"])
    imported = import_tool(changed(PLAIN, tmp_path, turns))
    figures = only_point(imported).figures
    assert figures is not None
    assert (figures.total_tokens_per_s, figures.input_tokens_mean) == (None, None)
    assert any("no input tokens were counted" in each for each in imported.skipped)


def _single(folder: Path, change: Any) -> Path:
    """The first line of the file with servers' words, changed."""
    path = changed(INFO, folder, change)
    path.write_text(path.read_text().splitlines()[0] + "\n")
    return path
