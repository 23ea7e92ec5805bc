"""The best gate by least squares (`prop:supp-erm-subgaussian`) or log loss: over a net, or over a box by descent.

Over a box the problem is not convex, and the proposition supposes its minimum found; what many starts agree on is the
best evidence that it was. A kernel gate's problem is convex: see `solvers.simplex_least_squares`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.aggregation.engine import aggregate_loss, project_l2
from gatewise.aggregation.gate_candidates import gate_candidates
from gatewise.arrays import as_count, as_positive, as_rows, as_vector, Floats
from gatewise.gates import Gate, KernelGate, ScoreGate
from gatewise.losses import LogLoss
from gatewise.nets import Net
from gatewise.solvers.local_descent import descend_from, descend_log_loss, LeastLogLoss, LeastSquares


class NetLeastSquares(NamedTuple):
    """The candidate of a net with the smallest mean squared error: its parameter, number and error."""

    theta: Floats
    candidate: int
    mse: float


class NetLogLoss(NamedTuple):
    """The candidate of a net with the smallest mean log loss: its parameter, number and loss."""

    theta: Floats
    candidate: int
    log_loss: float


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


def net_log_loss(gate: Gate, net: Net, X: Any, F: ArrayLike, n_threads: int = 1) -> NetLogLoss:
    """argmin over a net of -n^-1 sum_i log sum_m g_m(x_i; theta) F_im.

    F (n, M) are the probabilities that the experts gave to what was observed. The log weight of a candidate after all
    rows is minus its loss, up to a constant. Any gate, Top-K too.

    >>> from gatewise import LinearGate
    >>> gate, F = LinearGate(2, intercept=False), np.array([[0.9, 0.2], [0.3, 0.6], [0.8, 0.3]])
    >>> net_log_loss(gate, gate.net([[-2.0, 0.0, 2.0]]), [[1.0], [-1.0], [0.5]], F).theta
    array([[2.]])
    """
    rows, candidates, allowed = as_rows(X), gate_candidates(gate, net), net.allowed()
    prior = None if allowed is None else np.where(allowed, 0.0, -np.inf)
    run = aggregate_loss(candidates, gate.features(rows), as_rows(F, "F"), LogLoss(), prior, n_threads=n_threads)
    best = int(np.argmax(run.log_weights))
    first = -np.log(candidates.size) if prior is None else 0.0  # its log weight before the rows
    return NetLogLoss(net.theta(best), best, float(first - run.log_weights[best] - run.log_z[-1]) / len(rows))


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
    starts, features, F = _starts(gate, as_rows(X), F, radius, n_starts, rng)
    return descend_from(starts, features, as_vector(y, "y", len(features)), F, float(radius))


def least_log_loss(
    gate: Gate, X: Any, F: ArrayLike, *, radius: float, n_starts: int = 20, rng: np.random.Generator | int = 0
) -> LeastLogLoss:
    """argmin over theta in [-radius, radius]^D of -n^-1 sum_i log sum_m g_m(x_i; theta) F_im.

    As `least_squares`; F (n, M), all positive, are the probabilities that the experts gave to what was observed.

    >>> from gatewise import LinearGate
    >>> X, F = np.array([[-1.0], [-0.5], [0.5], [1.0]]), np.array([[0.2, 0.8], [0.6, 0.5], [0.4, 0.5], [0.8, 0.2]])
    >>> found = least_log_loss(LinearGate(2), X, F, radius=1.0)
    >>> found.theta.round(2), round(found.log_loss, 3)  # the slope is at its bound
    (array([[ 1.  , -0.05]]), 0.586)
    """
    starts, features, F = _starts(gate, as_rows(X), F, radius, n_starts, rng)
    if not (F > 0.0).all():
        raise ValueError("F must hold positive probabilities: the log loss of 0 is infinite")
    return descend_log_loss(starts, features, F, float(radius))


def _starts(
    gate: Gate, rows: Floats, F: ArrayLike, radius: float, n_starts: int, rng: np.random.Generator | int
) -> tuple[Floats, Floats, Floats]:
    """Where the searches begin, (L, M-1, p), with the features (n, p) and F (n, M), all checked."""
    smooth, radius, F = _check_gate(gate), as_positive(radius, "radius"), as_rows(F, "F")
    if F.shape != (len(rows), gate.n_experts) or len(rows) == 0:
        raise ValueError(f"F must have shape (n, {gate.n_experts}) with n = {len(rows)} >= 1, not {F.shape}")
    features = np.ascontiguousarray(smooth.features(rows), dtype=np.float64)
    shape = (gate.n_experts - 1, features.shape[1])
    starts = np.random.default_rng(rng).uniform(-radius, radius, (as_count(n_starts, "n_starts"), *shape))
    starts[0] = 0.0
    return starts, features, F


def _check_gate(gate: Gate) -> ScoreGate:
    if isinstance(gate, KernelGate):
        raise ValueError(
            "a kernel gate's predictor is linear in theta: solve the convex least squares over its simplices instead"
        )
    if not isinstance(gate, ScoreGate) or gate.phi != "exp":
        raise ValueError(f"a search by gradient needs a softmax gate of scores (phi='exp'), not {gate!r}")
    if gate.n_active < gate.n_experts:
        raise ValueError(
            f"a Top-K gate (k = {gate.k}) has no gradient where its selection changes; search a net "
            "(gate.net(...)), aggregate with Particles, or fit the dense gate (k=None)"
        )
    return gate
