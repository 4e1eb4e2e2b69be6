"""Throughput per GPU against the speed for one user, and which points nobody beats. Pure.

Both follow from the figures of ``points.csv`` and ``summary.csv``; ``docs/metrics.md`` defines
them. They are no columns of these tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from autotune.records.schema import RunRecord

SpeedFrom = Literal["tpot_s_p50", "tpot_s_mean", "output_tokens_per_s"]
_TIMES: tuple[SpeedFrom, ...] = ("tpot_s_p50", "tpot_s_mean")


@dataclass(frozen=True)
class Tradeoff:
    """The figures of one run.

    ``rounds`` has a row for each valid point, ``means`` one for each candidate and concurrency:
    ``candidate``, ``concurrency``, ``per_gpu`` (output tokens/s) and ``per_user`` (tokens/s/user).
    ``means`` also has ``rounds`` (n) and ``front``: no admissible point has as much of
    both and more of one.
    ``gpus`` is what throughput was divided by; ``None``: it is the whole server's.
    """

    rounds: pd.DataFrame
    means: pd.DataFrame
    speed_from: SpeedFrom
    gpus: int | None


def gpus_of(run: RunRecord) -> int | None:
    """Return how many GPUs the server used, ``None`` on a CPU or where nobody recorded it."""
    return None if run.key.arch.startswith("cpu") else run.scope.device_count


def speed_from(tables: Sequence[pd.DataFrame]) -> SpeedFrom:
    """Return the figure to work the speed for one user out of: one that every valid point has.

    Args:
        tables: the points of each run that is shown.
    """
    valid = [_valid(points) for points in tables]
    for column in _TIMES:
        if all(bool((points[column] > 0).fillna(False).all()) for points in valid):
            return column
    return "output_tokens_per_s"


def tradeoff_of(
    points: pd.DataFrame, summary: pd.DataFrame, *, gpus: int | None, column: SpeedFrom
) -> Tradeoff:
    """Work out both figures of a run's points and of their means.

    A mean over rounds is of the same kind as in ``summary.csv``: throughput's is geometric, that of
    times arithmetic, before it's turned into a speed.
    """
    valid = _valid(points)
    rounds = valid[["candidate", "round", "concurrency"]].assign(
        per_gpu=valid["output_tokens_per_s"] / (gpus or 1), per_user=_speed(valid, column)
    )
    place = ["candidate", "concurrency"]
    means = summary[summary["output_tokens_per_s"].notna()]
    means = means[[*place, "rounds", "output_tokens_per_s", "admissible"]]
    if column in _TIMES:
        times = valid.groupby(place, as_index=False)[[column]].mean()
        means = means.merge(times, on=place, how="left", validate="one_to_one")
    means = means.assign(
        per_gpu=means["output_tokens_per_s"] / (gpus or 1), per_user=_speed(means, column)
    )
    means = means.assign(front=_front(means))
    columns = [*place, "rounds", "per_gpu", "per_user", "front"]
    return Tradeoff(rounds=rounds, means=means[columns], speed_from=column, gpus=gpus)


def _valid(points: pd.DataFrame) -> pd.DataFrame:
    return points[(points["status"] == "ok") & points["output_tokens_per_s"].notna()]


def _speed(table: pd.DataFrame, column: SpeedFrom) -> pd.Series:
    if column in _TIMES:
        return 1.0 / table[column]
    return table["output_tokens_per_s"] / table["concurrency"]


def _front(means: pd.DataFrame) -> list[bool]:
    """Whether each row may win, and no other that may has as much of both and more of one."""
    admissible = [bool(value) for value in means["admissible"].fillna(False)]
    both = list(zip(means["per_gpu"], means["per_user"], strict=True))
    eligible = [pair for pair, may in zip(both, admissible, strict=True) if may]
    return [
        may and not any(o != own and o[0] >= own[0] and o[1] >= own[1] for o in eligible)
        for own, may in zip(both, admissible, strict=True)
    ]
