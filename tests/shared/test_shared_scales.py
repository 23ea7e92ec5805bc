"""Several scales of sharing, and components of general learners."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import gatewise as gw
from gatewise.kernels.group_lasso import group_lasso
from gatewise.paper import scale_recovery as scales
from gatewise.paper.shared_designs import regions
from gatewise.shared import Backfitting, fit_scales, PolynomialBasis
from gatewise.shared.tree import branchings, check_tree, leaves, sharing_sets

TREE = ((0, 1), (2, (3, 4)))


def test_trees_are_read_from_the_root_down():
    assert leaves(TREE) == (0, 1, 2, 3, 4)
    assert list(branchings(TREE)) == [((0, 1), (2, 3, 4)), ((0,), (1,)), ((2,), (3, 4)), ((3,), (4,))]
    assert check_tree(TREE) == 5


@pytest.mark.parametrize("tree", [(0, 0), (0, 2), ((0,), 1), 0])
def test_bad_trees_are_refused(tree):
    with pytest.raises(ValueError, match="tree must"):
        check_tree(tree)


def test_sharing_sets_are_the_regions_with_equal_coefficients():
    """Give every active node random differences between its branches: sets are where the sums agree."""
    rng = np.random.default_rng(0)
    nodes = list(branchings(TREE))
    for _ in range(30):
        active = [node for node in nodes if rng.random() < 0.5]
        value = np.zeros(5)
        for node in active:
            for child in node:
                value[list(child)] += rng.normal()
        sets = {}
        for leaf in range(5):
            sets.setdefault(round(value[leaf], 9), []).append(leaf)
        assert sorted(sharing_sets(TREE, active)) == sorted(map(tuple, sets.values()))


def test_group_lasso_meets_its_optimality_conditions():
    rng = np.random.default_rng(1)
    blocks = [np.linalg.qr(rng.normal(size=(50, 3)))[0] for _ in range(4)]
    D, groups = np.hstack(blocks), [slice(3 * g, 3 * g + 3) for g in range(4)]
    target = D.T @ rng.normal(size=50)
    penalties = np.array([0.1, 0.5, 5.0, 0.3])
    t = group_lasso(D.T @ D, target, np.arange(0, 15, 3), penalties, np.zeros(12), 1e-10)
    slack = target - D.T @ D @ t
    for g, penalty in zip(groups, penalties, strict=True):
        length = np.linalg.norm(t[g])
        if length:
            np.testing.assert_allclose(slack[g], penalty * t[g] / length, atol=1e-8)
        else:
            assert np.linalg.norm(slack[g]) <= penalty + 1e-9
    assert not t[groups[2]].any()


def test_the_refit_is_least_squares_at_the_chosen_scales():
    X, labels, y = scales.sample(2000, np.random.default_rng(5))
    columns = {name: basis.transform(X) for name, basis in scales.COMPONENTS.items()}
    fit = fit_scales(columns, labels, scales.TREE, y)
    assert fit.scales == scales.TRUTH
    assert fit.sets["wave"] == ((0, 1), (2, 3))
    for name, coefficients in fit.coefficients.items():
        np.testing.assert_allclose(coefficients, scales.COEFFICIENTS[name], atol=0.5)
    assert ((y - fit.predict(columns, labels)) ** 2).sum() == pytest.approx(fit.rss)
    with pytest.raises(ValueError, match="region 3 is empty"):
        fit_scales(columns, labels % 3, scales.TREE, y)


@pytest.mark.slow
def test_scales_are_recovered_in_ninety_of_a_hundred_runs():
    rows = scales.run(sizes=(2000,), reps=100)
    assert rows[-1].component == "all of them"
    assert rows[-1].recovered >= 90


N = 800
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.uniform(size=N), RNG.normal(size=(N, 2))])
Y = X @ [1.0, 2.0, -1.0] + regions(X) * (1.0 - X[:, 0]) + 0.3 * RNG.normal(size=N)
LINEAR = PolynomialBasis(1)


class OneColumn(LinearRegression):
    """A linear learner that sees the second feature only."""

    def fit(self, X, y):
        return super().fit(X[:, 1:2], y)

    def predict(self, X):
        return super().predict(X[:, 1:2])


@pytest.mark.parametrize("routed", [LinearRegression(), [LinearRegression(), OneColumn()]], ids=["one", "two"])
def test_backfitting_of_linear_learners_is_the_joint_solution(routed):
    spec = Backfitting(folds=None, max_iter=5000, tol=1e-12)
    model = gw.SharedRoutedRegressor(LinearRegression(), routed, regions, method=spec).fit(X, Y)
    bases = [LINEAR, PolynomialBasis(1, feature=1)] if isinstance(routed, list) else LINEAR
    joint = gw.SharedRoutedRegressor(LINEAR, bases, regions).fit(X, Y)
    assert model.convergence_.converged
    assert str(model.convergence_).startswith("backfitting converged in")
    np.testing.assert_allclose(model.predict(X), joint.predict(X), atol=1e-8)
    np.testing.assert_allclose(model.components(X).sum(axis=1), model.predict(X))


def test_cross_fitting_of_linear_learners_stays_within_a_fraction_of_the_noise():
    """Out-of-fold parts solve a slightly other equation: off by order p / n, not by the noise's sqrt(p / n)."""
    routed = [LinearRegression(), OneColumn()]
    model = gw.SharedRoutedRegressor(LinearRegression(), routed, regions, method="backfit").fit(X, Y)
    joint = gw.SharedRoutedRegressor(LINEAR, [LINEAR, PolynomialBasis(1, feature=1)], regions).fit(X, Y)
    assert model.convergence_.converged
    off = np.sqrt(((model.predict(X) - joint.predict(X)) ** 2).mean())
    noise = 0.3 * np.sqrt(joint.df_ / N)
    assert off < 0.5 * noise


def test_cross_fitting_keeps_a_forest_from_taking_all_of_the_residual():
    shared, routed = RandomForestRegressor(10), LinearRegression()
    few = {"max_iter": 3, "seed": 1}
    crossed, inside = (
        gw.SharedRoutedRegressor(shared, routed, regions, method=Backfitting(folds, **few)).fit(X, Y)
        for folds in (5, None)
    )
    fresh = np.random.default_rng(9).normal(size=(400, 3)) * 0.5 + [0.5, 0.0, 0.0]
    fresh[:, 0] = np.random.default_rng(10).uniform(size=400)
    truth = fresh @ [1.0, 2.0, -1.0] + regions(fresh) * (1.0 - fresh[:, 0])
    errors = [((m.predict(fresh) - truth) ** 2).mean() for m in (crossed, inside)]
    assert errors[0] < errors[1]
    assert not crossed.convergence_.converged
    assert "did not converge in 3 turns" in str(crossed.convergence_)
    again = gw.SharedRoutedRegressor(shared, routed, regions, method=Backfitting(5, **few)).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), crossed.predict(X))
