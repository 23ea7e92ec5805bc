"""A fit that fails changes nothing."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import gatewise as gw
from gatewise.experts import ConstantExpert

GATE = gw.LinearGate(2)
X = np.random.default_rng(0).normal(size=(60, 1))
Y = (X[:, 0] > 0).astype(float)
MODELS = {
    "experts": gw.RouterAggregator([Ridge(), LinearRegression()], GATE, gw.Particles(20), random_state=0),
    "shared": gw.GateRegressor([ConstantExpert(0.0), ConstantExpert(1.0)], GATE, n_starts=2, random_state=0),
    "candidates": gw.GateSelector([Ridge(), LinearRegression()], random_state=0),
    "routed": gw.SharedRoutedRegressor(),
}


class RefusedError(Exception):
    """What the model is made to fail with."""


def refuses(_):
    raise RefusedError


@pytest.mark.parametrize(("parameter", "model"), MODELS.items(), ids=[type(m).__name__ for m in MODELS.values()])
def test_a_refit_that_fails_leaves_the_model_as_it_was(parameter, model):
    before = model.fit(X, Y).predict(X)
    model.set_params(**{parameter: [refuses, refuses]})
    attributes = dict(vars(model))
    with pytest.raises(RefusedError):
        model.fit(np.column_stack([X, X]), Y)
    assert vars(model).keys() == attributes.keys()
    assert all(value is attributes[name] for name, value in vars(model).items())
    np.testing.assert_array_equal(model.predict(X), before)
