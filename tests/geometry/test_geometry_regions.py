"""Best-expert regions, true and estimated, and the smoothing behind the estimate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from gatewise.experts import expert_matrix
from gatewise.geometry import (
    best_expert,
    EstimatedRegions,
    KernelMean,
    NeighborMean,
    out_of_fold_losses,
    squared_losses,
    TrueRegions,
)
from gatewise.paper.designs import DESIGNS

LOSSES = arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(2, 5)), elements=st.integers(0, 3).map(float))


@given(LOSSES)
def test_the_best_expert_is_the_first_of_the_best(losses):
    expected = [min(m for m in range(losses.shape[1]) if row[m] == min(row)) for row in losses]
    np.testing.assert_array_equal(best_expert(losses), expected)


@given(LOSSES, st.randoms(use_true_random=False))
def test_relabelling_experts_relabels_regions_where_no_losses_tie(losses, random):
    losses = losses + 0.1 * np.arange(losses.shape[1])
    order = np.array(random.sample(range(losses.shape[1]), losses.shape[1]))
    np.testing.assert_array_equal(order[best_expert(losses[:, order])], best_expert(losses))


def test_vector_valued_losses_add_up_over_outputs():
    rng = np.random.default_rng(0)
    predictions, y = rng.normal(size=(6, 3, 2)), rng.normal(size=(6, 2))
    expected = sum(squared_losses(predictions[:, :, q], y[:, q]) for q in range(2))
    np.testing.assert_allclose(squared_losses(predictions, y), expected)


def test_true_regions_follow_the_definition_point_by_point():
    design = DESIGNS["nonlinear"]
    X, _ = design.sample(300, np.random.default_rng(1))
    gaps = np.abs(expert_matrix(design.experts, X) - design.truth(X)[:, None])
    expected = [min(np.flatnonzero(row == row.min())) for row in gaps]
    np.testing.assert_array_equal(TrueRegions(design.experts, design.truth)(X), expected)


@pytest.mark.parametrize("smoother", [NeighborMean(), KernelMean()])
def test_estimated_regions_approach_the_true_ones(smoother):
    design = DESIGNS["linear"]
    truth = TrueRegions(design.experts, design.truth)
    X_new, _ = design.sample(2000, np.random.default_rng(2))
    agreement = []
    for n in (300, 10_000):
        X, y = design.sample(n, np.random.default_rng(3))
        regions = EstimatedRegions(X, squared_losses(expert_matrix(design.experts, X), y), smoother)
        agreement.append((regions(X_new) == truth(X_new)).mean())
    assert agreement[1] > max(agreement[0], 0.8)


def test_smoothers_equal_plain_loops():
    rng = np.random.default_rng(4)
    X, losses, X_new = rng.normal(size=(50, 2)), rng.normal(size=(50, 3)), rng.normal(size=(7, 2))
    distance = np.linalg.norm(X_new[:, None] - X, axis=2)
    near = [losses[np.argsort(row)[:5]].mean(axis=0) for row in distance]
    np.testing.assert_allclose(NeighborMean(5)(X, losses, X_new), near)
    kernel = [np.average(losses, axis=0, weights=np.exp(-(row**2) / (2 * 0.3**2))) for row in distance]
    np.testing.assert_allclose(KernelMean(0.3)(X, losses, X_new), kernel)
    count = int(np.ceil(50 ** (2 / 4)))  # the stated rules
    np.testing.assert_allclose(NeighborMean()(X, losses, X_new), NeighborMean(count)(X, losses, X_new))
    width = 50 ** (-1 / 6) * X.std(axis=0).mean()
    np.testing.assert_allclose(KernelMean()(X, losses, X_new), KernelMean(width)(X, losses, X_new))


def test_smoothing_in_blocks_changes_nothing(monkeypatch):
    rng = np.random.default_rng(5)
    X, losses, X_new = rng.normal(size=(40, 2)), rng.normal(size=(40, 3)), rng.normal(size=(30, 2))
    whole = [smoother(X, losses, X_new) for smoother in (NeighborMean(4), KernelMean(0.5))]
    monkeypatch.setattr("gatewise.geometry.smoothing.BLOCK_NUMBERS", 100)
    for smoother, expected in zip((NeighborMean(4), KernelMean(0.5)), whole, strict=True):
        np.testing.assert_allclose(smoother(X, losses, X_new), expected)


def test_out_of_fold_losses_come_from_models_that_did_not_see_the_row():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 2))
    y = rng.normal(size=60)  # nothing to learn: a tree that had seen a row would be right on it
    losses = out_of_fold_losses([DecisionTreeRegressor(random_state=0), LinearRegression()], X, y, seed=7)
    assert losses.shape == (60, 2)
    assert losses[:, 0].mean() > 1.0
    fold = np.random.default_rng(7).permutation(60) % 5
    held = fold == 2
    model = LinearRegression().fit(X[~held], y[~held])
    np.testing.assert_allclose(losses[held, 1], (y[held] - model.predict(X[held])) ** 2)
    np.testing.assert_array_equal(losses[:, 1], out_of_fold_losses([LinearRegression()], X.tolist(), y, seed=7)[:, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: best_expert([1.0, 2.0]), "losses must have shape"),
        (lambda: best_expert([[1.0], [2.0]]), "M >= 2 experts"),
        (lambda: best_expert([[np.nan, 2.0]]), "losses must be finite"),
        (lambda: squared_losses(np.zeros((3, 2)), np.zeros(4)), r"not \(3, 2\) and \(4,\)"),
        (lambda: EstimatedRegions(np.zeros((3, 1)), np.zeros((4, 2))), "same number of rows, not 3 and 4"),
        (lambda: EstimatedRegions(np.zeros((3, 1)), np.zeros((3, 2)))([[0.0, 1.0]]), "X must have 1 columns"),
        (lambda: EstimatedRegions(np.zeros((3, 1)), np.zeros((3, 2)), KernelMean())([[0.0]]), "X does not vary"),
        (
            lambda: EstimatedRegions(np.zeros((3, 1)), np.zeros((3, 2)), NeighborMean(4))([[0.0]]),
            "at most .* 3, not 4",
        ),
        (lambda: NeighborMean(0), "n_neighbors must be a whole number"),
        (lambda: KernelMean(-1.0), "bandwidth must be a finite number above 0"),
        (lambda: out_of_fold_losses([], np.zeros((5, 1)), np.zeros(5)), "models must hold at least one"),
        (lambda: out_of_fold_losses([LinearRegression()], np.zeros((5, 1)), np.zeros(5), n_folds=6), "n_folds"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
