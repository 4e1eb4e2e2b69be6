"""Each candidate beside the others: ratios to the baseline, winners by concurrency. Pure."""

import math
from collections.abc import Mapping
from typing import Literal

from autotune.decide import wording
from autotune.decide.admission import Admission
from autotune.decide.compare import Comparison, claim_level, score
from autotune.decide.schema import RatioEstimate, Standing
from autotune.decide.statistics import difference_bounds, ratio_estimate
from autotune.decisions.schema import ConcurrencyWinner
from autotune.records.schema import RunRecord


def baseline_of(
    run: RunRecord, admissions: Mapping[str, Admission]
) -> tuple[str | None, Literal["incumbent", "reference"] | None]:
    """What ratios are shown against: the incumbent if it has figures, else the reference."""
    measured = {name for name, admission in admissions.items() if admission.throughputs}
    if run.incumbent in measured:
        return run.incumbent, "incumbent"
    if run.reference in measured:
        return run.reference, "reference"
    return None, None


def standing_of(
    admission: Admission,
    comparison: Comparison,
    run: RunRecord,
    *,
    baseline: Admission | None,
) -> Standing:
    """Return one candidate's place among the others."""
    name = admission.candidate
    contends = name in comparison.contenders
    reason = admission.refusal or admission.unmeasured
    if reason is None and not contends:
        reason = f"not proven right: {admission.verdict.reason}"
    if name in comparison.below_floor:
        reason = wording.below_floor(comparison.worst_ratio[name], run.rule.floor)
    bound = comparison.bounds.get(name)
    return Standing(
        candidate=name,
        backend=admission.backend,
        verdict=admission.verdict.verdict,
        admissible=contends and name not in comparison.below_floor,
        rounds=len(admission.complete_rounds(run.concurrencies)),
        reason=reason,
        to_baseline=overall_ratio(admission, baseline, run),
        to_baseline_at=_ratios_at(admission, baseline, run),
        behind=wording.ratio_of(
            bound, confidence=1 - run.rule.alpha, rounds=len(comparison.gaps(name))
        )
        if bound is not None
        else None,
    )


def overall_ratio(
    admission: Admission, baseline: Admission | None, run: RunRecord
) -> RatioEstimate | None:
    """Return a candidate's ratio over all concurrencies, on the rounds that both completed."""
    if baseline is None:
        return None
    shared = admission.complete_rounds(run.concurrencies)
    rounds = sorted(shared & baseline.complete_rounds(run.concurrencies))
    if not rounds:
        return None
    ours = [math.exp(score(admission.throughputs[r], run)) for r in rounds]
    theirs = [math.exp(score(baseline.throughputs[r], run)) for r in rounds]
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


def winners_of(
    comparison: Comparison, admissions: Mapping[str, Admission], run: RunRecord
) -> tuple[ConcurrencyWinner, ...]:
    """The fastest contender at each concurrency; alpha is split over the concurrencies."""
    share = len(run.concurrencies)
    chosen = comparison.choice
    winners = []
    for concurrency in sorted(run.concurrencies):
        fit = comparison.fit_at[concurrency]
        best = max(comparison.contenders, key=lambda name: (fit.effects[name], name == chosen))
        ratio = RatioEstimate(ratio=1.0, n=len(comparison.rounds[chosen]))
        if best != chosen:
            bounds = difference_bounds(fit, best, chosen, level=claim_level(run) / share)
            ratio = wording.ratio_of(bounds, confidence=1 - run.rule.alpha / share, rounds=0)
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
