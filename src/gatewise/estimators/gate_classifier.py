"""One gate over ready classifiers, fitted by log loss, as a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_rng, Floats
from gatewise.estimators.floored_classifiers import FlooredClassifiers, ProbabilityModel
from gatewise.estimators.validation import all_or_nothing, checked_gate
from gatewise.experts.gated import GatedExperts
from gatewise.gates import Gate
from gatewise.mixture.gate_fit import log_loss_search
from gatewise.nets import Net
from gatewise.progress import RUNNING
from gatewise.router.class_rows import ClassRows
from gatewise.router.class_scores import calibration_error


class GateClassifier(ProbabilityModel):
    """Fits the parameter theta of one gate over given classifiers by log loss: the twin of `GateRegressor`.

    p(c | x) = sum_m g_m(x; theta) p_m(c | x), and theta minimises the mean of -log p(y_i | x_i). For a kernel gate
    the problem is convex and solved exactly, with a certificate; for a dense softmax gate it is searched by L-BFGS
    from many starts; where a ``net`` is given, which a Top-K gate needs, all of its candidates are tried.

    Parameters
    ----------
    experts : sequence of classifiers or of (name, classifier) pairs
        Fitted, with ``predict_proba``, or callables X -> (n, C). They must have been fitted on other rows: a gate
        that is fitted to the same rows as its experts would prefer the expert that overfits. scikit-learn's `clone`
        makes a fitted one unfitted; ``sklearn.frozen.FrozenEstimator`` keeps it as it is.
    gate : Gate
        The family of gates, with one expert for each of ``experts``.
    net, radius, n_starts, random_state, verbose
        As in `GateRegressor`.

    Attributes
    ----------
    classes_ : array (C,)
        The labels of y, and those that the experts know.
    theta_ : array
        The parameter found.
    report_ : LeastLogLoss, SimplexLogLoss or NetLogLoss
        Its mean log loss, with the evidence that there is none better.
    calibration_error_ : float
        The expected calibration error of its probabilities of the most probable class, on the same rows.

    Examples
    --------
    >>> import gatewise as gw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 1))
    >>> left, right = (lambda X: np.tile([0.9, 0.1], (len(X), 1))), (lambda X: np.tile([0.2, 0.8], (len(X), 1)))
    >>> y = np.where(rng.random(400) < np.where(X[:, 0] < 0, 0.1, 0.8), "yes", "no")
    >>> model = gw.GateClassifier([left, right], gw.LinearGate(2), random_state=0).fit(X, y)
    >>> model.gate_weights([[-1.0], [1.0]]).round(2)
    array([[0.99, 0.01],
           [0.01, 0.99]])
    """

    def __init__(
        self,
        experts: Sequence[Any],
        gate: Gate,
        net: Net | ArrayLike | None = None,
        radius: float = 5.0,
        n_starts: int = 10,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.experts = experts
        self.gate = gate
        self.net = net
        self.radius = radius
        self.n_starts = n_starts
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any) -> "GateClassifier":
        """Fit the gate to rows X (n, d) and labels y (n,)."""
        given, rows, labels, *_ = self._labelled(X, y)
        pools = GatedExperts.of(self.experts, (), checked_gate(self.gate).n_experts)
        pools.check_fitted()
        now = RUNNING.get()
        if now is not None:
            now.stage("experts")
        classifiers = FlooredClassifiers.of(pools.experts.experts, labels, seed=0)
        asked = ClassRows(classifiers.probabilities(given), classifiers.codes(labels))
        if now is not None:
            now.stage("search of the gate")
        rng = as_rng(self.random_state)
        self.report_ = log_loss_search(
            self.gate, self.net, rows, asked.observed, radius=self.radius, n_starts=self.n_starts, rng=rng
        )
        self.theta_, self._classifiers = self.report_.theta, classifiers
        p = np.einsum("im,imc->ic", self.gate.weights(rows, self.theta_), asked.probabilities)
        right = p.argmax(axis=1) == asked.outcome
        self.calibration_error_ = calibration_error(p.max(axis=1), right, np.ones(len(p)))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """The probability of every class, (n, C), in the order of ``classes_``."""
        X = self._rows_for(X)
        return self._classifiers.mix(X, self.gate.weights(X, self.theta_))

    def gate_weights(self, X: Any) -> Floats:
        """The gate at every row, (n, M)."""
        return self.gate.weights(self._rows_for(X), self.theta_)
