"""The paper's designs against their formulas, written out once more."""

import pickle

import numpy as np
import pytest

from gatewise import LinearGate, QuadraticGate
from gatewise.experts import expert_matrix
from gatewise.paper import DESIGNS

X = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))


def test_linear_and_quadratic_truths_are_members_of_their_families():
    linear = LinearGate(3, intercept=False)
    np.testing.assert_allclose(DESIGNS["linear"].weights(X), linear.weights(X, [[2.0, 0.0], [0.0, 2.0]]))
    quadratic = QuadraticGate(3, intercept=False, cross=False)
    theta = [[-1.2, -0.8, 2.0, 0.0], [-0.8, -1.2, 0.0, 2.0]]
    np.testing.assert_allclose(DESIGNS["quadratic"].weights(X), quadratic.weights(X, theta))


def test_nonlinear_scores_point_by_point():
    for x1, x2 in X:
        t, r = np.arctan2(x2, x1), np.sqrt(x1**2 + x2**2)
        bent = t + 0.85 * np.sin(4.5 * r + 1.8 * t) + 0.35 * np.sin(4 * t)
        eta = np.exp([7 * np.cos(bent - c) for c in (np.pi, np.pi / 3, -np.pi / 3)])
        np.testing.assert_allclose(DESIGNS["nonlinear"].weights(np.array([[x1, x2]]))[0], eta / eta.sum())


def test_experts_follow_the_supplement():
    x1, x2 = X.T
    smooth = [2 + 2 * x1 - x2, -1 - x1 + 2 * x2, 1 + np.sin(np.pi * x1) - 1.5 * x2**2]
    steep = [3 + 3 * x1 - 2 * x2, -2 - 2 * x1 + 3 * x2, 2.5 * np.sin(np.pi * x1 * x2) - 3 * x1 + 2 * x2]
    for name, expected in (("linear", smooth), ("quadratic", smooth), ("nonlinear", steep)):
        np.testing.assert_allclose(expert_matrix(DESIGNS[name].experts, X), np.column_stack(expected))


@pytest.mark.parametrize("design", DESIGNS.values(), ids=lambda design: design.name)
def test_samples_have_the_stated_noise_and_pickle(design):
    rows, y = pickle.loads(pickle.dumps(design)).sample(20_000, np.random.default_rng(1))
    assert np.abs(rows).max() <= 1.0
    residual = y - design.truth(rows)
    assert residual.std() == pytest.approx(design.noise_sd, rel=0.03)
    assert residual.mean() == pytest.approx(0.0, abs=0.02)
