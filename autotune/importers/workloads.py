"""Whether readings asked the same of their servers, as far as lengths of requests tell.

Files rarely say their whole workload. Mean lengths don't prove that two are equal, but they
show where they are not, and then no ratio of their throughputs means anything.
"""

from collections.abc import Sequence

from autotune.errors import InputError
from autotune.importers.reading import Reading
from autotune.load.judge import LENGTH_TOLERANCE

# Between concurrencies, samples of one data set differ by chance, and by much less than this.
MOST_APART = 1.5


def check_lengths(readings: Sequence[tuple[Reading, int]]) -> None:
    """Compare the mean lengths of readings, each with its concurrency.

    Raises:
        InputError: at one concurrency the input lengths differ by more than 3%, or anywhere
            input or output lengths by more than half; both places are named.
    """
    for what, name in (("input", "input_tokens_mean"), ("output", "output_tokens_mean")):
        known = [
            (length, reading.where, concurrency)
            for reading, concurrency in readings
            if (length := getattr(reading.figures, name)) is not None
        ]
        if not known:
            continue
        _check(min(known), max(known), what=what, limit=MOST_APART)
        if what == "output":
            continue  # How long an answer gets is up to the server, too.
        for concurrency in dict.fromkeys(concurrency for _, _, concurrency in known):
            there = [each for each in known if each[2] == concurrency]
            _check(min(there), max(there), what=what, limit=1 + LENGTH_TOLERANCE)


def _check(
    low: tuple[float, str, int], high: tuple[float, str, int], *, what: str, limit: float
) -> None:
    if high[0] > limit * low[0]:
        raise InputError(
            f"{high[1]}: {high[0]:.1f} {what} tokens a request, but {low[0]:.1f} in {low[1]}: "
            "different workloads can't be compared; import them apart"
        )
