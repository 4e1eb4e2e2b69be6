"""Figures of one result that can't all be true: an edited file, or one in another unit.

What tools compute from each other agrees to the last digits; a larger difference says that
something isn't what it's called, and then no figure of the file is to be believed.
"""

import itertools

from autotune.errors import InputError
from autotune.importers.csv_file import quoted
from autotune.records.schema import Distribution

_ROUNDING = 0.01
_RANKS = ("p50", "p90", "p95", "p99")


def check_rate(
    where: str,
    name: str,
    rate: float | None,
    *,
    count: float | None,
    seconds: float | None,
    edges: float = 0.0,
) -> None:
    """Hold a rate against what was counted in a time; ``None`` = not known, not checked.

    Args:
        where: the result's place, for the message.
        name: what the file calls the rate.
        rate: per second.
        count: what was counted.
        seconds: in how long a time.
        edges: of the count, how much may lie partly outside of that time.

    Raises:
        InputError: they differ by over 1% and ``edges``.
    """
    if rate is None or count is None or seconds is None:
        return
    if abs(rate * seconds - count) > _ROUNDING * count + edges:
        raise InputError(
            f"{where}: {name}: {rate:g} a second, but {count:g} in {seconds:g} s are "
            f"{count / seconds:g}: the file was edited, or is in another unit"
        )


def check_ranks(where: str, name: str, distribution: Distribution) -> None:
    """Check that no percentile is below a smaller one.

    Raises:
        InputError: one is.
    """
    known = [(part, value) for part in _RANKS if (value := getattr(distribution, part)) is not None]
    for (low, low_value), (high, high_value) in itertools.pairwise(known):
        if low_value > high_value:
            raise InputError(
                f"{where}: {name}: {high} is below {low}: the file was edited, or is in another "
                "unit"
            )


def check_order(where: str, first: Distribution, last: Distribution, *, names: str) -> None:
    """Check that first tokens come before the last ones, by mean and each percentile.

    Args:
        where: the result's place, for the message.
        first: times to the first token.
        last: times to the last one, of the same requests.
        names: what the file calls both, as text for the message.

    Raises:
        InputError: one comes after it.
    """
    for part in ("mean", *_RANKS):
        earlier, later = getattr(first, part), getattr(last, part)
        if earlier is not None and later is not None and earlier > later:
            raise InputError(
                f"{where}: {names}: the {quoted(part)} of the first is above that of the second: "
                "one of them is in another unit"
            )
