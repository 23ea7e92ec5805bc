"""Least squares over gates (`prop:supp-erm-subgaussian`): over a net exactly, over a box by many local searches.

Over a box the problem is not convex, and the proposition supposes its minimum found; what many starts agree on is the
best evidence that it was. A kernel gate's problem is convex: see `solvers.simplex_least_squares`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.aggregation.engine import project_l2
from gatewise.aggregation.gate_candidates import gate_candidates
from gatewise.arrays import as_count, as_positive, as_rows, as_vector, Floats
from gatewise.gates import Gate, KernelGate, ScoreGate
from gatewise.nets import Net
from gatewise.solvers.local_descent import descend_from, LeastSquares


class NetLeastSquares(NamedTuple):
    """The candidate of a net with the smallest mean squared error: its parameter, number and error."""

    theta: Floats
    candidate: int
    mse: float


def net_least_squares(
    gate: Gate, net: Net, X: Any, y: ArrayLike, F: ArrayLike, n_threads: int = 1
) -> NetLeastSquares:
    """argmin over a net of n^-1 sum_i (y_i - sum_m g_m(x_i; theta) F_im)^2 (`prop:supp-erm-subgaussian`).

    X (n, d); y (n,), the shared part already taken off; F (n, M): the routed experts' predictions, each row at its
    time when they evolve. A candidate is left as soon as it cannot win. Any gate, Top-K too.

    >>> from gatewise import LinearGate
    >>> gate, X = LinearGate(2, intercept=False), np.linspace(-1, 1, 50)[:, None]
    >>> F = np.column_stack([np.ones(50), -np.ones(50)])
    >>> net_least_squares(gate, gate.net([[0.0, 1.0, 2.0, 3.0]]), X, np.tanh(X[:, 0]), F).theta
    array([[2.]])
    """
    rows = as_rows(X)
    response, predictions = as_vector(y, "y", len(rows)), as_rows(F, "F")
    candidates = gate_candidates(gate, net)
    found = project_l2(
        candidates, gate.features(rows), response, predictions, n_threads=n_threads, allowed=net.allowed()
    )
    return NetLeastSquares(net.theta(found.candidate), found.candidate, found.square)


def least_squares(
    gate: Gate,
    X: Any,
    y: ArrayLike,
    F: ArrayLike,
    *,
    radius: float,
    n_starts: int = 20,
    rng: np.random.Generator | int = 0,
) -> LeastSquares:
    """argmin over theta in [-radius, radius]^D of n^-1 sum_i (y_i - sum_m g_m(x_i; theta) F_im)^2.

    For dense softmax gates of scores. X (n, d); y (n,), the shared part already taken off; F (n, M), the routed
    experts' predictions. The first start is theta = 0, the equal mixture; the others are uniform on the box.

    >>> from gatewise import LinearGate
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> F = np.column_stack([np.ones(50), -np.ones(50)])
    >>> y = np.tanh(X[:, 0])  # softmax weights with score 2 x
    >>> found = least_squares(LinearGate(2), X, y, F, radius=5.0)
    >>> bool(np.abs(found.theta - [[2.0, 0.0]]).max() < 1e-3)
    True
    """
    smooth = _check_gate(gate)
    rows, radius = as_rows(X), as_positive(radius, "radius")
    y, F = as_vector(y, "y", len(rows)), as_rows(F, "F")
    if F.shape != (len(rows), gate.n_experts) or len(rows) == 0:
        raise ValueError(f"F must have shape (n, {gate.n_experts}) with n = {len(rows)} >= 1, not {F.shape}")
    features = np.ascontiguousarray(smooth.features(rows), dtype=np.float64)
    shape = (gate.n_experts - 1, features.shape[1])
    rng = np.random.default_rng(rng)
    starts = rng.uniform(-radius, radius, (as_count(n_starts, "n_starts"), *shape))
    starts[0] = 0.0
    return descend_from(starts, features, y, F, radius)


def _check_gate(gate: Gate) -> ScoreGate:
    if isinstance(gate, KernelGate):
        raise ValueError(
            "a kernel gate's predictor is linear in theta: solve the convex least squares over its simplices instead"
        )
    if not isinstance(gate, ScoreGate) or gate.phi != "exp":
        raise ValueError(f"least squares by gradient needs a softmax gate of scores (phi='exp'), not {gate!r}")
    if gate.n_active < gate.n_experts:
        raise ValueError(
            f"a Top-K gate (k = {gate.k}) has no gradient where its selection changes; search a net "
            "(gate.net(...)), aggregate with Particles, or fit the dense gate (k=None)"
        )
    return gate
