"""The folder that ``vllm bench sweep serve`` writes: a folder a combination, a file a run.

Each combination of server and benchmark parameters is measured several times on one server, which
is one sample of it (``run=0.json``, ``run=1.json``, ...). A combination's ``summary.json`` holds
the same runs again: it is read where they are gone, or alone. Warm-ups and ``summary.csv``
aren't read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.decisions import one_line
from autotune.errors import InputError
from autotune.importers.json_file import Fields, has_keys, parse
from autotune.importers.reading import Reading, Readings, shared_facts
from autotune.importers.serving_json import closed_loop
from autotune.importers.source_file import head, read_text
from autotune.importers.vllm_bench_serve import facts_of, reading_of

NAME = "vllm_bench_sweep"
_RUNS = "run=*.json"
_SUMMARY = "summary.json"
# The first of these that a folder has; combinations lie in folders of their own, if there are any.
_PATTERNS = ((_RUNS, f"*/{_RUNS}"), (_SUMMARY, f"*/{_SUMMARY}"))
_FAILED = "failure.json"
_MOST_FILES = 2000
_AUTO = "auto"
# Parameters of the server under the names that facts have; a dash or underscore is the same.
_SERVER_FACTS = {"tensor_parallel_size": "tp", "quantization": "quant"}
_BACKEND_KEYS = ("moe_backend", "kernel_config.moe_backend")
_WORKLOAD_KEYS = (
    "dataset_name",
    "input_len",
    "output_len",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
    "random_prefix_len",
    "sharegpt_output_len",
)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One ``run=N.json``: what was set for the server, as its folder's name has it."""

    fields: Fields
    server: str
    sha256: str
    name: str


def looks_like(path: Path) -> bool:
    """Whether a folder holds runs as a sweep names them, or a file holds a list of them."""
    if path.is_dir():
        return bool(_files(path))
    text = head(path).lstrip()
    return text.startswith("[") and has_keys(text, "model_id", "num_prompts", "run_number")


def read(path: Path) -> Readings:
    """Read a sweep's folder, or the folder of one of its combinations.

    Raises:
        InputError: a run is cut, broken or contradicts itself, runs are of different models or
            workloads, or none can be taken; the file is named.
    """
    where = one_line(str(path))
    runs = _runs(path, where=where)
    labels = _labels(runs)
    readings: list[Reading] = []
    facts: list[tuple[str, dict[str, str]]] = []
    skipped = _failures(path, where=where)
    for run in runs:
        open_loop = closed_loop(run.fields)
        if open_loop is not None:
            skipped.append(f"{run.fields.where}: {open_loop}")
            continue
        reading, left_out = reading_of(run.fields)
        number = run.fields.count("run_number")
        label = labels[run.server]
        readings.append(
            replace(
                reading,
                backend=label if label is not None else reading.backend,
                repeat=None if number is None else number + 1,
            )
        )
        facts.append((run.fields.where, facts_of(run.fields) | _parameters(run.fields)))
        skipped += left_out
    if not readings:
        raise InputError(f"{where}: nothing to import: {'; '.join(skipped[:4])}")
    return Readings(
        format=NAME,
        where=where,
        readings=tuple(readings),
        facts=shared_facts(facts),
        skipped=tuple(skipped),
        files={run.name: run.sha256 for run in runs},
        rows=len(runs),
        repeats="same-server",
    )


def _files(folder: Path) -> list[Path]:
    for patterns in _PATTERNS:
        found = sorted(
            file
            for pattern in patterns
            for file in folder.glob(pattern)
            if not file.name.endswith(_FAILED)
        )
        if found:
            return found
    return []


def _runs(path: Path, *, where: str) -> list[_Run]:
    if not path.is_dir():
        return _runs_in(path, name=path.name, where=where, server="")
    found = _files(path)
    if not found:
        raise InputError(f"{where}: no {_RUNS} in it: not a folder of vllm bench sweep serve")
    if len(found) > _MOST_FILES:
        raise InputError(f"{where}: {len(found)} files, over {_MOST_FILES}: import parts of it")
    runs: list[_Run] = []
    for file in found:
        name = file.relative_to(path).as_posix()
        at = f"{where}/{one_line(name)}"
        if file.is_symlink() or file.parent.is_symlink():
            raise InputError(f"{at}: a link: import a folder that holds the files themselves")
        folder = path.resolve() if file.parent == path else file.parent
        server = folder.name.partition("-BENCH-")[0] if folder.name.startswith("SERVE-") else ""
        runs += _runs_in(file, name=name, where=at, server=server)
    return runs


def _runs_in(file: Path, *, name: str, where: str, server: str) -> list[_Run]:
    source = read_text(file, where=where)
    content = parse(source)
    objects = content if isinstance(content, list) else [content]
    runs = []
    for number, each in enumerate(objects):
        at = f"{where}: [{number}]" if isinstance(content, list) else where
        if not isinstance(each, dict):
            raise InputError(f"{at}: not an object: not a run of vllm bench sweep serve")
        fields = Fields(where=at, content=each)
        runs.append(_Run(fields=fields, server=server, sha256=source.sha256, name=name))
    if not runs:
        raise InputError(f"{where}: an empty list: nothing to import")
    return runs


def _labels(runs: Sequence[_Run]) -> dict[str, str | None]:
    """The backend of each server: what it was told, if that tells all servers apart.

    Servers that differ in something else are different candidates; then the whole of what was set
    is their label, which the user must rename.
    """
    told: dict[str, str | None] = {}
    for run in runs:
        told.setdefault(run.server, _backend(run.fields))
    if len(told) == 1 or (None not in told.values() and len(set(told.values())) == len(told)):
        return told
    return {server: server.removeprefix("SERVE--") or "default" for server in told}


def _backend(fields: Fields) -> str | None:
    for key in _BACKEND_KEYS:
        named = _parameter(fields, key)
        if named is not None:
            return None if named == _AUTO else named
    return None


def _parameters(fields: Fields) -> dict[str, str]:
    facts = {
        fact: value
        for key, fact in _SERVER_FACTS.items()
        if (value := _parameter(fields, key)) is not None
    }
    said = [
        f"{key}={value}" for key in _WORKLOAD_KEYS if (value := _parameter(fields, key)) is not None
    ]
    return facts | {"workload": ", ".join(said)}


def _parameter(fields: Fields, key: str) -> str | None:
    """A parameter's value as text; a sweep keeps its name as the user wrote it."""
    for name in (key, key.replace("_", "-")):
        value = fields.content.get(name)
        if isinstance(value, bool | int | float | str):
            return one_line(str(value), limit=80)
    return None


def _failures(path: Path, *, where: str) -> list[str]:
    """What the sweep itself says didn't work; a folder may hold any number of such files."""
    names = sorted(
        file.relative_to(path).as_posix()
        for pattern in (f"*{_FAILED}", f"*/*{_FAILED}")
        for file in path.glob(pattern)
    )
    return [f"{where}/{one_line(name)}: a run that failed has no figures" for name in names]
