"""Readings of one file or several as the records of one run: names, rounds, points, facts.

What the files leave open is asked for by flag, and what they contradict each other in is refused
with both places. Reading them is the format modules' business, writing is `write`'s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.decisions.schema import check_name
from autotune.errors import InputError, UsageError
from autotune.importers.context import context_of
from autotune.importers.labels import backends_of
from autotune.importers.points import averaged, carried, point_of
from autotune.importers.reading import FACTS, Reading, Readings, shared_facts
from autotune.importers.schema import Imported, ImportOptions
from autotune.importers.sources import source_files
from autotune.importers.workloads import check_lengths
from autotune.records.folder import LoadedRun
from autotune.records.rule import VALUES_NEEDED, Rule
from autotune.records.schema import (
    Candidate,
    MeasurementWarning,
    PointFigures,
    PointRecord,
    RunRecord,
)

Sources = Sequence[tuple[Path, Readings]]


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A reading with the backend and concurrency that it is of, and the source it is in."""

    reading: Reading
    source: int
    backend: str
    concurrency: int


def assemble(sources: Sources, options: ImportOptions, *, created_at: str) -> Imported:
    """Make one run's records of what files say; nothing is written.

    Args:
        sources: each file or folder with its readings, in the order given.
        options: what the files don't say.
        created_at: the time of the import, ISO 8601 in UTC, for the run record.

    Raises:
        InputError: the files don't make one run: something isn't said, is said twice, or isn't
            comparable; the places and the flag that helps are named.
        UsageError: a flag contradicts the files, or names what isn't there.
    """
    placed, empty = _place(sources, options)
    context = context_of(
        shared_facts((each.where, each.facts) for _, each in sources),
        where=sources[0][1].where,
        error=lambda problem: InputError(f"{_wheres(sources)}: {problem}"),
        options=options,
    )
    placed, dropped = _carry(placed)
    check_lengths([(each.reading, each.concurrency) for each in placed])
    points = _points(placed, sources, options)
    backends = tuple(dict.fromkeys(each.backend for each in placed))
    run = RunRecord(
        kind="import",
        name=_run_name(sources, given=options.name),
        created_at=created_at,
        key=context.key,
        scope=context.scope,
        candidates=tuple(
            Candidate(name=backend, engine=context.scope.engine, backend=backend)
            for backend in backends
        ),
        concurrencies=tuple(sorted({each.concurrency for each in placed})),
        # What was measured is judged once, as it is.
        rule=Rule(min_rounds=3, max_rounds=3),
        workload=context.workload,
        reference=_role("reference", options.reference, backends=backends),
        incumbent=_role("incumbent", options.incumbent, backends=backends),
        source=context.source,
    )
    skipped = tuple(sentence for _, each in sources for sentence in each.skipped)
    return Imported(
        run=LoadedRun(run=run, launches=(), points=points, probes=()),
        skipped=(*skipped, *empty, *dropped, *context.notes),
        rows=sum(each.rows for _, each in sources),
        used_rows=len(placed),
        sources=source_files(sources),
        notes=_notes(sources, points),
    )


def _wheres(sources: Sources) -> str:
    return ", ".join(each.where for _, each in sources[:3]) + (", ..." if len(sources) > 3 else "")


def _place(sources: Sources, options: ImportOptions) -> tuple[list[_Placed], list[str]]:
    """Give each reading its backend and concurrency; those that hold nothing are told."""
    placed: list[_Placed] = []
    empty: list[str] = []
    every = [reading for _, each in sources for reading in each.readings]
    if options.concurrency is not None and all(r.concurrency is not None for r in every):
        raise InputError(
            f"{_wheres(sources)}: each point says its concurrency: leave --concurrency out"
        )
    _refuse_copies(every)
    names = backends_of(sources, options)
    for index, (_, source) in enumerate(sources):
        for reading, backend in zip(source.readings, names[index], strict=True):
            if reading.figures == PointFigures() and reading.requests_ok != 0:
                empty.append(f"{reading.where}: holds no figure that has a place in the records")
                continue
            reading, concurrency = _with_concurrency(reading, options.concurrency)
            placed.append(
                _Placed(reading=reading, source=index, backend=backend, concurrency=concurrency)
            )
    if not placed:
        raise InputError(f"{_wheres(sources)}: nothing to import: {'; '.join(empty[:4])}")
    return placed, empty


def _refuse_copies(readings: Sequence[Reading]) -> None:
    """A run that is there twice, such as in a file and its longer copy, would count twice."""
    seen: dict[tuple[float, float], Reading] = {}
    for reading in readings:
        duration, rate = reading.figures.window_s, reading.figures.output_tokens_per_s
        if duration is None or rate is None:
            continue  # Rounded figures of a table may well be equal.
        first = seen.setdefault((duration, rate), reading)
        if first is not reading and first.figures == reading.figures:
            raise InputError(
                f"{reading.where}: the same run as {first.where}, to the last digit: remove one"
            )


def _with_concurrency(reading: Reading, given: int | None) -> tuple[Reading, int]:
    if reading.concurrency is not None:
        return reading, reading.concurrency
    if given is None:
        raise InputError(
            f"{reading.where}: doesn't say how many requests were in flight, and neither a rate "
            "nor a number of prompts does: give --concurrency, which is for all points without "
            "one, if you know it"
        )
    warning = MeasurementWarning(
        code="concurrency_given",
        observed=f"the file says no number of requests in flight: {given} was given",
        threshold="said by the file",
        remedy="look it up in the command that made the file",
    )
    return replace(reading, warnings=(*reading.warnings, warning)), given


def _carry(placed: Sequence[_Placed]) -> tuple[list[_Placed], list[str]]:
    """Leave out percentiles that too few requests stand behind, telling which and where."""
    kept: list[_Placed] = []
    dropped: dict[tuple[str, str], list[str]] = {}
    for each in placed:
        reading, gone = carried(each.reading)
        kept.append(replace(each, reading=reading))
        for part, name in gone:
            dropped.setdefault((part, name), []).append(each.reading.where)
    # What is left out at the same places goes into one sentence.
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (part, name), wheres in dropped.items():
        together.setdefault((part, tuple(wheres)), []).append(name)
    return kept, [
        f"{part} of {', '.join(names)} in {wheres[0]}{_and_more(len(wheres) - 1)}: needs "
        f"{VALUES_NEEDED[part]} values"
        for (part, wheres), names in together.items()
    ]


def _and_more(count: int) -> str:
    return f" and {count} more" if count else ""


def _points(
    placed: Sequence[_Placed], sources: Sources, options: ImportOptions
) -> tuple[PointRecord, ...]:
    """Sort the readings into rounds and make their points, by round, backend, concurrency."""
    groups: dict[tuple[str, int], list[_Placed]] = {}
    for each in placed:
        groups.setdefault((each.backend, each.concurrency), []).append(each)
    repeated = False
    points: list[PointRecord] = []
    for (backend, concurrency), group in groups.items():
        samples = _by_server(group, sources)
        repeated = repeated or len(samples) > 1
        rounds = _rounds(samples, sources=sources, options=options)
        points += [
            point_of(reading, candidate=backend, round_number=number, concurrency=concurrency)
            for number, reading in rounds.items()
        ]
    if options.repeats is not None and not repeated:
        raise UsageError(
            f"--repeats {options.repeats}: no backend was measured twice at one concurrency "
            "beyond what the files themselves explain: leave it out"
        )
    return tuple(sorted(points, key=lambda each: (each.round, each.candidate, each.concurrency)))


def _by_server(group: Sequence[_Placed], sources: Sources) -> list[_Placed]:
    """Average what a format itself repeats on one server; the rest stays apart."""
    samples: list[_Placed] = []
    for index in dict.fromkeys(each.source for each in group):
        of_source = [each for each in group if each.source == index]
        if sources[index][1].repeats == "same-server":
            mean = averaged([each.reading for each in of_source])
            of_source = [replace(of_source[0], reading=mean)]
        samples += of_source
    return samples


def _rounds(
    samples: Sequence[_Placed], *, sources: Sources, options: ImportOptions
) -> Mapping[int, Reading]:
    readings = [each.reading for each in samples]
    if len(samples) == 1:
        return {readings[0].repeat or 1: readings[0]}
    told = {sources[each.source][1].repeats for each in samples}
    one_source = len({each.source for each in samples}) == 1
    repeats = "launches" if told == {"launches"} and one_source else options.repeats
    if repeats is None:
        first, second = samples[:2]
        raise InputError(
            f"{second.reading.where}: {second.backend} at concurrency {second.concurrency} is in "
            f"{first.reading.where} already: keep one; or say what the repetitions are with "
            "--repeats launches (the server was started anew for each) or --repeats same-server "
            "(one server, which is one sample)"
        )
    if repeats == "same-server":
        return {1: averaged(readings)}
    numbers = [reading.repeat for reading in readings]
    if None in numbers or len(set(numbers)) < len(numbers):
        return dict(enumerate(readings, start=1))
    return {number: r for number, r in zip(numbers, readings, strict=True) if number is not None}


def _run_name(sources: Sources, *, given: str | None) -> str:
    if given is None and len(sources) > 1:
        raise UsageError(f"{_wheres(sources)}: several files make one run: name it with --name")
    path = sources[0][0]
    name = given if given is not None else path.stem if path.is_file() else path.resolve().name
    try:
        return check_name("name", name)
    except UsageError:
        raise InputError(
            f"{sources[0][1].where}: its name can't be a run's name: give --name"
        ) from None


def _role(role: str, name: str | None, *, backends: Sequence[str]) -> str | None:
    if name is not None and name not in backends:
        raise InputError(f"the {role} {name} isn't in the files, which have {', '.join(backends)}")
    return name


def _notes(sources: Sources, points: Sequence[PointRecord]) -> tuple[str, ...]:
    found = []
    formats = list(dict.fromkeys(each.format for _, each in sources))
    if len(formats) > 1:
        found.append(
            f"the figures are of {' and '.join(formats)}, which define some of them differently: "
            "compare with care"
        )
    for key in FACTS:
        silent = [each.where for _, each in sources if not each.facts.get(key)]
        if silent and len(silent) < len(sources):
            found.append(f"{silent[0]} doesn't say its {key}: taken to be as in the other files")
    merged = sum("repeats_averaged" in {w.code for w in point.warnings} for point in points)
    if merged:
        found.append(
            f"{merged} points are means of repetitions on one server, which count as one launch"
        )
    return tuple(found)
