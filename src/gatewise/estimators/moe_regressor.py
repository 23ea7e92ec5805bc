"""`MoERegressor`: a pool of regressors and a gate that says which to use where."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin, TransformerMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from gatewise.arrays import as_count, check_readout, Floats
from gatewise.estimators.validation import (
    checked_experts,
    checked_rows,
    checked_sample,
    expert_params,
    make_splits,
    metadata,
    tags,
)
from gatewise.experts.pool import Pool, predict_matrix
from gatewise.gates.feature_maps import CLASSES
from gatewise.gates.inputs import GateInputs
from gatewise.noise import as_noise
from gatewise.router.expert_regions import region_table, RegionTable
from gatewise.router.facts import plain_facts, summary_text
from gatewise.router.intervals import disagreement, Spread
from gatewise.router.learning import RouterFit
from gatewise.router.mixing import go_on, Mixing
from gatewise.router.out_of_fold import OutOfFold
from gatewise.router.settings import MoESettings
from gatewise.router.training import Task, train, Trained, use_as_they_are
from gatewise.router.verdict import HeldOutLosses, reach_verdict, Verdict

NEGLIGIBLE = 1e-3  # the total share of candidates that a prediction leaves out
AUTO_K = 3  # the largest k that "auto" tries


class MoERegressor(RegressorMixin, TransformerMixin, _BaseComposition):  # type: ignore[misc]
    """Combines experts by a gate that is learned from their held-out forecasts.

    Parameters
    ----------
    experts : list of (name, regressor)
        Each gets X as it was handed in, so a pipeline that selects columns of a data frame works. A `ColumnExpert`
        is a column of X that already is a forecast.
    shared : list of (name, regressor)
        Always on: the routed experts learn what these leave, by backfitting on held-out rows.
    gates : "auto" or a sequence out of "linear", "quadratic", "kernel", "forecast"
        The classes of gates in the list, beside every single expert and the global stacks. "forecast" gates look at
        the experts' forecasts instead of the inputs. An empty sequence: no gates.
    k : None, int or "auto"
        Experts that a gate activates: all, the k of largest score, or both kinds.
    cv : int, splitter, iterable of splits, "prefit" or None
        How rows are held out; None is a shuffled `KFold` of five. With splits in time, as from `TimeSeriesSplit`, the
        router is learned in the order of the rows. "prefit": the experts are fitted already, and all rows serve the
        router.
    n_jobs, random_state
        Processes for the experts; the seed of folds, orders and centres.
    settings : MoESettings or None
        The rest: readout, orders, penalties, specialization, noise.

    Attributes
    ----------
    verdict_ : Verdict
        A single expert, a global stack or a gate; the gain over the stack with its interval.
    experts_, shared_ : lists
        The fitted experts.
    candidates_ : tuple of Candidate
    weights_ : array (S,)
        The aggregation weight of every candidate.
    sigma_ : array (S,)
        The held-out root mean squared error of every candidate.
    selected_ : Candidate
        The one that ``readout="single"`` uses.
    history_ : tuple of float
        The held-out error of every stage of backfitting and specialization.
    out_of_fold_ : OutOfFold
        Forecasts and gate weights of every row, from the fit that held it out.
    stack_weights_ : array (M,)
        The weights of the convex stack, what gains are measured against.

    Classification is out of scope.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 2))
    >>> y = np.where(X[:, 0] < 0, 3 * X[:, 1], np.sin(9 * X[:, 1])) + 0.1 * rng.normal(size=400)
    >>> model = MoERegressor([("line", LinearRegression()), ("knn", KNeighborsRegressor())], random_state=0)
    >>> model.fit(X, y).verdict_.gates
    True
    >>> model.gate_weights([[-0.7, 0.1], [0.7, 0.1]]).argmax(axis=1)
    array([1, 1])
    """

    def __init__(
        self,
        experts: Sequence[tuple[str, Any]],
        shared: Sequence[tuple[str, Any]] = (),
        gates: Any = "auto",
        k: Any = "auto",
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        settings: MoESettings | None = None,
    ) -> None:
        self.experts = experts
        self.shared = shared
        self.gates = gates
        self.k = k
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.settings = settings

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the experts, learn the gate from their held-out forecasts, and refit the experts on all rows."""
        routed, shared = checked_experts(self.experts, "experts"), checked_experts(self.shared, "shared", least=0)
        checked_experts([*routed, *shared], "experts and shared")
        X, y, weight = checked_sample(self, X, y, sample_weight, reset=True)
        settings = MoESettings() if self.settings is None else self.settings
        if not isinstance(settings, MoESettings):
            raise TypeError(f"settings must be a gatewise.MoESettings, not {settings!r}")
        seed = int(np.random.default_rng(self.random_state).integers(2**31))
        params, split_params = expert_params(self, [*routed, *shared], sample_weight, weight, groups)
        self._unit_weight = float(weight.mean())
        weight = weight / self._unit_weight
        self._inputs = GateInputs.fit(X, settings.n_components, settings.fade)
        task = Task(
            X=X,
            y=y,
            sample_weight=weight,
            routed=Pool(routed, params, self.n_jobs),
            shared=Pool(shared, params, self.n_jobs),
            splits=[] if self.cv == "prefit" else make_splits(self.cv, X, y, split_params, seed),
            inputs=self._inputs.transform(X),
            classes=self._classes(),
            ks=self._ks(len(routed)),
            settings=settings,
            seed=seed,
        )
        trained = use_as_they_are(task) if self.cv == "prefit" else train(task)
        self.experts_, self.shared_ = trained.routed, trained.shared
        self.history_ = trained.history
        self._keep(task, trained)
        return self

    def predict(self, X: Any, return_std: bool = False, readout: str | None = None) -> Any:
        """The mixture at every row, (n,); with ``return_std`` its standard deviation, too.

        mean +- 1.645 sd is meant to hold 90 % of the responses. ``readout`` overrides the settings.
        """
        check_is_fitted(self)
        X = checked_rows(self, X)
        shares = self._shares(readout)
        inputs = self._inputs.transform(X)
        final, names = self._router, self._names
        if not (return_std or final.needs_experts(shares) or (shares @ final.correction).any()):
            weights = final.mean_weights(shares, inputs)
            total = self._always(X)
            for m in np.flatnonzero(weights.any(axis=0)):
                rows = np.flatnonzero(weights[:, m])
                part = X if len(rows) == len(weights) else _safe_indexing(X, rows)
                total[rows] += weights[rows, m] * predict_matrix([(names[m], self.experts_[m])], part)[:, 0]
            return total
        F = self._forecasts(X)
        weights = final.mean_weights(shares, inputs, F)
        mean = self._always(X) + np.einsum("im,im->i", weights, F) + final.corrections(shares, F)
        return (mean, self._spread.sd(disagreement(weights, F))) if return_std else mean

    def gate_weights(self, X: Any, readout: str | None = None) -> Floats:
        """The weight of every expert at every row, (n, M), each row on the simplex."""
        check_is_fitted(self)
        X = checked_rows(self, X)
        shares = self._shares(readout)
        F = self._forecasts(X) if self._router.needs_experts(shares) else None
        return self._router.mean_weights(shares, self._inputs.transform(X), F)

    def transform(self, X: Any) -> Floats:
        """The forecasts of the experts, (n, M)."""
        check_is_fitted(self)
        return self._forecasts(checked_rows(self, X))

    def candidate_forecasts(self, X: Any) -> Floats:
        """The forecasts of all candidates, (n, S), without the shared experts."""
        check_is_fitted(self)
        X = checked_rows(self, X)
        return self._router.forecasts(self._inputs.transform(X), self._forecasts(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """The names of the columns of ``transform``: the experts'."""
        check_is_fitted(self)
        return np.array(self._names, dtype=object)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, update_experts: bool = False) -> Self:
        """Continue the aggregation on new rows; gates stay as they are.

        The weights of the candidates go on from where they stood; verdict, regions and spread stay those of ``fit``.
        With ``update_experts``, routed experts that have ``partial_fit`` are updated on these rows afterwards,
        without sample weights; the others stay.
        """
        if not hasattr(self, "verdict_"):
            return self.fit(X, y, sample_weight)
        X, y, weight = checked_sample(self, X, y, sample_weight, reset=False)
        always = self._always(X)
        rest = y - always
        forecasts = self._router.forecasts(self._inputs.transform(X), self._forecasts(X))
        settings = MoESettings() if self.settings is None else self.settings
        noise, power = as_noise(settings.noise), settings.rate * weight / self._unit_weight
        self._keep_mixing(go_on(self._mixing, forecasts, rest, noise, power))
        self.online_predictions_ = self._mixing.online + always
        if update_experts:
            self.experts_ = [deepcopy(expert) for expert in self.experts_]  # one that came fitted stays as it was
            for expert in self.experts_:
                if hasattr(expert, "partial_fit"):
                    expert.partial_fit(X, rest)
        return self

    @property
    def stack_weights_(self) -> Floats:
        """The weights of the convex stack of the experts, (M,)."""
        check_is_fitted(self)
        return self._router.stack

    def region_table(self) -> RegionTable:
        """Per expert: where it leads, its loss there beside the runner-up's, and its region in words."""
        check_is_fitted(self)
        return self._regions

    def summary(self) -> str:
        """What was found, as text."""
        check_is_fitted(self)
        return summary_text(self)

    def report(self) -> dict[str, Any]:
        """The facts of the fit as plain values, ready for JSON."""
        check_is_fitted(self)
        return plain_facts(self)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, those of the experts among them."""
        params: dict[str, Any] = self._get_params("experts", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the experts among them: ``ridge__alpha=1.0``."""
        self._set_params("experts", **params)
        return self

    def get_metadata_routing(self) -> Any:
        """Sample weights go to this model and to experts that ask for them, groups to the splitter."""
        return metadata(self)

    def __sklearn_tags__(self) -> Any:
        return tags(self, super().__sklearn_tags__())

    def _classes(self) -> tuple[str, ...]:
        if isinstance(self.gates, str) and self.gates == "auto":
            return tuple(name for name in CLASSES if self._ks_dense() or name != "forecast")
        wanted = (self.gates,) if isinstance(self.gates, str) else self.gates
        if not isinstance(wanted, Sequence) or not set(wanted) <= set(CLASSES):
            raise ValueError(f"gates must be 'auto' or some of {', '.join(CLASSES)}, not {self.gates!r}")
        if "forecast" in wanted and not self._ks_dense():
            raise ValueError("gates of the class 'forecast' ask every expert; they need k=None or k='auto'")
        return tuple(wanted)

    def _ks_dense(self) -> bool:
        return self.k is None or self.k == "auto"

    def _ks(self, n_experts: int) -> tuple[int | None, ...]:
        if self.k is None:
            return (None,)
        if self.k == "auto":
            return (None, *range(1, min(AUTO_K, n_experts - 1) + 1))
        if isinstance(self.k, str):
            raise ValueError(f"k must be None, a whole number or 'auto', not {self.k!r}")
        return (as_count(self.k, "k", high=n_experts),)

    def _keep(self, task: Task, trained: Trained) -> None:
        """The fitted attributes."""
        fit = trained.fit
        self._names = [name for name, _ in task.routed.experts]
        self._router, self.candidates_ = fit.final, fit.final.candidates
        self._keep_mixing(fit.mixing)
        y, weight = (task.y - trained.always)[fit.rows], task.sample_weight[fit.rows]
        residual = y - fit.forecasts
        rows, entry = np.unique(fit.rows, return_inverse=True)  # a row may have been held out more than once
        own, plain, stack = (
            np.bincount(entry, (y - forecast) ** 2) / np.bincount(entry)
            for forecast in (fit.forecasts, fit.plain, fit.stack)
        )
        self.verdict_: Verdict = reach_verdict(
            self.candidates_, self.weights_, HeldOutLosses(own, plain, stack, task.sample_weight[rows], fit.n_parts)
        )
        always = trained.always[fit.rows]
        self.out_of_fold_ = OutOfFold(
            fit.rows, y + always, fit.F, fit.weights, fit.forecasts + always, fit.stack + always
        )
        self._spread = Spread.fit(residual, disagreement(fit.weights, fit.F), weight)
        encoded = self._inputs.encode(_safe_indexing(task.X, fit.rows))
        self._regions = region_table(self._names, fit.weights, (y[:, None] - fit.F) ** 2, encoded, self._inputs.names)
        self._single = self._project(task, fit)
        self.selected_ = self.candidates_[self._single]

    def _keep_mixing(self, mixing: Mixing) -> None:
        self._mixing = mixing
        self.weights_, self.sigma_ = mixing.shares, mixing.sigma

    def _project(self, task: Task, fit: RouterFit) -> int:
        """The allowed candidate nearest to the aggregate over the rows."""
        forecasts = fit.final.forecasts(task.inputs[fit.rows], fit.F)
        distance = ((forecasts - (forecasts @ self.weights_)[:, None]) ** 2).mean(axis=0)
        if not self._ks_dense():
            sparse = [c.kind == "single" or c.k == self.k for c in self.candidates_]
            distance = np.where(sparse, distance, np.inf)
        return int(distance.argmin())

    def _shares(self, readout: str | None) -> Floats:
        if readout is None:
            readout = (MoESettings() if self.settings is None else self.settings).readout
        check_readout(readout)
        if readout == "single":
            return np.asarray(np.eye(len(self.weights_))[self._single])
        order = np.argsort(self.weights_)
        kept = np.cumsum(self.weights_[order]) > NEGLIGIBLE
        shares = np.zeros(len(self.weights_))
        shares[order[kept]] = self.weights_[order[kept]]
        return np.asarray(shares / shares.sum())

    def _forecasts(self, X: Any) -> Floats:
        return predict_matrix(list(zip(self._names, self.experts_, strict=True)), X, self.n_jobs)

    def _always(self, X: Any) -> Floats:
        """What the shared experts say, (n,)."""
        n = X.shape[0]
        if not self.shared_:
            return np.zeros(n)
        names = [name for name, _ in self.shared]
        return np.asarray(predict_matrix(list(zip(names, self.shared_, strict=True)), X, self.n_jobs).sum(axis=1))
