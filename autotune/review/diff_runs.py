"""Two run folders side by side, beside their entries: what was run, how, and on which machine."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from autotune.environment import weight_of
from autotune.judged import Judged
from autotune.records.schema import RunRecord
from autotune.review.diff_leaves import added_and_removed, changes
from autotune.review.diff_schema import EnvironmentChange, RunChange

# What the sections of their own tell; the entries hold key and scope.
_APART = ("schema_version", "key", "scope", "candidates", "concurrencies", "rule", "workload")


def compare_runs(
    old: Judged,
    new: Judged,
    *,
    old_environment: Mapping[str, Any] | None,
    new_environment: Mapping[str, Any] | None,
) -> RunChange:
    """Return what differs between two runs, but for their entries.

    Args:
        old: the old run, read and judged.
        new: the new run.
        old_environment: its environment.json, ``None`` where it has none.
        new_environment: the new run's.
    """
    before, after = old.derived.loaded.run, new.derived.loaded.run
    added, removed = added_and_removed(before.concurrencies, after.concurrencies)
    return RunChange(
        about=changes(_about(old), _about(new)),
        workload=changes(before.workload, after.workload),
        candidates=changes(_candidates(old), _candidates(new)),
        concurrencies_added=added,
        concurrencies_removed=removed,
        rule=changes(before.rule, after.rule),
        launches=changes(_launches(old), _launches(new)),
        environment=environment_changes(
            old_environment, new_environment, on_cpu=after.key.arch.startswith("cpu-")
        ),
    )


def environment_changes(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, *, on_cpu: bool
) -> tuple[EnvironmentChange, ...]:
    """Return what differs between two environment.json, the hard differences first.

    Args:
        old: the old one, ``None`` where the run has none.
        new: the new one.
        on_cpu: whether the processor is what computes.
    """
    found = [
        EnvironmentChange(
            what=change.what,
            old=change.old,
            new=change.new,
            weight=weight_of(change.what, on_cpu=on_cpu),
        )
        for change in changes(_by_place(old), _by_place(new))
    ]
    return tuple(sorted(found, key=lambda change: change.weight != "hard"))


def _by_place(environment: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Number the GPUs, so that each one's fields are compared with its own."""
    gpus = None if environment is None else environment.get("gpus")
    if environment is None or not isinstance(gpus, list):
        return environment
    return {**environment, "gpus": {str(place): gpu for place, gpu in enumerate(gpus)}}


def _about(judged: Judged) -> dict[str, Any]:
    run: RunRecord = judged.derived.loaded.run
    plain = msgspec.to_builtins(run, str_keys=True)
    kept = {name: value for name, value in plain.items() if name not in _APART}
    judgement = judged.derived.judgement
    return kept | {
        "decision_file": "none" if judged.decision is None else "written",
        "judgement": judgement.summary,
        "blockers": list(judgement.blockers),
    }


def _candidates(judged: Judged) -> dict[str, Any]:
    """Each candidate's launch settings, and what came of it."""
    found: dict[str, Any] = {}
    standings = {standing.candidate: standing for standing in judged.derived.judgement.standings}
    for candidate in judged.derived.race.run.candidates:
        plain = msgspec.to_builtins(candidate)
        del plain["name"]
        standing = standings.get(candidate.name)
        if standing is not None:
            plain |= {
                "verdict": standing.verdict,
                "may_win": standing.admissible,
                "complete_rounds": standing.rounds,
            }
        found[candidate.name] = plain
    return found


def _launches(judged: Judged) -> dict[str, int]:
    return dict(Counter(launch.status for launch in judged.derived.loaded.launches))
