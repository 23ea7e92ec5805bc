"""What a small move of theta does to a Top-K gate: margins, slope separation, changed active sets, the modulus."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_count, as_positive, as_rows, as_vector, Booleans, Floats
from gatewise.gates import Gate, LinearGate, phi_regularity


def top_k_margin(scores: ArrayLike, k: int) -> Floats:
    """s_(K) - s_(K+1) at every row, (n,): how far the active set is from changing; infinite for K = M.

    >>> top_k_margin([[3.0, 1.0, 2.5]], k=2)
    array([1.5])
    """
    rows = as_rows(scores, "scores")
    k = as_count(k, "k", high=rows.shape[1])
    if k == rows.shape[1]:
        return np.full(len(rows), np.inf)
    ordered = -np.sort(-rows, axis=1)
    return np.asarray(ordered[:, k - 1] - ordered[:, k])


def slopes(gate: LinearGate, theta: ArrayLike, d: int) -> Floats:
    """The slopes beta_m of all experts, (M, d), the reference's zero."""
    if not isinstance(gate, LinearGate):
        raise TypeError(f"gate must be a LinearGate, as slopes belong to linear scores, not {type(gate).__name__}")
    array = gate.check_theta(theta, d)
    if array.ndim != 2:
        raise ValueError(f"theta must be one parameter of shape {gate.theta_shape(d)}, not shape {array.shape}")
    return np.vstack([array[:, :d], np.zeros((1, d))])


def slope_separation(gate: LinearGate, theta: ArrayLike, d: int) -> float:
    """r = min over i != j of |beta_i - beta_j|, the reference's slope being zero (`def:parameter`).

    >>> slope_separation(LinearGate(3), [[3.0, 0.0], [1.0, 5.0]], d=1)
    1.0
    """
    beta = slopes(gate, theta, d)
    i, j = np.triu_indices(len(beta), k=1)
    return float(np.linalg.norm(beta[i] - beta[j], axis=1).min())


def border_margin(gate: LinearGate, X: Any, theta: ArrayLike) -> Floats:
    """The distance in x to the nearest change of the active set of a linear Top-K gate, (n,).

    min over i active, j not, of (s_i - s_j) / |beta_i - beta_j|: the active set is an intersection of half-spaces.
    The borders reach beyond the input space; pairs of equal slope have none.

    >>> border_margin(LinearGate(2, k=1), [[1.0], [-3.0]], [[2.0, 0.0]])
    array([1., 3.])
    """
    rows = as_rows(X)
    beta, scores = slopes(gate, theta, rows.shape[1]), gate.scores(rows, theta)
    is_active = np.zeros(scores.shape, dtype=np.bool_)
    np.put_along_axis(is_active, gate.active(rows, theta), True, axis=1)
    margin = np.full(len(rows), np.inf)
    for i, j in zip(*np.triu_indices(gate.n_experts, k=1), strict=True):
        length = float(np.linalg.norm(beta[i] - beta[j]))
        if length > 0:
            apart = is_active[:, i] != is_active[:, j]
            away = np.abs(scores[apart, i] - scores[apart, j]) / length
            margin[apart] = np.minimum(margin[apart], away)
    return margin


def active_sets_differ(active: ArrayLike, other: ArrayLike) -> Booleans:
    """Whether two lists of active experts (n, K) differ as sets, (n,).

    >>> active_sets_differ([[0, 1], [0, 1]], [[1, 0], [0, 2]])
    array([False,  True])
    """
    first, second = np.sort(active, axis=-1), np.sort(other, axis=-1)
    if first.shape != second.shape or first.ndim != 2:
        raise ValueError(f"active and other must both have shape (n, K), not {first.shape} and {second.shape}")
    return np.asarray((first != second).any(axis=1))


class ChangeCurve(NamedTuple):
    """The fraction of rows whose active set changes at each delta: mean and largest over directions, both (len,)."""

    deltas: Floats
    mean: Floats
    worst: Floats


def active_set_changes(
    gate: Gate,
    X: Any,
    theta: ArrayLike,
    deltas: ArrayLike,
    *,
    n_directions: int = 20,
    seed: int | np.random.Generator = 0,
) -> ChangeCurve:
    """P(T_K(X; theta) != T_K(X; theta + delta u)) over random unit directions u, for each delta.

    The same directions serve every delta. A kernel gate's parameters lie on simplices and cannot move freely.

    >>> X = np.linspace(-1, 1, 2001)[:, None]
    >>> active_set_changes(LinearGate(2, k=1), X, [[1.0, 0.0]], [0.0, 0.1]).mean.round(3)
    array([0.   , 0.028])
    """
    rows, steps = as_rows(X), as_vector(deltas, "deltas")
    start = gate.check_theta(theta, rows.shape[1])
    directions = np.random.default_rng(seed).normal(size=(as_count(n_directions, "n_directions"), *start.shape))
    directions /= np.linalg.norm(directions, axis=(1, 2), keepdims=True)
    before = gate.active(rows, start)
    share = np.array(
        [[active_sets_differ(before, gate.active(rows, start + t * u)).mean() for u in directions] for t in steps]
    )
    return ChangeCurve(steps, share.mean(axis=1), share.max(axis=1))


class Modulus(NamedTuple):
    """|g - g'| in L2(P_X), the bound on it, and delta = |theta - theta'|."""

    measured: float
    bound: float
    delta: float


def continuity_modulus(
    gate: LinearGate, X: Any, theta: ArrayLike, other: ArrayLike, *, anti_concentration: float
) -> Modulus:
    """The L2 distance of two linear gates over the rows against the bound of `pro:continuity`, with its constants.

    bound^2 = L^2 R^2 delta^2 + 2 (M (M-1) / 2) C_4 sqrt(2) R delta / r: the first part is for rows whose active set
    stays, L the Lipschitz constant of phi and R = max |(x, 1)|; the second bounds the fraction of the others, once
    for each pair of experts, C_4 the ``anti_concentration`` of `ass:distribution` and r the slope separation of
    theta.

    >>> X = np.linspace(-1, 1, 2001)[:, None]
    >>> found = continuity_modulus(LinearGate(2, k=1), X, [[1.0, 0.0]], [[1.0, 0.1]], anti_concentration=1.0)
    >>> round(found.measured, 3), round(found.bound, 3)
    (0.316, 0.632)
    """
    rows = as_rows(X)
    first, second = gate.check_theta(theta, rows.shape[1]), gate.check_theta(other, rows.shape[1])
    separation = slope_separation(gate, first, rows.shape[1])
    if separation == 0:
        raise ValueError("theta must have slopes that differ from each other and from 0; its separation r is 0")
    c4 = as_positive(anti_concentration, "anti_concentration")
    delta = float(np.linalg.norm(first - second))
    reach = float(np.sqrt((rows**2).sum(axis=1).max() + gate.intercept))
    smooth = (phi_regularity(gate.phi).lipschitz * reach * delta) ** 2 if gate.n_active > 1 else 0.0
    pairs = gate.n_experts * (gate.n_experts - 1) / 2 if gate.n_active < gate.n_experts else 0.0
    jumps = 2.0 * pairs * c4 * np.sqrt(2.0) * reach * delta / separation
    gap = gate.weights(rows, first) - gate.weights(rows, second)
    return Modulus(float(np.sqrt((gap**2).sum(axis=1).mean())), float(np.sqrt(smooth + jumps)), delta)
