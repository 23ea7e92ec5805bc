"""A router learned by likelihood aggregation, as a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from gatewise.aggregation.blocks import Blocks
from gatewise.aggregation.l2_projection import L2Projection
from gatewise.aggregation.ordered import Observations, OrderFit
from gatewise.aggregation.particles.particle_run import Particles
from gatewise.aggregation.router_facts import router_facts
from gatewise.aggregation.router_run import aggregation_setting, learn_router
from gatewise.aggregation.selection_orders import one_or_stacked
from gatewise.arrays import as_rng, as_rows, check_readout, Floats, Indices, Readout, renamed
from gatewise.estimators.validation import (
    all_or_nothing,
    check_unit,
    checked_gate,
    drawn_seed,
    rows_that_count,
    validated,
)
from gatewise.experts.gated import GatedExperts
from gatewise.gates import Gate
from gatewise.nets import Net
from gatewise.noise import as_noise


@renamed(routed="experts")
class RouterAggregator(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Learns a gate over given experts by discretized aggregation (`alg:general`, `alg:cross-entropy`).

    Parameters
    ----------
    experts : sequence of experts or of (name, expert) pairs
        Anything with ``predict(X)`` or a callable. One that is not fitted is fitted on the burn-in rows; one with
        ``partial_fit`` is updated on the way if ``blocks.updates`` says so. None of them is changed: the router
        works on copies. Shared and routed experts learn jointly, each from what the others leave (`Updates`).
    gate : Gate
        The family of gates, with one expert for each of ``experts``.
    net : Net, array (S, ...) of parameters, or Particles
        The candidates. `Particles` take the place of a net that would be too large to hold.
    shared : sequence of experts or of (name, expert) pairs
        Experts whose predictions are always added: the gate is fitted to the response less their predictions.
    noise : str, noise or callable
        The standardised error density, as `gatewise.noise.as_noise` takes it.
    projection : "l2", L2Projection or "cross_entropy"
        How one gate is chosen for ``readout="single"``: the nearest candidate, or the softmax gate fitted to the
        aggregated gates on a fourth block.
    blocks : Blocks or None
        Rows for each step, the noise scale, the experts' updates, the number of orders; ``None``: `Blocks()`.
    random_state : int, Generator or None
        Fixes the orders, with particles their moves, and the fits of experts that have no seed of their own.
    device : str or None
        Where the sums over a product net are taken: ``None`` for compiled code on the CPU; "cuda" for a GPU, in
        float32 (`gatewise[nn]`), where a net may have 1e10 candidates; "cpu" for PyTorch on the CPU.

    Attributes
    ----------
    theta_ : array
        The projected parameter.
    online_predictions_ : array (n3,)
        The aggregated one-step-ahead predictions of the aggregation rows, in their order.
    sigma_ : array (S,)
        The scale of every candidate, or the one that was given; empty where a device has more than 1e8 of them.
    order_ : array (n,)
        The order of the rows, without those of sample weight 0; with ``blocks_``, the rows in each block, a fit can
        be replayed by hand.
    effective_candidates_ : float
        1 / sum w^2 of the weights after the last row.
    leading_ , leading_theta_ , weights_path_ : arrays (L,), (L, ...), (n3 + 1, L)
        The candidates of largest mean weight, their parameters, and their weights over time.
    projection_ : object
        What the projection reports: distance, or the convex fit's optimality gap and compatibility.
    thinning_error_ , thinning_bound_ : float
        What it costs that only some states of evolving experts fit into ``Updates.memory``: the root mean square
        difference of the aggregate to the exact one, at rows that were held out, and its upper 95 % confidence
        bound. Both are 0 where the average over time is exact.

    With several orders ``online_predictions_``, ``sigma_`` and ``order_`` have a leading axis for them.

    Examples
    --------
    >>> import gatewise as gw
    >>> from gatewise.paper import DESIGNS
    >>> design = DESIGNS["linear"]
    >>> X, y = design.sample(400, np.random.default_rng(0))
    >>> gate = gw.LinearGate(3, intercept=False)
    >>> router = gw.RouterAggregator(design.experts, gate, gate.net(np.arange(0.0, 3.5, 0.5), d=2), random_state=0)
    >>> error = np.abs(router.fit(X, y).gate_weights(X) - design.weights(X)).sum(axis=1).mean()
    >>> round(float(error), 2)
    0.12
    """

    def __init__(
        self,
        experts: Sequence[Any],
        gate: Gate,
        net: Net | Particles | ArrayLike,
        shared: Sequence[Any] = (),
        noise: Any = "gaussian",
        projection: str | L2Projection = "l2",
        blocks: Blocks | None = None,
        random_state: Any = None,
        verbose: int = 0,
        device: str | None = None,
    ) -> None:
        self.experts = experts
        self.gate = gate
        self.net = net
        self.shared = shared
        self.noise = noise
        self.projection = projection
        self.blocks = blocks
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RouterAggregator":
        """Learn the gate from rows X and responses y (n,).

        A row of sample weight w has the noise scale sigma / sqrt(w), in units in which the mean weight is 1; one of
        weight 0 is left out. Experts get the weights, too, where they take them.
        """
        checked, response = validated(self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=2)
        given = X if hasattr(X, "shape") else checked
        y = np.asarray(response, dtype=np.float64)
        check_unit(y)
        sample, kept = _observations(given, as_rows(X), y, sample_weight)
        pools = GatedExperts.of(self.experts, self.shared, checked_gate(self.gate).n_experts)
        if not pools.can_predict:
            pools = pools.seeded(drawn_seed(self.random_state))
        blocks, noise = Blocks() if self.blocks is None else self.blocks, as_noise(self.noise)
        if not isinstance(blocks, Blocks):
            raise TypeError(f"blocks must be a Blocks or None, not {blocks!r}")
        measure = as_measure(self.projection)
        setting = aggregation_setting(pools, self.gate, self.net, noise, blocks, sample, measure is None, self.device)
        rng = as_rng(self.random_state)
        self._router, orders, fits = learn_router(setting, sample, measure, rng)
        self.theta_, self.projection_ = self._router.theta, self._router.projection
        n1, n2, n3, n4 = setting.counts
        n3 -= fits[0].thinning.held_out
        self.blocks_ = (n1, n2, n3, n4) if n4 else (n1, n2, n3)
        responses = [sample.y[order[n1 + n2 : n1 + n2 + n3]] for order in orders]
        self._facts = router_facts(setting, fits, responses, noise=float(np.sqrt(self._router.variance)))
        self._report(fits, [kept[order] for order in orders])
        return self

    def predict(self, X: Any, readout: Readout = "aggregate", return_std: bool = False) -> Any:
        """Predictions (n,): of the time-averaged aggregate, or of the single projected gate.

        With ``return_std`` also the standard deviation (n,) of a new response around the prediction: of the noise,
        by the errors one step ahead, and of the candidates around the prediction, by their weights.
        """
        X = self._rows_for(X, readout)
        prediction = self._router.predict(X, readout)
        return (prediction, self._router.deviation(X, prediction)) if return_std else prediction

    def summary(self) -> str:
        """What was learned, as text: errors one step ahead, how much each expert is used, how sure the gate is."""
        check_is_fitted(self, "theta_")
        return self._facts.text()

    def gate_weights(self, X: Any, readout: Readout = "aggregate") -> Floats:
        """The learned gate at every row, (n, M): the time-averaged aggregate, or the projected gate."""
        X = self._rows_for(X, readout)
        return self._router.gate_weights(X, readout)

    def _rows_for(self, X: Any, readout: str) -> Any:
        check_is_fitted(self, "theta_")
        check_readout(readout)
        checked = validated(self, X, reset=False, dtype=np.float64)
        return X if hasattr(X, "shape") else checked

    def _report(self, fits: list[OrderFit], orders: list[Indices]) -> None:
        first = fits[0]
        self.order_ = one_or_stacked(orders)
        self.online_predictions_ = one_or_stacked([fit.online for fit in fits])
        self.sigma_ = one_or_stacked([fit.sigma for fit in fits])
        self.effective_candidates_ = float(np.mean([fit.effective for fit in fits]))
        self.thinning_error_ = max(fit.thinning.error for fit in fits)
        self.thinning_bound_ = max(fit.thinning.bound for fit in fits)
        self.leading_, self.leading_theta_, self.weights_path_ = (
            first.leading,
            first.leading_theta,
            first.leading_path,
        )
        self.acceptance_, self.ess_ = first.acceptance, first.ess


def as_measure(projection: Any) -> L2Projection | None:
    """The L2 distance in which one gate is chosen, or None if it is chosen by cross-entropy."""
    if isinstance(projection, str) and projection == "cross_entropy":
        return None
    measure = L2Projection() if isinstance(projection, str) and projection == "l2" else projection
    if not isinstance(measure, L2Projection):
        raise ValueError(f"projection must be 'l2', 'cross_entropy' or an L2Projection, not {projection!r}")
    return measure


def _observations(X: Any, rows: Floats, y: Floats, sample_weight: Any) -> tuple[Observations, Indices]:
    """The rows of positive sample weight, and their numbers."""
    kept, weight = rows_that_count(sample_weight, len(y))
    if weight is None:
        return Observations(X, rows, y), kept
    return Observations(_safe_indexing(X, kept), rows[kept], y[kept], weight / weight.mean()), kept
