"""What one result file says, point by point, before anything is asked of the user.

Each format module makes a `Readings` of a file; `autotune.importers.assemble` makes a run's
records of them, whatever tool they come from. Nothing is judged or guessed here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autotune.errors import InputError
from autotune.importers.csv_file import quoted
from autotune.importers.schema import Repeats
from autotune.records.schema import MeasurementWarning, PointFigures

# What a file may say of all its points; these keys and no others.
FACTS = (
    "source",
    "engine",
    "engine_version",
    "model",
    "quant",
    "arch",
    "gpu",
    "tp",
    "ep",
    "dp",
    "attention_dp",
    "a2a",
    "engine_settings",
    "isl",
    "osl",
    "workload",
)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One point as a file tells it; nothing in it is guessed, ``None`` = the file doesn't say.

    Attributes:
        where: the place for messages: ``results.jsonl, line 3``, ``it.json: benchmarks[2]``.
        backend: the file's own label of the backend.
        concurrency: requests in flight, only if the file says exactly that.
        repeat: number of a repetition, from 1, if the file numbers them.
        figures: in the records' units.
        requests_sent: how many were sent, warm-up left out.
        requests_ok: of these, answered in full.
        started_at: when its measuring began, ISO 8601 in UTC.
        warnings: what a reader must know about the figures.
        in_progress: requests in progress on average, which the point has as a share of the
            concurrency (`PointFigures.achieved_concurrency`), whoever said that.
    """

    where: str
    backend: str | None
    concurrency: int | None
    repeat: int | None
    figures: PointFigures
    requests_sent: int | None = None
    requests_ok: int | None = None
    started_at: str | None = None
    warnings: tuple[MeasurementWarning, ...] = ()
    in_progress: float | None = None


@dataclass(frozen=True, kw_only=True)
class Readings:
    """All that one file (or folder) says.

    Attributes:
        format: the name of its format in `autotune.importers.formats`.
        where: the file's name for messages.
        readings: its points, in its order; never empty.
        facts: what it says of all of them, by `FACTS`, as printable text. ``engine`` is a word
            of ours (``sglang``, ``vllm``), ``model`` a hub name, ``gpu`` like ``4xGB200``,
            ``engine_settings`` a JSON object of texts (`Scope.engine_settings`); ``workload`` is
            everything else that must be equal for points to be compared.
        skipped: what isn't taken, one sentence each with the reason.
        files: SHA-256 of the bytes of each file that was read, by its name: the file's own, or
            for a folder the path below it.
        rows: how many points or rows the file holds, taken or not.
        repeats: what repeated points are, where the format fixes it: fresh server starts, or
            repetitions on one server.
    """

    format: str
    where: str
    readings: tuple[Reading, ...]
    facts: Mapping[str, str]
    skipped: tuple[str, ...]
    files: Mapping[str, str]
    rows: int
    repeats: Repeats | None = None


def shared_facts(told: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """Return the facts that several places of files agree on; what only some say counts for all.

    Args:
        told: the places for messages, each with what it says.

    Raises:
        InputError: two places say different things; both are named.
    """
    shared: dict[str, tuple[str, str]] = {}
    for where, facts in told:
        for key in FACTS:
            value = facts.get(key)
            if not value:
                continue
            there, first = shared.setdefault(key, (where, value))
            if value != first:
                raise InputError(
                    f"{where}: {key} is {quoted(value)} here but {quoted(first)} in {there}: "
                    f"a run is about one {key}; import them apart"
                )
    return {key: value for key, (_, value) in shared.items()}
