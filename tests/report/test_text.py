"""Hostile text becomes one printable line, and figures keep their meaning."""

import math

import pytest

from autotune.decide.schema import RatioEstimate
from autotune.decisions.schema import Interval
from autotune.report.numbers import figure, percent, ratio, time_unit
from autotune.report.text import one_line, plot_label


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("\x1b[31;1mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("unfinished \x1b", "unfinished"),
        ("a\r\nb\tc\x00d\x9be", "a b c d e"),
        ("one\u202etwo\u200bthree", "one two three"),
        ("lone \ud800 surrogate", "lone surrogate"),
    ],
)
def test_one_line(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_one_line_cuts_long_text() -> None:
    assert one_line("x" * 1000, longest=10) == "x" * 9 + "…"


def test_plot_label_is_ascii() -> None:
    assert plot_label("Xeon™ \u202e$x$") == "Xeon? $x$"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (9716.7, "9,717"),
        (142.9, "142.9"),
        (12.345, "12.35"),
        (0.01234, "0.0123"),
        (0.0, "0"),
        (None, "n/a"),
        (math.nan, "n/a"),
    ],
)
def test_figure(value: float | None, shown: str) -> None:
    assert figure(value) == shown


def test_times_of_a_column_share_a_unit() -> None:
    assert time_unit([0.02, None, 9.9]).show(0.02) == "20.00"
    assert time_unit([0.02, 10.0]).show(0.02) == "0.02"
    assert time_unit([None, math.nan]).show(None) == "n/a"


def test_ratio_says_n_and_interval() -> None:
    estimate = RatioEstimate(ratio=1.045, n=3, interval=Interval(1.031, 1.06, 0.95))
    assert ratio(estimate) == "1.045 [1.031, 1.060], n = 3"
    assert ratio(estimate, told_n=3) == "1.045 [1.031, 1.060]"
    assert ratio(RatioEstimate(ratio=1.045, n=1)) == "1.045, n = 1"
    assert ratio(None) == "n/a"
    assert percent(0.9875) == "98.75%"
