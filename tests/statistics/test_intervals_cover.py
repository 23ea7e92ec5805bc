"""Intervals and bounds hold as often as they say: of means, ratios, shares, differences, bands, borders."""

import numpy as np
import pytest
from scipy import stats

from gatewise.geometry import alignment
from gatewise.geometry.concentration import anti_concentration
from gatewise.geometry.grouped_rows import ratio_interval
from gatewise.geometry.two_sample import difference_interval
from gatewise.nn.xray.document_bootstrap import bootstrap_intervals
from gatewise.router.fitted_router import PredictionScale
from gatewise.scores.cost_frontier import band_factor
from gatewise.stats import mean_interval, share_bounds, upper_mean_bound
from tests.statistics.bounds import least, most
from tests.statistics.draws import draws

pytestmark = pytest.mark.statistics


def within(hits, runs, chance, slack=0.0):
    """Whether so many hits are neither too few nor too many for a chance of at least and at most this."""
    return least(runs, chance - slack) <= hits <= most(runs, chance + slack)


def test_student_s_interval_of_a_mean():
    """2,000 samples of 12 normal values: 95 % hold the mean."""
    runs = draws(2000, "student")
    found = [mean_interval(rng.normal(2.0, 3.0, 12)) for rng in runs]
    assert within(sum(one.low <= 2.0 <= one.high for one in found), len(runs), 0.95)


def test_exact_bounds_of_a_share():
    """Of all probabilities the least chance to be held is the level or more: no draws, the sum over all counts."""
    low, high = share_bounds(np.arange(31), 30)
    for p in np.linspace(0.01, 0.99, 99):
        assert stats.binom.pmf(np.arange(31), 30, p) @ ((low <= p) & (p <= high)) >= 0.95


@pytest.mark.parametrize(("shape", "least_held"), [(8.0, 0.94), (2.0, 0.93), (1.0, 0.92)])
def test_the_upper_bound_of_a_skewed_mean(shape, least_held):
    """2,000 samples of 40 gamma values; 95 % is asked, and the more skewed they are, the fewer bounds hold."""
    runs = draws(2000, f"skewed {shape}")
    held = sum(upper_mean_bound(rng.gamma(shape, 1.0 / shape, 40)) >= 1.0 for rng in runs)
    assert least(len(runs), least_held) <= held <= most(len(runs), 0.96)


def test_welch_s_interval_of_an_excess():
    """1,000 samples of 80 rows, a third of them chosen and three times as noisy; the excess is 2 / 3."""
    runs, held = draws(1000, "excess"), 0
    for rng in runs:
        chosen = np.arange(80) % 3 == 0
        values = np.where(chosen, 1.0, 0.0) + rng.normal(size=80) * np.where(chosen, 3.0, 1.0)
        found = difference_interval(values, chosen, 0.95)
        held += found.low <= 1.0 - chosen.mean() <= found.high
    assert within(held, len(runs), 0.95)


def test_the_interval_of_the_excess_of_alignment():
    """600 gates of 150 rows that are right with probability 0.6 and prefer one expert: the excess is known."""
    runs, held = draws(600, "alignment"), 0
    truth = 0.6 - (0.8 * 0.56 + 0.2 * 0.44)  # the gate says the first with chance 0.8 * 0.6 + 0.2 * 0.4 = 0.56
    for rng in runs:
        best = (rng.uniform(size=150) < 0.2).astype(int)
        gate = np.where(rng.uniform(size=150) < 0.6, best, 1 - best)
        excess = alignment(gate, best, 2, n_permutations=1).excess
        held += excess.low <= truth <= excess.high
    assert within(held, len(runs), 0.95, slack=0.015)


def test_the_interval_of_a_ratio_over_documents():
    """1,000 samples of 40 documents of unequal length whose level varies: documents are the units."""
    runs, held = draws(1000, "ratio"), 0
    for rng in runs:
        lengths = rng.integers(5, 60, size=40).astype(float)
        totals = lengths * (1.0 + 0.5 * rng.normal(size=40)) + np.sqrt(lengths) * rng.normal(size=40)
        found = ratio_interval(totals, lengths)
        held += found.low <= 1.0 <= found.high
    assert within(held, len(runs), 0.95, slack=0.02)


def test_intervals_by_resampling_documents():
    """300 samples of 30 documents: the mean of gamma values is held by 95 %, within 3 %."""
    runs, held = draws(300, "bootstrap"), 0
    for rng in runs:
        low, high = bootstrap_intervals(rng.gamma(2.0, size=(30, 1)), lambda sums: sums / 30, rng)[0][1:]
        held += low <= 2.0 <= high
    assert within(held, len(runs), 0.95, slack=0.03)


def test_prediction_intervals_hold_nine_of_ten_new_rows():
    """100 calibrations on 300 rows each, judged on 2,000 new ones; the mean is 90 %, within its error and 1 %."""
    shares = []
    for rng in draws(100, "predictions"):
        apart = rng.chisquare(2, 2300)
        residuals = rng.standard_t(5, 2300) * np.sqrt(0.5 + apart)
        scale = PredictionScale.fit(residuals[:300], apart[:300], np.ones(300))
        shares.append(np.mean(np.abs(residuals[300:]) <= 1.645 * scale.sd(apart[300:])))
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - 0.9) <= 0.01 + 3.3 * error


def test_the_band_of_a_frontier_holds_all_means_at_once():
    """400 samples of 200 rows and eight correlated means: 90 % of the bands hold all eight."""
    runs, held = draws(400, "band"), 0
    for rng in runs:
        values = rng.normal(size=(200, 1)) + rng.normal(size=(200, 8))
        half = band_factor(values, 0.9) * values.std(axis=0, ddof=1) / np.sqrt(200)
        held += (np.abs(values.mean(axis=0)) <= half).all()
    assert within(held, len(runs), 0.9, slack=0.02)


def test_the_lower_end_of_anti_concentration_is_a_lower_bound():
    """200 uniform samples: the constant is 2, and at most 2.5 % of the lower ends lie above it."""
    runs = draws(200, "concentration")
    above = sum(anti_concentration(rng.uniform(size=(400, 1)), n_directions=0, seed=rng).low > 2.0 for rng in runs)
    assert above <= most(len(runs), 0.025)
