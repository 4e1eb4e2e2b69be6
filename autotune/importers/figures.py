"""Which published metric, in which unit, is which figure of a point record.

A metric is taken only where its name and unit leave one reading. All others are left out with
the reason, since a figure in the wrong field is worse than none. Figures of one point that can't
all be true are refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.errors import InputError
from autotune.importers.contradictions import check_ranks
from autotune.importers.csv_file import quoted
from autotune.records.schema import PointFigures


@dataclass(frozen=True, kw_only=True)
class _Units:
    """Spellings of units of one kind, each with its factor to the record's unit."""

    shown: str
    factors: Mapping[str, float]


_SECONDS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6}
_TIMES = _Units(shown="s, ms, us", factors=_SECONDS)
_TIMES_PER_TOKEN = _Units(
    shown="s, ms, us, ms/token",
    factors=_SECONDS
    | {f"{unit}/{per}": factor for unit, factor in _SECONDS.items() for per in ("tok", "token")},
)
_TOKEN_RATES = _Units(
    shown="tok/s, tokens/s",
    factors={f"{of}/{per}": 1.0 for of in ("tok", "token", "tokens") for per in ("s", "sec")},
)
_REQUEST_RATES = _Units(
    shown="req/s, requests/s",
    factors={f"{of}/{per}": 1.0 for of in ("req", "request", "requests") for per in ("s", "sec")},
)

_RATES = {
    "output_throughput": ("output_tokens_per_s", _TOKEN_RATES),
    "output_token_throughput": ("output_tokens_per_s", _TOKEN_RATES),
    "total_throughput": ("total_tokens_per_s", _TOKEN_RATES),
    "total_token_throughput": ("total_tokens_per_s", _TOKEN_RATES),
    "request_throughput": ("requests_per_s", _REQUEST_RATES),
}
_STATISTICS = {
    "mean": "mean",
    "median": "p50",
    **{name: name for name in ("p50", "p90", "p95", "p99")},
}
_DISTRIBUTIONS = {
    "ttft": ("ttft_s", _TIMES),
    "tpot": ("tpot_s", _TIMES_PER_TOKEN),
    "itl": ("itl_s", _TIMES_PER_TOKEN),
    "e2e": ("latency_s", _TIMES),
    "e2e_latency": ("latency_s", _TIMES),
}

# Tables round: less than this is no contradiction.
_ROUNDED = 1.05

_REPEAT = re.compile(r"(.+)_rep([0-9]{1,3})")
# What a copyist or an author added behind a unit, which isn't part of it.
_REMARK = re.compile(r"\s*\((inferred|higher better|lower better)\)$")

# Tried in order: the first that is found in the name says why the metric stays out.
_REASONS = (
    (r"_vs_|ratio|relative|speedup", "a ratio, not a measurement"),
    (r"last_request", "one request of a batch, not a statistic over requests"),
    (r"batch", "the time of a whole batch, not of a request"),
    (r"kernel", "a kernel on its own, not a server"),
    (r"acc|gsm8k|mmlu|score|exact_match", "accuracy, not speed"),
    (r"per_gpu", "says neither whether input tokens count nor over which time"),
    (r"per_user", "says neither how it was averaged nor over which time"),
    (r"^(prefill|decode|sweep)_", "a phase or a sweep of its own, not a whole request load"),
    (r"^achieved_concurrency$", "defined differently by each tool"),
    (r"duration", "depends on how many requests were sent, which isn't given"),
    (r"^throughput$", "says neither tokens nor requests, nor whether input tokens count"),
    (r"^(ttft|tpot|itl|e2e|e2e_latency)$", "doesn't say which statistic (mean, median, p99)"),
    (r"latency$", "doesn't say of what: mean_e2e is a request's latency"),
)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A metric that has a place in the record.

    ``field`` is the figure's field, ``part`` the statistic inside a distribution. ``repeat`` is
    the ``N`` of ``_repN``, ``None`` without one. A value times ``factor`` is in the record's
    unit. ``inferred`` says that the unit wasn't published but concluded by who copied the table.
    """

    field: str
    part: str | None
    repeat: int | None
    factor: float
    inferred: bool


def check_figures(where: str, figures: PointFigures) -> None:
    """Check a published point's figures against each other.

    Args:
        where: the point's place, for the message.
        figures: in the records' units.

    Raises:
        InputError: a percentile is below a smaller one, the first token comes after the whole
            answer, or output tokens are more than all tokens: swapped, or in another unit.
    """
    for name, distribution in (
        ("TTFT", figures.ttft_s),
        ("E2E", figures.latency_s),
        ("TPOT", figures.tpot_s),
        ("ITL", figures.itl_s),
    ):
        check_ranks(where, name, distribution)
    for part in ("mean", "p50", "p90", "p95", "p99"):
        first, last = getattr(figures.ttft_s, part), getattr(figures.latency_s, part)
        if first is not None and last is not None and first > last * _ROUNDED:
            raise InputError(
                f"{where}: {part}: TTFT is {first:g} s, above E2E, which is {last:g} s: one of "
                "them is in another unit, or they are swapped"
            )
    output, total = figures.output_tokens_per_s, figures.total_tokens_per_s
    if output is not None and total is not None and output > total * _ROUNDED:
        raise InputError(
            f"{where}: {output:g} output tokens/s are more than {total:g} tokens/s in total: one "
            "of them is in another unit, or they are swapped"
        )


def published_unit(unit: str) -> str:
    """Return a unit without remarks such as ``(inferred)``."""
    return _REMARK.sub("", unit)


def place_of(metric: str) -> tuple[str, str | None] | None:
    """Return the record's field and statistic that a metric's name alone leads to, if any."""
    place = _place(_split(metric)[0])
    return place[:2] if place is not None else None


def read_figure(metric: str, unit: str) -> Figure | str:
    """Return the record's figure for a published metric, or the reason why it has none."""
    name, repeat = _split(metric)
    place = _place(name)
    if place is None:
        return _why_not(name)
    field, part, units = place
    factor = units.factors.get(published_unit(unit))
    if factor is None:
        given = f"the unit {quoted(unit)} isn't" if unit else "it has no unit, which must be"
        return f"{given} one of {units.shown}"
    if repeat == 0:
        return "repetitions count from 1: write _rep1 for the first"
    return Figure(
        field=field, part=part, repeat=repeat, factor=factor, inferred="(inferred)" in unit
    )


def _split(metric: str) -> tuple[str, int | None]:
    match = _REPEAT.fullmatch(metric)
    return (match[1], int(match[2])) if match else (metric, None)


def _place(name: str) -> tuple[str, str | None, _Units] | None:
    if name in _RATES:
        field, units = _RATES[name]
        return field, None, units
    statistic, _, rest = name.partition("_")
    if statistic in _STATISTICS and rest in _DISTRIBUTIONS:
        field, units = _DISTRIBUTIONS[rest]
        return field, _STATISTICS[statistic], units
    return None


def _why_not(name: str) -> str:
    for pattern, reason in _REASONS:
        if re.search(pattern, name):
            return reason
    return "not a metric that has a place in the records"
