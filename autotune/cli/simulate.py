"""``autotune simulate``: what a sweep will cost, and how often it will be right."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from autotune.cli.options import Json
from autotune.cli.output import tell, tell_json
from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.simulate import Scenario, Summary
    from autotune.simulate.noise import Tails


def simulate(
    gap: Annotated[
        float, typer.Option(help="How far the best is ahead of all others: 0.05 is 5%.")
    ] = 0.05,
    sd: Annotated[
        float,
        typer.Option(
            help="How much launches of the same differ within a round: the standard deviation of "
            "ln(throughput), so that 0.02 is about 2%. A dry run tells it of an earlier sweep."
        ),
    ] = 0.02,
    candidates: Annotated[int, typer.Option(help="How many are swept.")] = 4,
    equals: Annotated[int, typer.Option(help="How many of them share the first place.")] = 1,
    failing: Annotated[
        int, typer.Option(help="How many fail at their first start; never the best.")
    ] = 0,
    incumbent: Annotated[
        Literal["slower", "best", "none"], typer.Option(help="What the engine's auto gives today.")
    ] = "slower",
    drift: Annotated[
        float,
        typer.Option(help="How much the machine gets faster over the longest sweep: 0.05 is 5%."),
    ] = 0.0,
    autocorrelation: Annotated[
        float, typer.Option(help="Between a launch's noise and the next one's, from -1 to 1.")
    ] = 0.0,
    tails: Annotated[
        str,
        typer.Option(
            help="normal, heavy (Student's t with 3 degrees of freedom), or degrees of freedom."
        ),
    ] = "normal",
    wild: Annotated[
        float,
        typer.Option(help="What one launch of the sweep is off by: -0.3 is 30% slower."),
    ] = 0.0,
    wild_hits: Annotated[
        Literal["any", "best"],
        typer.Option(help="Which launch that is: any of the longest sweep, or the best's first."),
    ] = "any",
    delta: Annotated[float | None, typer.Option(help="As decision.delta in a config.")] = None,
    alpha: Annotated[float | None, typer.Option(help="As decision.alpha in a config.")] = None,
    min_rounds: Annotated[int | None, typer.Option(help="As decision.min_rounds.")] = None,
    max_rounds: Annotated[int | None, typer.Option(help="As decision.max_rounds.")] = None,
    drop_behind: Annotated[float | None, typer.Option(help="As decision.drop_behind.")] = None,
    drop_after: Annotated[int | None, typer.Option(help="As decision.drop_after.")] = None,
    runs: Annotated[int, typer.Option(help="How many sweeps to simulate.")] = 1000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same figures.")] = 1,
    json: Json = False,
) -> None:
    """Simulate sweeps: with this noise and this gap, what will mine cost, how often is it right?

    The race and the rule are the real ones, and so are their defaults; only throughputs are drawn
    instead of measured. Nothing is launched or written, and no GPU is needed.
    """
    from autotune.records.rule import Rule
    from autotune.simulate import Noise, Scenario
    from autotune.simulate import simulate as simulate_all

    rule: dict[str, Any] = {
        "delta": delta,
        "alpha": alpha,
        "min_rounds": min_rounds,
        "max_rounds": max_rounds,
        "drop_behind": drop_behind,
        "drop_after": drop_after,
    }
    scenario = Scenario(
        candidates=candidates,
        gap=gap,
        equals=equals,
        failing=failing,
        incumbent=incumbent,
        noise=Noise(
            sd=sd,
            drift=drift,
            autocorrelation=autocorrelation,
            tails=_tails(tails),
            wild=wild,
            wild_hits=wild_hits,
        ),
        rule=Rule(**{name: value for name, value in rule.items() if value is not None}),
    )
    try:
        summary = simulate_all(scenario, runs=runs, seed=seed)
    except ValueError as error:
        raise UsageError(f"--{_as_option(str(error))}") from None
    if json:
        tell_json(summary)
    else:
        _tell(summary)


def _tails(given: str) -> "Tails":
    named: dict[str, Tails] = {"normal": "normal", "heavy": "heavy"}
    try:
        return named[given] if given in named else float(given)
    except ValueError:
        raise UsageError(
            f"--tails {given!a}: give normal, heavy, or degrees of freedom above 2"
        ) from None


def _as_option(message: str) -> str:
    """A message that begins with a setting's name, spelt as its option is."""
    name, space, rest = message.partition(" ")
    return name.replace("_", "-") + space + rest


def _tell(summary: "Summary") -> None:
    low, high = summary.intervals["mean_launches"]
    delta = summary.scenario.rule.delta
    tell(f"{summary.runs} simulated sweeps of {_described(summary.scenario)}, seed {summary.seed}:")
    tell(
        f"  cost:  {summary.mean_launches:.1f} launches on average ({low:.1f} to {high:.1f}), "
        f"{summary.launches_share:.0%} of the {summary.exhaustive_launches} that a sweep makes at "
        f"most; 95% of them need {summary.p95_launches} or fewer"
    )
    for word, name, meaning in (
        ("right", "correct_rate", f"decided for the best, or one within {delta:.1%} of it"),
        ("wrong", "wrong_rate", "decided for one that is further behind"),
        ("open", "open_rate", "no decision: the rounds weren't enough"),
        ("leads", "leads_rate", "the choice or, where it is open, the leader is right"),
        ("false", "false_decisive_rate", "called decisive, and another is as good or better"),
    ):
        low, high = summary.intervals[name]
        share = getattr(summary, name)
        tell(f"  {word + ':':6} {share:.1%} ({low:.1%} to {high:.1%}): {meaning}")
    counts = ", ".join(f"{name} {count}" for name, count in summary.outcomes.items())
    tell(f"  outcomes: {counts}")
    tell("  in parentheses: 95% intervals, which more --runs make narrower")


def _described(scenario: "Scenario") -> str:
    noise = scenario.noise
    words = [
        f"{scenario.candidates} candidates",
        f"gap {scenario.gap:.1%}" if scenario.equals < scenario.candidates else "all equal",
        f"sd {noise.sd:.2%}",
    ]
    if 1 < scenario.equals < scenario.candidates:
        words.append(f"{scenario.equals} equally good")
    if scenario.failing:
        words.append(f"{scenario.failing} failing")
    if noise.drift:
        words.append(f"drift {noise.drift:+.1%}")
    if noise.autocorrelation:
        words.append(f"autocorrelation {noise.autocorrelation:g}")
    if noise.tails != "normal":
        words.append(f"tails {noise.tails}")
    if noise.wild:
        where = "one launch" if noise.wild_hits == "any" else "the best's first launch"
        words.append(f"{where} off by {noise.wild:+.0%}")
    return ", ".join(words)
