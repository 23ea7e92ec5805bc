"""`SharedRoutedRegressor`: section 6 of the paper with scikit-learn's manners."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gatewise.arrays import Floats, Indices
from gatewise.estimators.all_or_nothing import all_or_nothing
from gatewise.shared.additive_fit import find_thresholds, Maps, moved_maps, ready_maps, select_sizes, with_sizes
from gatewise.shared.backfitting import backfit, Backfitting
from gatewise.shared.bases import column_index, ConstantBasis, PolynomialBasis
from gatewise.shared.comparison import compare_methods, Comparison
from gatewise.shared.least_squares import FITS
from gatewise.shared.partition import given_labels, threshold_labels, ThresholdSearch
from gatewise.shared.sieves import choose_ridge

METHODS = (*FITS, "backfit")


class SharedRoutedRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """f(x) = f_S(x) + sum_j 1{x in region j} f_j(x): a shared component plus one per region (`eq:model_shared`).

    Parameters
    ----------
    shared, routed : a basis of `gatewise.shared`, a transformer or a function X -> (n, p)
        ``routed`` may be a list, one basis per region. Default: linear in all features; a constant. With
        ``method="backfit"`` they are regressors.
    partition : "threshold", a `ThresholdSearch`, a function X -> regions, a gate or a classifier
        "threshold" looks for one threshold in the first feature. Regions are numbered from 0.
    method : "joint", "two-stage" (residualized), "two-stage-plain", "pure", "backfit" or a `Backfitting`
    ridge : float or (shared, routed)
        min RSS + n ridge ||coefficients||^2; constant columns go free. The threshold search has no ridge.
    sieve : `SieveSearch` or None
        Sizes, and ridges, to choose from for every component. An unknown threshold is found with the bases as given,
        the sizes are chosen there, and the threshold is found again with them.

    What both components can say, such as an intercept, is carried by the routed one; ``dropped_`` lists the shared
    columns that got coefficient 0 for that reason.

    >>> from gatewise.shared import FourierBasis, PolynomialBasis, ThresholdSearch
    >>> x = np.linspace(0, 1, 400)[:, None]
    >>> y = 2 * x[:, 0] + np.where(x[:, 0] <= 0.4, np.sin(4 * np.pi * x[:, 0]), 1.0)
    >>> waves = FourierBasis(1, low=0.0, high=0.5)
    >>> model = SharedRoutedRegressor(PolynomialBasis(1), waves, ThresholdSearch(0, grid=(0.3, 0.4, 0.5))).fit(x, y)
    >>> model.thresholds_, model.shared_coef_.round(6) + 0.0, model.dropped_
    (array([0.4]), array([0., 2.]), (0,))
    """

    def __init__(
        self,
        shared: Any = None,
        routed: Any = None,
        partition: Any = "threshold",
        method: Any = "joint",
        *,
        ridge: Any = 0.0,
        sieve: Any = None,
    ) -> None:
        self.shared = shared
        self.routed = routed
        self.partition = partition
        self.method = method
        self.ridge = ridge
        self.sieve = sieve

    @all_or_nothing
    def fit(self, X: Any, y: Any) -> Self:
        """Find the partition if it is unknown, choose sizes if asked to, and fit both components."""
        rows, target = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2, estimator=self
        )
        target = np.asarray(target, dtype=np.float64)
        self._method = _method_name(self.method)
        ridge = _ridge_pair(self.ridge)
        self._threshold = ThresholdSearch() if isinstance(self.partition, str) else self.partition
        if isinstance(self.partition, str) and self.partition != "threshold":
            raise ValueError(f"partition must be 'threshold' if it is a string, not {self.partition!r}")
        if self._method == "backfit":
            return self._fit_learners(X, rows, target)
        self._fit_partition(X, rows, target)
        if self.sieve is not None:
            labels = self._labels(X, rows)
            self.sizes_ = select_sizes(rows, target, labels, self._maps, self.sieve, self._method, ridge)
            self._fit_partition(X, rows, target, self.sizes_)
        problem = self._maps.problem(rows, target, self._labels(X, rows))
        if self.sieve is not None:
            ridge = choose_ridge(problem, FITS[self._method], self.sieve, ridge)
        done = FITS[self._method](problem, ridge)
        self.ridge_ = ridge
        self._fit = done
        self.shared_coef_, self.routed_coef_ = done.shared, done.routed
        self.rss_, self.df_, self.dropped_ = done.rss, done.df, done.dropped
        return self

    def predict(self, X: Any) -> Floats:
        """f at every row of X, (n,)."""
        total: Floats = self.components(X).sum(axis=1)
        return total

    def components(self, X: Any) -> Floats:
        """The shared and the routed part at every row of X, (n, 2)."""
        rows = self._rows(X)
        labels = self._labels(X, rows)
        if self._method != "backfit":
            return self._maps.components(rows, labels, self._fit)
        parts = np.zeros((len(rows), 2))
        parts[:, 0] = self.shared_learner_.predict(rows)
        for j, learner in enumerate(self.routed_learners_):
            if (labels == j).any():
                parts[labels == j, 1] = learner.predict(rows[labels == j])
        return parts

    def regions(self, X: Any) -> Indices:
        """The region of every row of X, (n,)."""
        return self._labels(X, self._rows(X))

    def compare(self, X: Any, y: Any, folds: int = 5, seed: int = 0) -> Comparison:
        """This model beside its pure-routed counterpart: cross-validated errors, and whether sharing pays."""
        return compare_methods(self, X, y, folds, seed)

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self, "n_regions_")
        rows: Floats = validate_data(self, X, dtype=np.float64, reset=False)
        return rows

    def _labels(self, X: Any, rows: Floats) -> Indices:
        if isinstance(self._threshold, ThresholdSearch):
            return threshold_labels(rows[:, self._column], self.thresholds_)
        labels = given_labels(self._threshold, X if hasattr(X, "columns") else rows)
        if len(labels) and labels.max() >= self.n_regions_:
            row = int(labels.argmax())
            raise ValueError(
                f"partition puts row {row} in region {labels[row]}, but fit saw {self.n_regions_} regions"
            )
        return labels

    def _fit_partition(self, X: Any, rows: Floats, y: Floats, sizes: tuple[int, ...] | None = None) -> None:
        """Ready bases and, for an unknown partition, its thresholds."""
        names = getattr(self, "feature_names_in_", None)
        shared = PolynomialBasis(1, intercept=False) if self.shared is None else self.shared
        bases = self._routed_bases(X, rows)
        self.n_regions_ = len(bases)
        maps = ready_maps(rows, shared, bases, names)
        if sizes is not None:
            maps = with_sizes(maps, sizes, self.sieve)
        self._maps: Maps = maps
        if isinstance(self._threshold, ThresholdSearch):
            self._column = column_index(self._threshold.feature, rows.shape[1], names)
            found = find_thresholds(rows, y, self._column, self._threshold, maps, self._method)
            self.thresholds_, self.grid_, self.profile_rss_ = found
            if self._threshold.coordinates == "moving":
                self._maps = moved_maps(rows, self._column, self.thresholds_, maps)

    def _routed_bases(self, X: Any, rows: Floats) -> Sequence[Any]:
        """One entry of ``routed`` per region."""
        given = isinstance(self.routed, list | tuple)
        if isinstance(self._threshold, ThresholdSearch):
            n_regions = self._threshold.n_regions
        elif given:
            n_regions = len(self.routed)
        else:
            n_regions = int(given_labels(self._threshold, X if hasattr(X, "columns") else rows).max()) + 1
        if given and len(self.routed) != n_regions:
            raise ValueError(f"routed must hold one basis for each of {n_regions} regions, not {len(self.routed)}")
        one = ConstantBasis() if self.routed is None else self.routed
        return list(self.routed) if given else [one] * n_regions

    def _fit_learners(self, X: Any, rows: Floats, y: Floats) -> Self:
        if isinstance(self._threshold, ThresholdSearch):
            raise ValueError(
                "method 'backfit' needs a given partition; find a threshold with bases first and pass its `regions`"
            )
        routed = self._routed_bases(X, rows)
        for name, learner in [("shared", self.shared), *((f"routed[{j}]", m) for j, m in enumerate(routed))]:
            if not (hasattr(learner, "fit") and hasattr(learner, "predict")):
                raise TypeError(f"{name} must be a regressor with fit and predict under 'backfit', not {learner!r}")
        self.n_regions_ = len(routed)
        spec = self.method if isinstance(self.method, Backfitting) else Backfitting()
        labels = self._labels(X, rows)
        self.shared_learner_, self.routed_learners_, self.convergence_ = backfit(
            rows, y, labels, self.shared, routed, spec
        )
        return self


def _method_name(method: Any) -> str:
    if isinstance(method, Backfitting):
        return "backfit"
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)} or a Backfitting, not {method!r}")
    return str(method)


def _ridge_pair(ridge: Any) -> tuple[float, float]:
    pair = tuple(map(float, ridge if isinstance(ridge, list | tuple) else (ridge, ridge)))
    if len(pair) != 2 or not all(np.isfinite(value) and value >= 0 for value in pair):
        raise ValueError(f"ridge must be a number from 0 on, or a pair of them, not {ridge!r}")
    return pair[0], pair[1]
