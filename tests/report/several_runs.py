"""Runs to be shown side by side, altered as a test wants them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from autotune.records.folder import LoadedRun
from autotune.report.several import RunShown
from autotune.report.subject import Subject
from tests.records.builders import make_judgement, make_run, make_verdicts


def altered(run: LoadedRun, **changes: Any) -> LoadedRun:
    """Change fields of a run's record; a mapping changes fields of the struct that is there."""
    for name, value in changes.items():
        if isinstance(value, Mapping) and isinstance(getattr(run.run, name), msgspec.Struct):
            changes[name] = msgspec.structs.replace(getattr(run.run, name), **value)
    return msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, **changes))


def shown(
    label: str,
    run: LoadedRun | None = None,
    *,
    environment: Mapping[str, Any] | None = None,
    judged: Mapping[str, Any] | None = None,
    **changes: Any,
) -> RunShown:
    """A run under this label, as it is judged by plain means."""
    run = altered(run or make_run(concurrencies=(1, 4), rounds=2), **changes)
    judgement = make_judgement(run, **(judged or {}))
    return RunShown(
        label=label,
        subject=Subject.of(run, judgement, verdicts=make_verdicts(run)),
        measured_on="2026-01-02",
        environment=environment,
    )
