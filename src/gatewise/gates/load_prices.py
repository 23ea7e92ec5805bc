"""A given load per expert: prices that are added to the scores until every expert gets its share of the rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from gatewise.arrays import as_rows, as_vector, Floats
from gatewise.gates.score import ScoreGate

STEPS, TOLERANCE = 60, 1e-10
NUMBERS = 2**21  # scores held at a time: 16 MiB
COOLING = 0.1 ** np.arange(0, 5)  # temperatures, in units of the scores' deviation, for gates that take one expert


def load_prices(scores: ArrayLike, load: ArrayLike, temperature: float = 1.0) -> Floats:
    """b (M,) with mean_i softmax((s_i + b) / T)_m = load_m, from scores (n, M); the last price is 0.

    b maximises the concave dual b . load - T mean_i log sum_m exp((s_im + b_m) / T).

    >>> scores = np.array([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    >>> b = load_prices(scores, [0.5, 0.5])
    >>> softmax(scores + b, axis=1).mean(axis=0).round(6)
    array([0.5, 0.5])
    """
    s, wanted = as_rows(scores, "scores"), _as_load(load, np.shape(scores)[1])
    return np.asarray(_prices(s[None], wanted, temperature, np.zeros((1, s.shape[1])))[0])


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
    return np.asarray(_cooled(s[None], wanted)[0])


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
    wanted, dense = _as_load(load, gate.n_experts), gate.n_active == gate.n_experts
    for part in np.array_split(np.arange(len(table)), max(1, table.shape[0] * len(rows) * gate.n_experts // NUMBERS)):
        scores = np.zeros((len(part), len(rows), gate.n_experts))
        scores[:, :, :-1] = np.einsum("np,smp->snm", features, table[part])
        b = _prices(scores, wanted, 1.0, np.zeros((len(part), gate.n_experts))) if dense else _cooled(scores, wanted)
        table[part, :, -1] += b[:, :-1] - b[:, -1:]
        if not dense:
            _check_ties(scores + b[:, None], wanted)
    return table


def _check_ties(scores: Floats, load: Floats) -> None:
    """Raise an error where the leaders of scores (S, n, M) do not have the load, as they tie at too many rows."""
    n, M = scores.shape[1:]
    gaps, limit = _gaps(scores, load), max(0.01, M / n)
    if gaps.max() > limit:
        count = int((gaps > limit).sum())
        raise ValueError(
            f"{count} of {len(gaps)} gates cannot have this load with k = 1: their scores tie at many rows; leave "
            "out parameters with equal slopes"
        )


def _as_load(load: ArrayLike, n_experts: int) -> Floats:
    wanted = as_vector(load, "load", n_experts)
    if (wanted <= 0).any() or abs(wanted.sum() - 1.0) > 1e-9:
        raise ValueError(f"load must be positive with sum 1, not {wanted}")
    return wanted


def _cooled(scores: Floats, load: Floats) -> Floats:
    """The prices (S, M) of gates that take one expert, from scores (S, n, M), at temperatures that fall to 0."""
    b = np.zeros((len(scores), scores.shape[2]))
    unit = scores.std(axis=(1, 2)).max() + 1e-300
    for temperature in unit * COOLING:
        b = _prices(scores, load, float(temperature), b, 2.0 / scores.shape[1])
    return _polished(scores, load, b)


def _polished(scores: Floats, load: Floats, b: Floats) -> Floats:
    """Prices (S, M) moved one expert at a time, so that it leads at just its number of rows; the best of all moves.

    From prices near the solution, as these are, a few rounds are enough.
    """
    n, M = scores.shape[1:]
    ranks = np.clip(np.rint(load * n).astype(int), 1, n - 1)
    best, least = b.copy(), _gaps(scores + b[:, None], load)
    for move in range(8 * M):
        m = move % M
        others = np.delete(scores + b[:, None], m, axis=2).max(axis=2)
        needed = np.sort(others - scores[:, :, m], axis=1)  # the price from which expert m leads at a row
        b = b.copy()
        b[:, m] = (needed[:, ranks[m] - 1] + needed[:, ranks[m]]) / 2
        gaps = _gaps(scores + b[:, None], load)
        best = np.where((gaps < least)[:, None], b, best)
        least = np.minimum(gaps, least)
    return best


def _gaps(scores: Floats, load: Floats) -> Floats:
    """The largest gap, over the experts, between the fraction of rows at which each leads and its load, (S,)."""
    leads = scores.argmax(axis=2)[:, :, None] == np.arange(len(load))
    return np.asarray(np.abs(leads.mean(axis=1) - load).max(axis=1))


def _prices(scores: Floats, load: Floats, temperature: float, start: Floats, tolerance: float = TOLERANCE) -> Floats:
    """Dual ascent for S gates at once: prices (S, M) from scores (S, n, M).

    A step is Newton's where that raises the dual more than b_m + T log(load_m / mean weight_m), which always does.
    """
    prices, waiting = start - start[:, -1:], np.arange(len(start))
    for _ in range(STEPS):
        b, s = prices[waiting], scores[waiting]
        g = softmax((s + b[:, None]) / temperature, axis=2)
        mean = g.mean(axis=1)  # (S, M)
        gradient = load - mean
        open_ = np.abs(gradient).max(axis=1) >= tolerance
        if not open_.any():
            break
        waiting, b, s, g, mean, gradient = (v[open_] for v in (waiting, b, s, g, mean, gradient))
        safe = b + temperature * np.log(load / np.maximum(mean, 1e-300))
        second = (np.eye(len(load)) * mean[:, None] - np.swapaxes(g, 1, 2) @ g / g.shape[1])[:, :-1, :-1]
        bent = second / temperature + 1e-9 * np.eye(len(load) - 1)
        step = np.linalg.solve(bent, gradient[:, :-1, None])[:, :, 0]
        newton = b + np.concatenate([step, np.zeros((len(b), 1))], axis=1)
        better = _dual(newton, s, load, temperature) > _dual(safe, s, load, temperature)
        moved = np.where(better[:, None], newton, safe)
        prices[waiting] = moved - moved[:, -1:]
    return prices


def _dual(b: Floats, scores: Floats, load: Floats, temperature: float) -> Floats:
    """b . load - T mean_i log sum_m exp((s_im + b_m) / T) for S gates, (S,)."""
    total = logsumexp((scores + b[:, None]) / temperature, axis=2).mean(axis=1)
    return np.asarray(b @ load - temperature * total)
