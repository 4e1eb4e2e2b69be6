"""Whether a decision's entry follows from its evidence: the run folder is judged again.

The records are read, the tables made and the entry built as `autotune decide` does, and nothing
is written.
"""

from collections.abc import Iterator
from pathlib import Path

from autotune.decide.entry import scope_identity
from autotune.decide.rule import judge_run
from autotune.decisions.resolution import one_line
from autotune.decisions.schema import DecisionKey, Entry, check_name
from autotune.derive import Derivation, derive, entry_of
from autotune.errors import AutotuneError, UsageError
from autotune.records.folder import RUN_FILE
from autotune.review.check_fields import Difference, differences
from autotune.review.check_tables import (
    check_frozen_config,
    check_requests,
    check_sources,
    check_tables,
)
from autotune.review.findings import Issue, Place, entry_place, shown

_MOST_DIFFERENCES = 8


class EvidenceFolder:
    """A folder of run folders; each is derived once, however many entries rest on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._derived: dict[tuple[str, bool], Derivation | str] = {}

    def path(self, run: str) -> Path:
        """Return where the run folder called ``run`` lies.

        Raises:
            UsageError: ``run`` can't be the name of a folder in this one.
        """
        return self.root / check_name("evidence.run", run)

    def find(self, run: str) -> Path | None:
        """Return the run folder called ``run``, ``None`` where there is none to be trusted."""
        try:
            path = self.path(run)
        except UsageError:
            return None
        return path if not path.is_symlink() and (path / RUN_FILE).is_file() else None

    def derive(self, run: str, *, accept_inconclusive: bool = False) -> Derivation | str:
        """Return what a run comes to, or the sentence that says why nothing does."""
        key = (run, accept_inconclusive)
        if key not in self._derived:
            self._derived[key] = self._judge(run, accept_inconclusive=accept_inconclusive)
        return self._derived[key]

    def _judge(self, run: str, *, accept_inconclusive: bool) -> Derivation | str:
        try:
            if accept_inconclusive:
                plain = self.derive(run)
                if isinstance(plain, str) or _judges_the_same(plain):
                    return plain
            return derive(self.path(run), accept_inconclusive=accept_inconclusive)
        except AutotuneError as error:
            return str(error)
        # Records that were edited by hand may contradict one another in any way, and mustn't keep
        # the other files from being checked.
        except Exception as error:
            return f"the records can't be judged: {type(error).__name__}: {error}"


def _judges_the_same(plain: Derivation) -> bool:
    """Whether letting inconclusive candidates in changes nothing."""
    return judge_run(plain.race, plain.verdicts, accept_inconclusive=True) == plain.judgement


def check_evidence(
    entry: Entry, index: int, key: DecisionKey, *, evidence: EvidenceFolder, into: str
) -> Iterator[Issue]:
    """Yield all in which an entry doesn't follow from its evidence.

    Args:
        entry: the file's entry number ``index``, counted from 0.
        index: see ``entry``.
        key: the file's key.
        evidence: where run folders lie.
        into: the folder of decision files, for the remedy; empty for a run's own decision.
    """
    place = entry_place(index, "evidence", "run")
    name = entry.evidence.run
    try:
        path = evidence.path(name)
    except UsageError as error:
        yield _wrong("evidence_name", str(error), "", place)
        return
    if path.is_symlink():
        yield _wrong("evidence_link", f"{path} is a link", "put the run folder itself here", place)
        return
    if not (path / RUN_FILE).is_file():
        said = f"the evidence isn't there: {path} is no run folder"
        remedy = "check it in beside the decision, or say where it is with --evidence"
        yield _wrong("evidence_missing", said, remedy, place)
        return
    derived = evidence.derive(name)
    if isinstance(derived, str):
        yield _wrong("evidence_broken", derived, "", place)
        return
    if derived.loaded.run.key != key:
        said = f"the evidence is about {derived.loaded.run.key}, the decision about {key}"
        yield _wrong("evidence_key", said, "name the run that this was decided from", place)
        return
    yield from check_requests(derived, path, place=place)
    yield from check_sources(derived, path, place=place)
    yield from check_frozen_config(derived, path, place=place)
    decide = _decide(entry, path, into=into)
    remedy = f"{decide} writes it anew"
    if into and scope_identity(derived.loaded.run.scope) != scope_identity(entry.scope):
        # Deciding again would put the run's own entry beside this one.
        said = f"{path} holds a run of another scope than this entry's"
        remedy = f"take the entry out, or restore it; {decide} writes the run's own"
        yield _wrong("other_scope", said, remedy, entry_place(index, "scope"))
        remedy = ""
    yield from _check_entry(entry, index, derived, evidence=evidence, remedy=remedy)


def _check_entry(
    entry: Entry, index: int, derived: Derivation, *, evidence: EvidenceFolder, remedy: str
) -> Iterator[Issue]:
    """Compare with the entry that the records give, under the acceptance that fits it best.

    Whether inconclusive candidates were let in (`--accept-inconclusive`) isn't written down where
    one that passed won nevertheless: so both are tried.
    """
    path = evidence.path(entry.evidence.run)
    found = list(_issues(entry, index, derived, folder=path, remedy=remedy))
    if found:
        other = evidence.derive(entry.evidence.run, accept_inconclusive=True)
        if isinstance(other, Derivation) and other is not derived:
            again = list(_issues(entry, index, other, folder=path, remedy=remedy))
            found = min(found, again, key=len)
    yield from found


def _issues(
    entry: Entry, index: int, derived: Derivation, *, folder: Path, remedy: str
) -> Iterator[Issue]:
    tables = entry_place(index, "evidence", "tables")
    yield from check_tables(entry.evidence.tables, derived, folder, place=tables, remedy=remedy)
    judgement = derived.judgement
    accepted = entry_place(index, "evidence", "accepted")
    if judgement.choice is None:
        said = f"the evidence decides nothing: {judgement.summary}"
        yield _wrong("no_choice", said, "remove the entry, or measure on", accepted)
        return
    for blocker in judgement.blockers:
        if blocker not in entry.evidence.accepted:
            said = f"the evidence doesn't carry it unless somebody accepts: {blocker}"
            accept = f"measure on, or `autotune decide {folder} --accept`"
            yield _wrong("not_accepted", said, accept, accepted)
    for sentence in entry.evidence.accepted:
        if sentence not in judgement.blockers:
            said = f"accepts what the evidence doesn't hold against it: {one_line(sentence)}"
            yield _wrong("accepted_needlessly", said, remedy, accepted)
    try:
        expected = entry_of(derived, accepted=judgement.blockers)
    except AutotuneError as error:
        yield _wrong("evidence_broken", str(error), "", entry_place(index, "evidence", "run"))
        return
    if expected is not None:
        yield from _differing(differences(entry, expected), index, remedy=remedy)


def _differing(found: tuple[Difference, ...], index: int, *, remedy: str) -> Iterator[Issue]:
    for one in found[:_MOST_DIFFERENCES]:
        place: Place = entry_place(index, *one.place)
        said = f"{shown(place)}: file says {one.file_says}, evidence says {one.evidence_says}"
        yield _wrong("differs", said, remedy, place)
    more = len(found) - _MOST_DIFFERENCES
    if more > 0:
        yield _wrong("differs", f"and {more} more fields differ", remedy, entry_place(index))


def _decide(entry: Entry, path: Path, *, into: str) -> str:
    accept = " --accept" if entry.evidence.accepted else ""
    return f"`autotune decide {path}{accept}{f' --into {into}' if into else ''}`"


def _wrong(code: str, message: str, remedy: str, place: Place) -> Issue:
    return Issue(level="wrong", code=code, message=message, remedy=remedy, place=place)
