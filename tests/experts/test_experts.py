"""Experts: the shipped ones, and the checks of anybody's."""

import pickle

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import PolynomialFeatures

from gatewise import expert_matrix
from gatewise.experts import (
    AffineExpert,
    ConstantExpert,
    expert_predictions,
    FourierExpert,
    PolynomialExpert,
)

X = np.random.default_rng(0).uniform(-1, 1, size=(25, 2))
SHIPPED = [
    ConstantExpert(3.0),
    AffineExpert((1.0, -2.0), 0.5),
    FourierExpert((1.0, 0.5), (0.0, 2.0), 0.3, low=-1.0, high=1.0, feature=1),
    PolynomialExpert((1.0, 2.0), ((0, 1), (2, 0))),
]


@pytest.mark.parametrize("expert", SHIPPED, ids=repr)
def test_shipped_experts_predict_and_pickle(expert):
    prediction = expert.predict(X)
    assert prediction.shape == (25,)
    copy = pickle.loads(pickle.dumps(expert))
    assert copy == expert
    np.testing.assert_array_equal(copy.predict(X), prediction)


def test_shipped_experts_follow_their_formulas():
    t = (X[:, 1] + 1) / 2
    wave = 0.3 + np.sin(2 * np.pi * t) + 0.5 * np.sin(4 * np.pi * t) + 2 * np.cos(4 * np.pi * t)
    expected = [np.full(25, 3.0), 0.5 + X[:, 0] - 2 * X[:, 1], wave, X[:, 1] + 2 * X[:, 0] ** 2]
    np.testing.assert_allclose(expert_matrix(SHIPPED, X), np.column_stack(expected), atol=1e-12)


def test_polynomials_agree_with_numpy_and_with_scikit_learn():
    line = np.linspace(-2, 2, 9)[:, None]
    one = PolynomialExpert((1.0, -2.0, 0.5), ((0,), (1,), (2,)))
    np.testing.assert_allclose(one.predict(line), Polynomial([1.0, -2.0, 0.5])(line[:, 0]))
    features = PolynomialFeatures(3).fit(X)
    coefficients = np.random.default_rng(1).normal(size=len(features.powers_))
    np.testing.assert_allclose(
        PolynomialExpert(coefficients, features.powers_).predict(X), features.transform(X) @ coefficients
    )


def test_models_and_functions_are_experts():
    model = LinearRegression().fit(X, X[:, 0])
    matrix = expert_matrix([model, lambda rows: rows[:, 1], ConstantExpert(1.0)], X)
    np.testing.assert_allclose(matrix, np.column_stack([X[:, 0], X[:, 1], np.ones(25)]), atol=1e-12)


class Refuses:
    def predict(self, X):
        raise ZeroDivisionError("no such row")


def two_columns(X):
    return np.zeros((len(X), 2))


@pytest.mark.parametrize(
    ("expert", "error", "message"),
    [
        (two_columns, ValueError, r"the expert 'two_columns' must return shape \(25,\).*not \(25, 2\)"),
        (lambda X: 3.0, ValueError, r"the expert '<lambda>' must return shape \(25,\)"),
        (lambda X: np.full(25, np.nan), ValueError, "must return finite numbers, but gave nan at row 0"),
        (lambda X: ["a"] * 25, ValueError, "the expert '<lambda>' must return numbers"),
        (Refuses(), ZeroDivisionError, "no such row\nraised by the expert 'refuses'$"),
        (("my own", Refuses()), ZeroDivisionError, "no such row\nraised by the expert 'my own'$"),
        (3.0, TypeError, r"experts\[1\] must have predict\(X\) or be a callable"),
    ],
)
def test_the_expert_at_fault_is_named(expert, error, message):
    with pytest.raises(error, match=message):
        expert_matrix([ConstantExpert(0.0), expert], X)


def test_bad_experts_are_named():
    with pytest.raises(ValueError, match="experts must hold at least one"):
        expert_matrix([], X)
    with pytest.raises(ValueError, match="low must be below high"):
        FourierExpert(low=1.0, high=1.0)
    with pytest.raises(ValueError, match="one row per coefficient"):
        PolynomialExpert((1.0,), ())
    with pytest.raises(ValueError, match="rows of one length"):
        PolynomialExpert((1.0, 1.0), ((0,), (0, 1)))
    with pytest.raises(ValueError, match="X must have 3 columns"):
        AffineExpert((1.0, 2.0, 3.0)).predict(X)
    with pytest.raises(ValueError, match="X must have 1 columns"):
        PolynomialExpert((1.0,), ((1,),)).predict(X)


def test_predictions_of_lists_are_counted_by_length():
    assert expert_predictions(lambda rows: np.zeros(len(rows)), [[0.0], [1.0]]).shape == (2,)
