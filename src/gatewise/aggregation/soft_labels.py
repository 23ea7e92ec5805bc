"""One dense softmax gate fitted to soft labels: the convex step of `alg:cross-entropy`."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_count, as_positive, as_rows, Floats
from gatewise.gates import Gate, KernelGate, ScoreGate
from gatewise.solvers.cross_entropy import CrossEntropyFit, minimise_cross_entropy


def cross_entropy_fit(
    gate: Gate, X: Any, labels: ArrayLike, radius: float, *, tol: float = 1e-10, max_iter: int = 200
) -> CrossEntropyFit:
    """The softmax gate closest to soft labels in cross-entropy, over the box |theta| <= radius.

    ``labels`` (n, M) is the time-averaged aggregated gate at the rows X (n, d) of the fourth block
    (`alg:cross-entropy`; `lem:supp-ce-weight-estimator`). The gate is a dense softmax gate: any `ScoreGate`
    with ``phi="exp"`` and ``k=None``. The loss is convex in the scores, and they are linear in theta.
    ``gap`` is the Frank-Wolfe gap over the box, in nats. A gap above ``tol``, and above what rounding
    allows, is a `ConvergenceWarning` and ``converged=False``.

    >>> from gatewise import LinearGate
    >>> gate, X = LinearGate(2), np.linspace(-1, 1, 9)[:, None]
    >>> cross_entropy_fit(gate, X, gate.weights(X, [[2.0, -1.0]]), radius=5.0).theta.round(6)
    array([[ 2., -1.]])
    """
    dense = _check_gate(gate)
    rows = as_rows(X)
    if len(rows) == 0:
        raise ValueError("X must have at least one row, not 0")
    labels = _check_labels(labels, len(rows), dense.n_experts)
    radius, tol = as_positive(radius, "radius"), as_positive(tol, "tol")
    features = as_rows(dense.features(rows), "features of X")
    return minimise_cross_entropy(features, labels, radius, tol, as_count(max_iter, "max_iter"))


def _check_gate(gate: Gate) -> ScoreGate:
    if isinstance(gate, KernelGate):
        raise ValueError(
            "gate must be a dense softmax gate, not a KernelGate: that one is linear in theta, so fit it by "
            "simplex_least_squares"
        )
    if not isinstance(gate, ScoreGate):
        raise ValueError(f"gate must be a LinearGate, a QuadraticGate or another ScoreGate, not {gate!r}")
    if gate.k is not None and gate.k < gate.n_experts:
        raise ValueError(
            f"gate must be dense, but it has k={gate.k}: log 0 is infinite outside of the active set; "
            "take k=None, or project a Top-K gate onto its net in L2"
        )
    if gate.phi != "exp":
        raise ValueError(
            f"gate must have phi='exp', not {gate.phi!r}: the loss is convex for the softmax only; "
            "take phi='exp', or project onto the net in L2"
        )
    return gate


def _check_labels(labels: ArrayLike, n: int, M: int) -> Floats:
    q = as_rows(labels, "labels")
    if q.shape != (n, M):
        raise ValueError(
            f"labels must have shape ({n}, {M}), a row per row of X and a column per expert, not {q.shape}"
        )
    sums = q.sum(axis=1, keepdims=True)
    if (q < 0).any() or (np.abs(sums - 1.0) > 1e-6).any():
        raise ValueError("labels must lie on the simplex: not negative, each row with sum 1")
    return np.asarray(q / sums)
