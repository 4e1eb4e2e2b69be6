"""The table of a layer sweep, a row a (backend, tokens): ``kernels.csv``.

Everything in it follows from ``kernel_run.json`` and the points' files.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from autotune.kernels.ranking import latency, rank
from autotune.kernels.roofline import bound_by, shortest_s
from autotune.kernels.schema import KernelPoint, KernelRun, Numerics, Ranked
from autotune.report.columns import make_table

COLUMNS = {
    "backend": "string",
    "tokens": "Int64",
    "status": "string",
    "reason": "string",
    "stands_for": "string",
    "routes": "boolean",
    "emulated": "boolean",
    "graph": "boolean",
    "latency_s": "float64",
    "latency_s_low": "float64",
    "latency_s_high": "float64",
    "rounds": "Int64",
    "calls": "Int64",
    "ratio_to_fastest": "float64",
    "ratio_low": "float64",
    "ratio_high": "float64",
    "first_call_s": "float64",
    "flops": "float64",
    "bytes": "float64",
    "experts_hit": "Int64",
    "busiest": "Int64",
    "flops_per_s": "float64",
    "bytes_per_s": "float64",
    "roofline_latency_s": "float64",
    "bound_by": "string",
    "share_of_roofline": "float64",
    "compared_tokens": "Int64",
    "dequantized_relative_rms": "float64",
    "dequantized_worst_token_rms": "float64",
    "dequantized_cosine": "float64",
    "dequantized_largest": "float64",
    "tolerance": "float64",
    "full_relative_rms": "float64",
    "full_worst_token_rms": "float64",
    "full_cosine": "float64",
    "full_largest": "float64",
    "full_tolerance": "float64",
}


def kernels_table(run: KernelRun, points: Sequence[KernelPoint]) -> pd.DataFrame:
    """Return a row for each point, by tokens and then in the config's order of backends."""
    place = {name: number for number, name in enumerate(run.config.backends)}
    ordered = sorted(points, key=lambda p: (p.tokens, place.get(p.backend, len(place)), p.backend))
    ranks = {
        (tokens, one.backend): one
        for tokens in {point.tokens for point in points}
        for one in rank([point for point in points if point.tokens == tokens])
    }
    rows = [_row(run, point, ranks.get((point.tokens, point.backend))) for point in ordered]
    return make_table(rows, COLUMNS)


def _row(run: KernelRun, point: KernelPoint, ranked: Ranked | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "backend": point.backend,
        "tokens": point.tokens,
        "status": point.status,
        "reason": point.reason or None,
        "stands_for": ", ".join(f"{one.engine}: {one.backend}" for one in point.stands_for),
        "routes": point.routes,
        "emulated": point.emulated,
        "graph": point.graph if point.blocks else None,
        "first_call_s": point.first_call_s,
        "calls": sum(len(block.times_s) for block in point.blocks) or None,
    }
    if ranked is not None:
        row |= {
            "ratio_to_fastest": ranked.ratio,
            "ratio_low": ranked.ratio_low,
            "ratio_high": ranked.ratio_high,
        }
    if point.numerics is not None:
        row |= _numerics(point.numerics)
    return row | _speed(run, point)


def _speed(run: KernelRun, point: KernelPoint) -> dict[str, Any]:
    measured, work = latency(point), point.work
    row: dict[str, Any] = {}
    if work is not None:
        row |= {
            "flops": work.flops,
            "bytes": work.bytes,
            "experts_hit": work.experts_hit,
            "busiest": work.busiest,
        }
        if run.roof is not None:
            row["roofline_latency_s"] = shortest_s(work, run.roof)
            row["bound_by"] = bound_by(work, run.roof)
    if measured is not None:
        row |= {
            "latency_s": measured.latency_s,
            "latency_s_low": measured.low_s,
            "latency_s_high": measured.high_s,
            "rounds": measured.n,
        }
    # What is emulated computes and moves something else than was counted.
    if measured is not None and work is not None and not point.emulated:
        row["flops_per_s"] = work.flops / measured.latency_s
        row["bytes_per_s"] = work.bytes / measured.latency_s
        if "roofline_latency_s" in row:
            row["share_of_roofline"] = row["roofline_latency_s"] / measured.latency_s
    return row


def _numerics(numerics: Numerics) -> dict[str, Any]:
    row: dict[str, Any] = {
        "compared_tokens": numerics.tokens,
        "tolerance": numerics.tolerance,
        "full_tolerance": numerics.full_tolerance,
    }
    for oracle, difference in (("dequantized", numerics.dequantized), ("full", numerics.full)):
        if difference is not None:
            row |= {
                f"{oracle}_relative_rms": difference.relative_rms,
                f"{oracle}_worst_token_rms": difference.worst_token_rms,
                f"{oracle}_cosine": difference.cosine,
                f"{oracle}_largest": difference.largest,
            }
    return row
