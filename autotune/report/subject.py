"""What a report is about: a run, what was judged of it, and its tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import pandas as pd

from autotune.decide.schema import Judgement
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.report.tables import launches_table, points_table, summary_table


@dataclass(frozen=True)
class Subject:
    """Everything that sections and plots are made from. The tables are made only once."""

    run: LoadedRun
    judgement: Judgement
    verdicts: Mapping[str, CandidateVerdict]
    points: pd.DataFrame
    summary: pd.DataFrame
    launches: pd.DataFrame

    @classmethod
    def of(
        cls, run: LoadedRun, judgement: Judgement, *, verdicts: Mapping[str, CandidateVerdict]
    ) -> Self:
        """Make the tables of ``run``."""
        return cls(
            run=run,
            judgement=judgement,
            verdicts=verdicts,
            points=points_table(run),
            summary=summary_table(run, judgement),
            launches=launches_table(run),
        )

    @property
    def names(self) -> list[str]:
        """The candidates in the run's order."""
        return [candidate.name for candidate in self.run.run.candidates]

    @property
    def imported(self) -> bool:
        return self.run.run.kind == "import"
