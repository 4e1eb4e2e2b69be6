"""Several runs for one report: what each is called, and whether they may stand side by side. Pure.

Nothing is pooled anywhere: runs of other nodes, dates or releases are read beside one another, each
with its own verdict. Only what was asked the same of the same model is worth that.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from autotune.errors import InputError
from autotune.records.schema import RunRecord, Workload
from autotune.report.subject import Subject
from autotune.report.text import one_line, plot_label

MOST_RUNS = 12
_LONGEST_NAME = 80
_SHORT_DIGEST = 12
_REMEDY = "report each of them by itself, or compare two with `autotune diff`"


@dataclass(frozen=True)
class RunShown:
    """One run among several.

    ``label`` tells it from the others everywhere in the report, ``measured_on`` is the day of its
    last measurement (of its import where it was imported), ``environment`` its environment.json,
    ``None`` where it has none. ``side_effects`` holds a sentence for each candidate that changes
    more than its kernels.
    """

    label: str
    subject: Subject
    measured_on: str
    environment: Mapping[str, Any] | None
    side_effects: Mapping[str, str] = field(default_factory=dict)

    @property
    def run(self) -> RunRecord:
        return self.subject.whole.run


def label_runs(paths: Sequence[Path]) -> list[str]:
    """Return a name for each run folder: its own, with its parent's or a number where it must be.

    >>> label_runs([Path("/a/first"), Path("/a/second")])
    ['first', 'second']
    >>> label_runs([Path("/a/run"), Path("/b/run"), Path("/a/other")])
    ['a/run', 'b/run', 'other']
    >>> label_runs([Path("/x/a/run"), Path("/y/a/run")])
    ['run 1: run', 'run 2: run']

    Raises:
        InputError: one folder is named twice, or there are more than ``MOST_RUNS``.
    """
    _check_different(paths)
    whole = [Path(os.path.abspath(path)) for path in paths]
    names = [_clean(path.name) for path in whole]
    longer = [_clean(f"{path.parent.name}/{path.name}") for path in whole]
    told = [
        long if _shared(name, names) else name for name, long in zip(names, longer, strict=True)
    ]
    return [
        f"run {number}: {name}" if _shared(label, told) else label
        for number, (name, label) in enumerate(zip(names, told, strict=True), start=1)
    ]


def check_alike(runs: Sequence[RunShown]) -> None:
    """Raise unless all runs are of one model and may have been asked the same.

    Raises:
        InputError: naming each field that differs, with each run's value.
    """
    differing = _model_differences(runs) or _workload_differences(runs)
    if differing:
        told = "; ".join(differing)
        raise InputError(f"these runs can't stand in one report: {told}: {_REMEDY}")


def unknown_workloads(runs: Sequence[RunShown]) -> list[str]:
    """Say of each run without a workload digest what isn't recorded of what it was asked."""
    told = []
    for run in runs:
        workload = run.run.workload
        if workload.digest is None:
            facts = {
                "workload digest (prompts and sampling)": None,
                "tokens in": workload.input_tokens,
                "tokens out": workload.output_tokens,
            }
            unknown = ", ".join(name for name, value in facts.items() if value is None)
            known = ", ".join(f"{value} {name}" for name, value in facts.items() if value)
            told.append(
                f"{run.label}: not recorded: {unknown}" + (f"; recorded: {known}" if known else "")
            )
    return told


def _check_different(paths: Sequence[Path]) -> None:
    if len(paths) > MOST_RUNS:
        raise InputError(
            f"{len(paths)} runs were named: at most {MOST_RUNS} fit into one report, make several"
        )
    seen: dict[str, Path] = {}
    for path in paths:
        place = os.path.realpath(path)
        if place in seen:
            same = "" if str(path) == str(seen[place]) else f" ({seen[place]} is the same folder)"
            raise InputError(f"{path}: the run is named twice{same}: name each run once")
        seen[place] = path


def _clean(name: str) -> str:
    return one_line(name, longest=_LONGEST_NAME) or "unnamed"


def _shared(label: str, labels: Sequence[str]) -> bool:
    # Plots show plain letters only, in which two names may read the same.
    return Counter(plot_label(other) for other in labels)[plot_label(label)] > 1


def _model_differences(runs: Sequence[RunShown]) -> list[str]:
    fields: dict[str, Callable[[RunRecord], str]] = {
        "model": lambda run: run.key.model,
        "quantization": lambda run: run.key.quantization,
        "geometry (hidden, expert width, experts, top-k)": lambda run: str(run.scope.geometry),
    }
    return [
        _told(name, [(run, value(run.run)) for run in runs])
        for name, value in fields.items()
        if len({value(run.run) for run in runs}) > 1
    ]


def _workload_differences(runs: Sequence[RunShown]) -> list[str]:
    """Each field in which two runs were asked something else; what one doesn't say is no such."""
    workloads = [run.run.workload for run in runs]
    digests = {workload.digest for workload in workloads} - {None}
    told = []
    if len(digests) > 1:
        told.append(_told("workload digest", list(zip(runs, _digests(workloads), strict=True))))
    for what in ("input_tokens", "output_tokens", "prompts"):
        if any(_differs(one, other, what) for one, other in combinations(workloads, 2)):
            values = [getattr(workload, what) for workload in workloads]
            shown = ["not recorded" if value is None else str(value) for value in values]
            name = f"workload {what.replace('_', ' ')}"
            told.append(_told(name, list(zip(runs, shown, strict=True))))
    return told


def _differs(one: Workload, other: Workload, what: str) -> bool:
    if one.digest is not None and one.digest == other.digest:
        return False  # A file of prompts may lie elsewhere and be the same.
    values = (getattr(one, what), getattr(other, what))
    return None not in values and values[0] != values[1]


def _digests(workloads: Sequence[Workload]) -> list[str]:
    whole = [workload.digest for workload in workloads]
    short = {digest[:_SHORT_DIGEST] for digest in whole if digest is not None}
    length = _SHORT_DIGEST if len(short) == len(set(whole) - {None}) else None
    return ["not recorded" if digest is None else digest[:length] for digest in whole]


def _told(name: str, values: Sequence[tuple[RunShown, str]]) -> str:
    told = ", ".join(f"{one_line(value)} in {run.label}" for run, value in values)
    return f"{name} differs: {told}"
