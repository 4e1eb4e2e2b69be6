"""One colour, marker and line a backend, the same in every plot and, where it can be, every run.

The colours stay apart under the common kinds of colour blindness and stand out from the ground;
the first five are Okabe and Ito's. The marker repeats the distinction for print and for near-equal
curves. Plots have an opaque white ground: on a transparent one these colours, and any text, would
be pale on one of GitHub's two themes, and a white card reads well on both.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from autotune.records.schema import RunRecord

COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#000000", "#5415A0", "#3792FA", "#7A4B00"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "*", "<", ">")
BACKGROUND = "#FFFFFF"
INK = "#222222"
FAINT_INK = "#555555"
GRID = "#DDDDDD"

# Backends that are often compared wish for different places, so that each keeps its look in every
# run. Any other name has a place that follows from its letters.
_WISHES = {
    **{"triton": 0, "eager": 0},
    **{"flashinfer_cutlass": 1, "batched_mm": 1, "triton_kernel": 1},
    **{"flashinfer_trtllm_routed": 2, "grouped_mm": 2},
    **{"flashinfer_trtllm": 3},
    **{"auto": 4, "aiter": 4},
    **{"flashinfer_cutedsl": 5, "flashinfer_mxfp4": 5},
    **{"deep_gemm": 6, "flashinfer_megamoe": 6},
    **{"cutlass": 7, "marlin": 7},
}


@dataclass(frozen=True)
class Look:
    """How one candidate is drawn; ``hollow`` (dashed too) means that it can't win."""

    colour: str
    marker: str
    hollow: bool = False

    @property
    def fill(self) -> str:
        return BACKGROUND if self.hollow else self.colour

    @property
    def line(self) -> Literal["-", "--"]:
        return "--" if self.hollow else "-"


def looks(
    keys: Mapping[str, str], *, rejected: frozenset[str], palette: Mapping[str, Look]
) -> dict[str, Look]:
    """Return the look of each candidate of one run, in the run's order.

    Args:
        keys: what each candidate is in ``palette``, as `look_keys` says.
        rejected: the candidates that can't win.
        palette: `assign` of all keys, of all runs that are shown together.
    """
    return {name: replace(palette[key], hollow=name in rejected) for name, key in keys.items()}


def look_keys(runs: Sequence[RunRecord]) -> list[dict[str, str]]:
    """Return, for each run, what each of its candidates shares a look with in the other runs.

    That is its backend, unless one of the runs has several candidates with that backend: then each
    name has a look of its own.
    """
    several = {
        backend
        for run in runs
        for backend, number in Counter(c.backend for c in run.candidates).items()
        if number > 1
    }
    return [
        {
            # No name holds a slash, so that no name is taken for a backend.
            c.name: f"{c.backend}/{c.name}" if c.backend in several else c.backend
            for c in run.candidates
        }
        for run in runs
    ]


def assign(keys: Iterable[str]) -> dict[str, Look]:
    """Return a look for each key; up to eight have colours of their own, up to 72 look different.

    The order of ``keys`` doesn't matter. Keys that wish for the same colour are served by name,
    known backends first.
    """
    found: dict[str, Look] = {}
    used: Counter[int] = Counter()
    for key in sorted(set(keys), key=lambda key: (_name(key) not in _WISHES, key)):
        wish = _WISHES.get(_name(key), _place(key))
        order = [(wish + step) % len(COLOURS) for step in range(len(COLOURS))]
        place = min(order, key=lambda place: used[place])
        marker = (place + used[place]) % len(MARKERS)
        used[place] += 1
        found[key] = Look(colour=COLOURS[place], marker=MARKERS[marker])
    return found


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _place(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") % len(COLOURS)
