"""The simulated noise is what was asked for: its deviation, tails, memory and drift."""

import math
import random
from statistics import fmean, pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.simulate.noise import Noise, NoiseSource, Tails


def scores(noise: Noise, *, seed: int, launches: int, points: int = 4) -> list[float]:
    """The scores of successive launches: the mean over their points."""
    source = NoiseSource(noise, random.Random(seed), launches=launches, points=points)
    return [fmean(source.next_launch()) for _ in range(launches)]


@pytest.mark.parametrize("points", [1, 4])
@pytest.mark.parametrize("sd", [0.005, 0.0335])
def test_a_launchs_score_has_the_deviation_asked_for(sd: float, points: int) -> None:
    drawn = scores(Noise(sd=sd), seed=1, launches=20_000, points=points)
    assert pstdev(drawn) == pytest.approx(sd, rel=0.02)
    assert fmean(drawn) == pytest.approx(0.0, abs=4 * sd / math.sqrt(20_000))


# With 3 degrees of freedom the deviation of a sample itself has no variance: it settles slowly.
@pytest.mark.parametrize(("tails", "near"), [("normal", 0.01), (30.0, 0.01), (5.0, 0.05)])
def test_tails_leave_the_deviation_as_it_is(tails: Tails, near: float) -> None:
    drawn = scores(Noise(sd=0.02, tails=tails), seed=2, launches=50_000, points=1)
    assert pstdev(drawn) == pytest.approx(0.02, rel=near)


@pytest.mark.parametrize(
    ("tails", "quantile"),
    # Student's t(3) at 0.9: 1.638, times sqrt(1/3); at 0.99: 4.541. Normal: 1.282 and 2.326.
    [("normal", (1.282, 2.326)), ("heavy", (0.946, 2.622)), (3.0, (0.946, 2.622))],
)
def test_tails_are_those_of_the_distribution(tails: Tails, quantile: tuple[float, float]) -> None:
    drawn = sorted(scores(Noise(sd=1.0, tails=tails), seed=3, launches=50_000, points=1))
    assert drawn[45_000] == pytest.approx(quantile[0], rel=0.03)
    assert drawn[49_500] == pytest.approx(quantile[1], rel=0.07)


def test_points_differ_beyond_what_their_launch_shares() -> None:
    source = NoiseSource(Noise(sd=0.02), random.Random(4), launches=1, points=4)
    launches = [source.next_launch() for _ in range(5_000)]
    # Each point's own deviation is as large as the score's: a quarter of its variance for 4.
    within = fmean(fmean((one - fmean(row)) ** 2 for one in row) for row in launches)
    assert within == pytest.approx(0.02**2 * 3 / 4, rel=0.05)


def test_without_noise_nothing_differs() -> None:
    assert set(scores(Noise(sd=0.0), seed=5, launches=50)) == {0.0}


@pytest.mark.parametrize("drift", [0.05, -0.2])
def test_drift_is_linear_and_spread_over_the_launches(drift: float) -> None:
    drawn = scores(Noise(sd=0.0, drift=drift), seed=6, launches=33)
    assert drawn == pytest.approx([drift * number / 33 for number in range(33)])


@pytest.mark.parametrize("kept", [-0.5, 0.0, 0.5, 0.9])
def test_successive_launches_are_correlated_as_asked(kept: float) -> None:
    drawn = scores(Noise(sd=0.02, autocorrelation=kept), seed=7, launches=50_000)
    assert pstdev(drawn) == pytest.approx(0.02, rel=0.05)
    for lag in (1, 2):
        found = fmean(a * b for a, b in zip(drawn, drawn[lag:], strict=False)) / pstdev(drawn) ** 2
        assert found == pytest.approx(kept**lag, abs=0.03)


def test_the_first_launch_differs_as_much_as_later_ones() -> None:
    noise = Noise(sd=0.02, autocorrelation=0.9)
    first = [scores(noise, seed=seed, launches=1)[0] for seed in range(5_000)]
    assert pstdev(first) == pytest.approx(0.02, rel=0.05)


def test_the_same_seed_gives_the_same_noise() -> None:
    noise = Noise(tails="heavy", autocorrelation=0.3, drift=0.05)
    one, same = (scores(noise, seed=8, launches=40) for _ in range(2))
    assert one == same
    assert one != scores(noise, seed=9, launches=40)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sd": -0.01},
        {"sd": 1.5},
        {"drift": 1.5},
        {"autocorrelation": 1.0},
        {"autocorrelation": -1.0},
        {"tails": 2.0},
        {"tails": 1e9},
        {"wild": -1.0},
        {"wild": 11.0},
        *({name: math.nan} for name in ("sd", "drift", "autocorrelation", "tails", "wild")),
        *({name: math.inf} for name in ("sd", "drift", "autocorrelation", "tails", "wild")),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"^{name} .*: give "):
        Noise(**wrong).check()  # type: ignore[arg-type]


@settings(max_examples=50, deadline=None)
@given(
    sd=st.floats(0, 1),
    drift=st.floats(-1, 1),
    autocorrelation=st.floats(-1, 1, exclude_min=True, exclude_max=True),
    tails=st.one_of(st.just("heavy"), st.floats(2, 1000, exclude_min=True)),
    seed=st.integers(0, 2**32),
)
def test_a_throughput_can_be_made_of_whatever_is_drawn(
    sd: float, drift: float, autocorrelation: float, tails: Tails, seed: int
) -> None:
    noise = Noise(sd=sd, drift=drift, autocorrelation=autocorrelation, tails=tails)
    noise.check()
    assert all(0 < math.exp(one) < math.inf for one in scores(noise, seed=seed, launches=40))
