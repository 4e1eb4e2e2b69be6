"""The decision rule: from a run's records and verdicts to an outcome, a choice, and its notes.

Pure: the same records and verdicts give the same judgement. ``docs/decisions.md`` explains it.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from autotune.decide import wording
from autotune.decide.admission import Admission, admit, backends_told
from autotune.decide.compare import Comparison, comparable, compare, eligible, is_beaten
from autotune.decide.limits import unknown_limit
from autotune.decide.schema import Judgement, Standing
from autotune.decide.standing import baseline_of, overall_ratio, standing_of, winners_of
from autotune.decisions.request import AUTO
from autotune.decisions.schema import ConcurrencyWinner
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.schema import RunRecord


def judge_run(
    run: LoadedRun,
    verdicts: Mapping[str, CandidateVerdict],
    *,
    accept_inconclusive: bool = False,
) -> Judgement:
    """Judge a run by its rule.

    Args:
        run: its records.
        verdicts: every candidate's verdict on its answers.
        accept_inconclusive: let candidates compete whose answers couldn't be judged.
    """
    admissions = admit(run, verdicts)
    comparison = compare_run(run, admissions, accept_inconclusive=accept_inconclusive)
    if comparison is None:
        return _nothing_to_choose(run, admissions)
    rounds = comparison.rounds[comparison.leader]
    baseline, role = baseline_of(run.run, admissions)
    winners = winners_of(comparison, admissions, run.run)
    standings = tuple(
        standing_of(admission, comparison, run.run, baseline=admissions.get(baseline or ""))
        for admission in admissions.values()
    )
    chosen = admissions[comparison.choice]
    judgement = Judgement(
        outcome=comparison.outcome,
        choice=comparison.choice,
        summary=wording.summary(
            outcome=comparison.outcome,
            choice=comparison.choice,
            leader=comparison.leader,
            incumbent=run.run.incumbent,
            standings=standings,
            rule=run.run.rule,
            rounds=len(rounds),
            twins=len(comparison.twins),
        ),
        rounds=len(rounds),
        baseline=baseline,
        baseline_role=role,
        standings=standings,
        winners=winners,
        notes=_notes(comparison, admissions, run, winners=winners),
        blockers=wording.blockers(comparison.doubt, chosen.verdict),
    )
    if chosen.backend != AUTO:
        return judgement
    return _unnamed(judgement, backends_told(run, comparison.choice))


def compare_run(
    run: LoadedRun, admissions: Mapping[str, Admission], *, accept_inconclusive: bool = False
) -> Comparison | None:
    """Compare those of a run that may win; ``None`` where no one is both right and measured."""
    able = eligible(admissions.values(), accept_inconclusive=accept_inconclusive)
    contenders = comparable(able, run.run)
    if not contenders:
        return None
    unmeasured = [admission for admission in able if admission not in contenders]
    return compare(contenders, run.run, unmeasured=unmeasured)


def _unnamed(judgement: Judgement, told: Sequence[str | None]) -> Judgement:
    """``auto`` is best, and nobody knows what it stands for: no decision could name it."""
    why = wording.unnamed(judgement.choice or AUTO, told)
    return msgspec.structs.replace(
        judgement,
        outcome="open",
        choice=None,
        summary=f"open: {why} ({judgement.summary})",
        blockers=(why,),
    )


def _notes(
    comparison: Comparison,
    admissions: Mapping[str, Admission],
    run: LoadedRun,
    *,
    winners: Sequence[ConcurrencyWinner],
) -> tuple[str, ...]:
    chosen = admissions[comparison.choice]
    notes = wording.ahead(
        [
            winner
            for winner in winners
            if admissions[winner.candidate].launched_as != chosen.launched_as
        ],
        choice=comparison.choice,
    )
    notes += (
        wording.ran_the_same(
            comparison.leader,
            twin,
            backend=chosen.backend,
            ratio=math.exp(
                comparison.fit.effects[comparison.leader] - comparison.fit.effects[twin]
            ),
        )
        for twin in sorted(comparison.twins)
    )
    measured_rounds = {number for rounds in comparison.rounds.values() for number in rounds}
    if len(measured_rounds) == 1:
        notes.append(
            "one round gives no interval: nothing here says how much a repeat would differ"
        )
    if len(comparison.contenders) == 1:
        notes.append(f"{comparison.choice} is the only admissible candidate: nothing rivals it")
    if comparison.worst_ratio[comparison.leader] < run.run.rule.floor:
        notes.append(
            wording.no_one_reaches_floor(
                comparison.leader, comparison.worst_ratio[comparison.leader], run.run.rule.floor
            )
        )
    notes += wording.rounds_left_out(run.points, comparison.rounds)
    if run.run.kind == "import" and len(measured_rounds) > 1:
        notes.append(
            "no record shows that each repeat was a fresh server start: if it wasn't, the "
            "intervals are too narrow"
        )
    notes += (
        f"{name} is faster on average, but {wording.below_floor(worst, run.run.rule.floor)}"
        for name, worst in comparison.worst_ratio.items()
        if name in comparison.below_floor
    )
    notes += _faster_but_unproven(comparison, admissions, run.run)
    notes += _unfinished(comparison, run)
    return tuple(notes)


def _faster_but_unproven(
    comparison: Comparison, admissions: Mapping[str, Admission], run: RunRecord
) -> list[str]:
    """Name candidates that look faster than the choice, but that nobody could call right."""
    chosen = admissions[comparison.choice]
    notes = []
    for name, admission in admissions.items():
        if name in comparison.contenders or admission.refusal is not None:
            continue
        ratio = overall_ratio(admission, chosen, run)
        if ratio is not None and ratio.ratio > 1:
            notes.append(
                f"{name} is faster by {wording.percent(ratio.ratio)}, but isn't proven right: "
                f"{admission.verdict.reason}"
            )
    return notes


def _unfinished(comparison: Comparison, run: LoadedRun) -> list[str]:
    """Say that a race could still settle what is open: its budget ended it, or an interruption."""
    rule = run.run.rule
    measured = max(point.round for point in run.points) - run.run.search_rounds
    rivals = any(not is_beaten(bound) for bound in comparison.bounds.values())
    if run.run.kind != "sweep" or comparison.outcome != "open" or not rivals:
        return []
    if measured >= rule.max_rounds:
        return []
    return [
        f"the race isn't over: {measured} of at most {rule.max_rounds} rounds are measured; run "
        "the sweep again to go on"
    ]


def _nothing_to_choose(run: LoadedRun, admissions: Mapping[str, Admission]) -> Judgement:
    why = _why_nobody(admissions)
    return Judgement(
        outcome="open",
        choice=None,
        summary=f"open: {why}",
        rounds=0,
        baseline=None,
        baseline_role=None,
        standings=tuple(
            Standing(
                candidate=admission.candidate,
                backend=admission.backend,
                verdict=admission.verdict.verdict,
                admissible=False,
                rounds=0,
                reason=admission.refusal or admission.unmeasured or why,
            )
            for admission in admissions.values()
        ),
        blockers=(why,),
    )


def _why_nobody(admissions: Mapping[str, Admission]) -> str:
    """Say why no candidate can be compared at all."""
    able = [admission for admission in admissions.values() if admission.refusal is None]
    unknown = [(one.candidate, unknown_limit(one.limits)) for one in able]
    if able and all(why is not None for _, why in unknown):
        return f"no candidate can be held against every limit: {unknown[0][0]}: {unknown[0][1]}"
    if able:
        names = ", ".join(admission.candidate for admission in able)
        if len(able) == 1:
            return f"no round in which {names} has a valid point at every concurrency"
        return f"no round with a valid point at every concurrency that two of {names} share"
    over = [one for one in admissions.values() if one.failure is None]
    if over:
        said = "; ".join(f"{one.candidate}: {one.over_limit}" for one in over)
        return f"no candidate that is right keeps to the limits: {said}"
    return "no candidate is both right and measured"
