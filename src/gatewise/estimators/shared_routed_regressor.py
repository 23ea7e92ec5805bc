"""`SharedRoutedRegressor`: section 6 of the paper as a scikit-learn estimator."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gatewise.arrays import Floats, Indices
from gatewise.estimators.validation import all_or_nothing, forget, validated
from gatewise.progress import RUNNING
from gatewise.shared.backfitting import Backfitting
from gatewise.shared.comparison import compare_methods, Comparison
from gatewise.shared.least_squares import FITS
from gatewise.shared.partition import ThresholdSearch
from gatewise.shared.regional_model import (
    BasisModel,
    fit_bases,
    fit_learners,
    LearnerModel,
    RegionalData,
    RegionalSpec,
)

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
        min RSS + n ridge ||coefficients||^2; constant columns are not penalised. The threshold search uses no ridge.
    sieve : `SieveSearch` or None
        Sizes, and ridges, to choose from for every component. An unknown threshold is found with the bases as given,
        the sizes are chosen there, and the threshold is found again with them.

    A function that both components can represent, such as an intercept, is assigned to the routed one; ``dropped_``
    lists the shared columns that got coefficient 0 for that reason.

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
        verbose: int = 0,
    ) -> None:
        self.shared = shared
        self.routed = routed
        self.partition = partition
        self.method = method
        self.ridge = ridge
        self.sieve = sieve
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any) -> Self:
        """Find the partition if it is unknown, choose sizes if asked to, and fit both components."""
        forget(self)
        rows, target = validated(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2, estimator=self)
        data = RegionalData(X, rows, np.asarray(target, dtype=np.float64), getattr(self, "feature_names_in_", None))
        spec = RegionalSpec(self.shared, self.routed, _partition(self.partition))
        method, ridge = _method_name(self.method), _ridge_pair(self.ridge)
        now = RUNNING.get()
        if now is not None:
            now.stage("regions and both components")
        if method == "backfit":
            turns = self.method if isinstance(self.method, Backfitting) else Backfitting()
            self._keep_learners(fit_learners(data, spec, turns))
        else:
            self._keep_bases(fit_bases(data, spec, method, ridge, self.sieve))
        return self

    def predict(self, X: Any) -> Floats:
        """f at every row of X, (n,)."""
        total: Floats = self.components(X).sum(axis=1)
        return total

    def components(self, X: Any) -> Floats:
        """The shared and the routed part at every row of X, (n, 2)."""
        rows = self._rows(X)
        return self._model.components(X, rows)

    def regions(self, X: Any) -> Indices:
        """The region of every row of X, (n,)."""
        rows = self._rows(X)
        return self._model.regions.labels(X, rows)

    def compare(self, X: Any, y: Any, folds: int = 5, seed: int = 0) -> Comparison:
        """This model beside its pure-routed counterpart: cross-validated errors, and whether sharing pays."""
        return compare_methods(self, X, y, folds, seed)

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self, "n_regions_")
        rows: Floats = validated(self, X, dtype=np.float64, reset=False)
        return rows

    def _keep_bases(self, model: BasisModel) -> None:
        self._model: BasisModel | LearnerModel = model
        self.n_regions_, self.ridge_ = model.regions.n_regions, model.ridge
        if model.regions.found is not None:
            self.thresholds_, self.grid_ = model.regions.found.thresholds, model.regions.found.grid
            self.profile_rss_ = model.regions.found.rss
        if model.sizes is not None:
            self.sizes_ = model.sizes
        self.shared_coef_, self.routed_coef_ = model.fit.shared, model.fit.routed
        self.rss_, self.df_, self.dropped_ = model.fit.rss, model.fit.df, model.fit.dropped

    def _keep_learners(self, model: LearnerModel) -> None:
        self._model, self.n_regions_ = model, model.regions.n_regions
        self.shared_learner_, self.routed_learners_ = model.shared, model.routed
        self.convergence_ = model.convergence


def _partition(partition: Any) -> Any:
    if not isinstance(partition, str):
        return partition
    if partition != "threshold":
        raise ValueError(f"partition must be 'threshold' if it is a string, not {partition!r}")
    return ThresholdSearch()


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
