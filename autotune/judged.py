"""A run folder read and judged as its decision was: whoever tells of a run says the same of it.

`autotune.derive` judges records alone. A decision that somebody had written all the same
(``--accept``, ``--accept-inconclusive``) is told by its file in the run folder. Nothing is written.
"""

from pathlib import Path

import msgspec

from autotune.decide.entry import scope_identity
from autotune.decide.rule import judge_run
from autotune.decide.schema import Judgement
from autotune.decisions.schema import DecisionFile, Entry, decode
from autotune.derive import Derivation, derive
from autotune.errors import DecisionFileError
from autotune.records.folder import DECISION_FILE, read_if_there
from autotune.report.subject import Subject


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A run folder, what its records come to, and its decision.json where it has one.

    ``entry`` is that decision's for the run's own scope, if it has one.
    ``accepted`` are the sentences in spite of which somebody had that decision written.
    ``inconclusive_let_in`` says that it only follows if candidates compete whose answers couldn't
    be judged (``--accept-inconclusive``); then ``derived`` is what the records come to that way.
    """

    path: Path
    derived: Derivation
    decision: DecisionFile | None
    entry: Entry | None = None
    accepted: tuple[str, ...] = ()
    inconclusive_let_in: bool = False

    @property
    def subject(self) -> Subject:
        """What a report or a screen about this run is made from."""
        return Subject.of(
            self.derived.loaded,
            self.derived.judgement,
            verdicts=self.derived.verdicts,
            accepted=self.accepted,
            inconclusive_let_in=self.inconclusive_let_in,
        )


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
        entry=entry,
        accepted=entry.evidence.accepted,
        inconclusive_let_in=let_in,
    )


def _own_decision(path: Path) -> DecisionFile | None:
    data = read_if_there(path)
    if data is None:
        return None
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
