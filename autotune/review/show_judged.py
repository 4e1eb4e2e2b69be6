"""A run folder read and judged, with nothing written: what `show`, `list` and `diff` tell of it."""

from pathlib import Path

import msgspec

from autotune.config import read_config
from autotune.decide.entry import scope_identity
from autotune.decide.rule import judge_run
from autotune.decide.schema import Judgement
from autotune.decide.search import next_search_round
from autotune.decisions.schema import DecisionFile, Entry, decode
from autotune.derive import Derivation, derive
from autotune.errors import ConfigError, DecisionFileError, RunFolderError
from autotune.records.folder import CONFIG_FILE, DECISION_FILE, read_whole
from autotune.sweep.race import Stop, next_round, over_budget


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A run folder, what its records come to, and its decision.json where it has one.

    ``accepted`` are the sentences in spite of which somebody had that decision written.
    ``inconclusive_let_in`` says that it only follows if candidates compete whose answers couldn't
    be judged (``--accept-inconclusive``); then ``derived`` is what the records come to that way.
    """

    path: Path
    derived: Derivation
    decision: DecisionFile | None
    accepted: tuple[str, ...] = ()
    inconclusive_let_in: bool = False


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is: ``launches`` made, and in one sentence what comes next, or why nothing.

    An imported run has no launches of its own.
    """

    imported: bool
    finished: bool
    launches: int
    sentence: str


def read_judged(path: Path) -> Judged:
    """Read and judge the run at ``path``, under the acceptance that its decision was written with.

    Raises:
        RunFolderError: no run folder, or a record that can't be read.
        DecisionFileError: its decision.json can't be read.
    """
    derived, decision = derive(path), _own_decision(path / DECISION_FILE)
    entry = None if decision is None else _own_entry(decision, derived)
    if entry is None:
        return Judged(path=path, derived=derived, decision=decision)
    let_in = not _follows(entry, derived.judgement) and _follows(
        entry, judge_run(derived.race, derived.verdicts, accept_inconclusive=True)
    )
    return Judged(
        path=path,
        derived=derive(path, accept_inconclusive=True) if let_in else derived,
        decision=decision,
        accepted=entry.evidence.accepted,
        inconclusive_let_in=let_in,
    )


def progress_of(judged: Judged) -> Progress:
    """Say how far a run is, as a sweep that is started again on its folder would find it."""
    whole = judged.derived.loaded
    made = len(whole.launches)
    if whole.run.kind == "import":
        return Progress(imported=True, finished=True, launches=made, sentence="imported")
    finished, sentence = _next(judged)
    return Progress(imported=False, finished=finished, launches=made, sentence=sentence)


def _own_decision(path: Path) -> DecisionFile | None:
    try:
        data = read_whole(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunFolderError(f"{path}: can't be read: {error.strerror}") from None
    try:
        return decode(data, where=str(path))
    except DecisionFileError as error:
        raise DecisionFileError(
            f"{error}: delete it, and `autotune decide` makes it anew from the records"
        ) from None


def _own_entry(decision: DecisionFile, derived: Derivation) -> Entry | None:
    own = scope_identity(derived.loaded.run.scope)
    return next((one for one in decision.entries if scope_identity(one.scope) == own), None)


def _follows(entry: Entry, judgement: Judgement) -> bool:
    """Whether an entry says what a judgement does, and accepts what that has against it.

    Whether it does so to the last figure is `autotune check`'s.
    """
    return (
        (entry.choice.candidate, entry.choice.outcome) == (judgement.choice, judgement.outcome)
        and set(entry.evidence.accepted) == set(judgement.blockers)
        and {one.candidate for one in entry.evidence.rejected}
        == {one.candidate for one in judgement.standings if not one.admissible}
    )


def _next(judged: Judged) -> tuple[bool, str]:
    """Whether a sweep is over, and what comes next."""
    whole = judged.derived.loaded
    if not any(launch.round == 0 for launch in whole.launches):
        return False, "the reference's launch before round 1 is next"
    search_round = next_search_round(whole)
    step = next_round(judged.derived.race, judged.derived.verdicts)
    if search_round is None and isinstance(step, Stop):
        return True, step.reason
    spent = _spent(judged)
    if spent is not None:
        return True, f"stopped by {spent}"
    if search_round is not None:
        return False, f"search round {search_round} of {whole.run.search_rounds} is next"
    assert not isinstance(step, Stop)
    measured = {launch.candidate for launch in whole.launches if launch.round == step.number}
    left = [name for name in step.names if name not in measured]
    if measured:
        return False, f"round {step.number} is under way, {', '.join(left)} left"
    return False, f"round {step.number} is next, with {', '.join(left)}"


def _spent(judged: Judged) -> str | None:
    """Which budget is spent, as far as the frozen config can be read."""
    try:
        config = read_config(judged.path / CONFIG_FILE)
    except ConfigError:
        return None
    return over_budget(judged.derived.loaded, config.budget)
