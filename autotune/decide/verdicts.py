"""Every candidate's verdict on its answers, from a run's records. Pure."""

from autotune.probe.schema import CandidateVerdict
from autotune.probe.verdict import judge_probes
from autotune.records.folder import LoadedRun


def judge_answers(loaded: LoadedRun) -> dict[str, CandidateVerdict]:
    """Return the verdict on each listed candidate and each trial of a search, by name."""
    run = loaded.run
    candidates = [*run.candidates, *(trial.candidate for trial in loaded.trials)]
    return judge_probes(
        loaded.probes,
        candidates=[candidate.name for candidate in candidates],
        reference=run.reference,
        rule=run.rule,
        vocabulary_size=run.vocabulary_size,
    )
