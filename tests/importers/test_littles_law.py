"""A point whose own figures contradict one another is marked; rounding and ramps aren't."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.importers.littles_law import told_by_littles_law
from autotune.records.schema import Distribution, PointFigures, PointRecord


def point(*, rate: float | None, latency_s: float | None, tokens: float | None) -> PointRecord:
    figures = PointFigures(
        output_tokens_per_s=rate,
        output_tokens_mean=tokens,
        latency_s=Distribution(mean=latency_s),
    )
    return PointRecord(candidate="a", round=1, concurrency=16, status="ok", figures=figures)


def codes(told: PointRecord) -> list[str]:
    return [warning.code for warning in told.warnings]


def test_milliseconds_taken_for_seconds_are_told() -> None:
    # 16 users at 100 tokens/s in all and 128 tokens each wait for 20.48 s.
    right = point(rate=100.0, latency_s=20.48, tokens=128)
    assert told_by_littles_law(right, output_tokens=None) is right
    wrong = told_by_littles_law(point(rate=100.0, latency_s=0.02048, tokens=128), output_tokens=1)
    assert codes(wrong) == ["figures_disagree"]
    assert "make 0.016 requests in progress" in wrong.warnings[0].observed


def test_the_workload_says_how_long_answers_are() -> None:
    silent = point(rate=100.0, latency_s=0.001, tokens=None)
    assert codes(told_by_littles_law(silent, output_tokens=None)) == []
    assert codes(told_by_littles_law(silent, output_tokens=128)) == ["figures_disagree"]


@pytest.mark.parametrize("missing", ["rate", "latency_s", "tokens"])
def test_what_isnt_known_isnt_judged(missing: str) -> None:
    given_figures = {"rate": 100.0, "latency_s": 1e-9, "tokens": 128.0}
    some = point(**given_figures | {missing: None})
    assert told_by_littles_law(some, output_tokens=None) is some


@given(st.floats(0.3, 3.0), st.floats(1.0, 1e6), st.floats(1.0, 1e5))
def test_rounding_and_ramps_arent_contradictions(share: float, rate: float, tokens: float) -> None:
    latency_s = 16 * share * tokens / rate
    one = point(rate=rate, latency_s=latency_s, tokens=tokens)
    assert told_by_littles_law(one, output_tokens=None) is one
