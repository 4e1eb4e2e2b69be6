"""Labels cover neither one another nor a mark, and stay within the panel."""

import math
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.report.label_places import Box, Point, place_labels

PANEL = Box(0, 0, 500, 280)
MARK = 3.5
SIZE = (20.0, 7.5)


def check(anchors: list[Point], boxes: list[Box | None]) -> None:
    placed = [box for box in boxes if box is not None]
    for one, other in combinations(placed, 2):
        assert not one.meets(other)
    for box in placed:
        assert PANEL.holds(box)
        for x, y in anchors:
            assert not box.meets(Box(x - MARK, y - MARK, x + MARK, y + MARK))


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(5, 495), st.floats(5, 275)), min_size=1, max_size=24, unique=True)
)
def test_no_label_covers_anything(anchors: list[Point]) -> None:
    check(anchors, place_labels(anchors, [SIZE] * len(anchors), mark=MARK, within=PANEL))


def test_eight_candidates_at_six_concurrencies_all_have_a_label() -> None:
    anchors = [
        (40 + 80 * step + 6 * candidate, 240 - 40 * step + 5 * math.sin(candidate))
        for step in range(6)
        for candidate in range(8)
    ]
    boxes = place_labels(anchors, [SIZE] * 48, mark=MARK, within=PANEL)
    assert None not in boxes
    check(anchors, boxes)


def test_a_lone_label_is_beside_its_mark() -> None:
    (box,) = place_labels([(100.0, 100.0)], [SIZE], mark=MARK, within=PANEL)
    assert box is not None
    assert math.dist(box.centre, (100, 100)) < 25


def test_where_there_is_no_room_there_is_no_label() -> None:
    crowd = [(10.0 + n % 5, 10.0 + n // 5) for n in range(25)]
    within = Box(0, 0, 30, 30)
    boxes = place_labels(crowd, [SIZE] * 25, mark=MARK, within=within)
    assert None in boxes


def test_a_line_crosses_a_box_or_passes_it() -> None:
    box = Box(10, 10, 20, 20)
    assert box.is_crossed((0, 0), (30, 30))
    assert box.is_crossed((15, 0), (15, 30))
    assert not box.is_crossed((0, 0), (9, 9))
    assert not box.is_crossed((0, 25), (30, 25))
