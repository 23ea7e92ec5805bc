"""Experts that learn on the way."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, SGDRegressor
from sklearn.neural_network import MLPRegressor

from gatewise.experts import ConstantExpert
from gatewise.experts.evolving import after_burn_in, AveragedExpert, evolve, EvolvingExpert
from gatewise.experts.pool import Pool
from gatewise.experts.protocol import can_predict

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
y = X @ [1.0, -2.0] + rng.normal(scale=0.1, size=60)


def last_response(expert, X, y):
    return ConstantExpert(float(y[-1]))


def naive_path(make, update_every, keep_from):
    """Predict every row by the state before its block; all states from keep_from on, one a row."""
    expert, predictions, states = make(), [], []
    blocks = [*range(0, keep_from, update_every), *range(keep_from, 60, update_every)]
    for start, stop in zip(blocks, [*blocks[1:], 60], strict=True):
        predictions += list(expert.predict(X[start:stop]))
        states += [expert.predict(X)] * (stop - start if start >= keep_from else 0)
        expert.partial_fit(X[start:stop], y[start:stop])
    return np.array(predictions), np.mean(states, axis=0)


@pytest.mark.parametrize("update_every", [1, 3, 7, 60])
@pytest.mark.parametrize("keep_from", [0, 20])
def test_predictions_come_from_the_state_before(update_every, keep_from):
    def make():
        return EvolvingExpert(ConstantExpert(0.0), last_response)

    seen = evolve(Pool.of([make()]), X, y, update_every, n_snapshots=100, keep_from=keep_from)
    predictions, average = naive_path(make, update_every, keep_from)
    np.testing.assert_array_equal(seen.predictions[:, 0], predictions)
    assert seen.thinning_error < 1e-12
    assert len(seen.states) == len(seen.edges) - 1 == len(range(keep_from, 60, update_every))
    np.testing.assert_allclose(seen.averages.models[0].predict(X), average, atol=1e-12)


def test_linear_experts_are_averaged_by_their_coefficients():
    model = SGDRegressor(random_state=0, eta0=0.05).partial_fit(X[:1], y[:1])
    (own,) = after_burn_in(Pool.of([model]), X[:0], y[:0], update=True).models
    seen = evolve(Pool.of([own]), X, y, 1, n_snapshots=3)
    assert isinstance(seen.averages.models[0], SGDRegressor)
    again = SGDRegressor(random_state=0, eta0=0.05).partial_fit(X[:1], y[:1])
    _, average = naive_path(lambda: again, 1, 0)
    np.testing.assert_allclose(seen.averages.models[0].predict(X), average, rtol=1e-9)
    assert seen.thinning_error < 1e-9  # exact, though only three states are kept
    assert len(seen.states) == 3


def test_other_experts_keep_some_states_and_report_the_error():
    def net():
        return MLPRegressor(hidden_layer_sizes=(4,), random_state=0, learning_rate_init=0.02).partial_fit(
            X[:2], y[:2]
        )

    coarse, fine, exact = (evolve(Pool.of([net()]), X, y, 1, n_snapshots=k) for k in (2, 20, 60))
    assert isinstance(coarse.averages.models[0], AveragedExpert)
    assert coarse.thinning_error > fine.thinning_error > exact.thinning_error
    assert exact.thinning_error < 1e-12
    truth = exact.averages.models[0].predict(X)
    measured = np.sqrt(np.mean((coarse.averages.models[0].predict(X) - truth) ** 2))
    assert coarse.thinning_error == pytest.approx(measured, rel=1e-6)


def test_no_past_output_moves_when_a_future_response_changes():
    changed = y.copy()
    changed[40] += 100.0
    paths = []
    for response in (y, changed):
        expert = SGDRegressor(random_state=0).partial_fit(X[:1], y[:1])
        paths.append(evolve(Pool.of([expert]), X, response, 1, 4).predictions[:, 0])
    np.testing.assert_array_equal(paths[0][:41], paths[1][:41])
    assert (paths[0][41:] != paths[1][41:]).all()


def test_experts_that_do_not_learn_stay():
    seen = evolve(Pool.of([ConstantExpert(2.0), np.ravel and (lambda rows: rows[:, 0])]), X, y, 5, 4)
    np.testing.assert_array_equal(seen.predictions, np.column_stack([np.full(60, 2.0), X[:, 0]]))


def test_starting_fits_what_is_not_fitted_and_changes_no_expert_of_the_user():
    fresh, fitted = LinearRegression(), SGDRegressor(random_state=0).fit(X, y)
    before = fitted.coef_.copy()
    assert not can_predict(fresh)
    assert can_predict(fitted)
    assert can_predict(lambda rows: rows)
    a, b = after_burn_in(Pool.of([fresh, fitted]), X[:30], y[:30], update=True).models
    np.testing.assert_allclose(a.coef_, LinearRegression().fit(X[:30], y[:30]).coef_)
    assert not can_predict(fresh)
    np.testing.assert_array_equal(fitted.coef_, before)
    assert (b.coef_ != before).any()
    (still,) = after_burn_in(Pool.of([fitted]), X[:30], y[:30], update=False).models
    np.testing.assert_array_equal(still.coef_, before)


def test_a_wrong_length_in_the_middle_names_expert_and_time():
    class Fails:
        def __init__(self):
            self.seen = 0

        def partial_fit(self, X, y):
            self.seen += len(y)

        def predict(self, X):
            return np.zeros(len(X) + (self.seen > 30))

    with pytest.raises(ValueError, match=r"the expert 'fails' must return shape(.|\n)*at observation 31"):
        evolve(Pool.of([ConstantExpert(0.0), Fails()]), X, y, 1, 4)
