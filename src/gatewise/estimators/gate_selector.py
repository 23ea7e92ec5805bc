"""The choice among gate classes, or any regressors, as a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, validate_data

from gatewise.aggregation.blocks import BlockCounts, Blocks
from gatewise.aggregation.selection import nearest, scales, weigh, Weighing
from gatewise.arrays import Floats
from gatewise.experts.evolving import is_ready
from gatewise.experts.naming import candidate_matrix, Named, named_candidates, ready_candidates
from gatewise.noise import as_noise, Noise

Readout = Literal["aggregate", "selected"]


class GateSelector(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Chooses among gate classes, or any regressors, by aggregation and projection (`alg:selection`).

    Candidates are fitted on a first block of rows, get a noise scale each on a second, are weighed by their
    predictive densities on a third; the weighted predictor, averaged over time, is projected onto the nearest
    candidate. The blocks are disjoint, as `thm:selection(global)` asks.

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
        second (half of the rest; none when ``sigma`` is given). With ``n_orders`` above 1 the rows outside the first
        block are shared out anew for every order, and the weights averaged.
    noise : str, noise or callable
        The standardised error density, as `gatewise.noise.as_noise` takes it.
    random_state : int, Generator or None
        Fixes the order of the rows.

    Attributes
    ----------
    selected_ , selected_index_ : str, int
        The name and the number of the candidate nearest to the aggregate.
    weights_ : array (L,)
        The aggregation weight of every candidate, averaged over time.
    sigma_ : array (L,)
        The noise scale of every candidate.
    squared_distances_ : array (L,)
        Mean squared distance of every candidate to the aggregate, at the rows outside the first block.
    candidates_ : list of pairs (name, candidate)
        The candidates, ready to predict.
    online_predictions_ : array (n3,)
        The one-step-ahead predictions of the aggregation rows, in their order.
    weight_path_ : array (n3 + 1, L)
        The weights before each of these rows and after the last.
    order_ , blocks_ : array (n,), (n1, n2, n3)
        The random order of the rows, and the rows in each block: with both a fit can be replayed by hand.

    With several orders ``sigma_``, ``online_predictions_``, ``weight_path_`` and ``order_`` have a leading axis.

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
    ) -> None:
        self.candidates = candidates
        self.blocks = blocks
        self.noise = noise
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "GateSelector":
        """Fit, weigh and choose on rows X and responses y (n,)."""
        X, response = self._sample(X, y)
        named, noise = named_candidates(self.candidates), as_noise(self.noise)
        blocks = _checked(self.blocks)
        counts = blocks.counts(len(response), all(is_ready(c) for _, c in named), cross_entropy=False)
        orders = _orders(len(response), counts.burn_in, blocks.n_orders, np.random.default_rng(self.random_state))
        first, rest = orders[0][: counts.burn_in], orders[0][counts.burn_in :]
        fitted = ready_candidates(named, _safe_indexing(X, first), response[first])
        F = np.full((len(response), len(named)), np.nan)  # the first block's rows are never looked at again
        F[rest] = candidate_matrix(fitted, _safe_indexing(X, rest))
        runs = [_weigh(F, response, order[counts.burn_in :], counts, blocks, noise) for order in orders]
        weights = np.mean([weighing.weights for _, weighing in runs], axis=0)
        # Nothing is written before everything is there: an interrupted fit leaves the estimator as it was.
        self.selected_index_, self.squared_distances_ = nearest(F[rest], weights)
        self.selected_, self.candidates_, self.weights_ = fitted[self.selected_index_][0], fitted, weights
        self.blocks_ = (counts.burn_in, counts.calibration, counts.aggregation)
        self._report(orders, runs)
        return self

    def predict(self, X: Any, readout: Readout = "aggregate") -> Floats:
        """Predictions (n,): of the candidates weighted by ``weights_``, or of the selected one."""
        X, chosen, weights = self._readout(X, readout)
        prediction: Floats = candidate_matrix(chosen, X) @ weights
        return prediction

    def gate_weights(self, X: Any, readout: Readout = "aggregate") -> Floats:
        """The gate at every row, (n, M): the selected one's, or the gates of all candidates weighted by ``weights_``.

        The second needs candidates that are gates over the same experts.
        """
        X, chosen, weights = self._readout(X, readout)
        for name, candidate in chosen:
            if not hasattr(candidate, "gate_weights"):
                raise ValueError(f"candidates[{name!r}] ({type(candidate).__name__}) has no gate_weights")
        experts = [(*getattr(c, "routed", ()), *getattr(c, "shared", ())) for _, c in chosen]
        if any(others != experts[0] for others in experts):
            raise ValueError("an aggregated gate needs candidates with the same experts; take readout='selected'")
        gates = [share * candidate.gate_weights(X) for share, (_, candidate) in zip(weights, chosen, strict=True)]
        return np.asarray(sum(gates))

    def _sample(self, X: Any, y: Any) -> tuple[Any, Floats]:
        """X as it was given, for candidates that select columns or impute, and y as numbers."""
        checked, response = validate_data(
            self, X, y, y_numeric=True, dtype=None, ensure_all_finite=False, ensure_min_samples=2
        )
        return (X if hasattr(X, "shape") else checked), np.asarray(response, dtype=np.float64)

    def _readout(self, X: Any, readout: str) -> tuple[Any, Named, Floats]:
        check_is_fitted(self, "selected_")
        if readout not in ("aggregate", "selected"):
            raise ValueError(f"readout must be 'aggregate' or 'selected', not {readout!r}")
        checked = validate_data(self, X, reset=False, dtype=None, ensure_all_finite=False)
        X = X if hasattr(X, "shape") else checked
        if readout == "aggregate":
            return X, self.candidates_, self.weights_
        return X, [self.candidates_[self.selected_index_]], np.ones(1)

    def _report(self, orders: list[NDArray[np.intp]], runs: list[tuple[Floats, Weighing]]) -> None:
        sigmas, weighings = zip(*runs, strict=True)
        one = len(orders) == 1
        self.order_ = orders[0] if one else np.stack(orders)
        self.sigma_ = sigmas[0] if one else np.stack(sigmas)
        self.weight_path_ = weighings[0].path if one else np.stack([run.path for run in weighings])
        self.online_predictions_ = weighings[0].online if one else np.stack([run.online for run in weighings])


def _checked(blocks: Blocks | None) -> Blocks:
    if blocks is None:
        return Blocks()
    if not isinstance(blocks, Blocks):
        raise TypeError(f"blocks must be Blocks(...) or None, not {blocks!r}")
    for name in ("projection", "update_every"):
        if getattr(blocks, name) is not None:
            raise ValueError(f"blocks.{name} must be None for a selection, not {getattr(blocks, name)!r}")
    return blocks


def _orders(n: int, n1: int, n_orders: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Random orders of the rows, all with the same first block, for the candidates are fitted once."""
    first = rng.permutation(n)
    others = [np.concatenate([first[:n1], rng.permutation(first[n1:])]) for _ in range(n_orders - 1)]
    return [first, *others]


def _weigh(
    F: Floats, y: Floats, rows: NDArray[np.intp], counts: BlockCounts, blocks: Blocks, noise: Noise
) -> tuple[Floats, Weighing]:
    """Step (c) on rows in their order: scales from the first of them, weights from the others."""
    second, third = rows[: counts.calibration], rows[counts.calibration :]
    if blocks.sigma is not None:
        sigma = np.full(F.shape[1], float(blocks.sigma))
    else:
        sigma = scales(F[second], y[second], blocks.scale_bounds(y[second]))
    return sigma, weigh(F[third], y[third], sigma, noise)
