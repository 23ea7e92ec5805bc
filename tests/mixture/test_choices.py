"""Choices from data: who is asked, which mesh and how many experts, how finely a budget is divided."""

import numpy as np
import pytest

from gatewise.experts import AffineExpert
from gatewise.mixture.activation_choice import choose_activation, fixed_count_errors
from gatewise.mixture.granularity import choose_granularity, divisions, fit_cells
from gatewise.mixture.kernel_choice import choose_kernel_gate, KernelGrid, local_lines

rng = np.random.default_rng(0)


def one_here_three_there(n, noise=0.3):
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    F = rng.normal(size=(n, 4)) * 2.0
    left = X[:, 0] < 0
    weights = np.where(left[:, None], [0.91, 0.03, 0.03, 0.03], [0.01, 0.33, 0.33, 0.33])
    truth = np.where(left, F[:, 0], F[:, 1:].mean(axis=1))
    return X, F, weights, truth + rng.normal(scale=noise, size=n)


def test_an_active_set_that_depends_on_the_input_is_found_where_it_is_needed():
    X, F, weights, y = one_here_three_there(800)
    choice = choose_activation(weights, F, y, X, budget=2.0)
    assert choice.rule is not None
    assert choice.gains[choice.name] > choice.price == pytest.approx(np.log(5))
    active = choice.active(weights, X, rng)
    assert active.sum(axis=1).mean() == pytest.approx(2.0, abs=0.1)
    assert ((active.sum(axis=1) > 1) == (X[:, 0] >= 0)).mean() > 0.98


def test_equal_experts_leave_top_k_in_place():
    """Where all active sets predict alike, nothing is gained, and the price of the list decides."""
    X, F, weights, _ = one_here_three_there(400)
    F[:] = F[:, :1]
    choice = choose_activation(weights, F, F[:, 0] + rng.normal(size=400), X, budget=2.5)
    assert choice.rule is None
    assert choice.name == "Top-K"
    counts = choice.active(weights, X, np.random.default_rng(0)).sum(axis=1)
    assert set(counts) == {2, 3}
    assert counts.mean() == pytest.approx(2.5, abs=0.1)
    with pytest.raises(ValueError, match="budget must be from 1 to the number of experts, 4"):
        choose_activation(weights, F, F[:, 0], X, budget=5.0)


def test_rules_are_compared_on_the_half_that_no_tree_was_fitted_to():
    X, F, weights, y = one_here_three_there(80)
    order = np.random.default_rng(3).permutation(80)
    first, second = order[:40], order[40:]
    gains = []
    for rows in (second[:0], first, second):
        other = y.copy()
        other[rows] += 5.0
        found = choose_activation(weights, F, other, X, budget=2.0, seed=3).gains
        gains.append(np.array([found["accumulated weight"], found["margin"]]))  # these two are fitted to no response
    np.testing.assert_array_equal(gains[0], gains[1])
    assert (gains[0] != gains[2]).all()


def test_errors_by_count_against_the_definition():
    _, F, weights, y = one_here_three_there(30)
    errors = fixed_count_errors(weights, F, y)
    np.testing.assert_allclose(errors[:, -1], (y - (weights * F).sum(axis=1)) ** 2)
    np.testing.assert_allclose(errors[:, 0], (y - F[np.arange(30), weights.argmax(axis=1)]) ** 2)


def test_the_mesh_and_the_pool_with_the_least_held_out_error_are_taken():
    X = rng.uniform(-1.0, 1.0, size=(300, 1))
    experts = [AffineExpert((0.0,), 1.0), AffineExpert((0.0,), -1.0)]
    useless = [AffineExpert((0.0,), 0.0), AffineExpert((0.0,), 0.1)]
    y = np.sign(np.sin(9 * X[:, 0])) + rng.normal(scale=0.1, size=300)
    chosen = choose_kernel_gate(X, y, [useless, experts], [1.0, 0.1, 0.002], n_splits=2)
    assert (chosen.n_experts, chosen.mesh) == (2, 0.1)
    assert np.isnan(chosen.errors[:, 2]).all()  # more weights than rows
    assert chosen.errors[1, 1] < 0.5 * np.nanmin(np.delete(chosen.errors, 4))
    again = KernelGrid(X, y, [useless, experts], [1.0, 0.1], 0.75).fitted(1, 1, 0)
    np.testing.assert_allclose(chosen.model.predict(X), again.predict(X))
    with pytest.raises(ValueError, match="meshes must hold one"):
        choose_kernel_gate(X, y, [experts], [0.001], n_splits=1)


def test_experts_and_gates_have_not_seen_the_rows_that_choose_a_mesh():
    """A shift of the responses there by c changes their mean squared error by c^2 and a multiple of c."""
    X = rng.uniform(-1.0, 1.0, size=(100, 1))
    y, order = np.sin(5.0 * X[:, 0]), np.arange(100)
    errors = [
        KernelGrid(X, y + c * (order >= 80), [3], [0.5], 0.75).held_out(order, 0)[0, 0] for c in (0.0, 1.0, 2.0)
    ]
    assert errors[2] - 2.0 * errors[1] + errors[0] == pytest.approx(2.0)


def test_local_lines_are_least_squares_on_their_clusters():
    X = np.concatenate([rng.normal(-3, 0.3, size=(50, 1)), rng.normal(3, 0.3, size=(50, 1))])
    y = np.where(X[:, 0] < 0, 2 * X[:, 0] + 1, -X[:, 0])
    slopes = sorted(line.slope[0] for line in local_lines(X, y, 2))
    np.testing.assert_allclose(slopes, [-1.0, 2.0], atol=0.01)


def test_divisions_keep_both_budgets():
    found = divisions(48, 12)
    assert all(d.n_experts * d.size == 48 and d.k * d.size == 12 for d in found)
    assert found[0].size == 12
    assert found[-1] == (48, 1, 12)


def test_cells_reproduce_a_piecewise_polynomial():
    x = np.linspace(0, 1, 400)
    y = np.where(x < 0.37, 1 + x, -2.0)
    model = fit_cells(x[:, None], y, divisions(4, 2)[0], width=0.01)
    far = np.abs(x - 0.37) > 0.01
    np.testing.assert_allclose(model.predict(x[:, None])[far], y[far], atol=0.01)


def test_the_finer_division_is_chosen_where_there_are_borders():
    X = rng.uniform(size=(600, 1))
    jumps = np.sign(np.sin(50 * X[:, 0])) + rng.normal(scale=0.1, size=600)
    smooth = np.sin(9 * X[:, 0]) + rng.normal(scale=0.1, size=600)
    sizes = [choose_granularity(X, y, divisions(24, 6)).division.size for y in (jumps, smooth)]
    assert sizes[0] < sizes[1]
