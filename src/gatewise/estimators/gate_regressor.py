"""One gate over ready experts, fitted by least squares, as a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gatewise.aggregation.erm import least_squares, net_least_squares, NetLeastSquares
from gatewise.aggregation.pieces import shared_sum
from gatewise.arrays import Floats
from gatewise.experts import Expert, expert_matrix
from gatewise.experts.evolving import is_ready
from gatewise.gates import Gate, KernelGate
from gatewise.mixture import MixtureOfExperts
from gatewise.nets import ListNet, Net
from gatewise.solvers.local_descent import LeastSquares
from gatewise.solvers.simplex_least_squares import simplex_least_squares, SimplexFit


class GateRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A gate family over given experts: theta with the least squared error (`prop:supp-erm-subgaussian`).

    How that is found depends on the gate: exactly, with a certificate, for a kernel gate; by L-BFGS from many starts
    for a dense softmax gate; exactly over ``net`` where one is given, which a Top-K gate needs.

    Parameters
    ----------
    routed : sequence of experts
        Anything with ``predict(X)`` or a callable; they must be ready, for a gate fitted to the rows that its experts
        were fitted to would trust the one that overfits. scikit-learn's `clone` makes a fitted regressor an unfitted
        one; ``sklearn.frozen.FrozenEstimator`` keeps it as it is.
    gate : Gate
        The family of gates, with one expert for each of ``routed``.
    shared : sequence of experts
        Always on; the gate weighs ``routed`` for what they leave.
    net : Net, array (S, ...) of parameters, or None
        Candidates to search instead of all parameters.
    radius : float
        A softmax gate's parameters are sought in the box [-radius, radius]^D.
    n_starts : int
        Local searches of a softmax gate; the first starts from the equal mixture.
    random_state : int, Generator or None
        Fixes the other starts.

    Attributes
    ----------
    theta_ : array
        The parameter found.
    report_ : LeastSquares, SimplexFit or NetLeastSquares
        Its error, and how sure one may be that there is none better.

    Examples
    --------
    >>> import gatewise as gw
    >>> from gatewise.paper import DESIGNS
    >>> X, y = DESIGNS["linear"].sample(400, np.random.default_rng(0))
    >>> model = gw.GateRegressor(DESIGNS["linear"].experts, gw.LinearGate(3, intercept=False), random_state=0)
    >>> error = np.abs(model.fit(X, y).gate_weights(X) - DESIGNS["linear"].weights(X)).sum(axis=1).mean()
    >>> round(float(error), 2)
    0.02
    """

    def __init__(
        self,
        routed: Sequence[Expert],
        gate: Gate,
        shared: Sequence[Expert] = (),
        net: Net | ArrayLike | None = None,
        radius: float = 5.0,
        n_starts: int = 10,
        random_state: Any = None,
    ) -> None:
        self.routed = routed
        self.gate = gate
        self.shared = shared
        self.net = net
        self.radius = radius
        self.n_starts = n_starts
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "GateRegressor":
        """Fit the gate to rows X (n, d) and responses y (n,)."""
        rows, response = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        _check_ready(self.routed, "routed")
        _check_ready(self.shared, "shared")
        X = X if hasattr(X, "shape") else rows
        left = np.asarray(response, dtype=np.float64) - shared_sum(self.shared, X)
        report = self._search(rows, left, expert_matrix(self.routed, X, "routed"))
        # The mixture checks that gate and experts go together, and is what predicts.
        self._mixture = MixtureOfExperts(self.gate, report.theta, self.routed, self.shared)
        self.theta_, self.report_ = report.theta, report
        return self

    def predict(self, X: Any) -> Floats:
        """The mixture at every row, (n,)."""
        X = self._rows_for(X)
        return self._mixture.predict(X)

    def gate_weights(self, X: Any) -> Floats:
        """The gate at every row, (n, M)."""
        X = self._rows_for(X)
        return self._mixture.gate_weights(X)

    def _rows_for(self, X: Any) -> Any:
        check_is_fitted(self, "theta_")
        checked = validate_data(self, X, reset=False, dtype=np.float64)
        return X if hasattr(X, "shape") else checked

    def _search(self, rows: Floats, y: Floats, F: Floats) -> LeastSquares | SimplexFit | NetLeastSquares:
        if F.shape[1] != self.gate.n_experts:
            raise ValueError(
                f"routed must hold one expert for each of the gate's {self.gate.n_experts}, not {F.shape[1]}"
            )
        if self.net is not None:
            net = self.net if isinstance(self.net, Net) else ListNet(self.net)
            self.gate.check_theta(net.theta([0]), rows.shape[1])
            return net_least_squares(self.gate, net, rows, y, F)
        if isinstance(self.gate, KernelGate):
            return simplex_least_squares(self.gate.features(rows), F, y)
        rng = np.random.default_rng(self.random_state)
        return least_squares(self.gate, rows, y, F, radius=self.radius, n_starts=self.n_starts, rng=rng)


def _check_ready(experts: Sequence[Expert], name: str) -> None:
    for number, expert in enumerate(experts):
        if not is_ready(expert):
            raise ValueError(
                f"{name}[{number}] ({type(expert).__name__}) must be fitted, on rows other than the gate's; a fitted "
                "one loses its fit when scikit-learn clones it: wrap it in sklearn.frozen.FrozenEstimator"
            )
