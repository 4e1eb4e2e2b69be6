"""How a sweep's plan is told on a terminal: its schedule, what it costs, and its commands."""

import shlex
from itertools import groupby

from autotune.cli.output import tell
from autotune.sweep.estimate import Estimate
from autotune.sweep.preview import Preview, Schedule, ScreenPreview
from autotune.sweep.screening import ScreenedCandidate

# Of folders that can't be read, so many are named.
_NAMED = 3


def tell_preview(plan: Preview) -> None:
    """Print what a sweep will do, and what it will cost."""
    tell(f"{plan.name}: {plan.key} on {plan.device}")
    tell(f"run folder: {plan.folder}")
    _tell_schedule(plan.schedule)
    _tell_screen(plan.screen)
    _tell_standing(plan)
    _tell_cost(plan.estimate)
    tell("\nrequests per point, beside as many warm-up requests as the concurrency:")
    for point in plan.requests:
        tell(
            f"  concurrency {point.concurrency}: {point.measured} measured, then "
            f"{point.probes} probes among {point.fillers} more"
        )
    _tell_commands(plan)


def _tell_schedule(schedule: Schedule) -> None:
    tell("\nschedule:")
    for number, group in groupby(schedule.launches, key=lambda launch: launch.round):
        launches = list(group)
        if number == 0:
            tell(f"  round 0  {launches[0].candidate}: the reference's answers, no load")
            _tell_search(schedule)
            continue
        order = ", ".join(str(concurrency) for concurrency in launches[0].concurrencies)
        names = ", ".join(launch.candidate for launch in launches)
        tell(f"  round {number}  {names}, each at concurrency {order}")
    later = schedule.last_certain_round + 1
    if later < schedule.last_round:
        where = f"rounds {later} to {schedule.last_round}"
    else:
        where = f"round {later}"
    if later <= schedule.last_round:
        tell(f"  {where}  only as long as they are needed, by whom is still in the race")


def _tell_search(schedule: Schedule) -> None:
    search = schedule.search
    if search is None:
        return
    rounds = "round 1" if search.rounds == 1 else f"rounds 1 to {search.rounds}"
    settings = f"{search.settings} setting{'s' if search.settings > 1 else ''}"
    tell(
        f"  {rounds}  a search: {search.companion}, and {settings} of each of "
        f"{', '.join(search.candidates)} that the sampler draws; the best of each joins the race"
    )


def _tell_screen(screen: ScreenPreview | None) -> None:
    """What the layer alone says of each candidate, and what follows from it."""
    if screen is None:
        return
    tell(f"\nscreen: {screen.file} ({screen.scheme} on {screen.device_name}):")
    for candidate in screen.candidates:
        tell(f"  {candidate.candidate}: {_opinion(candidate)}")
    for warning in screen.warnings:
        tell(f"  warning: {warning}")


def _opinion(candidate: ScreenedCandidate) -> str:
    if not candidate.kernels:
        return "not in it"
    more = len(candidate.kernels) - _NAMED
    kernels = ", ".join(candidate.kernels[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    if candidate.ratio is not None:
        kernels += f", {candidate.ratio:.4g} times as long as the fastest"
    return kernels + (", wrong" if candidate.wrong else "")


def _tell_standing(plan: Preview) -> None:
    standing = plan.standing
    if standing is None:
        return
    tell(f"\nso far: {count(plan.estimate.launches.made, 'launch', 'launches')} made")
    if standing.over is not None:
        tell(f"  the race is over: {standing.over}")
        return
    what = ", ".join(standing.names) or "settings of the search"
    tell(f"  next is round {standing.round}: {what}")
    for name, reason in standing.resting.items():
        tell(f"  {name} isn't launched: {reason}")


def _tell_cost(cost: Estimate) -> None:
    launches = cost.launches
    tell("\ncost:")
    if not launches.most:
        tell("  0 launches to make")
        return
    rounds = count(cost.rounds_to_settle, "round", "rounds")
    tell(
        f"  {count(launches.fewest, 'launch', 'launches')} to make if {rounds} settle it and "
        f"nobody drops out, {launches.most} at most"
    )
    _tell_time(cost)
    _tell_noise(cost)
    if cost.unreadable:
        more = len(cost.unreadable) - _NAMED
        named = ", ".join(cost.unreadable[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        tell(f"  passed over, can't be read: {named}")
    for warning in cost.warnings:
        tell(f"  warning: {warning}")


def _tell_time(cost: Estimate) -> None:
    if cost.timing is None or cost.expected_s is None or cost.worst_s is None:
        tell(
            f"  time: not known, no earlier launch of this engine was found beside the run folder; "
            f"waiting for servers alone takes {duration(cost.waiting_s)} at most "
            "(engine.ready_timeout_s for each launch), the load left out"
        )
        return
    timing = cost.timing
    other = f", which had another {' and '.join(cost.differs)}" if cost.differs else ""
    tell(
        f"  time: about {duration(cost.expected_s)}, at worst {duration(cost.worst_s)} (launches "
        f"took {duration(timing.mean_s)} on average, {duration(timing.longest_s)} at most, in "
        f"{cost.folder}{other})"
    )


def _tell_noise(cost: Estimate) -> None:
    noise, precision = cost.noise, cost.precision
    if noise is None or precision is None:
        return
    tell(
        f"  noise: launches differed by {noise.deviation:.1%} within a round in {cost.folder} "
        f"({noise.candidates} candidates, {noise.rounds} rounds): the precision asked for takes "
        f"about {count(precision.rounds_needed, 'round', 'rounds')}"
    )


def _tell_commands(plan: Preview) -> None:
    """The exact command of each candidate; what all have in their environment comes first."""
    if plan.shared_environment:
        tell("\nenvironment of every launch:")
    for name, value in plan.shared_environment.items():
        tell(f"  {name}={shlex.quote(value)}")
    tell("\ncommands (ports are free ones at each launch; where a folder has a round, it is 1):")
    for command in plan.commands:
        if command.unsupported is not None:
            tell(f"  {command.candidate}: not launched, unsupported: {command.unsupported}")
            continue
        settings = [f"{name}={shlex.quote(value)}" for name, value in command.environment.items()]
        tell(f"  {command.candidate}: {' '.join([*settings, shlex.join(command.argv)])}")


def count(number: int, one: str, several: str) -> str:
    """Return a number with its word: ``1 launch``, ``16 launches``."""
    return f"{number} {one if number == 1 else several}"


def duration(seconds: float) -> str:
    """Return a time as one reads it: ``45 s``, ``8 min``, ``2 h 10 min``."""
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
