"""What a report compares: throughput, its ratio, times, and speed for one user, by which figure."""

from dataclasses import dataclass
from typing import Literal

import pandas as pd


@dataclass(frozen=True)
class Quantity:
    """A measured quantity; ``columns`` are its figures in the tables, the preferred first."""

    stem: str
    name: str
    columns: tuple[str, ...]
    better: str
    kind: Literal["rate", "ratio", "time", "tradeoff"]

    def shown(self, summary: pd.DataFrame) -> str | None:
        """Return the column to plot, ``None`` where the run has no figure of this quantity.

        One column serves all candidates: the first that every candidate with any figure has, so
        that a median is never drawn beside a mean.
        """
        present = summary[summary[list(self.columns)].notna().any(axis="columns")]
        for column in self.columns:
            if len(present) and bool(present[column].notna().all()):
                return column
        # Nothing is common to all: take the figure that most rows have.
        counts = [int(summary[column].notna().sum()) for column in self.columns]
        best = max(counts)
        return self.columns[counts.index(best)] if best else None


THROUGHPUT = Quantity(
    stem="throughput",
    name="Throughput",
    columns=("output_tokens_per_s",),
    better="higher is better",
    kind="rate",
)
RATIO = Quantity(
    stem="ratio",
    name="Throughput ratio",
    columns=("ratio_to_baseline",),
    better="higher is better",
    kind="ratio",
)
TTFT = Quantity(
    stem="ttft",
    name="Time to first token",
    columns=("ttft_s_p50", "ttft_s_mean", "ttft_s_p99"),
    better="lower is better",
    kind="time",
)
LATENCY = Quantity(
    stem="latency",
    name="Request latency",
    columns=("latency_s_p50", "latency_s_mean", "latency_s_p99"),
    better="lower is better",
    kind="time",
)
# Drawn from figures that are worked out of others (`autotune.report.tradeoff`).
TRADEOFF = Quantity(
    stem="per_gpu",
    name="Throughput per GPU against speed per user",
    columns=("output_tokens_per_s",),
    better="up and to the right is better",
    kind="tradeoff",
)
QUANTITIES = (THROUGHPUT, RATIO, TTFT, LATENCY, TRADEOFF)

STATISTIC_NAMES = {"p50": "median", "mean": "mean", "p99": "p99"}


def statistic(column: str) -> str:
    """Return how a column's figure is called: ``median`` for ``ttft_s_p50``, else empty."""
    return STATISTIC_NAMES.get(column.rpartition("_")[2], "")
