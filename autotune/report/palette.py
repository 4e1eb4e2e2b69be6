"""One colour, marker and line a candidate, the same in every plot of a run.

The colours are Okabe and Ito's, which stay apart under the common kinds of colour blindness; the
marker repeats the distinction for print and for near-equal curves. Plots have an opaque white
ground: on a transparent one these colours, and any text, would be pale on one of GitHub's two
themes, and a white card reads well on both. Yellow is left out, since it vanishes on white.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
BACKGROUND = "#FFFFFF"
INK = "#222222"
GRID = "#DDDDDD"


@dataclass(frozen=True)
class Look:
    """How one candidate is drawn; ``hollow`` (dashed too) means that it can't win."""

    colour: str
    marker: str
    hollow: bool

    @property
    def fill(self) -> str:
        return BACKGROUND if self.hollow else self.colour

    @property
    def line(self) -> Literal["-", "--"]:
        return "--" if self.hollow else "-"


def looks(candidates: Sequence[str], *, rejected: frozenset[str]) -> dict[str, Look]:
    """Return each candidate's look by its place in the run; 63 places until one comes again."""
    return {
        name: Look(
            colour=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            hollow=name in rejected,
        )
        for place, name in enumerate(candidates)
    }
