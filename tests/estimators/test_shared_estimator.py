"""SharedRoutedRegressor: scikit-learn's checks, laws, bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gatewise as gw
from gatewise.paper.shared_designs import regions, SHARED_DESIGNS
from gatewise.shared import (
    Backfitting,
    ConstantBasis,
    FourierBasis,
    PolynomialBasis,
    SieveSearch,
    SplineBasis,
    ThresholdSearch,
)

DESIGN = SHARED_DESIGNS["simple-shared"]
X, Y = DESIGN.sample(600, np.random.default_rng(0))
WAVES = FourierBasis(3, low=0.0, high=0.5)
SLOPE = PolynomialBasis(1, feature=0, intercept=False)


@parametrize_with_checks([gw.SharedRoutedRegressor()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_joint_recovers_the_design_and_its_threshold():
    model = gw.SharedRoutedRegressor(SLOPE, WAVES, "threshold").fit(X, Y)
    assert model.thresholds_[0] == pytest.approx(0.5, abs=0.05)
    assert ((model.predict(X) - DESIGN.truth(X)) ** 2).mean() < 0.02
    np.testing.assert_allclose(model.components(X).sum(axis=1), model.predict(X))
    np.testing.assert_array_equal(model.regions(X), X[:, 0] > model.thresholds_[0])
    assert model.profile_rss_.min() == pytest.approx(model.rss_, rel=1e-8)


@pytest.mark.parametrize(
    "partition",
    [
        regions,
        gw.MixtureOfExperts(gw.LinearGate(2, k=1), [[-100.0, 50.0]], [lambda X: X[:, 0]] * 2),
        (gw.LinearGate(2), [[-100.0, 50.0]]),
        LogisticRegression(C=1e6).fit(X, regions(X)),
    ],
    ids=["function", "mixture", "gate and theta", "classifier"],
)
def test_a_partition_may_be_given_in_many_ways(partition):
    model = gw.SharedRoutedRegressor(SLOPE, WAVES, partition).fit(X, Y)
    expected = gw.SharedRoutedRegressor(SLOPE, WAVES, regions).fit(X, Y)
    agree = np.mean(model.regions(X) == regions(X))
    assert agree > 0.99
    if agree == 1.0:
        np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=1e-10)


def test_two_stage_equals_joint_and_pure_has_no_shared_part():
    joint, stages = (gw.SharedRoutedRegressor(SLOPE, WAVES, method=m).fit(X, Y) for m in ("joint", "two-stage"))
    np.testing.assert_allclose(stages.predict(X), joint.predict(X), atol=1e-9)
    pure = gw.SharedRoutedRegressor(SLOPE, WAVES, method="pure").fit(X, Y)
    assert not pure.components(X)[:, 0].any()
    assert pure.rss_ >= joint.rss_


@pytest.mark.parametrize(
    "basis",
    [
        ConstantBasis(),
        FourierBasis(2),
        PolynomialBasis(3, feature=0),
        SplineBasis(4),
        SplineTransformer(n_knots=4),
        PolynomialFeatures(2),
        make_pipeline(StandardScaler(), PolynomialFeatures(2)),
        lambda X: np.column_stack([np.sin(X[:, 0]), np.ones(len(X))]),
    ],
    ids=lambda b: type(b).__name__,
)
@pytest.mark.parametrize("coordinates", ["fixed", "moving"])
def test_any_basis_or_transformer_serves_both_sides(basis, coordinates):
    partition = ThresholdSearch(0, grid=15, coordinates=coordinates)
    model = gw.SharedRoutedRegressor(basis, [basis, ConstantBasis()], partition).fit(X, Y)
    assert np.isfinite(model.predict(X)).all()
    copy = clone(model)
    np.testing.assert_array_equal(copy.fit(X, Y).predict(X), model.predict(X))
    if not callable(basis):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_moving_coordinates_follow_the_formula():
    model = gw.SharedRoutedRegressor(
        SLOPE,
        FourierBasis(2, low=0.0, high=1.0),
        ThresholdSearch(0, grid=(0.3, 0.5, 0.7), coordinates="moving", n_jobs=2),
    ).fit(X, Y)
    x, best = X[:, 0], np.inf
    for c in (0.3, 0.5, 0.7):
        t = np.where(x <= c, x / c, (x - c) / (1 - c))
        waves = np.column_stack([np.ones(len(x))] + [f(2 * np.pi * k * t) for k in (1, 2) for f in (np.sin, np.cos)])
        D = np.hstack([X, waves * (x <= c)[:, None], waves * (x > c)[:, None]])
        rss = ((Y - D @ np.linalg.lstsq(D, Y, rcond=None)[0]) ** 2).sum()
        if rss < best:
            best, at = rss, c
    assert model.rss_ == pytest.approx(best)
    assert model.thresholds_[0] == at


@pytest.mark.parametrize("coordinates", ["fixed", "moving"])
def test_three_regions_are_found(coordinates):
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(900, 1))
    y = x[:, 0] + np.choose(np.searchsorted([0.3, 0.7], x[:, 0]), [0.0, 1.0, -1.0]) + 0.1 * rng.normal(size=900)
    partition = ThresholdSearch(0, n_regions=3, grid=60, coordinates=coordinates)
    model = gw.SharedRoutedRegressor(SLOPE, ConstantBasis(), partition).fit(x, y)
    np.testing.assert_allclose(model.thresholds_, [0.3, 0.7], atol=0.02)
    assert model.shared_coef_[0] == pytest.approx(1.0, abs=0.1)
    assert model.n_regions_ == 3


def test_features_are_named_by_the_columns_of_a_frame():
    frame = pd.DataFrame({"noise": np.zeros(600) + np.arange(600) % 7, "x": X[:, 0]})
    model = gw.SharedRoutedRegressor(
        PolynomialBasis(1, feature="x"), FourierBasis(3, feature="x", low=0.0, high=0.5), ThresholdSearch("x")
    ).fit(frame, Y)
    plain = gw.SharedRoutedRegressor(SLOPE, WAVES, "threshold").fit(X, Y)
    np.testing.assert_allclose(model.predict(frame), plain.predict(X), atol=1e-9)
    by_frame = gw.SharedRoutedRegressor(routed=ConstantBasis(), partition=lambda f: f["x"] > 0.5).fit(frame, Y)
    assert by_frame.n_regions_ == 2


@pytest.mark.parametrize("criterion", ["gcv", "aic", "cv"])
def test_sieve_sizes_are_chosen_per_component(criterion):
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(2000, 1))
    y = x[:, 0] ** 2 * 3 + np.where(x[:, 0] <= 0.5, np.sin(4 * np.pi * x[:, 0]), np.cos(12 * np.pi * x[:, 0]))
    y += 0.3 * rng.normal(size=2000)
    sieve = SieveSearch(shared=(1, 2, 3), routed=(1, 2, 3, 4, 5), criterion=criterion)
    model = gw.SharedRoutedRegressor(
        PolynomialBasis(1, feature=0), FourierBasis(1, low=0.0, high=0.5), regions, sieve=sieve
    )
    k_shared, first, second = model.fit(x, y).sizes_
    assert k_shared >= 2
    assert (first <= 4, second >= 3) == (True, True)
    truth_like = gw.SharedRoutedRegressor(
        PolynomialBasis(2, feature=0), FourierBasis(3, low=0.0, high=0.5), regions
    ).fit(x, y)
    assert ((model.predict(x) - truth_like.predict(x)) ** 2).mean() < 0.002
    found = clone(model).set_params(partition=ThresholdSearch(0, grid=40)).fit(x, y)
    assert found.thresholds_[0] == pytest.approx(0.5, abs=0.03)


def test_ridge_shrinks_and_may_differ_by_component():
    fits = [gw.SharedRoutedRegressor(SLOPE, WAVES, regions, ridge=r).fit(X, Y) for r in (0.0, (10.0, 0.0), 10.0)]
    assert abs(fits[1].shared_coef_[0]) < 0.1 * abs(fits[0].shared_coef_[0])
    assert np.abs(fits[2].routed_coef_[0][1:]).max() < 0.1 * np.abs(fits[1].routed_coef_[0][1:]).max()


@pytest.mark.parametrize("criterion", ["gcv", "cv"])
def test_ridge_may_be_chosen_by_the_criterion(criterion):
    noise = np.random.default_rng(4).normal(size=600)
    sieve = SieveSearch(criterion=criterion, ridges=(0.0, 1.0))
    many = FourierBasis(8, low=0.0, high=0.5)
    assert gw.SharedRoutedRegressor(SLOPE, many, regions, sieve=sieve).fit(X, noise).ridge_[1] == 1.0
    assert gw.SharedRoutedRegressor(SLOPE, WAVES, regions, sieve=sieve).fit(X, Y).ridge_[1] == 0.0


def test_a_threshold_between_two_values_is_found_where_most_rows_share_one():
    x = (np.arange(200) % 20 == 0).astype(float)[:, None]
    model = gw.SharedRoutedRegressor(lambda X: X[:, :0], ConstantBasis()).fit(x, 3 * x[:, 0])
    np.testing.assert_allclose(model.predict([[0.0], [1.0]]), [0.0, 3.0], atol=1e-12)


def test_splines_have_sizes_and_intervals():
    assert SplineBasis(4).resized(7).n_knots == 7
    with pytest.raises(ValueError, match="SplineBasis needs low below high in feature 0"):
        SplineBasis(4, low=1.0, high=0.5).transform(X)


def test_compare_gives_both_errors_and_a_verdict():
    hard = SHARED_DESIGNS["complex-shared"]
    rows, y = hard.sample(600, np.random.default_rng(1))
    model = gw.SharedRoutedRegressor(hard.shared, hard.routed, regions)
    result = model.compare(rows, y)
    assert result.verdict == "a shared component pays"
    assert result.gain == pytest.approx(result.pure_mse - result.shared_mse)
    assert "verdict: a shared component pays" in repr(result)
    again = model.set_params(method="pure").compare(rows, y)
    assert (again.method, again.shared_mse) == ("joint", result.shared_mse)
    flat = gw.SharedRoutedRegressor(hard.shared, hard.routed, regions).compare(
        rows, np.random.default_rng(2).normal(size=600)
    )
    assert "pays" not in flat.verdict or "does not pay" in flat.verdict


@pytest.mark.slow
def test_compare_on_general_learners():
    learner = LinearRegression()
    model = gw.SharedRoutedRegressor(learner, DummyRegressor(), regions, method="backfit")
    y = 3 * X[:, 0] + 2 * regions(X) + 0.1 * np.random.default_rng(0).normal(size=600)
    result = model.compare(X, y)
    assert result.verdict == "a shared component pays"
    assert result.method == "backfit"


def test_it_works_in_a_grid_search():
    search = GridSearchCV(gw.SharedRoutedRegressor(SLOPE, WAVES, regions), {"ridge": [0.0, 1.0]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"ridge": 0.0}


class TestBadInput:
    def fails(self, message, rows=X, y=Y, error=ValueError, **kw):
        with pytest.raises(error, match=message):
            gw.SharedRoutedRegressor(**{"shared": SLOPE, "routed": WAVES, "partition": regions, **kw}).fit(rows, y)

    def test_regions(self):
        self.fails("region 1 is empty", partition=lambda X: 2 * (X[:, 0] > 0.5))
        self.fails("region 1 is empty", partition=lambda X: 2 * (X[:, 0] > 0.5), sieve=SieveSearch(routed=(1, 2)))
        self.fails("region 1 is empty", partition=lambda X: np.zeros(len(X), dtype=int), routed=[WAVES, WAVES])
        self.fails("region 0 has 3 rows, fewer than the 7 columns", partition=lambda X: np.arange(len(X)) > 2)
        self.fails("puts row .* in region 2, but", partition=lambda X: np.arange(len(X)) % 3, routed=[WAVES] * 2)
        self.fails("whole numbers from 0 on", partition=lambda X: X[:, 0])
        self.fails("must give shape", partition=lambda X: X)
        self.fails("partition must be 'threshold'", partition="median")
        self.fails("partition must be 'threshold', a ThresholdSearch", partition=3)

    def test_thresholds(self):
        rows = np.column_stack([np.full(600, 2.0), X[:, 0]])
        self.fails("feature 0 is constant", rows=rows, partition="threshold")
        self.fails("is not a column of X", partition=ThresholdSearch("income"))
        self.fails("feature must be a whole number from 0 to 0", partition=ThresholdSearch(3))
        self.fails("no threshold on the grid leaves", partition=ThresholdSearch(0, grid=(-1.0, 0.0)))
        self.fails(
            "no threshold on the grid leaves", partition=ThresholdSearch(0, grid=(-1.0, 0.0), coordinates="moving")
        )
        self.fails("no threshold on the grid", rows=X[:12], y=Y[:12], partition="threshold")
        self.fails("one basis for each of 2 regions, not 3", partition="threshold", routed=[WAVES] * 3)
        with pytest.raises(ValueError, match="coordinates must be"):
            ThresholdSearch(0, coordinates="polar")

    def test_numbers(self):
        bad = X.copy()
        bad[3] = np.nan
        self.fails("contains NaN", rows=bad)
        y = Y.copy()
        y[3] = np.inf
        self.fails("Input y contains infinity", y=y)
        self.fails("ridge must be a number from 0 on", ridge=-1.0)
        self.fails("method must be one of joint, two-stage", method="boost")
        self.fails("must return finite numbers", shared=lambda X: np.full((len(X), 1), np.inf))
        self.fails(r"must return shape \(600, p\)", shared=lambda X: X[:, 0])
        self.fails("shared must be a basis", shared=3, error=TypeError)
        self.fails(
            "basis with sizes to choose from",
            shared=ConstantBasis(),
            sieve=SieveSearch(shared=(1, 2)),
            error=TypeError,
        )
        self.fails("every choice of sizes has more columns", sieve=SieveSearch(routed=(400,)))
        with pytest.raises(ValueError, match="ridges must be numbers from 0 on"):
            SieveSearch(ridges=(-1.0,))
        with pytest.raises(ValueError, match="criterion must be one of"):
            SieveSearch(criterion="bic")

    def test_learners(self):
        forest = RandomForestRegressor(5)
        self.fails("needs a given partition", shared=forest, routed=forest, partition="threshold", method="backfit")
        self.fails("must be a regressor", method="backfit", error=TypeError)
        few = {"shared": forest, "routed": forest, "partition": lambda X: np.arange(len(X)) > 2, "method": "backfit"}
        self.fails("region 0 has 3 rows, fewer than the 5 folds", **few)
        with pytest.raises(ValueError, match="folds must be a whole number at least 2"):
            Backfitting(folds=1)

    def test_a_region_that_fit_did_not_see(self):
        model = gw.SharedRoutedRegressor(
            SLOPE, WAVES, lambda X: np.where(X[:, 0] > 1, 2, X[:, 0] > 0.5).astype(int)
        ).fit(X, Y)
        with pytest.raises(ValueError, match="puts row 1 in region 2, but fit saw 2 regions"):
            model.predict([[0.2], [1.5]])
