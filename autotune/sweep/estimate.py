"""What a sweep will cost, and whether its budget and its rounds can settle anything. Pure."""

from collections.abc import Collection

import msgspec

from autotune.config.schema import SweepConfig
from autotune.decide.admission import admit
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.rule import Rule
from autotune.sweep.earlier import Earlier, Found, Timing
from autotune.sweep.plan import most_launches
from autotune.sweep.precision import Noise, Precision, noise_of, precision_of
from autotune.sweep.race import Round, Stop, duration_s, over_budget


class Launches(msgspec.Struct, frozen=True, kw_only=True):
    """How many launches are made, and how many are still to make.

    ``fewest`` is how many it takes if the race is settled as soon as it may be and all stay in it
    until then, ``most`` if nothing is settled early; candidates that drop out make it fewer.
    """

    made: int
    fewest: int
    most: int


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What the launches that are still to make will cost.

    ``expected_s`` is for the fewest launches of the usual length, ``worst_s`` for the most, each as
    long as the longest one; ``None`` where no such launch is known. ``waiting_s`` is how long the
    most launches may wait for their servers at most (``ready_timeout_s``), the load left out.
    ``folder`` is the run that it was estimated by.
    """

    launches: Launches
    rounds_to_settle: int
    waiting_s: float
    expected_s: float | None = None
    worst_s: float | None = None
    folder: str | None = None
    differs: tuple[str, ...] = ()
    timing: Timing | None = None
    noise: Noise | None = None
    precision: Precision | None = None
    unreadable: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep that was begun.

    ``run`` holds its records, ``race`` those of the race alone; ``search_round`` is the search
    round that comes next, ``None`` where the search is over, and ``step`` what the race says.
    """

    run: LoadedRun
    race: LoadedRun
    verdicts: dict[str, CandidateVerdict]
    search_round: int | None
    step: Round | Stop


def estimate(
    config: SweepConfig, found: Found, *, launchable: Collection[str], progress: Progress | None
) -> Estimate:
    """Return what a sweep will cost from here on.

    Args:
        config: the sweep.
        found: earlier launches to go by.
        launchable: the names of the candidates that the engine supports.
        progress: where the sweep stands, if it was begun.
    """
    launches = launches_to_make(config, launchable=launchable, progress=progress)
    earlier, rule = found.earlier, config.rule()
    racing = _racing(config, launchable)
    timing = None if earlier is None else earlier.timing
    noise = None if earlier is None else noise_of(earlier.run)
    precision = None
    if noise is not None and racing > 1:
        precision = precision_of(noise, rule, candidates=racing)
    return Estimate(
        launches=launches,
        rounds_to_settle=min(rule.needed_rounds, rule.max_rounds),
        waiting_s=launches.most * config.engine.ready_timeout_s,
        expected_s=None if timing is None else launches.fewest * timing.mean_s,
        worst_s=None if timing is None else launches.most * timing.longest_s,
        folder=None if earlier is None else earlier.folder,
        differs=() if earlier is None else earlier.differs,
        timing=timing,
        noise=noise,
        precision=precision,
        unreadable=found.unreadable,
        warnings=_warnings(
            config,
            launches,
            earlier=earlier,
            noise=noise,
            precision=precision,
            progress=progress,
        ),
    )


def launches_to_make(
    config: SweepConfig, *, launchable: Collection[str], progress: Progress | None
) -> Launches:
    """Return how many launches are made, and how many are still to make, at least and at most."""
    rule = config.rule()
    racing = _racing(config, launchable)
    settled = min(rule.needed_rounds, rule.max_rounds)
    all_of_it = most_launches(_only(config, launchable))
    search = all_of_it - 1 - rule.max_rounds * racing
    if progress is None:
        most = all_of_it
        return Launches(made=0, fewest=1 + search + settled * racing, most=most)
    made = progress.run.launches
    before = int(not any(launch.round == 0 for launch in made))
    if progress.search_round is not None:
        searched = sum(1 <= launch.round <= config.search_rounds for launch in made)
        before += max(0, search - searched)
    unsupported = {one.name for one in config.candidate_list()} - set(launchable)
    fewest, most = _still_to_race(rule, progress, racing=racing, unsupported=unsupported)
    return Launches(made=len(made), fewest=before + fewest, most=before + most)


def _still_to_race(
    rule: Rule, progress: Progress, *, racing: int, unsupported: Collection[str]
) -> tuple[int, int]:
    """How many launches of the race are missing, at least and at most."""
    race, step = progress.race, progress.step
    settled = min(rule.needed_rounds, rule.max_rounds)
    if progress.search_round is not None:
        # Who joins the race is known only after the search.
        return settled * racing, rule.max_rounds * racing
    if isinstance(step, Stop):
        return 0, 0
    number = step.number - race.run.search_rounds
    launched = {launch.candidate for launch in race.launches if launch.round == step.number}
    names = set(step.names) - set(unsupported)
    missing = len(names - launched)
    # Those who rest may be asked for again; those who can't win any more aren't.
    able = {
        name
        for name, one in admit(race, progress.verdicts).items()
        if one.lasting_refusal(rule) is None
    }
    return (
        missing + max(0, settled - number) * len(names),
        missing + (rule.max_rounds - number) * len((able | names) - set(unsupported)),
    )


def _only(config: SweepConfig, launchable: Collection[str]) -> SweepConfig:
    kept = [given for given in config.candidate_configs() if given.name in launchable]
    return msgspec.structs.replace(config, candidates=tuple(kept))


def _racing(config: SweepConfig, launchable: Collection[str]) -> int:
    """How many race: the listed candidates, and the best setting of each with tunables."""
    kept = _only(config, launchable).candidate_configs()
    return len(kept) + sum(bool(given.tunables) for given in kept)


def _warnings(
    config: SweepConfig,
    launches: Launches,
    *,
    earlier: Earlier | None,
    noise: Noise | None,
    precision: Precision | None,
    progress: Progress | None,
) -> tuple[str, ...]:
    """What keeps the sweep from settling anything, as far as it's known before it starts."""
    if not launches.most:
        return ()
    rule = config.rule()
    found = []
    if rule.max_rounds < rule.needed_rounds:
        found.append(
            f"decision.max_rounds: {rule.max_rounds} can't settle anything: a claim needs "
            f"{rule.needed_rounds} rounds. Raise it"
        )
    elif noise is not None and precision is not None:
        found += _too_noisy(rule, noise, precision)
    found += _too_dear(config, launches, earlier=earlier, progress=progress)
    return tuple(found)


def _too_noisy(rule: Rule, noise: Noise, precision: Precision) -> list[str]:
    remedy = (
        "Raise decision.max_rounds or decision.delta, or measure longer points "
        "(load.min_requests, load.requests_per_slot)"
    )
    differ = f"decision.max_rounds: where launches differ by {noise.deviation:.1%} within a round"
    if precision.rounds_needed > rule.max_rounds:
        return [
            f"{differ}, {rule.max_rounds} rounds can't be expected to settle differences of "
            f"{rule.delta:.1%} (decision.delta): that takes about {precision.rounds_needed}. They "
            f"tell apart what differs by {precision.gap_told:.1%}, and a lead of "
            f"{precision.gap_proven:.1%} is proof. {remedy}"
        ]
    if precision.gap_proven > rule.delta:
        return [
            f"{differ}, {rule.max_rounds} rounds are expected to find the best, but equals may end "
            f"open: a lead is proof from {precision.gap_proven:.1%} on, and decision.delta is "
            f"{rule.delta:.1%}. {remedy}"
        ]
    return []


def _too_dear(
    config: SweepConfig,
    launches: Launches,
    *,
    earlier: Earlier | None,
    progress: Progress | None,
) -> list[str]:
    budget = config.budget
    spent = None if progress is None else over_budget(progress.run, budget)
    if spent is not None:
        return [f"{spent}: raise it to go on"]
    found = []
    needed = launches.made + launches.fewest
    what = f"{needed} launches, unless candidates drop out"
    remedy = "Raise it, or list fewer candidates"
    if budget.max_launches is not None and budget.max_launches < needed:
        found.append(
            f"budget.max_launches: {budget.max_launches} can't settle it: that takes {what}. "
            f"{remedy}"
        )
    if budget.max_hours is not None and earlier is not None:
        made = () if progress is None else progress.run.launches
        hours = sum(duration_s(launch) for launch in made) / 3600
        hours += launches.fewest * earlier.timing.mean_s / 3600
        if hours > budget.max_hours:
            found.append(
                f"budget.max_hours: {budget.max_hours:g} can't settle it: that takes about "
                f"{hours:.2f} hours ({what}). {remedy}"
            )
    return found
