"""Probabilities of classes in the list: floors, stacks that are no mixture, and scores."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from gatewise.router.class_rows import ClassRows, cross_fitted_floors, ProbabilityFloor
from gatewise.router.class_scores import calibration_error, ClassScores, reliability
from gatewise.solvers.log_linear_pool import _objective, log_linear_pool, pool_log_probabilities


def rows_of(rng, n, M, C):
    return ClassRows(rng.dirichlet(np.ones(C), (n, M)), rng.integers(C, size=n))


class TestFloor:
    def test_an_expert_that_is_always_right_gets_about_one_over_n(self):
        p = np.tile([[[1.0, 0.0]], [[0.0, 1.0]]], (500, 1, 1))
        floor = ProbabilityFloor.fit(ClassRows(p, np.tile([0, 1], 500)), np.ones(1000))
        assert floor.floor[0] == pytest.approx(2 / 1000, rel=0.1)  # one row beside 1000, at half the probability

    def test_it_maximises_the_penalised_likelihood(self):
        rng = np.random.default_rng(0)
        rows = rows_of(rng, 400, 1, 3)
        right = rng.uniform(size=400) < 0.995
        p = np.where(right[:, None], np.eye(3)[rows.outcome], rows.probabilities[:, 0])
        rows = ClassRows(p[:, None], rows.outcome)
        fit = ProbabilityFloor.fit(rows, np.ones(400))
        grid = np.geomspace(1e-5, 0.02, 2000)
        q = fit.frequencies[rows.outcome]
        values = [np.log((1 - e) * rows.observed[:, 0] + e * q).sum() + np.log(e) for e in grid]
        assert fit.floor[0] == pytest.approx(grid[int(np.argmax(values))], rel=0.02)

    def test_probabilities_keep_their_sum_and_held_out_rows_do_not_count(self):
        rng = np.random.default_rng(1)
        rows, weight = rows_of(rng, 60, 2, 3), np.ones(60)
        halves = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
        found = cross_fitted_floors(rows, weight, halves)
        np.testing.assert_allclose(found.sum(axis=2), 1.0)
        other = ClassRows(rows.probabilities, np.concatenate([(rows.outcome[:30] + 1) % 3, rows.outcome[30:]]))
        np.testing.assert_array_equal(cross_fitted_floors(other, weight, halves)[:30], found[:30])


class TestPool:
    def test_newton_finds_the_minimum(self):
        rng = np.random.default_rng(2)
        rows, weight = rows_of(rng, 80, 3, 3), rng.uniform(size=80)
        weight[:5] = 0.0
        logs, start = np.log(rows.probabilities), np.full(3, 1 / 3)

        def objective(theta):
            scores = np.tensordot(logs, theta[:3], (1, 0)) + theta[3:]
            observed = scores[np.arange(80), rows.outcome] - logsumexp(scores, axis=1)
            return -weight @ observed + 0.5 * ((theta - np.append(start, np.zeros(3))) ** 2).sum() / 0.5**2

        found = log_linear_pool(logs, rows.outcome, weight, start, 0.5)
        slow = minimize(objective, np.append(start, np.zeros(3)), tol=1e-10).x
        np.testing.assert_allclose(found, slow, atol=1e-4)
        center = np.append(start, np.zeros(3))
        own = _objective(logs, rows.outcome, weight, found, center, 0.5)  # what a step must lower
        assert own == pytest.approx(objective(found))

    def test_an_exponent_of_one_is_the_expert(self):
        rows = rows_of(np.random.default_rng(3), 10, 1, 4)
        theta = np.append(1.0, np.zeros(4))
        np.testing.assert_allclose(
            np.exp(pool_log_probabilities(np.log(rows.probabilities), theta)), rows.probabilities[:, 0]
        )


class TestScores:
    @pytest.mark.parametrize("C", [2, 4])
    def test_they_are_those_of_scikit_learn_with_ties_and_weights(self, C):
        rng = np.random.default_rng(4)
        p, y, weight = rng.dirichlet(np.ones(C), 80).round(1) + 0.01, rng.integers(C, size=80), rng.integers(0, 3, 80)
        p /= p.sum(axis=1, keepdims=True)
        scores, asked = ClassScores.of(p, y, weight.astype(float)), [1] if C == 2 else range(C)
        assert scores.log_loss == pytest.approx(log_loss(y, p, sample_weight=weight))
        brier = sum(brier_score_loss(y == c, p[:, c], sample_weight=weight) for c in range(C))
        assert scores.brier == pytest.approx(brier)
        areas = [roc_auc_score(y == c, p[:, c], sample_weight=weight) for c in asked]
        assert scores.auc == pytest.approx(np.mean(areas))

    def test_calibrated_probabilities_have_a_small_error_and_true_bins(self):
        rng = np.random.default_rng(5)
        p = rng.uniform(size=20_000)
        happened = (rng.uniform(size=20_000) < p).astype(float)
        assert calibration_error(p, happened, np.ones(20_000)) < 0.02
        assert calibration_error(p**2, happened, np.ones(20_000)) > 0.1
        bins = reliability(p, happened)
        assert sum(one.fraction.low <= one.probability <= one.fraction.high for one in bins) >= 8
        assert sum(one.count for one in bins) == 20_000
