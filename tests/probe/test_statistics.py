"""The arithmetic of correctness against scipy's, published values, simulation and plain sense."""

import math
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from autotune.probe.statistics import (
    detectable_share,
    items_needed,
    larger_share,
    loss_missed,
    mean_bounds,
    miss_probability,
    more_often,
    paired_difference,
    rate_bounds,
    share_bounds,
    wilson,
)

close = pytest.approx
counts = st.integers(0, 60)
alphas = st.sampled_from([0.001, 0.025, 0.05, 0.3])
shares = st.floats(0, 1)


@st.composite
def hits_of(draw: st.DrawFn, least: int = 0) -> tuple[int, int]:
    n = draw(st.integers(least, 60))
    return draw(st.integers(0, n)), n


@st.composite
def pairs(draw: st.DrawFn) -> tuple[float, float, int]:
    n = draw(st.integers(1, 300))
    gained = draw(st.floats(0, n))
    return gained, draw(st.floats(0, n - gained)), n


class TestWilson:
    @given(hits_of(least=1))
    def test_is_scipys(self, hits: tuple[int, int]) -> None:
        ci = stats.binomtest(*hits).proportion_ci(0.95, method="wilson")
        assert wilson(*hits, confidence=0.95) == close((ci.low, ci.high), abs=1e-12)

    def test_by_hand(self) -> None:
        # z = 1.959964: (50 + z2/2) / (100 + z2) -+ z sqrt(25 + z2/4) / (100 + z2).
        assert wilson(50, 100, confidence=0.95) == close((0.4038315, 0.5961685), abs=1e-6)

    @given(shares, st.integers(1, 1000))
    def test_the_share_lies_inside(self, share: float, n: int) -> None:
        successes = min(share * n, n)
        low, high = wilson(successes, n, confidence=0.95)
        assert 0 <= low <= successes / n <= high <= 1

    def test_of_nothing_nothing_is_known(self) -> None:
        assert wilson(0, 0, confidence=0.95) == (0, 1)

    @pytest.mark.parametrize(
        ("successes", "n", "confidence"), [(2, 1, 0.9), (-1, 1, 0.9), (1, 1, 1)]
    )
    def test_refuses_nonsense(self, successes: int, n: int, confidence: float) -> None:
        with pytest.raises(ValueError):
            wilson(successes, n, confidence=confidence)


class TestPairedDifference:
    # The airway study of 21 children (1 and 7 differ) as published by Fagerland, Lydersen and
    # Laake, Statistics in Medicine 33 (2014) 2850-2875: -0.517 to -0.026.
    def test_is_the_published_one(self) -> None:
        assert paired_difference(1, 7, 21, confidence=0.95) == close((-0.517, -0.026), abs=5e-4)

    @pytest.mark.parametrize("n", [1, 40, 188, 400])
    def test_has_a_width_where_nothing_differs(self, n: int) -> None:
        z2 = stats.norm.ppf(0.975) ** 2
        half = z2 / (n + z2)
        assert paired_difference(0, 0, n, confidence=0.95) == close((-half, half))

    @given(pairs())
    def test_each_bound_is_where_the_score_reaches_z(self, pair: tuple[float, float, int]) -> None:
        gained, lost, n = pair
        z = stats.norm.ppf(0.975)
        for bound in paired_difference(gained, lost, n, confidence=0.95):
            if abs(bound) < 1 - 1e-6:
                # q by a search of the likelihood's derivative instead of the formula.
                q = _most_likely_lost(gained, lost, n, bound)
                variance = 2 * q + bound * (1 - bound)
                score = (gained - lost - n * bound) / math.sqrt(n * variance)
                assert abs(score) == close(z, rel=1e-3)

    @given(pairs())
    def test_mirrors(self, pair: tuple[float, float, int]) -> None:
        gained, lost, n = pair
        low, high = paired_difference(gained, lost, n, confidence=0.95)
        assert -1 <= low <= (gained - lost) / n + 1e-9
        assert (gained - lost) / n - 1e-9 <= high <= 1
        assert paired_difference(lost, gained, n, confidence=0.95) == close((-high, -low))

    @given(pairs())
    def test_is_wider_with_more_confidence(self, pair: tuple[float, float, int]) -> None:
        low, high = paired_difference(*pair, confidence=0.8)
        wide_low, wide_high = paired_difference(*pair, confidence=0.99)
        assert wide_low <= low + 1e-9
        assert high - 1e-9 <= wide_high

    @pytest.mark.parametrize(("gain", "loss"), [(0.01, 0.03), (0.0, 0.02), (0.1, 0.1)])
    def test_covers_the_truth(self, gain: float, loss: float) -> None:
        rng = Random(7)
        n, trials, covered = 200, 500, 0
        for _ in range(trials):
            drawn = [rng.random() for _ in range(n)]
            gained = sum(value < gain for value in drawn)
            lost = sum(gain <= value < gain + loss for value in drawn)
            low, high = paired_difference(gained, lost, n, confidence=0.95)
            covered += low <= gain - loss <= high
        assert 0.92 <= covered / trials <= 0.99

    def test_of_nothing_nothing_is_known(self) -> None:
        assert paired_difference(0, 0, 0, confidence=0.95) == (-1, 1)

    def test_a_sum_that_rounding_took_over_n_is_accepted(self) -> None:
        thirds = math.fsum([1 / 3] * 3) + 1e-15
        assert paired_difference(0, thirds, 1, confidence=0.95)[0] == close(-1)

    @pytest.mark.parametrize(("gained", "lost"), [(2, 2), (-1, 0), (math.nan, 0)])
    def test_refuses_nonsense(self, gained: float, lost: float) -> None:
        with pytest.raises(ValueError):
            paired_difference(gained, lost, 3, confidence=0.95)


def _most_likely_lost(gained: float, lost: float, n: int, difference: float) -> float:
    """Where the derivative of the trinomial log-likelihood in q (lost; gained is q + d) is 0."""
    low, high = max(0.0, -difference), (1 - difference) / 2
    for _ in range(200):
        q = (low + high) / 2
        slope = -2 * (n - gained - lost) / max(1 - 2 * q - difference, 1e-300)
        slope += gained / max(q + difference, 1e-300) + lost / max(q, 1e-300)
        low, high = (q, high) if slope > 0 else (low, q)
    return low


class TestRateBounds:
    @given(counts, st.floats(1e-3, 1e6), alphas)
    def test_each_side_has_its_alpha(self, events: int, exposure: float, alpha: float) -> None:
        low, high = rate_bounds(events, exposure, alpha=alpha)
        assert stats.poisson.cdf(events, high * exposure) == close(alpha)
        if events:
            assert stats.poisson.sf(events - 1, low * exposure) == close(alpha)
        else:
            assert low == 0

    def test_known_values(self) -> None:
        # The rule of three, and Garwood's limits for 10 events (chi-square tables).
        assert rate_bounds(0, 100, alpha=0.05) == close((0, 0.0299573), abs=1e-7)
        assert rate_bounds(10, 1, alpha=0.025) == close((4.795389, 18.390356))

    @given(st.floats(0, 50), st.floats(0, 5))
    def test_fractions_lie_between(self, events: float, more: float) -> None:
        low, high = rate_bounds(events, 10, alpha=0.05)
        next_low, next_high = rate_bounds(events + more, 10, alpha=0.05)
        assert low <= events / 10 <= high
        assert low <= next_low + 1e-9
        assert high <= next_high + 1e-9

    def test_without_exposure_nothing_is_known(self) -> None:
        assert rate_bounds(0, 0, alpha=0.05) == (0, math.inf)

    @pytest.mark.parametrize(
        ("events", "exposure", "alpha"),
        [(1, 0, 0.1), (-1, 1, 0.1), (1, math.inf, 0.1), (math.nan, 1, 0.1), (1, 1, 0), (1, 1, 0.6)],
    )
    def test_refuses_nonsense(self, events: float, exposure: float, alpha: float) -> None:
        with pytest.raises(ValueError):
            rate_bounds(events, exposure, alpha=alpha)


class TestShares:
    @given(hits_of(least=1), alphas)
    def test_bounds_are_scipys(self, hits: tuple[int, int], alpha: float) -> None:
        ci = stats.binomtest(*hits).proportion_ci(1 - 2 * alpha, method="exact")
        assert share_bounds(*hits, alpha=alpha) == close((ci.low, ci.high), abs=1e-9)

    def test_of_nothing_nothing_is_known(self) -> None:
        assert share_bounds(0, 0, alpha=0.05) == (0, 1)

    @given(hits_of(), hits_of())
    def test_larger_share_is_fishers(self, one: tuple[int, int], other: tuple[int, int]) -> None:
        table = [[one[0], one[1] - one[0]], [other[0], other[1] - other[0]]]
        expected = stats.fisher_exact(table, alternative="greater").pvalue
        assert larger_share(*one, *other) == close(expected, rel=1e-9, abs=1e-12)

    def test_fishers_tea(self) -> None:
        assert larger_share(3, 4, 1, 4) == close(17 / 70)
        assert larger_share(4, 4, 0, 4) == close(1 / 70)

    def test_large_counts_are_quick_and_exact_enough(self) -> None:
        normal = stats.norm.sf(1000 / math.sqrt(200_000 * 0.495 * 0.505))
        assert larger_share(50_000, 100_000, 49_000, 100_000) == close(normal, rel=0.1)

    @pytest.mark.parametrize(("hits", "n"), [(2, 1), (-1, 3)])
    def test_refuse_nonsense(self, hits: int, n: int) -> None:
        with pytest.raises(ValueError):
            share_bounds(hits, n, alpha=0.05)
        with pytest.raises(ValueError):
            larger_share(1, 2, hits, n)


class TestMoreOften:
    @given(counts, counts, st.floats(0.1, 1000), st.floats(0.1, 1000))
    def test_is_the_binomial(self, one: int, other: int, mine: float, theirs: float) -> None:
        expected = stats.binom.sf(one - 1, one + other, mine / (mine + theirs))
        assert more_often(one, mine, other, theirs) == close(expected, abs=1e-12)

    @given(st.floats(0, 30), st.floats(0, 2), st.floats(0, 30))
    def test_more_events_are_more_evidence(self, one: float, more: float, other: float) -> None:
        assert more_often(one + more, 10, other, 10) <= more_often(one, 10, other, 10) + 1e-9
        assert more_often(one, 10, other, 10) <= more_often(one, 10, other + more, 10) + 1e-9

    def test_is_continuous_down_to_nothing(self) -> None:
        for few in (5e-324, 1e-300, 1e-9):
            assert more_often(few, 10, 0, 10) == close(1)
        assert more_often(0, 10, 0, 10) == 1
        assert more_often(5, 10, 0, 0) == 1
        assert more_often(0, 0, 5, 10) == 1

    def test_refuses_events_of_nowhere(self) -> None:
        with pytest.raises(ValueError):
            more_often(1, 0, 1, 1)


class TestMeanBounds:
    @given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), alphas)
    def test_is_students(self, values: list[float], alpha: float) -> None:
        assume(max(values) - min(values) > 1e-3)
        low, high = stats.ttest_1samp(values, 0).confidence_interval(1 - 2 * alpha)
        mean, *bounds = mean_bounds(values, alpha=alpha)
        scale = max(map(abs, values))
        assert mean == close(math.fsum(values) / len(values), abs=1e-9 * scale)
        assert bounds == close([low, high], abs=1e-9 * scale)

    def test_of_one_value_nothing_is_known(self) -> None:
        assert mean_bounds([3.5], alpha=0.05) == (3.5, -math.inf, math.inf)

    def test_equal_values_have_no_width(self) -> None:
        assert mean_bounds([0.0, 0.0], alpha=0.05) == (0, 0, 0)
        assert mean_bounds([-2.5] * 3, alpha=0.05) == (-2.5, -2.5, -2.5)

    def test_huge_values_do_not_overflow(self) -> None:
        mean, low, high = mean_bounds([1.7e308] * 3 + [1.6e308], alpha=0.05)
        assert low < mean < high

    @pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf, 1.0]])
    def test_refuses_what_has_no_mean(self, values: list[float]) -> None:
        with pytest.raises(ValueError):
            mean_bounds(values, alpha=0.05)


class TestMissed:
    def test_by_hand(self) -> None:
        assert miss_probability(1 / 8, 8) == close(0.3436089)
        assert miss_probability(0.5, 0) == 1
        assert miss_probability(1, 1) == 0
        assert detectable_share(8) == close(1 - 0.05**0.125)
        assert detectable_share(0) == 1

    @given(st.integers(1, 10_000), st.floats(0.001, 0.5))
    def test_one_undoes_the_other(self, answers: int, miss: float) -> None:
        assert miss_probability(detectable_share(answers, miss=miss), answers) == close(miss)

    def test_refuse_nonsense(self) -> None:
        for share, answers in ((1.1, 1), (-0.1, 1), (0.5, -1)):
            with pytest.raises(ValueError):
                miss_probability(share, answers)
        for answers, miss in ((-1, 0.5), (1, 0.0), (1, 1.0)):
            with pytest.raises(ValueError):
                detectable_share(answers, miss=miss)


class TestItemsNeeded:
    def test_by_hand(self) -> None:
        # ((1.959964 sqrt(.06) + 0.841621 sqrt(.06 - .0004)) / .02)2
        assert items_needed(0.06, 0.02, confidence=0.95) == 1175
        # No fewer than a loss of the margin itself makes differ.
        assert items_needed(0, 0.02, confidence=0.95) == items_needed(0.02, 0.02, confidence=0.95)

    @given(shares, st.floats(0.001, 0.2))
    def test_so_many_miss_the_loss_one_time_in_five(self, share: float, margin: float) -> None:
        n = items_needed(share, margin, confidence=0.95)
        assert loss_missed(n, share, margin, confidence=0.95) <= 0.2 + 1e-9
        assert loss_missed(n - 1, share, margin, confidence=0.95) >= 0.2 - 1e-9

    def test_simulated(self) -> None:
        rng = Random(3)
        gain, loss = 0.02, 0.07
        n, trials, missed = 300, 600, 0
        for _ in range(trials):
            drawn = [rng.random() for _ in range(n)]
            gained = sum(value < gain for value in drawn)
            lost = sum(gain <= value < gain + loss for value in drawn)
            missed += paired_difference(gained, lost, n, confidence=0.95)[1] >= 0
        expected = loss_missed(n, gain + loss, loss - gain, confidence=0.95)
        assert missed / trials == close(expected, abs=0.06)

    def test_extremes(self) -> None:
        assert items_needed(1, 1e-9, confidence=0.95) == 10**9
        assert loss_missed(0, 0.1, 0.02, confidence=0.95) == 1
        assert loss_missed(10, 1, 1, confidence=0.95) == 0
        for share, margin in ((1.1, 0.1), (0.1, 0.0), (0.1, 1.1), (math.nan, 0.1)):
            with pytest.raises(ValueError):
                items_needed(share, margin, confidence=0.95)
