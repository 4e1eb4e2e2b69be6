"""The tables of docs/simulations.md: from summaries to text, and into their places."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.simulate import Summary

DOCUMENT = Path(__file__).parents[2] / "docs" / "simulations.md"


def render(summaries: Mapping[str, Summary]) -> str:
    """One row a scenario; rates in percent of its sweeps."""
    lines = [
        "| scenario | right | wrong | open | leader right | false `decisive` | launches | at most |"
        " share |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {_rate(one, 'correct_rate')} | {one.wrong_rate:.2%} | {one.open_rate:.1%} | "
        f"{one.leads_rate:.1%} | {one.false_decisive_rate:.2%} | {one.mean_launches:.1f} | "
        f"{one.exhaustive_launches} | {one.launches_share:.0%} |"
        for name, one in summaries.items()
    ]
    return "\n".join(lines) + "\n"


def render_fixed(races: Mapping[str, tuple[Summary, Sequence[Summary]]]) -> str:
    """Each race beside fixed numbers of rounds of the same scenario."""
    lines = ["| scenario | design | right | wrong | open | launches |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for name, (race, fixed) in races.items():
        lines.append(_row(name, "the race", race))
        lines += [_row(name, f"{one.scenario.rule.max_rounds} rounds", one) for one in fixed]
    return "\n".join(lines) + "\n"


def put(text: str, name: str, table: str) -> str:
    """The document with ``table`` between the marks of that name.

    Raises:
        ValueError: it has no such marks.
    """
    between = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    replaced, count = between.subn(lambda found: found[1] + table + found[2], text)
    if count != 1:
        raise ValueError(f"the document has no place for {name}")
    return replaced


def _row(name: str, design: str, one: Summary) -> str:
    return (
        f"| {name} | {design} | {_rate(one, 'correct_rate')} | {one.wrong_rate:.2%} | "
        f"{one.open_rate:.1%} | {one.mean_launches:.1f} |"
    )


def _rate(one: Summary, name: str) -> str:
    low, high = one.intervals[name]
    return f"{getattr(one, name):.1%} ({low:.1%} to {high:.1%})"
