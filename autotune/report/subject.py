"""What a report is about: a run, what was judged of it, and its tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import pandas as pd

from autotune.decide.schema import Judgement
from autotune.decide.search import race_view
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.report.tables import launches_table, points_table, summary_table


@dataclass(frozen=True)
class Subject:
    """Everything that sections and plots are made from. The tables are made only once.

    ``run`` holds the records as they were judged: of a run with a search, the race alone. ``whole``
    holds all of them, and so does ``launches``. ``accepted`` are the sentences in spite of which
    somebody had a decision written; with ``inconclusive_let_in`` candidates compete in it whose
    answers couldn't be judged.
    """

    run: LoadedRun
    whole: LoadedRun
    judgement: Judgement
    verdicts: Mapping[str, CandidateVerdict]
    points: pd.DataFrame
    summary: pd.DataFrame
    launches: pd.DataFrame
    accepted: tuple[str, ...] = ()
    inconclusive_let_in: bool = False

    @classmethod
    def of(
        cls,
        run: LoadedRun,
        judgement: Judgement,
        *,
        verdicts: Mapping[str, CandidateVerdict],
        accepted: tuple[str, ...] = (),
        inconclusive_let_in: bool = False,
    ) -> Self:
        """Make the tables of ``run``, all of a folder's records."""
        race = race_view(run, verdicts)
        return cls(
            run=race,
            whole=run,
            judgement=judgement,
            verdicts=verdicts,
            points=points_table(race),
            summary=summary_table(race, judgement),
            launches=launches_table(run),
            accepted=accepted,
            inconclusive_let_in=inconclusive_let_in,
        )

    @property
    def names(self) -> list[str]:
        """The candidates in the run's order."""
        return [candidate.name for candidate in self.run.run.candidates]

    @property
    def imported(self) -> bool:
        return self.run.run.kind == "import"
