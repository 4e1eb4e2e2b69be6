"""The decision rule: from admitted candidates to an outcome, a choice, and what must be said.

Pure: the same records and verdicts give the same judgement. ``docs/decisions.md`` explains it.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Literal

import msgspec

from autotune.decide import wording
from autotune.decide.admission import Admission, admit
from autotune.decide.schema import Judgement, RatioEstimate, Standing
from autotune.decide.statistics import (
    BlockFit,
    Bounds,
    difference_bounds,
    fit_blocks,
    ratio_estimate,
)
from autotune.decisions.schema import ConcurrencyWinner, Interval, Outcome
from autotune.probe.verdict import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.schema import Rule, RunRecord


class _Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The contenders on their complete blocks, and the one that the rule takes."""

    contenders: tuple[str, ...]
    rounds: tuple[int, ...]
    fit: BlockFit
    worst_ratio: dict[str, float]
    choice: str
    outcome: Outcome
    bounds: dict[str, Bounds]
    leader: str


def judge_run(run: LoadedRun, verdicts: Mapping[str, CandidateVerdict]) -> Judgement:
    """Judge a run by its rule.

    Args:
        run: its records.
        verdicts: every candidate's verdict on its answers.
    """
    admissions = admit(run, verdicts)
    contenders = _contenders(admissions)
    rounds = _complete_rounds(contenders, run.run)
    if not rounds:
        return _nothing_to_choose(run, admissions, contenders)
    comparison = _compare(contenders, rounds, run.run)
    baseline, role = _baseline(run.run, admissions)
    winners = _winners(comparison, admissions, run.run)
    standings = tuple(
        _standing(admission, comparison, run.run, baseline=admissions.get(baseline or ""))
        for admission in admissions.values()
    )
    chosen = admissions[comparison.choice]
    return Judgement(
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
        ),
        rounds=len(rounds),
        baseline=baseline,
        baseline_role=role,
        standings=standings,
        winners=winners,
        notes=_notes(comparison, admissions, run, winners=winners),
        blockers=wording.blockers(
            outcome=comparison.outcome,
            verdict=chosen.verdict,
            rounds=len(rounds),
            rule=run.run.rule,
            standings=standings,
        ),
    )


def _contenders(admissions: Mapping[str, Admission]) -> list[Admission]:
    """Those that passed; only where nobody did, those whose answers nobody could judge."""
    able = [admission for admission in admissions.values() if admission.refusal is None]
    passed = [admission for admission in able if admission.verdict.verdict == "pass"]
    return passed or able


def _complete_rounds(contenders: Sequence[Admission], run: RunRecord) -> tuple[int, ...]:
    if not contenders:
        return ()
    complete = [contender.complete_rounds(run.concurrencies) for contender in contenders]
    return tuple(sorted(set.intersection(*complete)))


def _compare(
    contenders: Sequence[Admission], rounds: tuple[int, ...], run: RunRecord
) -> _Comparison:
    rule = run.rule
    scores = {
        contender.candidate: [_score(contender.throughputs[r], run) for r in rounds]
        for contender in contenders
    }
    fit = fit_blocks(scores)
    worst = _worst_ratios(contenders, rounds, run)
    leader = _leader(fit, worst, rule)
    # Whoever the floor kept out isn't a rival, however high its mean.
    rivals = [
        name
        for name in scores
        if name != leader and (worst[name] >= rule.floor or fit.means[name] <= fit.means[leader])
    ]
    comparisons = len(run.candidates) - 1
    bounds = {
        name: difference_bounds(fit, leader, name, alpha=rule.alpha, comparisons=comparisons)
        for name in rivals
    }
    outcome = _outcome(bounds.values(), rounds=len(rounds), rule=rule)
    return _Comparison(
        contenders=tuple(scores),
        rounds=rounds,
        fit=fit,
        worst_ratio=worst,
        choice=_choice(leader, outcome, bounds, run, worst=worst),
        outcome=outcome,
        bounds=bounds,
        leader=leader,
    )


def _score(throughputs: Mapping[int, float], run: RunRecord) -> float:
    """The weighted mean of ln(throughput): the log of a weighted geometric mean."""
    even = 1 / len(run.concurrencies)
    weights = run.rule.weights
    return math.fsum(
        (weights[concurrency] if weights else even) * math.log(throughputs[concurrency])
        for concurrency in run.concurrencies
    )


def _worst_ratios(
    contenders: Sequence[Admission], rounds: Sequence[int], run: RunRecord
) -> dict[str, float]:
    """Each contender's lowest share, over the concurrencies, of the best throughput there."""
    worst = {contender.candidate: 1.0 for contender in contenders}
    for concurrency in run.concurrencies:
        logs = {
            contender.candidate: fmean(
                math.log(contender.throughputs[r][concurrency]) for r in rounds
            )
            for contender in contenders
        }
        best = max(logs.values())
        for name, value in logs.items():
            worst[name] = min(worst[name], math.exp(value - best))
    return worst


def _leader(fit: BlockFit, worst: Mapping[str, float], rule: Rule) -> str:
    reaching = [name for name in fit.means if worst[name] >= rule.floor]
    if not reaching:
        return max(worst, key=lambda name: (worst[name], fit.means[name]))
    return max(reaching, key=lambda name: fit.means[name])


def _outcome(bounds: Collection[Bounds], *, rounds: int, rule: Rule) -> Outcome:
    if rounds < rule.rounds:
        return "open"
    lows = [bound.low for bound in bounds]
    if all(low is not None and low > 0 for low in lows):
        return "decisive"
    if all(low is not None and low >= -math.log1p(rule.delta) for low in lows):
        return "within_delta"
    return "open"


def _choice(
    leader: str,
    outcome: Outcome,
    bounds: Mapping[str, Bounds],
    run: RunRecord,
    *,
    worst: Mapping[str, float],
) -> str:
    """The leader, or the incumbent where it's among the equals: a change needs a gain."""
    incumbent = run.incumbent
    if outcome != "within_delta" or incumbent is None or incumbent not in bounds:
        return leader
    behind = bounds[incumbent]
    equal = behind.low is not None and behind.low <= 0
    near = behind.difference <= math.log1p(run.rule.delta)
    return incumbent if equal and near and worst[incumbent] >= run.rule.floor else leader


def _baseline(
    run: RunRecord, admissions: Mapping[str, Admission]
) -> tuple[str | None, Literal["incumbent", "reference"] | None]:
    """What ratios are shown against: the incumbent if it has figures, else the reference."""
    if run.incumbent is not None and admissions[run.incumbent].throughputs:
        return run.incumbent, "incumbent"
    if run.reference is not None and admissions[run.reference].throughputs:
        return run.reference, "reference"
    return None, None


def _standing(
    admission: Admission,
    comparison: _Comparison,
    run: RunRecord,
    *,
    baseline: Admission | None,
) -> Standing:
    name = admission.candidate
    contends = name in comparison.contenders
    reason = admission.refusal
    if reason is None and not contends:
        reason = f"not proven right: {admission.verdict.reason}"
    if reason is None and comparison.worst_ratio[name] < run.rule.floor:
        reason = wording.below_floor(comparison.worst_ratio[name], run.rule.floor)
    bound = comparison.bounds.get(name)
    return Standing(
        candidate=name,
        backend=admission.backend,
        verdict=admission.verdict.verdict,
        admissible=contends,
        rounds=len(admission.complete_rounds(run.concurrencies)),
        reason=reason,
        to_baseline=_overall_ratio(admission, baseline, run),
        to_baseline_at=_ratios_at(admission, baseline, run),
        behind=_behind(bound, comparison, run.rule) if bound is not None else None,
    )


def _overall_ratio(
    admission: Admission, baseline: Admission | None, run: RunRecord
) -> RatioEstimate | None:
    if baseline is None:
        return None
    shared = admission.complete_rounds(run.concurrencies)
    rounds = sorted(shared & baseline.complete_rounds(run.concurrencies))
    if not rounds:
        return None
    ours = [math.exp(_score(admission.throughputs[r], run)) for r in rounds]
    theirs = [math.exp(_score(baseline.throughputs[r], run)) for r in rounds]
    return ratio_estimate(ours, theirs, confidence=1 - run.rule.alpha)


def _ratios_at(
    admission: Admission, baseline: Admission | None, run: RunRecord
) -> dict[int, RatioEstimate]:
    if baseline is None:
        return {}
    found = {}
    for concurrency in run.concurrencies:
        pair = _paired(admission, baseline, concurrency)
        if pair:
            ours, theirs = zip(*pair, strict=True)
            found[concurrency] = ratio_estimate(ours, theirs, confidence=1 - run.rule.alpha)
    return found


def _paired(admission: Admission, other: Admission, concurrency: int) -> list[tuple[float, float]]:
    """Both candidates' throughputs in the rounds in which both have a valid one."""
    rounds = sorted(admission.throughputs.keys() & other.throughputs.keys())
    return [
        (admission.throughputs[r][concurrency], other.throughputs[r][concurrency])
        for r in rounds
        if concurrency in admission.throughputs[r] and concurrency in other.throughputs[r]
    ]


def _behind(bound: Bounds, comparison: _Comparison, rule: Rule) -> RatioEstimate:
    interval = None
    if bound.low is not None and bound.high is not None:
        interval = Interval(math.exp(bound.low), math.exp(bound.high), 1 - rule.alpha)
    return RatioEstimate(
        ratio=math.exp(bound.difference), n=len(comparison.rounds), interval=interval
    )


def _winners(
    comparison: _Comparison, admissions: Mapping[str, Admission], run: RunRecord
) -> tuple[ConcurrencyWinner, ...]:
    """The fastest contender at each concurrency; alpha is split over the concurrencies."""
    confidence = 1 - run.rule.alpha / len(run.concurrencies)
    chosen = admissions[comparison.choice]
    winners = []
    for concurrency in sorted(run.concurrencies):

        def mean_log(name: str, at: int = concurrency) -> float:
            values = admissions[name].throughputs
            return fmean(math.log(values[r][at]) for r in comparison.rounds)

        best = max(
            comparison.contenders, key=lambda name: (mean_log(name), name == chosen.candidate)
        )
        ratio = RatioEstimate(ratio=1.0, n=len(comparison.rounds))
        if best != chosen.candidate:
            ratio = ratio_estimate(
                [admissions[best].throughputs[r][concurrency] for r in comparison.rounds],
                [chosen.throughputs[r][concurrency] for r in comparison.rounds],
                confidence=confidence,
            )
        winners.append(
            ConcurrencyWinner(
                concurrency=concurrency,
                candidate=best,
                backend=admissions[best].backend,
                ratio_to_choice=ratio.ratio,
                interval=ratio.interval,
            )
        )
    return tuple(winners)


def _notes(
    comparison: _Comparison,
    admissions: Mapping[str, Admission],
    run: LoadedRun,
    *,
    winners: Sequence[ConcurrencyWinner],
) -> tuple[str, ...]:
    notes = wording.ahead(winners, choice=comparison.choice)
    if len(comparison.rounds) == 1:
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
    measured = {point.round for point in run.points}
    notes += wording.rounds_left_out(
        sorted(measured - set(comparison.rounds)),
        {
            name: admissions[name].complete_rounds(run.run.concurrencies)
            for name in comparison.contenders
        },
    )
    notes += _faster_but_unproven(comparison, admissions, run.run)
    return tuple(notes)


def _faster_but_unproven(
    comparison: _Comparison, admissions: Mapping[str, Admission], run: RunRecord
) -> list[str]:
    """Name candidates that look faster than the choice, but that nobody could call right."""
    chosen = admissions[comparison.choice]
    notes = []
    for name, admission in admissions.items():
        if name in comparison.contenders or admission.refusal is not None:
            continue
        ratio = _overall_ratio(admission, chosen, run)
        if ratio is not None and ratio.ratio > 1:
            notes.append(
                f"{name} is faster by {wording.percent(ratio.ratio)}, but isn't proven right: "
                f"{admission.verdict.reason}"
            )
    return notes


def _nothing_to_choose(
    run: LoadedRun, admissions: Mapping[str, Admission], contenders: Sequence[Admission]
) -> Judgement:
    if contenders:
        names = ", ".join(contender.candidate for contender in contenders)
        why = f"no round in which {names} all have a valid point at every concurrency"
    else:
        why = "no candidate is both right and measured"
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
                admissible=admission in contenders,
                rounds=len(admission.complete_rounds(run.run.concurrencies)),
                reason=admission.refusal,
            )
            for admission in admissions.values()
        ),
        blockers=(why,),
    )
