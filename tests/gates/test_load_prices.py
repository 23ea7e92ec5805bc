"""Gates with a given load per expert."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax

import gatewise as gw
from gatewise.gates.load_prices import _polished, balanced_thetas, load_prices, top1_prices

rng = np.random.default_rng(0)
SCORES = rng.normal(loc=[2.0, 0.0, 0.0], size=(300, 3))
LOAD = np.array([0.2, 0.5, 0.3])


@pytest.mark.parametrize("temperature", [0.1, 1.0, 5.0])
def test_soft_prices_meet_the_load_exactly(temperature):
    b = load_prices(SCORES, LOAD, temperature)
    np.testing.assert_allclose(softmax((SCORES + b) / temperature, axis=1).mean(axis=0), LOAD, atol=1e-9)
    assert b[-1] == 0.0


def test_hard_prices_are_the_best_assignment_with_that_load():
    """Against the assignment problem, in which every expert has as many seats as its load allows."""
    b = top1_prices(SCORES, LOAD)
    leader = (SCORES + b).argmax(axis=1)
    assert np.abs(np.bincount(leader, minlength=3) / 300 - LOAD).max() <= 2 / 300
    seats = np.repeat(np.arange(3), (300 * LOAD).astype(int))
    rows, columns = linear_sum_assignment(-SCORES[:, seats])
    best = SCORES[rows, seats[columns]].sum()
    assert SCORES[np.arange(300), leader].sum() >= best - 0.1
    assert (seats[columns] == leader[rows]).mean() > 0.98


def test_prices_that_are_a_little_off_are_put_right():
    off = top1_prices(SCORES, LOAD) + np.array([0.2, -0.2, 0.0])
    before, after = (
        np.abs(np.bincount((SCORES + b).argmax(axis=1), minlength=3) / 300 - LOAD).max()
        for b in (off, _polished(SCORES[None], LOAD, off[None])[0])
    )
    assert after <= 2 / 300 < before


@pytest.mark.parametrize("k", [None, 1])
def test_a_mean_of_balanced_gates_is_balanced(k):
    gate = gw.LinearGate(3, k=k)
    X = rng.uniform(-1.0, 1.0, size=(400, 2))
    thetas = rng.normal(scale=3.0, size=(20, 2, 3))
    moved = balanced_thetas(gate, thetas, X, LOAD)
    np.testing.assert_array_equal(moved[:, :, :-1], thetas[:, :, :-1])
    shares = rng.dirichlet(np.ones(20))
    mean = np.tensordot(shares, gate.weights(X, moved), axes=1).mean(axis=0)
    np.testing.assert_allclose(mean, LOAD, atol=1e-9 if k is None else 0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: load_prices(SCORES, [0.5, 0.5, 0.0]), "load must be positive with sum 1"),
        (lambda: balanced_thetas(gw.LinearGate(3, k=2), np.zeros((1, 2, 2)), np.ones((9, 1)), LOAD), "not for k = 2"),
        (
            lambda: balanced_thetas(gw.LinearGate(3, intercept=False), np.zeros((1, 2, 1)), np.zeros((9, 1)), LOAD),
            "must have an intercept",
        ),
        (
            lambda: balanced_thetas(gw.LinearGate(3, k=1), np.zeros((1, 2, 2)), SCORES[:, :1], LOAD),
            "tie at many rows",
        ),
    ],
)
def test_what_cannot_be_balanced_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
