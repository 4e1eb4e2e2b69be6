"""``aiperf profile``: the JSON export of a run, or a folder with those of a sweep or repetitions.

A run's export says its concurrency. Of a folder the exports of its runs are read, not the averages
over them (``aggregate``, ``sweep_aggregate``) nor the phases; a run that is repeated runs against
one server, which is one sample of it. `aiperf_csv` reads the table that lies beside an export.
``docs/importing.md`` has each field with its unit, and what isn't taken.
"""

from collections.abc import Sequence
from pathlib import Path

from autotune.decisions import one_line
from autotune.errors import InputError
from autotune.importers.aiperf_figures import Export, figures_of
from autotune.importers.json_file import Fields, has_keys, parse_object
from autotune.importers.reading import Reading, Readings, shared_facts
from autotune.importers.source_file import head, read_text
from autotune.records.schema import MeasurementWarning

NAME = "aiperf"
_EXPORT = "profile_export_aiperf.json"
# A sweep, its combinations and their repetitions are folders in each other; phases lie deeper.
_PATTERNS = tuple("/".join((*["*"] * depth, _EXPORT)) for depth in range(5))
_NOT_RUNS = ("phases", "aggregate", "sweep_aggregate")
_MOST_FILES = 1000
# Settings of releases without phases. A trace is replayed by its own times, if it has any.
_OPEN_LOOPS = ("request_rate", "user_centric_rate", "fixed_schedule")
_TRACE = "_trace"


def looks_like(path: Path) -> bool:
    """Whether a file begins like one of aiperf's exports, or a folder holds such files."""
    if path.is_dir():
        return bool(_files(path))
    text = head(path).lstrip()
    return text.startswith("{") and (
        has_keys(text, "aiperf_version") or has_keys(text, "aggregation_type", "num_profile_runs")
    )


def read(path: Path) -> Readings:
    """Read an export, or all those of a folder.

    Raises:
        InputError: one is cut, broken, an average over runs, or contradicts itself, they are of
            different models or workloads, or none can be taken; the file is named.
    """
    where = one_line(str(path))
    files = _files(path) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{where}: no {_EXPORT} in it: name the folder that aiperf wrote")
    readings: list[Reading] = []
    facts: list[tuple[str, dict[str, str]]] = []
    lengths: list[dict[str, str]] = []
    skipped: list[str] = []
    digests: dict[str, str] = {}
    for file in files:
        name = file.relative_to(path).as_posix() if file != path else path.name
        source = read_text(file, where=f"{where}: {one_line(name)}" if file != path else where)
        digests[name] = source.sha256
        run = parse_object(source)
        reason = _unusable(run)
        if reason is not None:
            skipped.append(f"{run.where}: {reason}")
            continue
        export = Export(where=run.where, statistics=_statistics(run))
        reading, left_out = _reading(run, export)
        readings.append(reading)
        facts.append((run.where, _facts(run)))
        lengths.append(export.lengths())
        skipped += left_out
    if not readings:
        raise InputError(f"{where}: nothing to import: {'; '.join(skipped[:4])}")
    return Readings(
        format=NAME,
        where=where,
        readings=tuple(readings),
        facts=shared_facts(facts) | _shared_lengths(lengths),
        skipped=tuple(dict.fromkeys(skipped)),
        files=digests,
        rows=len(files),
        repeats="same-server",
    )


def _files(folder: Path) -> list[Path]:
    try:
        found = sorted(
            file
            for pattern in _PATTERNS
            for file in folder.glob(pattern)
            if not set(file.relative_to(folder).parts) & set(_NOT_RUNS)
        )
    except OSError as error:
        raise InputError(f"{one_line(str(folder))}: can't be read: {error.strerror}") from None
    if len(found) > _MOST_FILES:
        raise InputError(
            f"{one_line(str(folder))}: {len(found)} runs, over {_MOST_FILES}: name one sweep's "
            "folder"
        )
    return found


def _unusable(run: Fields) -> str | None:
    """Why a run's concurrency can't be said, or its figures not be taken.

    Raises:
        InputError: it isn't a run's export.
    """
    # A run may have metadata too, such as where its data set is from.
    places = (run, run.fields("metadata"))
    if any(each.content.get("aggregation_type") is not None for each in places if each is not None):
        raise InputError(
            f"{run.where}: averages over runs, not a run: import the folder, or its runs' {_EXPORT}"
        )
    if run.text("aiperf_version") is None:
        raise run.error("aiperf_version", "isn't there: not an export of aiperf")
    if run.content.get("was_cancelled") is True or run.content.get("is_complete") is False:
        return "the run was stopped before its end"
    load = _load_before_phases(run)
    if load is not None and (
        any(load.content.get(key) for key in _OPEN_LOOPS)
        or (load.text("custom_dataset_type") or "").endswith(_TRACE)
    ):
        return (
            "requests are sent at a rate or by a schedule: an open loop, which can't be compared "
            "at a concurrency"
        )
    phases = _phases(run)
    if len(phases) > 1:
        return f"{len(phases)} phases are measured as one: at which concurrency?"
    kind = phases[0].text("type") if phases else None
    if kind not in (None, "concurrency") or (phases and phases[0].content.get("rate") is not None):
        return (
            f"requests are sent by {one_line(str(kind), limit=40)}, not when another ends: an open "
            "loop, which can't be compared at a concurrency"
        )
    return None


def _load_before_phases(run: Fields) -> Fields | None:
    """The settings of load and data of aiperf 0.4 to 0.8, which have no phases."""
    config = run.fields("input_config")
    load = config.fields("loadgen") if config is not None else None
    if config is None or load is None:
        return None
    data = config.fields("input") or Fields(where=config.where, content={})
    return Fields(where=load.where, content=dict(data.content) | dict(load.content))


def _phases(run: Fields) -> list[Fields]:
    """The phases whose requests are in the results."""
    config = run.fields("input_config")
    listed = (config.items("phases") if config is not None else None) or []
    found = []
    for index, content in enumerate(listed):
        where = f"{run.where}: input_config: phases[{index}]"
        if not isinstance(content, dict):
            raise InputError(f"{where}: isn't an object")
        phase = Fields(where=where, content=content)
        if phase.content.get("exclude_from_results") is not True and phase.text("kind") != "warmup":
            found.append(phase)
    return found


def _statistics(run: Fields) -> dict[str, tuple[str | None, Fields]]:
    """Each metric's statistics with its unit: what is an object with a ``unit``."""
    return {
        name: (Fields(where=f"{run.where}: {name}", content=content).text("unit"), fields)
        for name, content in run.content.items()
        if isinstance(content, dict)
        and "unit" in content
        and (fields := Fields(where=f"{run.where}: {one_line(name)}", content=content))
    }


def _reading(run: Fields, export: Export) -> tuple[Reading, tuple[str, ...]]:
    good = export.whole("request_count")
    errors = export.whole("error_request_count") or 0
    if good is None and not errors:
        raise run.error("request_count", "isn't there: how many requests succeeded?")
    good = good or 0
    phases = _phases(run)
    load = phases[0] if phases else _load_before_phases(run)
    concurrency = load.count("concurrency", least=1) if load is not None else None
    info = run.fields("run_info")
    trial = info.count("trial") if info is not None else None
    figures, left_out = figures_of(export, good=good)
    return Reading(
        where=run.where,
        backend=None,
        concurrency=concurrency,
        repeat=None if trial is None else trial + 1,
        figures=figures,
        requests_sent=good + errors,
        requests_ok=good,
        warnings=_counted_by_client(run, export),
        in_progress=export.average("effective_concurrency") if good else None,
    ), left_out


def _counted_by_client(run: Fields, export: Export) -> tuple[MeasurementWarning, ...]:
    """aiperf counts tokens with a tokenizer of its own, and says where the server disagrees."""
    disagree = export.whole("usage_discrepancy_count")
    if not disagree:
        return ()
    return (
        MeasurementWarning(
            code="client_token_counts",
            observed=f"the server counted other tokens than aiperf in {disagree} requests",
            threshold="0 requests",
            remedy="measure with --use-server-token-count: rates and times a token are of "
            "aiperf's own count",
        ),
    )


def _facts(run: Fields) -> dict[str, str]:
    """The model's name, and what was asked: for comparison alone."""
    config = run.fields("input_config")
    if config is None:
        return {}
    models = config.fields("models")
    names = [
        Fields(where=config.where, content=each).text("name")
        for each in (models.items("items") if models is not None else None) or []
        if isinstance(each, dict)
    ]
    endpoint = config.fields("endpoint")
    older = endpoint.items("model_names") if endpoint is not None else None
    names += [one_line(each) for each in older or [] if isinstance(each, str)]
    found = {"workload": ", ".join(part for part in _asked(config) if part)}
    if len(names) == 1 and names[0] is not None:
        found["model"] = names[0]
    return found


def _asked(config: Fields) -> list[str]:
    endpoint = config.fields("endpoint")
    said = [f"endpoint {endpoint.text('type')}"] if endpoint is not None else []
    for content in config.items("datasets") or []:
        if not isinstance(content, dict):
            raise config.error("datasets", "holds something else than objects")
        data = Fields(where=f"{config.where}: datasets", content=content)
        said += [str(data.text(key)) for key in ("type", "path", "format") if data.text(key)]
        prompts = data.fields("prompts")
        for key in ("isl", "osl"):
            length = prompts.fields(key) if prompts is not None else None
            if length is not None and length.number("mean") is not None:
                spread = length.number("stddev") or 0.0
                said.append(f"{key} {length.number('mean'):g} sd {spread:g}")
    return [one_line(each) for each in said]


def _shared_lengths(lengths: Sequence[dict[str, str]]) -> dict[str, str]:
    """What each run says of a request's tokens, where all say the same."""
    first = lengths[0]
    return {
        key: value
        for key, value in first.items()
        if all(each.get(key) == value for each in lengths)
    }
