"""The choice among gate classes over classifiers, or any classifiers, as a scikit-learn estimator."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from gatewise.aggregation.blocks import Blocks
from gatewise.aggregation.selection_orders import block_orders, one_or_stacked, select, Selection
from gatewise.arrays import as_rng, check_readout, Floats, Indices, Readout
from gatewise.estimators.class_labels import checked_labels
from gatewise.estimators.floored_classifiers import blocks_of_classes, FlooredClassifiers, ProbabilityModel
from gatewise.estimators.validation import all_or_nothing, drawn_seed, rows_that_count, validated
from gatewise.experts.pool import Pool
from gatewise.losses import Outcome
from gatewise.mixture.averaged_gates import averaged_gates
from gatewise.progress import RUNNING
from gatewise.router.class_rows import ClassRows


class SelectorClassifier(ProbabilityModel):
    """Chooses among gate classes over classifiers, or any classifiers, by log loss: the twin of `GateSelector`.

    Candidates are fitted on a first block of rows, and on the others they are weighted by the probabilities that they
    give to the labels (`alg:selection` with the log loss; there is no scale to calibrate). The weights are averaged
    over time, and the candidate nearest to the weighted probabilities is selected.

    Parameters
    ----------
    candidates : sequence of candidates or of pairs (name, candidate)
        Any classifier with ``predict_proba``, or a callable X -> (n, C). One that is not fitted is copied and fitted
        on the first block; a fitted one is used as it is and must not have seen these rows. A gate family goes in
        with its experts, as ``GateClassifier(experts, gate)`` or as a `RouterClassifier`.
    blocks : Blocks or None
        ``burn_in`` is the first block (a third of the rows; none when every candidate is fitted). With ``n_orders``
        above 1 the weights are averaged over random orders of the other rows.
    random_state, verbose
        As in `GateSelector`.

    Attributes
    ----------
    classes_ : array (C,)
        The labels of y, and those that fitted candidates know.
    selected_ , selected_index_ , weights_ , candidates_ , weights_path_ , order_ , blocks_
        As in `GateSelector`.
    squared_distances_ : array (L,)
        The squared distance of every candidate's probabilities to the aggregate's, summed over the classes, mean over
        the rows outside the first block.
    online_probabilities_ : array (n3,)
        What the aggregate gave to the labels of these rows, each before its label was seen.

    Examples
    --------
    >>> import gatewise as gw
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> pool = [LogisticRegression(), KNeighborsClassifier(15)]
    >>> gw.SelectorClassifier(pool, random_state=0).fit(X, y).selected_
    'kneighborsclassifier'
    """

    def __init__(
        self, candidates: Sequence[Any], blocks: Blocks | None = None, random_state: Any = None, verbose: int = 0
    ) -> None:
        self.candidates = candidates
        self.blocks = blocks
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "SelectorClassifier":
        """Fit, weigh and choose on rows X and labels y (n,).

        Sample weights are counts, as in `RouterClassifier`: a row of weight w counts as w copies of it next to each
        other in the order, one of weight 0 is left out, and candidates get the weights, too, where they take them.
        """
        given, labels, _ = checked_labels(self, X, y, None, reset=True)
        kept, weight = rows_that_count(sample_weight, len(labels))
        if len(kept) < len(labels):
            given, labels = _safe_indexing(given, kept), labels[kept]
        blocks, pool = blocks_of_classes(self.blocks), Pool.of(self.candidates, "candidates", kind="candidate")
        if len(np.unique(labels)) < 2:
            raise ValueError(f"y must have at least two classes, but has one class, {labels.tolist()[0]!r}")
        n, ready = len(labels), pool.can_predict
        counts = blocks.counts(n, ready, cross_entropy=False)
        orders = block_orders(blocks, n, counts.burn_in, as_rng(self.random_state), labels)
        first, rest = orders[0][: counts.burn_in], orders[0][counts.burn_in :]
        if not ready and (labels[first] == labels[first[0]]).all():
            raise ValueError(
                f"the first block, {len(first)} rows, has one class, {labels[first].tolist()[0]!r}, and candidates "
                "cannot be fitted to it: take a larger burn_in, or order='random', in blocks"
            )
        now = RUNNING.get()
        if now is not None:
            now.stage("candidates", max(1, len(pool.unfitted())))
        pool = replace(pool, seed=drawn_seed(self.random_state)).weighted(weight, first)
        unfitted = [name for name, _ in pool.unfitted()]
        pool = pool.fit_unfitted(_safe_indexing(given, first), labels[first])
        _check_probabilities([(name, one) for name, one in pool.experts if name in unfitted])
        classifiers = FlooredClassifiers.of(pool.experts, labels, 0, "candidate", weight, given=ready)
        P = classifiers.probabilities(_safe_indexing(given, rest))  # (rest, L, C)
        F = np.full((n, len(pool)), np.nan)
        F[rest] = ClassRows(P, classifiers.codes(labels[rest])).observed
        if now is not None:
            now.stage("weights")
        compared = P.swapaxes(1, 2).reshape(-1, len(pool))
        selection = select(F, np.zeros(n), orders, counts, blocks, Outcome(), compared, weight)
        self._pool, self._classifiers, self.candidates_ = pool, classifiers, list(pool.experts)
        self.blocks_ = (counts.burn_in, counts.aggregation)
        self._report([kept[order] for order in orders], selection)
        return self

    def predict_proba(self, X: Any, readout: Readout = "aggregate") -> Floats:
        """The probability of every class, (n, C): of all candidates by ``weights_``, or of the selected one."""
        X, weights = self._readout(X, readout)
        return self._classifiers.mix(X, np.tile(weights, (X.shape[0], 1)))

    def gate_weights(self, X: Any, readout: Readout = "aggregate") -> Floats:
        """The gate at every row, (n, M): all candidates' weighted by ``weights_``, or the selected one's ("single").

        The first needs candidates that are gates over the same experts.
        """
        X, weights = self._readout(X, readout)
        chosen = np.flatnonzero(weights) if readout == "single" else np.arange(len(weights))
        pool = Pool([self.candidates_[place] for place in chosen], kind="candidate")
        return averaged_gates(pool, weights[chosen], X)

    def expert_probabilities(self, X: Any) -> Floats:
        """The probabilities of all candidates, with their floor, (n, L, C)."""
        return self._classifiers.probabilities(self._readout(X, "aggregate")[0])

    def _readout(self, X: Any, readout: Readout) -> tuple[Any, Floats]:
        """X as the candidates get it, and their weights (L,)."""
        check_is_fitted(self)
        check_readout(readout)
        checked = validated(self, X, reset=False, dtype=None, ensure_all_finite=False)
        single = (np.arange(len(self.weights_)) == self.selected_index_).astype(np.float64)
        return (X if hasattr(X, "shape") else checked), self.weights_ if readout == "aggregate" else single

    def _report(self, orders: list[Indices], selection: Selection) -> None:
        self.selected_index_ = selection.candidate
        self.squared_distances_ = selection.squared_distances * len(self._classifiers.classes)
        self.selected_, self.weights_ = self.candidates_[selection.candidate][0], selection.weights
        self.order_ = one_or_stacked(orders)
        self.weights_path_ = one_or_stacked([weighing.path for weighing in selection.weighings])
        self.online_probabilities_ = one_or_stacked([weighing.online for weighing in selection.weighings])


def _check_probabilities(fitted: Sequence[tuple[str, Any]]) -> None:
    """An error for a candidate that has no probabilities after its fit."""
    for name, candidate in fitted:
        if is_classifier(candidate) and not hasattr(candidate, "predict_proba"):
            kind = type(candidate).__name__
            raise TypeError(
                f"candidates: {name!r} needs predict_proba, and {kind} has none: give "
                f"sklearn.calibration.CalibratedClassifierCV({kind}(...)) in its place"
            )
