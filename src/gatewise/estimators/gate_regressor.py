"""One gate over ready experts, fitted by least squares, as a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from gatewise.arrays import as_rng, Floats, renamed
from gatewise.estimators.validation import all_or_nothing, check_unit, checked_gate, forget, validated
from gatewise.experts.gated import GatedExperts
from gatewise.experts.joint_update import Updates
from gatewise.gates import Gate
from gatewise.mixture.gate_fit import free_search, GateFit, net_search
from gatewise.mixture.predictor import MixtureOfExperts
from gatewise.mixture.trajectory_fit import expert_trajectory
from gatewise.nets import Net
from gatewise.progress import RUNNING


@renamed(routed="experts")
class GateRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fits the parameter theta of one gate over given experts by least squares (`prop:supp-erm-subgaussian`).

    The method depends on the gate. For a kernel gate the problem is convex and solved exactly, with a certificate;
    for a dense softmax gate by L-BFGS from many starts; where a ``net`` is given, which a Top-K gate needs, by trying
    all of its candidates.

    Parameters
    ----------
    experts : sequence of experts or of (name, expert) pairs
        Anything with ``predict(X)`` or a callable. They must be fitted before, on other rows: a gate that is fitted
        to the same rows as its experts would prefer the expert that overfits. scikit-learn's `clone` makes a fitted
        regressor an unfitted one; ``sklearn.frozen.FrozenEstimator`` keeps it as it is.
    gate : Gate
        The family of gates, with one expert for each of ``experts``.
    shared : sequence of experts or of (name, expert) pairs
        Experts whose predictions are always added: the gate is fitted to the response less their predictions.
    net : Net, array (S, ...) of parameters, or None
        Candidates to search instead of all parameters.
    radius : float
        A softmax gate's parameters are sought in the box [-radius, radius]^D.
    n_starts : int
        Local searches of a softmax gate; the first starts from the equal mixture.
    random_state : int, Generator or None
        Fixes the other starts and, with ``updates``, the order of the rows.
    updates : Updates or None
        How experts learn on the way. The rows are put in a random order; a third of them fits or updates the
        experts, the others are predicted one block after the other, each before the experts learn from it, and the
        gate is fitted to these predictions. It then weighs the time-averaged experts.
    verbose : 0, 1 or 2
        1 shows the stages of the fit, 2 also the pieces of each; `gatewise.progress.listen` tells them to a function.

    Attributes
    ----------
    theta_ : array
        The parameter found.
    report_ : LeastSquares, SimplexFit or NetLeastSquares
        Its error, with the evidence that there is none better: a certificate, or the optima of the other starts.
    order_ : array (n,)
        With ``updates``, the order of the rows; the first third is the burn-in.

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
        experts: Sequence[Any],
        gate: Gate,
        shared: Sequence[Any] = (),
        net: Net | ArrayLike | None = None,
        radius: float = 5.0,
        n_starts: int = 10,
        random_state: Any = None,
        updates: Updates | None = None,
        verbose: int = 0,
    ) -> None:
        self.experts = experts
        self.gate = gate
        self.shared = shared
        self.net = net
        self.radius = radius
        self.n_starts = n_starts
        self.random_state = random_state
        self.updates = updates
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any) -> "GateRegressor":
        """Fit the gate to rows X (n, d) and responses y (n,)."""
        forget(self)
        rows, response = validated(self, X, y, y_numeric=True, dtype=np.float64)
        y = np.asarray(response, dtype=np.float64)
        check_unit(y)
        given = X if hasattr(X, "shape") else rows
        pools = GatedExperts.of(self.experts, self.shared, checked_gate(self.gate).n_experts)
        rng, now = as_rng(self.random_state), RUNNING.get()
        if now is not None:
            now.stage("experts")
        if self.updates is None:
            pools.check_fitted()
            always, F = pools.predictions(given)
        else:
            self.order_ = rng.permutation(len(y))
            online = self.order_[len(y) // 3 :]
            path = expert_trajectory(
                pools, _safe_indexing(given, self.order_), y[self.order_], len(y) // 3, self.updates
            )
            always, F = path.F[:, : len(pools.shared)].sum(axis=1), path.F[:, len(pools.shared) :]
            rows, y, pools = rows[online], y[online], path.average
        if now is not None:
            now.stage("search of the gate")
        report = self._search(rows, y - always, F, rng)
        self._mixture = MixtureOfExperts(self.gate, report.theta, pools.experts.experts, pools.shared.experts)
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
        checked = validated(self, X, reset=False, dtype=np.float64)
        return X if hasattr(X, "shape") else checked

    def _search(self, rows: Floats, y: Floats, F: Floats, rng: np.random.Generator) -> GateFit:
        if self.net is not None:
            return net_search(self.gate, self.net, rows, y, F)
        return free_search(self.gate, rows, y, F, radius=self.radius, n_starts=self.n_starts, rng=rng)
