"""The race: who is launched in the next round, who rests and why, and when it is over. Pure.

Everything follows from the records, at any time: a sweep that was interrupted goes on as if it
hadn't been, and what is dropped on the strength of figures comes back if later ones take them
back. ``docs/decisions.md`` explains the rule.
"""

import datetime
import math
from collections.abc import Mapping

import msgspec

from autotune.config.schema import BudgetConfig
from autotune.decide.admission import Admission, admit
from autotune.decide.compare import Comparison, is_beaten
from autotune.decide.rule import compare_run
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.schema import LaunchRecord


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Who is launched in a round; ``resting`` gives the reason why each of the others isn't."""

    number: int
    names: tuple[str, ...]
    resting: dict[str, str]


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """No round is needed any more, and why; ``settled`` where the figures say so."""

    reason: str
    settled: bool = False


def next_round(run: LoadedRun, verdicts: Mapping[str, CandidateVerdict]) -> Round | Stop:
    """Return the round to make or to complete, or why there is none.

    Args:
        run: the records of the race: without a search's trials, but with its finalists
            (`autotune.decide.search.race_view`).
        verdicts: every candidate's verdict on its answers.
    """
    first = run.run.search_rounds + 1
    begun = max((launch.round for launch in run.launches), default=0)
    if begun < first:
        return _round(run, verdicts, first)
    current = _round(run, verdicts, begun)
    if isinstance(current, Round):
        launched = {launch.candidate for launch in run.launches if launch.round == begun}
        if not launched.issuperset(current.names):
            return current
    return _round(run, verdicts, begun + 1)


def over_budget(run: LoadedRun, budget: BudgetConfig) -> str | None:
    """Say which budget the next launch would exceed, ``None`` where it fits.

    It is expected to take as long as the launches so far, on average. What wasn't started, since
    the engine can't run it here, costs nothing.
    """
    started = [launch for launch in run.launches if launch.status != "unsupported"]
    made = len(started)
    if budget.max_launches is not None and made >= budget.max_launches:
        return f"budget.max_launches: {made} launches are made"
    if budget.max_hours is not None and made:
        spent_h = sum(duration_s(launch) for launch in started) / 3600
        if spent_h * (made + 1) / made > budget.max_hours:
            return (
                f"budget.max_hours: {spent_h:.2f} of {budget.max_hours:g} hours are spent, and a "
                f"launch takes {spent_h / made:.2f}"
            )
    return None


def duration_s(launch: LaunchRecord) -> float:
    """Return how long a launch took, 0 where its times aren't known."""
    try:
        began = datetime.datetime.fromisoformat(launch.started_at or "")
        ended = datetime.datetime.fromisoformat(launch.ended_at or "")
        return max(0.0, (ended - began).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _round(run: LoadedRun, verdicts: Mapping[str, CandidateVerdict], number: int) -> Round | Stop:
    """Return the round ``number`` as the rounds before it would have it."""
    rule = run.run.rule
    done = number - run.run.search_rounds - 1
    # A failure counts whenever it happened; figures only of the rounds before.
    before = _before(run, number)
    admissions = admit(before, verdicts)
    failures = admissions if before is run else admit(run, verdicts)
    out = {name: one.failure for name, one in failures.items() if one.failure is not None}
    for name, one in admissions.items():
        reason = one.lasting_refusal(rule)
        if reason is not None:
            out.setdefault(name, reason)
    admissions = {name: one for name, one in admissions.items() if name not in out}
    if not admissions:
        return Stop(reason="no candidate is left")
    comparison = compare_run(run, admissions)
    # Over a limit so far, but not for good: more rounds may show that it was chance.
    undecided = any(one.over_limit is not None for one in admissions.values())
    if done >= rule.needed_rounds and comparison is not None and not undecided:
        if comparison.outcome != "open":
            return Stop(reason=f"{comparison.outcome} after {done} rounds", settled=True)
        if not comparison.bounds and len(comparison.contenders) == len(admissions):
            return Stop(reason=f"{done} rounds are measured, and there is nothing to compare")
    if done >= rule.max_rounds:
        return Stop(reason=f"all {rule.max_rounds} rounds are measured")
    slow = {} if comparison is None else _slow(run, comparison, admissions, done=done)
    names = tuple(name for name in admissions if name not in slow)
    return Round(number=number, names=names, resting={**out, **slow})


def _before(run: LoadedRun, number: int) -> LoadedRun:
    points = tuple(point for point in run.points if point.round < number)
    return run if len(points) == len(run.points) else msgspec.structs.replace(run, points=points)


def _slow(
    run: LoadedRun, comparison: Comparison, admissions: Mapping[str, Admission], *, done: int
) -> dict[str, str]:
    """Return those that need no further launch as the figures stand, each with the reason."""
    if done >= run.run.rule.needed_rounds:
        compared = [comparison]
        everybody = compare_run(run, admissions, accept_inconclusive=True)
        if everybody is not None and everybody.contenders != comparison.contenders:
            # Those that couldn't be judged yet may still turn out right.
            compared.append(everybody)
        slow = {
            name: f"behind {one.leader} by {_behind(one, name):.1%} beyond doubt"
            for one in reversed(compared)
            for name, bound in one.bounds.items()
            if is_beaten(bound)
            if one is comparison or name not in comparison.contenders
        }
    else:
        slow = _far_behind(run, comparison, admissions, done=done)
    going = [name for name in admissions if name not in slow]
    if slow and going == [comparison.leader]:
        # A round of one says nothing: the nearest rival stays, so that there is a difference.
        nearest = max(slow, key=lambda name: comparison.fit.effects.get(name, -math.inf))
        del slow[nearest]
    return slow


def _far_behind(
    run: LoadedRun, comparison: Comparison, admissions: Mapping[str, Admission], *, done: int
) -> dict[str, str]:
    """Those behind by more than ``drop_behind`` in each round so far, ``drop_after`` at least.

    Of one round alone nothing follows: a launch that goes wrong once would cost the best its place.
    The incumbent stays, since gains are shown against it.
    """
    rule = run.run.rule
    if done < rule.drop_after:
        return {}
    slow = {}
    for name in comparison.bounds:
        gaps = comparison.gaps(name)
        far = all(gap > -math.log1p(-rule.drop_behind) for gap in gaps)
        if name != run.run.incumbent and len(gaps) >= rule.drop_after and far:
            slow[name] = (
                f"more than {rule.drop_behind:.0%} behind {comparison.leader} in each of "
                f"{len(gaps)} rounds"
            )
    return slow


def _behind(comparison: Comparison, name: str) -> float:
    """How far a rival is behind, as a share of the leader's throughput."""
    return -math.expm1(-comparison.bounds[name].difference)
