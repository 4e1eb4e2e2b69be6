"""A run's Optuna study: draw the settings of a search round, and keep the study up to date.

The records are the evidence, and settings are drawn from them alone (`autotune.search.ask`). The
study is what people and tools look at: it can be deleted, and is made again.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from autotune.config.schema import SweepConfig
from autotune.decide.search import anchor_of, missing_trials, trial_results
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun, RunFolder
from autotune.records.schema import RunRecord, TrialRecord
from autotune.search.ask import ask_setting
from autotune.search.entries import Entry, entries
from autotune.search.log import Agreement, agreement, catch_up
from autotune.search.space import as_trial
from autotune.search.storage import (
    StudyPlace,
    check_reachable,
    is_broken,
    opened,
    set_aside,
    study_place,
)
from autotune.tunables import apply, count_settings, trial_name

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from optuna.study import Study

Say = Callable[[str], None]


def study_name(run: RunRecord) -> str:
    """Return the study's name: the run's, and what tells it from other runs of the same config."""
    content = msgspec.json.encode(run, order="sorted")
    return f"{run.name}-{hashlib.sha256(content).hexdigest()[:12]}"


@contextlib.contextmanager
def open_study(folder: RunFolder, config: SweepConfig, *, say: Say) -> Iterator["RunStudy"]:
    """Open the study of a run that was begun.

    Args:
        folder: the run's folder, in which ``run.json`` lies by now.
        config: for the sampler, the seed and where the study is kept.
        say: gets progress, one line each.

    Raises:
        UsageError: the database that the user named for it can't be used (its password isn't
            shown). Nothing was launched by then.
        RunFolderError: there is no run.
    """
    place = study_place(folder.path, storage=config.search.storage)
    check_reachable(place)
    yield RunStudy(folder, config, place=place, say=say)


class RunStudy:
    """The study of one run, see `open_study`. It holds no connection between two calls."""

    def __init__(
        self, folder: RunFolder, config: SweepConfig, *, place: StudyPlace, say: Say
    ) -> None:
        self._folder = folder
        self._config = config
        self._place = place
        self._say = say
        self._told: set[str] = set()

    def ask_round(
        self,
        round_number: int,
        loaded: LoadedRun,
        verdicts: Mapping[str, CandidateVerdict],
    ) -> tuple[TrialRecord, ...]:
        """Return a search round's trials: those that have a record, and newly drawn ones.

        Each new one's record is in the folder before this returns. What was drawn before an
        interruption isn't drawn again, and no setting of a candidate is drawn twice: where there
        are no others left, a round has fewer trials.

        Args:
            round_number: the search round, from 1.
            loaded: the run's records.
            verdicts: on the answers of the trials so far, by name.

        Raises:
            RunFolderError: a record can't be written, or an earlier one doesn't fit the tunables.
        """
        run = loaded.run
        listed = {candidate.name: candidate for candidate in run.candidates}
        results = list(trial_results(loaded, verdicts))
        trials = list(loaded.trials)
        missing = missing_trials(loaded, round_number)
        for parent, tunables in run.tunables.items():
            self._tell_exhausted(loaded, parent)
            for _ in range(missing.get(parent, 0)):
                number = max((trial.number for trial in trials), default=-1) + 1
                name = trial_name(parent, number)
                values = ask_setting(
                    parent,
                    tunables,
                    results=[result for result in results if result.parent == parent],
                    sampler=self._config.search.sampler,
                    seed=self._seed(parent, number),
                )
                trial = TrialRecord(
                    number=number,
                    round=round_number,
                    parent=parent,
                    values=values,
                    candidate=apply(listed[parent], tunables, values=values, name=name),
                )
                self._folder.write_trial(trial)
                trials.append(trial)
                unlaunched = msgspec.structs.replace(
                    loaded, trials=(trial,), launches=(), points=()
                )
                nobody = CandidateVerdict(candidate=name, verdict="inconclusive", reason="")
                results += trial_results(unlaunched, {name: nobody})
        return tuple(trial for trial in trials if trial.round == round_number)

    def catch_up(
        self,
        loaded: LoadedRun,
        verdicts: Mapping[str, CandidateVerdict],
        *,
        final: bool = False,
    ) -> None:
        """Tell the study what the records know by now; the same again changes nothing.

        A study that can't be written doesn't end a sweep: it's said once, and the next call
        tries again. A file that can't be read, or holds what the records don't, is renamed and
        made anew.

        Args:
            loaded: the run's records.
            verdicts: every listed candidate's and trial's verdict.
            final: the race is over: the trials of those who ran in it are told.

        Raises:
            RunFolderError: a trial's record doesn't fit the tunables.
        """
        for result in trial_results(loaded, verdicts):
            as_trial(result, loaded.run.tunables.get(result.parent, {}))
        wanted = entries(loaded, verdicts, final=final)
        try:
            try:
                self._write(wanted, loaded.run)
            except Exception as error:  # a broken file makes Optuna raise anything
                if not is_broken(self._place, error) or not self._set_aside(self._why(error)):
                    raise
                self._write(wanted, loaded.run)
        except Exception as error:
            self._say_once(
                f"the study {self._place} can't be written ({self._why(error)}): the sweep goes on "
                "without it"
            )

    def _write(self, wanted: tuple[Entry, ...], run: RunRecord) -> None:
        with opened(self._place) as storage:
            study = self._load(storage, run)
            stands = agreement(study.get_trials(deepcopy=False), wanted)
            if stands is not Agreement.FOREIGN or self._place.url is not None:
                if stands is not Agreement.BEHIND:
                    study = self._replace(storage, study, run, keep=stands is Agreement.FOREIGN)
                catch_up(study, storage, wanted, run=run)
                return
        if self._set_aside("it holds what the records don't"):
            self._write(wanted, run)

    def _load(self, storage: "RDBStorage", run: RunRecord) -> "Study":
        import optuna

        study = optuna.create_study(
            study_name=study_name(run),
            storage=storage,
            # Nothing is drawn from it, and it must not do anything of its own when it is told.
            sampler=optuna.samplers.RandomSampler(),
            direction="maximize",
            load_if_exists=True,
        )
        if study.metric_names is None:
            study.set_metric_names([f"throughput over {anchor_of(run)}'s"])
        return study

    def _replace(
        self, storage: "RDBStorage", study: "Study", run: RunRecord, *, keep: bool
    ) -> "Study":
        """Begin the study anew in its storage; a kept one gets another name."""
        import optuna

        if keep:
            taken = set(optuna.get_all_study_names(storage))
            number = 1
            while (aside := f"{study.study_name}-set-aside-{number}") in taken:
                number += 1
            optuna.copy_study(
                from_study_name=study.study_name,
                from_storage=storage,
                to_storage=storage,
                to_study_name=aside,
            )
            self._say(f"the study held what the records don't: it is kept as {aside}")
        optuna.delete_study(study_name=study.study_name, storage=storage)
        return self._load(storage, run)

    def _set_aside(self, why: str) -> bool:
        file = self._place.file
        if not file.is_file():
            return False
        try:
            aside = set_aside(file)
        except OSError:
            return False
        self._say(f"{file.name} is set aside as {aside.name} ({why}), and made anew")
        return True

    def _why(self, error: Exception) -> str:
        return f"{type(error).__name__}: {self._place.without_secrets(str(error))}"

    def _tell_exhausted(self, loaded: LoadedRun, parent: str) -> None:
        run = loaded.run
        planned = run.search_rounds * run.trials_per_round
        settings = count_settings(run.tunables[parent], at_most=planned)
        if settings < planned:
            self._say_once(
                f"{parent}: there are {settings} settings of its tunables, fewer than the "
                f"{planned} trials of its search: each is tried once"
            )

    def _say_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._say(line)

    def _seed(self, parent: str, number: int) -> int:
        text = f"{self._config.load.seed}:{parent}:{number}"
        # What NumPy takes.
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
