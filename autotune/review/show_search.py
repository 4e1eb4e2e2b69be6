"""The search part of a run at a glance: what was tuned, what came of it, and where the trials are.

Every setting is in the report's own section (`autotune.report.search`); here are a few lines.
"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from autotune.decide.search import (
    TrialResult,
    anchor_of,
    finalists,
    next_search_round,
    trial_results,
)
from autotune.judged import Judged
from autotune.records.schema import TrialRecord
from autotune.report.content import Bullets, Paragraph, Section
from autotune.report.search import setting_text
from autotune.report.tables import TRIALS_TABLE
from autotune.report.text import count
from autotune.search.storage import STUDY_FILE

_RECORDS = "trials"


class ShownTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One setting that was tried: what it makes of its parent, and what came of it."""

    result: TrialResult
    arguments: tuple[str, ...]
    environment: dict[str, str]
    finalist: bool


class ShownSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A run's search; ``next_round`` is ``None`` once it is over.

    ``anchor`` is whose throughput in the same round each trial's ratio is against. ``tunables``
    are the names of what was tuned, by candidate. ``files`` are where its records, its table and
    its Optuna study lie, as far as they are in the run folder.
    """

    rounds: int
    trials_per_round: int
    next_round: int | None
    anchor: str | None
    tunables: dict[str, tuple[str, ...]]
    trials: tuple[ShownTrial, ...]
    files: tuple[str, ...]


def search_data(judged: Judged) -> ShownSearch | None:
    """Return a run's search, ``None`` where it has none."""
    loaded, verdicts = judged.derived.loaded, judged.derived.verdicts
    run = loaded.run
    if not run.search_rounds:
        return None
    going_on = {trial.number for trial in finalists(loaded, verdicts)}
    records: dict[int, TrialRecord] = {trial.number: trial for trial in loaded.trials}
    trials = tuple(
        ShownTrial(
            result=result,
            arguments=records[result.number].candidate.arguments,
            environment=records[result.number].candidate.environment,
            finalist=result.number in going_on,
        )
        for result in trial_results(loaded, verdicts)
    )
    return ShownSearch(
        rounds=run.search_rounds,
        trials_per_round=run.trials_per_round,
        next_round=next_search_round(loaded),
        anchor=anchor_of(run),
        tunables={parent: tuple(tunables) for parent, tunables in run.tunables.items()},
        trials=trials,
        files=tuple(_files(judged.path)),
    )


def search_lines(judged: Judged) -> Section:
    """Return a run's search in a few lines; empty where nothing was tuned."""
    search = search_data(judged)
    if search is None:
        return Section("Search")
    items = [_parent(search, parent) for parent in search.tunables]
    where = f"Each setting: {', '.join(search.files)}" if search.files else "None is recorded yet."
    return Section(
        "Search",
        (Paragraph(_what_was_done(search)), Bullets(tuple(items)), Paragraph(where)),
    )


def _what_was_done(search: ShownSearch) -> str:
    launched = sum(one.result.launched for one in search.trials)
    state = "it is over"
    if search.next_round is not None:
        state = f"round {search.next_round} of {search.rounds} isn't complete"
    return (
        f"Before the race, {count(launched, 'setting')} tried by one launch each; {state}. Ratios "
        f"are to {search.anchor or 'the anchor'}'s launch in the same round."
    )


def _parent(search: ShownSearch, parent: str) -> str:
    own = [one for one in search.trials if one.result.parent == parent]
    head = f"{parent} ({', '.join(search.tunables[parent])}): "
    best = _best(own)
    if best is None:
        tried = sum(one.result.launched for one in own)
        return f"{head}none of {count(tried, 'setting')} counts" if tried else f"{head}none tried"
    setting = setting_text(best.result.values)
    what = f"best {best.result.candidate} with {setting}, {best.result.ratio or 0:.3f}"
    became = "went on to the race" if best.finalist else "not in the race"
    if not best.finalist and search.next_round is not None:
        became = "so far"
    return f"{head}{what}, {became}; launched with {_launched_with(best)}"


def _best(trials: Sequence[ShownTrial]) -> ShownTrial | None:
    """The one that goes on, else the one with the highest ratio of those that count."""
    counting = [one for one in trials if one.result.reason is None and one.result.ratio is not None]
    return next(
        (one for one in trials if one.finalist),
        max(counting, key=lambda one: one.result.ratio or 0, default=None),
    )


def _launched_with(trial: ShownTrial) -> str:
    variables = [f"{name}={value}" for name, value in sorted(trial.environment.items())]
    return shlex.join([*variables, *trial.arguments]) or "nothing of its own"


def _files(path: Path) -> Iterator[str]:
    for name in (_RECORDS, TRIALS_TABLE, STUDY_FILE):
        if (path / name).exists():
            yield str(path / name)
