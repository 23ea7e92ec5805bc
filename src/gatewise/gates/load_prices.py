"""A given load per expert: prices that are added to the scores until every expert gets its share of the rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from gatewise.arrays import as_rows, as_vector, Floats
from gatewise.gates.score import ScoreGate

STEPS, TOLERANCE = 200, 1e-10
COOLING = 0.5 ** np.arange(0, 24)  # temperatures, in units of the scores' deviation, for gates that take one expert


def load_prices(scores: ArrayLike, load: ArrayLike, temperature: float = 1.0) -> Floats:
    """b (M,) with mean_i softmax((s_i + b) / T)_m = load_m, from scores (n, M); the last price is 0.

    b maximises the concave dual b . load - T mean_i log sum_m exp((s_im + b_m) / T). Newton steps, halved until the
    dual rises.

    >>> scores = np.array([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    >>> b = load_prices(scores, [0.5, 0.5])
    >>> softmax(scores + b, axis=1).mean(axis=0).round(6)
    array([0.5, 0.5])
    """
    s, wanted = as_rows(scores, "scores"), _as_load(load, np.shape(scores)[1])
    return _prices(s, wanted, temperature, np.zeros(s.shape[1]))


def top1_prices(scores: ArrayLike, load: ArrayLike) -> Floats:
    """Prices (M,) under which the expert of largest score plus price leads at a fraction load_m of the rows.

    The prices of `load_prices` at temperatures that fall to 0 tend to the dual solution of the assignment of rows to
    experts with these loads; at most M - 1 rows then tie, so that each load is met to (M - 1) / n.

    >>> scores = np.random.default_rng(0).normal(size=(1000, 2))
    >>> b = top1_prices(scores, [0.8, 0.2])
    >>> float(((scores + b).argmax(axis=1) == 0).mean())
    0.8
    """
    s, wanted = as_rows(scores, "scores"), _as_load(load, np.shape(scores)[1])
    unit, b = float(s.std()) + 1e-300, np.zeros(s.shape[1])
    for temperature in unit * COOLING:
        b = _prices(s, wanted, float(temperature), b)
    return np.asarray(b)


def balanced_thetas(gate: ScoreGate, thetas: ArrayLike, X: Any, load: ArrayLike) -> Floats:
    """Parameters (S, M - 1, p) with intercepts moved so that each gate has the given load (M,) at the rows X.

    The gate needs an intercept, its last feature. A dense gate's load is its mean weight, a Top-1 gate's the fraction
    of rows. The mean of gates that all have the load has it, too: aggregate them as a list net.

    >>> from gatewise import LinearGate
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> moved = balanced_thetas(LinearGate(2), [[[3.0, 1.0]], [[-1.0, 2.0]]], X, [0.3, 0.7])
    >>> LinearGate(2).weights(X, moved).mean(axis=1).round(6)
    array([[0.3, 0.7],
           [0.3, 0.7]])
    """
    rows = as_rows(X)
    features = gate.features(rows)
    if not (features[:, -1] == 1.0).all():
        raise ValueError(f"the gate must have an intercept, its last feature, for its load to be set: {gate!r}")
    if 1 < gate.n_active < gate.n_experts:
        raise ValueError(f"a load can be set for dense gates and for k = 1, not for k = {gate.n_active}")
    table = np.array(thetas, dtype=np.float64).reshape(-1, gate.n_experts - 1, features.shape[1])
    prices = load_prices if gate.n_active == gate.n_experts else top1_prices
    for theta in table:
        scores = np.column_stack([features @ theta.T, np.zeros(len(rows))])
        b = prices(scores, load)
        theta[:, -1] += b[:-1] - b[-1]
    return table


def _as_load(load: ArrayLike, n_experts: int) -> Floats:
    wanted = as_vector(load, "load", n_experts)
    if (wanted <= 0).any() or abs(wanted.sum() - 1.0) > 1e-9:
        raise ValueError(f"load must be positive with sum 1, not {wanted}")
    return wanted


def _prices(scores: Floats, load: Floats, temperature: float, start: Floats) -> Floats:
    b = start - start[-1]

    def dual(prices: Floats) -> float:
        total = logsumexp((scores + prices) / temperature, axis=1).mean()
        return float(prices @ load - temperature * total)

    value = dual(b)
    for _ in range(STEPS):
        g = softmax((scores + b) / temperature, axis=1)
        gradient = (load - g.mean(axis=0))[:-1]
        if np.abs(gradient).max() < TOLERANCE:
            break
        hessian = (np.diag(g.mean(axis=0)) - g.T @ g / len(g))[:-1, :-1] / temperature
        step = np.append(np.linalg.solve(hessian + 1e-12 * np.eye(len(hessian)), gradient), 0.0)
        step *= min(1.0, 5.0 * (temperature + np.ptp(scores)) / (np.abs(step).max() + 1e-300))
        size = 1.0
        while size > 1e-9 and dual(b + size * step) < value:
            size /= 2
        b, before = b + size * step, value
        value = dual(b)
        if value <= before:
            break
    return np.asarray(b)
