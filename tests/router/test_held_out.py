"""What is called held out does not depend on the responses of its own rows.

A signal is minus the slope of the loss at a row times what gates change there. Where that change has not seen the
response, the signal of squared loss is a linear function of it: its second differences vanish.
"""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor

from gatewise.experts import ColumnExpert
from gatewise.experts.pool import HeldOut, Pool
from gatewise.gates import LinearGate
from gatewise.gates.inputs import GateInputs
from gatewise.losses import ResidualLoss
from gatewise.router.candidates import candidate_list
from gatewise.router.learning import learn, RouterSample
from gatewise.router.members import ListRows
from gatewise.router.settings import MoESettings
from gatewise.router.training import train, TrainingTask

FOLDS, EACH = 5, 24
n = FOLDS * EACH
FOLD = np.repeat(np.arange(FOLDS), EACH)
SETTINGS = MoESettings(n_orders=2, spreads=(1.0, 10.0), learners=())


def given_forecasts(y, x, F, candidates):
    """Forecasts that are there already, and a list that is learned on five folds of the rows."""
    seen = GateInputs.fit(x, 5, 0.25).transform(x)
    maps = {"linear": LinearGate.feature_map.fit(LinearGate, seen, F, 0)}
    train_rows = tuple(np.flatnonzero(~(j == FOLD)) for j in range(FOLDS))
    rows = ListRows(seen, F, maps=maps)
    sample = RouterSample(rows, HeldOut(np.arange(n), FOLD, F, train_rows), ResidualLoss(y), np.ones(n), 0.01)
    return learn(sample, candidates, SETTINGS, 0, given=True)


@pytest.fixture
def rows():
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (n, 1))
    y = np.where(x[:, 0] < 0, 1.0, -1.0) + rng.normal(size=n)
    return x, np.column_stack([np.ones(n), -np.ones(n)]) + 0.3 * rng.normal(size=(n, 2)), y


def second_difference(signals):
    first, second, third = signals
    return np.abs(third - 2.0 * second + first).max() / np.abs(third).max()


def test_shares_and_the_best_plain_answer_have_not_seen_the_part_they_forecast(rows):
    """The stack is the first expert whatever the responses of the part, so that all depends on them by shares alone.

    Where the part decides, the second expert is the better one.
    """
    x, F, _ = rows
    F = F[:, :1] + np.array([0.0, 3.0])
    part, candidates = FOLD == 3, candidate_list(["a", "b"], {}, corrected=False)
    fits = [given_forecasts(F[:, 0] + np.where(part, shift, -2.0), x, F, candidates) for shift in (-2.0, 1.0, 4.0)]
    assert all(fit.final.stack.tolist() == [1.0, 0.0] for fit in fits)
    first, _, last = (fit.forecasts for fit in fits)
    np.testing.assert_allclose(first[part], last[part], rtol=1e-9)
    assert np.abs(first - last)[~part].max() > 1e-3  # the other parts did see it
    assert second_difference([fit.signal[part] for fit in fits]) < 1e-9


GATES = [(1.0, None), (10.0, None)]


def test_lists_have_not_seen_the_part_they_forecast(rows):
    x, F, y = rows
    part, candidates = FOLD == 3, candidate_list(["a", "b"], {"linear": GATES}, corrected=False)
    before, after = (given_forecasts(y + shift * part * np.sign(x[:, 0]), x, F, candidates) for shift in (0.0, 4.0))
    np.testing.assert_allclose(before.stack[part], after.stack[part], rtol=1e-9)
    assert np.abs(before.stack - after.stack)[~part].max() > 1e-3
    np.testing.assert_allclose(before.forecasts, np.einsum("im,im->i", before.weights, F), rtol=1e-9)


def signals_of_fitted_experts(y, X):
    pool = Pool([("line", LinearRegression()), ("near", KNeighborsRegressor(9)), ("wild", ColumnExpert(1))], seed=0)
    splits = list(KFold(4).split(X))
    first_only = GateInputs.fit(X * [1.0, 0.0], 5, 0.25)  # a constant column is left out
    task = TrainingTask(
        X, y, np.ones(n), pool, Pool([]), splits, first_only, {"linear": LinearGate}, [None], SETTINGS, 0,
    )  # fmt: skip
    return train(task).signal, splits


def test_the_test_of_gates_has_not_seen_the_half_it_judges(rows):
    x, F, y = rows
    wild = np.where(np.arange(n) % 10 == 3, 50.0, F[:, 0])  # set aside as long as no known response is as large
    X, last = np.column_stack([x, wild]), np.arange(n) >= n // 2
    shift = last * np.where(np.arange(n) == n - 1, 100.0, 1.0 + np.sign(x[:, 0]))
    signals = [signals_of_fitted_experts(y + step * shift, X)[0][last] for step in (0.0, 1.0, 2.0)]
    assert second_difference(signals) < 1e-9


def test_shared_experts_are_subtracted_as_they_forecast_rows_they_have_not_seen(rows):
    """A shared expert that repeats the responses of its rows would leave nothing to the others."""
    x, _, y = rows
    shared = Pool([("repeats", KNeighborsRegressor(1))], seed=0)
    splits = list(KFold(4).split(x))
    task = TrainingTask(
        x, y, np.ones(n), Pool([("line", LinearRegression())], seed=0), shared, splits,
        GateInputs.fit(x, 5, 0.25), {"linear": LinearGate}, [None], SETTINGS, 0,
    )  # fmt: skip
    first = train(task).history[0]
    assert first.error > 0.5  # the noise has variance one


def test_gates_whose_weights_are_the_same_at_all_rows_show_nothing():
    """Without inputs a gate finds constant weights that no other candidate has: they are no gain of gating."""
    rng = np.random.default_rng(3)
    F = rng.normal(size=(n, 6))
    y, blind = F @ [0.3, 0.3, 0.1, 0.1, 0.1, 0.1] + 0.5 * rng.normal(size=n), np.zeros((n, 1))
    signal = given_forecasts(y, blind, F, candidate_list(list("abcdef"), {"linear": GATES}, corrected=False)).signal
    assert np.abs(signal[:, :2]).max() > 1e-3
    assert np.abs(signal[:, 2]).max() < 1e-12


def test_what_speaks_for_gates_is_measured_from_their_mean_weights(rows):
    """Without products in the list the aggregate that is tested is the one that predicts."""
    x, F, y = rows
    fit = given_forecasts(y, x, F, candidate_list(["a", "b"], {"linear": GATES}, corrected=False))
    gated = np.einsum("im,im->i", fit.weights, F)
    mean = np.stack([fit.weights[j == FOLD].mean(axis=0) for j in range(FOLDS)])[FOLD]
    steady = np.einsum("im,im->i", mean, F)
    np.testing.assert_allclose(fit.signal[:, 2], -fit.loss.slope(steady) * (gated - steady), rtol=1e-9, atol=1e-12)
    assert fit.signal[:, 2].sum() > 2.0 * np.sqrt((fit.signal[:, 2] ** 2).sum())  # the truth is a gate
