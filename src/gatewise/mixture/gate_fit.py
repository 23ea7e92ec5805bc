"""The gate of least squared error or log loss over given experts, found by the method that suits its family."""

from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from gatewise.aggregation.erm import (
    least_log_loss,
    least_squares,
    net_least_squares,
    net_log_loss,
    NetLeastSquares,
    NetLogLoss,
)
from gatewise.arrays import Floats
from gatewise.gates import Gate, KernelGate
from gatewise.nets import ListNet, Net
from gatewise.solvers.local_descent import LeastLogLoss, LeastSquares
from gatewise.solvers.simplex_least_squares import simplex_least_squares, SimplexFit
from gatewise.solvers.simplex_log_loss import simplex_log_loss, SimplexLogLoss

GateFit: TypeAlias = LeastSquares | SimplexFit | NetLeastSquares
LogLossFit: TypeAlias = LeastLogLoss | SimplexLogLoss | NetLogLoss


def net_search(gate: Gate, net: Net | ArrayLike, X: Floats, y: Floats, F: Floats) -> NetLeastSquares:
    """The parameter of a net, or of an array (S, ...), with the least squared error; X (n, d), y (n,), F (n, M)."""
    candidates = net if isinstance(net, Net) else ListNet(net)
    gate.check_theta(candidates.theta([0]), X.shape[1])
    return net_least_squares(gate, candidates, X, y, F)


def free_search(
    gate: Gate, X: Floats, y: Floats, F: Floats, *, radius: float, n_starts: int, rng: Any
) -> LeastSquares | SimplexFit:
    """The least squared error over all parameters: X (n, d), y (n,), predictions F (n, M).

    A kernel gate is linear in its parameters and is solved exactly; a dense softmax gate is searched in the box
    [-radius, radius]^D by L-BFGS from ``n_starts`` starts.
    """
    if isinstance(gate, KernelGate):
        return simplex_least_squares(gate.features(X), F, y)
    return least_squares(gate, X, y, F, radius=radius, n_starts=n_starts, rng=rng)


def log_loss_search(
    gate: Gate, net: Net | ArrayLike | None, X: Floats, F: Floats, *, radius: float, n_starts: int, rng: Any
) -> LogLossFit:
    """The least log loss over a net, or over all parameters where ``net`` is None: X (n, d), probabilities F (n, M).

    Over all parameters a kernel gate's problem is convex and is solved exactly; a dense softmax gate is searched in
    the box [-radius, radius]^D by L-BFGS from ``n_starts`` starts.
    """
    if net is not None:
        candidates = net if isinstance(net, Net) else ListNet(net)
        gate.check_theta(candidates.theta([0]), X.shape[1])
        return net_log_loss(gate, candidates, X, F)
    if isinstance(gate, KernelGate):
        return simplex_log_loss(gate.features(X), F)
    return least_log_loss(gate, X, F, radius=radius, n_starts=n_starts, rng=rng)
