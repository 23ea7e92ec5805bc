"""Threshold searches against naive refits and brute force."""

from itertools import combinations

import numpy as np
import pytest

import gatewise.shared
from gatewise.kernels.triangular import bin_factors, running_profiles
from gatewise.shared import profile_threshold, search_thresholds
from gatewise.shared.bases import FourierBasis, SplineBasis
from gatewise.shared.dynamic import best_cuts, segments_of
from gatewise.shared.moving import search_moving


def naive_rss(x, S, routed, y, thresholds):
    labels = np.searchsorted(thresholds, x, side="left")
    D = np.hstack([S] + [R * (labels == j)[:, None] for j, R in enumerate(routed)])
    lengths = np.linalg.norm(D, axis=0)
    D = D[:, lengths > 0] / lengths[lengths > 0]  # else lstsq calls a column of tiny numbers dependent
    return ((y - D @ np.linalg.lstsq(D, y, rcond=None)[0]) ** 2).sum()


def make_data(n=400, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=n)
    waves = FourierBasis(3, low=0.0, high=0.5).transform(x[:, None])
    y = x + waves @ rng.normal(size=7) * (x <= 0.5) + waves @ rng.normal(size=7) * (x > 0.5)
    return x, waves, y + noise * rng.normal(size=n)


SHARED = {
    "none": lambda x: np.zeros((len(x), 0)),
    "slope": lambda x: x[:, None],
    "with intercept": lambda x: np.column_stack([np.ones(len(x)), x, x**2]),
}


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("n", [60, 500, 20_000])
def test_profile_agrees_with_naive_refits(shared, n):
    x, R, y = make_data(n)
    S, grid = SHARED[shared](x), np.linspace(0.1, 0.9, 200 if n > 5000 else 60)
    profile = profile_threshold(x, S, [R, R], y, grid, (8, 8))
    some = slice(None) if n < 5000 else slice(None, None, 40)
    naive = np.array([naive_rss(x, S, [R, R], y, [c]) for c in grid[some]])
    allowed = np.isfinite(profile.rss[some])
    np.testing.assert_allclose(profile.rss[some][allowed], naive[allowed], rtol=1e-8)
    if n < 5000:
        assert profile.threshold == grid[np.where(allowed, naive, np.inf).argmin()]


def test_profile_with_bases_that_differ_and_columns_that_vanish_in_a_region():
    x, R, y = make_data(500)
    splines = SplineBasis(8, low=0.0, high=1.0).transform(x[:, None])  # most of them are zero left of 0.2
    grid = np.linspace(0.1, 0.9, 50)
    for routed in ([splines, splines], [splines, R], [R[:, :1], splines]):
        S = np.column_stack([np.ones(len(x)), x])
        profile = profile_threshold(x, S, routed, y, grid)
        naive = [naive_rss(x, S, routed, y, [c]) for c in grid]
        np.testing.assert_allclose(profile.rss, naive, rtol=1e-8)


def test_profile_does_not_depend_on_the_order_of_rows_and_bears_ties():
    x, R, y = make_data(300)
    x = x.round(2)  # many rows on the grid itself
    grid = np.arange(0.1, 0.9, 0.01).round(2)
    first = profile_threshold(x, x[:, None], [R, R], y, grid)
    order = np.random.default_rng(1).permutation(300)
    again = profile_threshold(x[order], x[order, None], [R[order]] * 2, y[order], grid)
    np.testing.assert_allclose(first.rss, again.rss, rtol=1e-10)
    np.testing.assert_allclose(first.rss, [naive_rss(x, x[:, None], [R, R], y, [c]) for c in grid], rtol=1e-8)


def test_factors_hold_the_normal_equations():
    rows = np.random.default_rng(0).normal(size=(300, 5))
    starts = np.array([0, 0, 7, 300])  # an empty bin, a short one, a long one
    factors = bin_factors(rows, starts)
    for b in range(3):
        part = rows[starts[b] : starts[b + 1]]
        np.testing.assert_allclose(factors[b].T @ factors[b], part.T @ part, atol=1e-10)
        np.testing.assert_array_equal(np.tril(factors[b], -1), 0.0)
    whole = running_profiles(factors, 0, 1e-9)[-1]  # no column is removed: the factor of all bins together
    np.testing.assert_allclose(whole.T @ whole, rows.T @ rows, atol=1e-10)


def three_regions(seed, n=400):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=n)
    R = np.column_stack([np.ones(n), x])
    low, high = np.sort(rng.uniform(0.15, 0.85, size=2))
    labels = np.searchsorted([low, high], x)
    y = np.sin(6 * x) + (rng.normal(size=(3, 2))[labels] * R).sum(axis=1) + 0.3 * rng.normal(size=n)
    S = np.column_stack([np.sin(6 * x), np.cos(6 * x)])
    return x, S, R, y


def brute_force(x, S, routed, y, grid, min_rows):
    best, found = np.inf, None
    for pair in combinations(grid, len(routed) - 1):
        counts = np.bincount(np.searchsorted(pair, x, side="left"), minlength=len(routed))
        if (counts >= min_rows).all():
            rss = naive_rss(x, S, routed, y, pair)
            if rss < best:
                best, found = rss, pair
    return np.array(found), best


@pytest.mark.parametrize("seed", range(6))
def test_two_thresholds_without_shared_columns_are_the_global_minimum(seed):
    x, S, R, y = three_regions(seed)
    grid = np.linspace(0.1, 0.9, 17)
    thresholds, rss = search_thresholds(x, S[:, :0], [R] * 3, y, grid, [3] * 3)
    expected, best = brute_force(x, S[:, :0], [R] * 3, y, grid, [3] * 3)
    np.testing.assert_allclose(thresholds, expected)
    assert rss == pytest.approx(best, rel=1e-8)


def test_two_thresholds_with_shared_columns_mostly_reach_the_global_minimum():
    """The search is a descent: on these 12 problems it ends in the global minimum of all pairs."""
    hits = 0
    for seed in range(12):
        x, S, R, y = three_regions(seed)
        grid = np.linspace(0.1, 0.9, 13)
        _, rss = search_thresholds(x, S, [R] * 3, y, grid, [3] * 3)
        _, best = brute_force(x, S, [R] * 3, y, grid, [3] * 3)
        assert rss >= best * (1 - 1e-8)
        hits += rss <= best * (1 + 1e-8)
    assert hits == 12


def test_regions_may_have_bases_of_their_own_in_order():
    x, S, R, y = three_regions(3)
    routed = [R[:, :1], R, R[:, :1]]
    grid = np.linspace(0.1, 0.9, 13)
    thresholds, rss = search_thresholds(x, S[:, :0], routed, y, grid, [2, 3, 2])
    expected, best = brute_force(x, S[:, :0], routed, y, grid, [2, 3, 2])
    np.testing.assert_allclose(thresholds, expected)
    assert rss == pytest.approx(best, rel=1e-8)


def test_dynamic_programming_says_when_nothing_is_feasible():
    x, S, R, y = three_regions(0)
    grid = np.array([0.4, 0.41])
    assert best_cuts(segments_of(x, S, [R] * 3, y, grid, [100] * 3), np.zeros(2)) is None
    with pytest.raises(ValueError, match="no thresholds on the grid leave 3 regions"):
        search_thresholds(x, S, [R] * 3, y, grid, [100] * 3)


def test_moving_search_finds_two_thresholds_from_a_greedy_start():
    """One threshold alone is best at 0.5, which is not one of the two that are best together."""

    def score(c):
        return float((c[0] - 0.5) ** 2 + 5.0) if len(c) == 1 else float(((c - [0.3, 0.6]) ** 2).sum())

    thresholds, best, _ = search_moving(score, np.linspace(0, 1, 11), 2, n_jobs=2)
    np.testing.assert_allclose(thresholds, [0.3, 0.6])
    assert best == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("old", "new"),
    [("Problem", "AdditiveProblem"), ("Profile", "ThresholdProfile"), ("Threshold", "ThresholdSearch")],
)
def test_old_names_are_answered_by_the_new_ones(old, new):
    with pytest.raises(ImportError, match=f"is now gatewise.shared.{new}"):
        exec(f"from gatewise.shared import {old}", {})
    assert hasattr(gatewise.shared, new)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        gatewise.shared.Nothing  # noqa: B018
