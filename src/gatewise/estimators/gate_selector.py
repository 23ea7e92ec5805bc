"""The choice among gate classes, or any regressors, as a scikit-learn estimator."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from gatewise.aggregation.blocks import Blocks
from gatewise.aggregation.selection_orders import block_orders, one_or_stacked, select, Selection
from gatewise.arrays import as_rng, check_readout, Floats, Readout, renamed
from gatewise.estimators.validation import all_or_nothing, check_unit, drawn_seed, rows_that_count, validated
from gatewise.experts.pool import Pool
from gatewise.mixture.averaged_gates import averaged_gates
from gatewise.noise import as_noise
from gatewise.progress import RUNNING
from gatewise.router.fitted_router import ForecastGuard


@renamed(weight_path_="weights_path_")
class GateSelector(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Chooses among gate classes, or any regressors, by aggregation and projection (`alg:selection`).

    Candidates are fitted on a first block of rows, the noise scale of each is calibrated on a second block, and on a
    third block they are weighted by their predictive densities. A prediction far outside of what the others and the
    responses show is set aside for its row, as in `MoERegressor`. The weights are averaged over time, and the
    candidate nearest to the weighted predictor is selected. The blocks are disjoint, as `thm:selection(global)` asks.

    Parameters
    ----------
    candidates : sequence of candidates or of pairs (name, candidate)
        Any regressor, or a callable X -> (n,). One that is not fitted (scikit-learn's `check_is_fitted`) is copied
        and fitted on the first block; a fitted one, or one without ``fit``, is used as it is and must not have seen
        these rows. A gate family goes in with its experts, as ``GateRegressor(experts, gate)`` or as a
        `RouterAggregator`. `clone` makes fitted ones unfitted: where the selector itself is cloned, as in
        cross-validation, wrap them in ``sklearn.frozen.FrozenEstimator``.
    blocks : Blocks or None
        ``burn_in`` is the first block (a third of the rows; none when every candidate is fitted), ``calibration`` the
        second (half of the other rows; none when ``sigma`` is given). With ``n_orders`` above 1 the rows outside the
        first block are divided anew for every random order, and the weights are averaged over the orders.
    noise : str, noise or callable
        The standardised error density, as `gatewise.noise.as_noise` takes it.
    random_state : int, Generator or None
        Fixes the order of the rows.
    verbose : 0, 1 or 2
        1 shows the stages of the fit, 2 also the pieces of each; `gatewise.progress.listen` tells them to a function.

    Attributes
    ----------
    selected_ , selected_index_ : str, int
        The name and the number of the candidate nearest to the aggregate.
    weights_ : array (L,)
        The aggregation weight of every candidate, averaged over time. A candidate that diverges, so that most of its
        predictions are off the range of the response by more than its length, takes no part and has weight 0.
    sigma_ : array (L,)
        The noise scale of every candidate.
    squared_distances_ : array (L,)
        Mean squared distance of every candidate to the aggregate, at the rows outside the first block.
    candidates_ : list of pairs (name, candidate)
        The candidates, ready to predict.
    online_predictions_ : array (n3,)
        The one-step-ahead predictions of the aggregation rows, in their order.
    weights_path_ : array (n3 + 1, L)
        The weights before each of these rows and after the last.
    order_ , blocks_ : array (n,), (n1, n2, n3)
        The random order of the rows, without those of sample weight 0, and the rows in each block: with both a fit
        can be replayed by hand.

    With several orders ``sigma_``, ``online_predictions_``, ``weights_path_`` and ``order_`` have a leading axis.

    Examples
    --------
    >>> import gatewise as gw
    >>> from gatewise.paper import DESIGNS
    >>> design = DESIGNS["nonlinear"]
    >>> X, y = design.sample(500, np.random.default_rng(0))
    >>> gates = [gw.LinearGate(3, intercept=False), gw.KernelGate(3, 2 / 3, 0.5, -1.0, 1.0)]
    >>> selector = gw.GateSelector([gw.GateRegressor(design.experts, gate) for gate in gates], random_state=0)
    >>> selector.fit(X, y).selected_
    'kernelgate'
    """

    def __init__(
        self,
        candidates: Sequence[Any],
        blocks: Blocks | None = None,
        noise: Any = "gaussian",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.candidates = candidates
        self.blocks = blocks
        self.noise = noise
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GateSelector":
        """Fit, weigh and choose on rows X and responses y (n,).

        As in `RouterAggregator`, a row of sample weight w has the noise scale sigma / sqrt(w), in units in which the
        mean weight is 1; one of weight 0 is left out, and candidates get the weights, too, where they take them.
        """
        X, response = self._sample(X, y)
        kept, weight = rows_that_count(sample_weight, len(response))
        if weight is not None:
            X, response, weight = _safe_indexing(X, kept), response[kept], weight / weight.mean()
        noise, blocks = as_noise(self.noise), _checked(self.blocks)
        pool = Pool.of(self.candidates, "candidates", kind="candidate")
        counts = blocks.counts(len(response), pool.can_predict, cross_entropy=False)
        orders = block_orders(blocks, len(response), counts.burn_in, as_rng(self.random_state))
        first, rest = orders[0][: counts.burn_in], orders[0][counts.burn_in :]
        now = RUNNING.get()
        if now is not None:
            now.stage("candidates", max(1, len(pool.unfitted())))
        pool = replace(pool, seed=drawn_seed(self.random_state)).weighted(weight, first)
        pool = pool.fit_unfitted(_safe_indexing(X, first), response[first])
        F = np.full((len(response), len(pool)), np.nan)  # predictions at rows of the first block are not used
        found = pool.predict(_safe_indexing(X, rest))
        guard = ForecastGuard.fit(found, response[rest])
        F[rest] = guard.apply(found)[0]
        if now is not None:
            now.stage("weights")
        among = guard.voters  # the others diverge
        selection = select(F[:, among], response, orders, counts, blocks, noise, weight=weight)
        selection = selection.spread_out(among, len(pool))
        self._pool, self._guard, self.candidates_ = pool, guard, list(pool.experts)
        self.blocks_ = (counts.burn_in, counts.calibration, counts.aggregation)
        self._report([kept[order] for order in orders], selection)
        return self

    def predict(self, X: Any, readout: Readout = "aggregate") -> Floats:
        """Predictions (n,): of the candidates weighted by ``weights_``, or of the selected one alone ("single")."""
        X, pool, weights = self._readout(X, readout)
        F = pool.predict(X)
        if readout == "aggregate":
            return np.asarray(self._guard.apply(F)[0] @ weights)
        doubtful = np.flatnonzero(self._guard.doubts(self.selected_index_, F[:, 0]))
        if len(doubtful):  # the guard compares a forecast that is out of range with those of all candidates
            whole, _ = self._guard.apply(self._pool.predict(_safe_indexing(X, doubtful)))
            F[doubtful, 0] = whole[:, self.selected_index_]
        return np.asarray(F[:, 0])

    def guarded_rows(self, X: Any) -> NDArray[np.bool_]:
        """Where a candidate's prediction is set aside because it cannot be meant, (n, K); see `ForecastGuard`."""
        X, pool, _ = self._readout(X, "aggregate")
        return self._guard.apply(pool.predict(X))[1]

    def gate_weights(self, X: Any, readout: Readout = "aggregate") -> Floats:
        """The gate at every row, (n, M): all candidates' weighted by ``weights_``, or the selected one's ("single").

        The first needs candidates that are gates over the same experts.
        """
        X, pool, weights = self._readout(X, readout)
        return averaged_gates(pool, weights, X)

    def _sample(self, X: Any, y: Any) -> tuple[Any, Floats]:
        """X as it was given, for candidates that select columns or impute, and y as numbers."""
        checked, response = validated(
            self, X, y, y_numeric=True, dtype=None, ensure_all_finite=False, ensure_min_samples=2
        )
        y = np.asarray(response, dtype=np.float64)
        check_unit(y)
        return (X if hasattr(X, "shape") else checked), y

    def _readout(self, X: Any, readout: Readout) -> tuple[Any, Pool, Floats]:
        """X as the candidates get it, the candidates that are asked, and their weights."""
        check_is_fitted(self, "selected_")
        check_readout(readout)
        checked = validated(self, X, reset=False, dtype=None, ensure_all_finite=False)
        X = X if hasattr(X, "shape") else checked
        if readout == "aggregate":
            return X, self._pool, self.weights_
        return X, Pool([self.candidates_[self.selected_index_]], kind="candidate"), np.ones(1)

    def _report(self, orders: list[NDArray[np.intp]], selection: Selection) -> None:
        self.selected_index_, self.squared_distances_ = selection.candidate, selection.squared_distances
        self.selected_, self.weights_ = self.candidates_[selection.candidate][0], selection.weights
        self.order_, self.sigma_ = one_or_stacked(orders), one_or_stacked(selection.sigmas)
        self.weights_path_ = one_or_stacked([weighing.path for weighing in selection.weighings])
        self.online_predictions_ = one_or_stacked([weighing.online for weighing in selection.weighings])


def _checked(blocks: Blocks | None) -> Blocks:
    if blocks is None:
        return Blocks()
    if not isinstance(blocks, Blocks):
        raise TypeError(f"blocks must be Blocks(...) or None, not {blocks!r}")
    for name in ("projection", "updates"):
        if getattr(blocks, name) is not None:
            raise ValueError(f"blocks.{name} must be None for a selection, not {getattr(blocks, name)!r}")
    return blocks
