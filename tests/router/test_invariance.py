"""What must not matter to a router: units, order, copies of an expert, the type of a table, threads of a library."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from threadpoolctl import threadpool_limits

import gatewise as gw


class GivenForecast(RegressorMixin, BaseEstimator):
    """A column of the table as a forecast, in other units."""

    def __init__(self, column, unit=1.0, shift=0.0):
        self.column, self.unit, self.shift = column, unit, shift

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return self.unit * np.asarray(X)[:, self.column] + self.shift


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    mean = np.where(X[:, 0] < 0, X[:, 1], np.sin(2 * X[:, 2]))
    F = np.column_stack([X[:, 1], np.sin(2 * X[:, 2]), 0.5 * mean]) + 0.3 * rng.normal(size=(200, 3))
    copy = F[:, 0] + 1e-6 * mean.std() * rng.normal(size=200)
    return np.column_stack([X, F, copy]), mean + 0.3 * rng.normal(size=200)


LISTS = {
    "without trees": (["linear", "kernel", "forecast"], gw.MoESettings(learners=("products",), spreads=(1.0, 10.0))),
    "with trees": (["tree"], gw.MoESettings(spreads=(1.0,), learners=("forest", "boosted"))),
}


def predictions(rows, listed, columns=(3, 4, 5), unit=1.0, shift=0.0, table=None):
    X, y = rows
    gates, settings = LISTS[listed]
    experts = [(f"expert {column}", GivenForecast(column, unit, shift)) for column in columns]
    model = gw.MoERegressor(experts, gates=gates, cv="prefit", random_state=0, settings=settings)
    given = X if table is None else table(X)
    found = (model.fit(given, unit * y + shift).predict(given) - shift) / unit
    return found / y.std(), model


@pytest.mark.parametrize("listed", LISTS)
def test_units_order_and_copies_do_not_matter(rows, listed):
    near = 1e-8
    plain, _ = predictions(rows, listed)
    for unit, shift in ((1000.0, 0.0), (1e-4, 0.0), (1.0, 1e4)):
        np.testing.assert_allclose(predictions(rows, listed, unit=unit, shift=shift)[0], plain, atol=near)
    np.testing.assert_allclose(predictions(rows, listed, columns=(5, 3, 4))[0], plain, atol=near)
    np.testing.assert_allclose(predictions(rows, listed, table=pd.DataFrame)[0], plain, atol=1e-12)
    with threadpool_limits(2, "blas"):
        np.testing.assert_allclose(predictions(rows, listed)[0], plain, atol=1e-12)
    doubled, model = predictions(rows, listed, columns=(3, 4, 5, 6))
    np.testing.assert_allclose(doubled, plain, atol=0.005)
    weights = model.gate_weights(rows[0])
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert not weights[:, 3].any()
    assert model.out_of_fold_.weights.shape == (200, 4)
    np.testing.assert_allclose(sum(model.explain(rows[0]).values()), model.predict(rows[0]))


@pytest.mark.parametrize("columns", [(6, 3, 4, 5), (4, 6, 5, 3)])
def test_a_copy_with_noise_does_not_matter_where_it_stands(rows, columns):
    """Forecasts with few values, as those of trees: their copy has a place to cut between any two rows."""
    X, y = rows[0].copy(), rows[1]
    X[:, 3:6] = X[:, 3:6].round(1)
    X[:, 6] = X[:, 3] + 1e-6 * y.std() * np.random.default_rng(1).normal(size=len(X))
    plain, _ = predictions((X, y), "with trees")
    doubled, model = predictions((X, y), "with trees", columns=columns)
    np.testing.assert_allclose(doubled, plain, atol=1e-8)
    assert not model.gate_weights(X)[:, columns.index(6)].any()


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_of_smooth_forecasts_does_not_matter_where_it_stands(seed):
    """Forecasts that fall with an input divide the rows as the input does: noise in them must not choose the cut."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 2))
    F = np.column_stack([-2 * X[:, 0], 1 - X[:, 1], X.sum(axis=1)])
    y = np.where(X[:, 0] < 0, F[:, 0], F[:, 1]) + 0.5 * rng.normal(size=200)
    table = np.column_stack([X, np.zeros(200), F, F[:, 0] + 1e-6 * y.std() * rng.normal(size=200)])
    plain, _ = predictions((table, y), "with trees")
    doubled, _ = predictions((table, y), "with trees", columns=(6, 3, 4, 5))
    np.testing.assert_allclose(doubled, plain, atol=0.005)


def test_experts_without_a_seed_get_one():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + rng.normal(size=80)

    def fitted(seed):
        forest = RandomForestRegressor(5)
        model = gw.MoERegressor([forest], cv=2, random_state=seed, settings=gw.MoESettings(learners=())).fit(X, y)
        assert forest.random_state is None
        return model.predict(X)

    np.testing.assert_array_equal(fitted(3), fitted(3))
    assert (fitted(3) != fitted(4)).any()
