"""Where the labels of many points go so that none covers another, or a mark. Pure geometry.

All lengths are in points, 72 an inch.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Point = tuple[float, float]

_DISTANCES = (3.0, 7.0, 12.0, 18.0, 26.0, 36.0, 48.0, 62.0, 78.0)
# Up to the right first, where lines that fall to the right leave room.
_ANGLES = (45, 90, 0, 135, 315, 180, 270, 225, 67, 22, 112, 157, 337, 292, 202, 247)
_CROSSING_COSTS = 25.0
_GAP = 1.0


@dataclass(frozen=True)
class Box:
    """A rectangle with sides along the axes."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def centre(self) -> Point:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2

    def meets(self, other: "Box", *, gap: float = 0.0) -> bool:
        return (
            self.left - gap < other.right
            and other.left - gap < self.right
            and self.bottom - gap < other.top
            and other.bottom - gap < self.top
        )

    def holds(self, other: "Box") -> bool:
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.bottom <= other.bottom
            and other.top <= self.top
        )

    def is_crossed(self, start: Point, end: Point) -> bool:
        """Whether the straight line from ``start`` to ``end`` touches this box."""
        low, high = 0.0, 1.0
        sides = ((self.left, self.right), (self.bottom, self.top))
        for place, (least, most) in enumerate(sides):
            step = end[place] - start[place]
            if step == 0:
                if not least <= start[place] <= most:
                    return False
                continue
            first, last = sorted(((least - start[place]) / step, (most - start[place]) / step))
            low, high = max(low, first), min(high, last)
        return low <= high


def place_labels(
    anchors: Sequence[Point], sizes: Sequence[Point], *, mark: float, within: Box
) -> list[Box | None]:
    """Return a box for each label, ``None`` for one that has no room.

    A box is near its anchor where it can be; one that is far off needs a line to it, which crosses
    no other box.

    Args:
        anchors: the points that are labelled.
        sizes: width and height of each label.
        mark: half the width of the marks at the anchors, which no label covers.
        within: where labels may be.
    """
    marks = [Box(x - mark, y - mark, x + mark, y + mark) for x, y in anchors]
    placed: list[Box | None] = [None] * len(anchors)
    lines: list[tuple[Point, Point]] = []
    # The most crowded ones have the fewest places to choose from.
    order = sorted(range(len(anchors)), key=lambda n: (-_neighbours(anchors, n), n))
    for number in order:
        anchor = anchors[number]
        taken = [box for box in placed if box is not None]
        best: tuple[float, Box] | None = None
        for distance, box in _boxes(anchor, sizes[number], mark=mark):
            if best is not None and distance >= best[0]:
                break
            if not within.holds(box) or any(box.meets(other, gap=_GAP) for other in taken):
                continue
            if any(box.meets(other) for other in marks):
                continue
            line = (anchor, box.centre)
            if any(other.is_crossed(*line) for other in taken):
                continue
            crossed = sum(box.is_crossed(*other) for other in lines)
            if crossed:
                continue
            cost = distance + _CROSSING_COSTS * sum(_cross(line, other) for other in lines)
            # A line over another point's mark could be taken for a line from there.
            cost += _CROSSING_COSTS * (sum(other.is_crossed(*line) for other in marks) - 1)
            if best is None or cost < best[0]:
                best = (cost, box)
        if best is not None:
            placed[number] = best[1]
            lines.append((anchor, best[1].centre))
    return placed


def _boxes(anchor: Point, size: Point, *, mark: float) -> Iterator[tuple[float, Box]]:
    width, height = size
    for distance in _DISTANCES:
        for angle in _ANGLES:
            # The box's near side, not its middle, is so far from the mark.
            across, up = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            x = anchor[0] + across * (mark + distance + width / 2)
            y = anchor[1] + up * (mark + distance + height / 2)
            yield distance, Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def _neighbours(anchors: Sequence[Point], number: int) -> int:
    return sum(math.dist(anchors[number], other) < 2 * _DISTANCES[4] for other in anchors)


def _cross(line: tuple[Point, Point], other: tuple[Point, Point]) -> bool:
    (a, b), (c, d) = line, other
    return _turn(a, b, c) * _turn(a, b, d) < 0 and _turn(c, d, a) * _turn(c, d, b) < 0


def _turn(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
