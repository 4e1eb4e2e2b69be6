"""The columns of a run's tables with their dtypes, as ``docs/formats.md`` describes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

DISTRIBUTIONS = ("ttft_s", "latency_s", "tpot_s", "itl_s")
STATISTICS = {"n": "Int64", **dict.fromkeys(("mean", "p50", "p90", "p95", "p99"), "float64")}
FIGURES = {
    "output_tokens_per_s": "float64",
    "total_tokens_per_s": "float64",
    "requests_per_s": "float64",
    "whole_run_output_tokens_per_s": "float64",
    "achieved_concurrency": "float64",
    "peak_streaming": "Int64",
    "window_s": "float64",
    "input_tokens_mean": "float64",
    "output_tokens_mean": "float64",
    "cached_tokens_mean": "float64",
}

POINTS_COLUMNS: Mapping[str, str] = {
    "candidate": "string",
    "backend": "string",
    "round": "Int64",
    "concurrency": "Int64",
    "status": "string",
    "reason": "string",
    "attempts": "Int64",
    "started_at": "string",
    "workload_digest": "string",
    "requests_sent": "Int64",
    "requests_ok": "Int64",
    **FIGURES,
    **{f"{name}_{part}": kind for name in DISTRIBUTIONS for part, kind in STATISTICS.items()},
    "warnings": "string",
    "requests_sha256": "string",
}
LAUNCHES_COLUMNS: Mapping[str, str] = {
    "candidate": "string",
    "backend": "string",
    "round": "Int64",
    "position": "Int64",
    "status": "string",
    "reason": "string",
    "ready_s": "float64",
    "kernel_tuning": "string",
    "resolved_backend": "string",
    "started_at": "string",
    "ended_at": "string",
}
AVERAGED = tuple(
    f"{name}_{part}" for name in ("ttft_s", "latency_s") for part in ("mean", "p50", "p99")
)
SUMMARY_COLUMNS: Mapping[str, str] = {
    "candidate": "string",
    "backend": "string",
    "concurrency": "Int64",
    "rounds": "Int64",
    "output_tokens_per_s": "float64",
    "output_tokens_per_s_min": "float64",
    "output_tokens_per_s_max": "float64",
    **dict.fromkeys(AVERAGED, "float64"),
    "ratio_to_baseline": "float64",
    "ratio_low": "float64",
    "ratio_high": "float64",
    "ratio_confidence": "float64",
    "ratio_rounds": "Int64",
    "verdict": "string",
    "admissible": "boolean",
    "reason": "string",
}
# The figures of each kind of finding, under the names that its judge gives them.
_FINDING_FIGURES = (
    *("failed", "asked", "answers", "garbled", "with_signs", "strays", "changed"),
    *("reference_answers", "reference_with_signs", "reference_strays"),
    *("reference_changed", "other_from_the_beginning"),
    *("rate", "rate_low", "rate_high", "reference_rate", "reference_tokens"),
    *("drop_mean", "drop_low", "drop_high", "drop_tail", "lost_share", "other_token_share"),
    *("reference_spread", "tokens", "prompts", "alpha"),
    *("items", "difference", "difference_low", "difference_high", "discordant_share"),
    *("accuracy", "accuracy_low", "accuracy_high"),
    *("reference_accuracy", "reference_accuracy_low", "reference_accuracy_high"),
    *("runs", "reference_runs", "run_sd", "reference_run_sd"),
    *("failed_share", "unfinished_share", "items_needed"),
)
CORRECTNESS_COLUMNS: Mapping[str, str] = {
    "candidate": "string",
    "kind": "string",
    "verdict": "string",
    "sentence": "string",
    "candidate_verdict": "string",
    "candidate_agreement": "float64",
    "candidate_answers": "Int64",
    **dict.fromkeys(_FINDING_FIGURES, "float64"),
}
TRIALS_COLUMNS: Mapping[str, str] = {
    "number": "Int64",
    "candidate": "string",
    "parent": "string",
    "backend": "string",
    "round": "Int64",
    "values": "string",
    "arguments": "string",
    "environment": "string",
    "anchor": "string",
    "ratio_to_anchor": "float64",
    "verdict": "string",
    "counts": "boolean",
    "finalist": "boolean",
    "reason": "string",
}


def make_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """Return ``rows`` in these columns and dtypes; what a row lacks isn't known."""
    data = {name: [_cell(row.get(name)) for row in rows] for name in columns}
    return pd.DataFrame(data, dtype=object).astype(dict(columns))


def _cell(value: Any) -> Any:
    # Reasons quote servers' logs: a control character must not reach a terminal or a CSV reader.
    if isinstance(value, str):
        return "".join(char if char.isprintable() else " " for char in value)
    return value
