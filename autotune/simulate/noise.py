"""How much simulated launches differ: noise, its tails and its memory, and drift. Pure.

All of it is in ln(throughput), where a difference is a ratio. The generator is Python's own
(`random.Random`), so that a seed gives the same figures on every machine.
"""

import math
import random
from typing import Literal

import msgspec

# A launch is a start of a server, and what makes it fast or slow holds at every concurrency; this
# share of the variance of a launch's score is what each point adds by itself.
POINT_SHARE = 0.25
# Degrees of freedom of Student's t: the fewest (of whole ones) with a standard deviation.
HEAVY = 3.0
# Nothing is faster or slower by more than e^50: every throughput stays a float above zero.
_FURTHEST = 50.0

Tails = Literal["normal", "heavy"] | float


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """What launches of one candidate differ by.

    ``sd`` is the standard deviation of a launch's score (the mean of ln(throughput) over the
    concurrencies), so that 0.02 is about 2%. ``drift`` is how much ln(throughput) changes from
    the first to the last launch of the longest sweep, linear in time. ``autocorrelation`` is the
    coefficient between the scores of successive launches (an AR(1) process). ``tails`` are
    ``normal``, or those of Student's t with so many degrees of freedom (``heavy``: 3), scaled to
    the same ``sd``. ``wild`` is what one launch of the sweep is off by (-0.3: 30% slower; 0: none):
    any of the longest sweep's, or, with ``wild_hits`` set to ``best``, the first one of the best.
    """

    sd: float = 0.02
    drift: float = 0.0
    autocorrelation: float = 0.0
    tails: Tails = "normal"
    wild: float = 0.0
    wild_hits: Literal["any", "best"] = "any"

    def check(self) -> None:
        """Check ranges.

        Raises:
            ValueError: a setting out of its range; the message begins with its name.
        """
        if not 0 <= self.sd <= 1:
            raise ValueError(f"sd {self.sd}: give a share from 0 to 1, such as 0.021 for 2.1%")
        if not -1 <= self.drift <= 1:
            raise ValueError(
                f"drift {self.drift}: give a share from -1 to 1, such as 0.05 for 5% over the sweep"
            )
        if not -1 < self.autocorrelation < 1:
            raise ValueError(
                f"autocorrelation {self.autocorrelation}: give a coefficient between -1 and 1"
            )
        if not -1 < self.wild <= 10:
            raise ValueError(
                f"wild {self.wild}: give what one launch is off by, above -1 and up to 10: -0.3 "
                "is 30% slower"
            )
        if not isinstance(self.tails, str) and not 2 < self.tails <= 1000:
            raise ValueError(
                f"tails {self.tails}: give normal, heavy, or degrees of freedom above 2 (with 2 "
                "or fewer there is no standard deviation) and up to 1000"
            )


class NoiseSource:
    """The noise of one sweep, launch after launch; its clock advances by one with each."""

    def __init__(
        self, noise: Noise, generator: random.Random, *, launches: int, points: int
    ) -> None:
        """Begin at time 0.

        Args:
            noise: what to draw; it has been checked.
            generator: gives every number that is drawn.
            launches: how many the longest sweep makes: drift is spread over them.
            points: how many points each launch measures.
        """
        self._noise = noise
        self._generator = generator
        self._degrees = None if noise.tails == "normal" else HEAVY
        if not isinstance(noise.tails, str):
            self._degrees = noise.tails
        self._drift_per_launch = noise.drift / launches
        self._points = points
        self._point_sd = noise.sd * math.sqrt(POINT_SHARE * points)
        self._launches_made = 0
        self._memory: float | None = None

    def next_launch(self) -> tuple[float, ...]:
        """Return what the next launch's points are off by, in ln(throughput).

        Their mean has the noise's ``sd``, tails and autocorrelation exactly: the points' own
        deviations are centred, since their mean is part of the launch's score already.
        """
        drift = self._drift_per_launch * self._launches_made
        self._launches_made += 1
        off = self._score() + drift
        own = [self._point_sd * self._draw() for _ in range(self._points)]
        centre = math.fsum(own) / self._points
        return tuple(_held(off + one - centre) for one in own)

    def _score(self) -> float:
        fresh = self._noise.sd * self._draw()
        kept = self._noise.autocorrelation
        # Scaled, so that the deviation is the same from the first launch to the last.
        new = fresh
        if self._memory is not None:
            new = kept * self._memory + math.sqrt(1 - kept * kept) * fresh
        self._memory = new
        return new

    def _draw(self) -> float:
        """A number of mean 0 and standard deviation 1."""
        normal = self._generator.gauss(0.0, 1.0)
        if self._degrees is None:
            return normal
        squares = self._generator.gammavariate(self._degrees / 2, 2.0)
        # t = normal / sqrt(squares / degrees) has the variance degrees / (degrees - 2).
        return normal * math.sqrt((self._degrees - 2) / max(squares, 1e-300))


def _held(off: float) -> float:
    return max(-_FURTHEST, min(off, _FURTHEST))
