"""Exploration under a budget, and the history of specialization."""

import numpy as np
import pytest

from gatewise.geometry.coadaptation import specialization_history
from gatewise.geometry.exploration import explore, explored_regions, less_noise, smoothed_losses

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, size=(500, 2))
LOSSES = np.column_stack([np.where(X[:, 0] > 0.2, 1.0, 0.0), np.where(X[:, 0] > 0.2, 0.0, 1.0), np.full(500, 2.0)])


def test_smoothing_against_weighted_least_squares_row_by_row():
    values, new, width = rng.normal(size=(60, 1)), X[60:65], 0.3
    smooth = smoothed_losses(X[:60], values, new, width)[:, 0]
    for x, value in zip(new, smooth, strict=True):
        w = np.exp(-0.5 * ((X[:60] - x) ** 2).sum(axis=1) / width**2)
        columns = np.column_stack([np.ones(60), X[:60]])
        mean = np.average(columns[:, 1:], axis=0, weights=w)
        moved = np.column_stack([np.ones(60), X[:60] - mean])
        gram = (moved * w[:, None]).T @ moved / w.sum() + np.diag([0.0, 0.1 * width**2, 0.1 * width**2])
        beta = np.linalg.solve(gram, moved.T @ (w * values[:, 0]) / w.sum())
        assert value == pytest.approx(beta[0] + beta[1:] @ (x - mean))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_budget_is_kept_and_only_two_experts_are_seen_near_borders(share):
    found = explore(X, lambda rows: LOSSES[rows], 120, near_border=share, seed=1)
    known = ~np.isnan(found.losses)
    assert len(np.unique(found.rows)) == len(found.rows)
    assert found.cost <= 120
    assert found.cost == (known.sum(axis=1) - 1).sum()
    assert set(known.sum(axis=1)) <= ({3} if share == 0.0 else {2, 3})
    np.testing.assert_array_equal(found.losses[known], LOSSES[found.rows][known])
    best = explored_regions(X, found, X)
    assert (best == LOSSES.argmin(axis=1)).mean() > 0.9


def test_rows_near_the_border_are_preferred():
    found = explore(X, lambda rows: LOSSES[rows], 200, seed=2)
    near = np.isnan(found.losses).any(axis=1)
    gap = np.abs(X[found.rows, 0] - 0.2)
    assert near.sum() > 40
    assert gap[near].mean() < 0.85 * gap[~near].mean()


def test_the_noise_that_experts_share_is_taken_off():
    truth, noise = X[:, 0], rng.normal(size=500)
    F = np.column_stack([truth, truth + 0.5])
    raw = (truth[:, None] + noise[:, None] - F) ** 2
    reduced = less_noise(X, truth + noise, F)
    assert reduced.var(axis=0).max() < 0.5 * raw.var(axis=0).min()
    np.testing.assert_allclose(reduced[:, 1] - reduced[:, 0], raw[:, 1] - raw[:, 0], atol=1e-9)


def test_bad_budgets_are_named():
    with pytest.raises(ValueError, match="budget must be a whole number from 8 to 1000"):
        explore(X, lambda rows: LOSSES[rows], 2)
    with pytest.raises(ValueError, match="near_border must be from 0 to 1"):
        explore(X, lambda rows: LOSSES[rows], 50, near_border=2.0)


def test_a_history_tells_when_specialists_appear():
    where = rng.integers(2, size=400)
    stages = [
        (rng.normal(size=(400, 2)) ** 2 + gap * np.eye(2)[1 - where], np.eye(2)[where]) for gap in (0.0, 1.0, 2.0)
    ]
    history = specialization_history(stages)
    assert [step.special for step in history.steps[1:]] == [(0, 1), (0, 1)]
    table = history.table()
    assert [row["step"] for row in table] == [0, 1, 2]
    assert table[2]["advantage"] > table[1]["advantage"] > table[0]["advantage"]
    assert table[1]["rows_of_specialists"] == 1.0
