"""`MoERegressor`: a pool of regressors and a gate that says which to use where; and what every such face has."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin, TransformerMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from gatewise.arrays import as_count, check_readout, Floats, Indices
from gatewise.estimators.large_rows import lazy_answers, rows_in_memory
from gatewise.estimators.row_copies import fit_rows, FitRows, MOST_COUNTED
from gatewise.estimators.validation import (
    all_or_nothing,
    checked_experts,
    checked_groups,
    checked_rows,
    checked_sample,
    chosen_gates,
    drawn_seed,
    expert_params,
    make_splits,
    metadata,
    tags,
)
from gatewise.experts.pool import named_experts, nonzero_assignments, Pool
from gatewise.experts.protocol import RowError
from gatewise.gates.inputs import GateInputs, has_equal_rows
from gatewise.losses import ResidualLoss
from gatewise.progress import RUNNING
from gatewise.router.facts import plain_facts, summary_text
from gatewise.router.fitted_router import disagreement, FittedRouter, ForecastGuard, OutOfFold, PredictionScale
from gatewise.router.settings import DEFAULT_SETTINGS, MoESettings
from gatewise.router.training import train, Trained, TrainingTask, use_as_they_are
from gatewise.router.verdict import RegionTable

AUTO_K = 3  # the largest k that "auto" tries


class RoutedEstimator(_BaseComposition):  # type: ignore[misc]
    """What `MoERegressor` and `MoEClassifier` have in common: their parameters, and what a fitted router tells."""

    experts: Sequence[Any]
    shared: Sequence[Any] = ()
    k: Any
    settings: MoESettings | None
    experts_: list[Any]
    _router: FittedRouter
    _rows_learned: int

    @property
    def stack_weights_(self) -> Floats:
        """The weights of the convex stack of the experts, (M,)."""
        check_is_fitted(self)
        return self._router.view.spread_out(self._router.fitted.stack)

    @property
    def left_out_(self) -> list[str]:
        """The experts that no candidate uses: they diverge, forecast as another one does, or were screened out."""
        check_is_fitted(self)
        return [name for m, name in enumerate(self._router.names) if m not in self._router.view.distinct]

    @property
    def rows_learned_(self) -> int:
        """The number of rows that the list learned from: of more than 50,000 rows n, a random choice."""
        check_is_fitted(self)
        return vars(self).get("_rows_learned") or len(np.unique(self.out_of_fold_.rows))  # a model file may be older

    def region_table(self) -> RegionTable:
        """Per expert: where it leads, its loss there beside the runner-up's, and its region in words."""
        check_is_fitted(self)
        return self._router.regions

    def summary(self) -> str:
        """The verdict, the largest candidates and the regions, as text."""
        check_is_fitted(self)
        return summary_text(self)

    def report(self) -> dict[str, Any]:
        """The facts of the fit as plain values, ready for JSON."""
        check_is_fitted(self)
        return plain_facts(self)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the model and, with ``deep``, those of its experts."""
        params: dict[str, Any] = super().get_params(deep=deep)
        for name, expert in _named(self.experts) if deep else []:
            params[name] = expert
            if hasattr(expert, "get_params"):
                params.update({f"{name}__{key}": value for key, value in expert.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the model or of its experts, as in ``ridge__alpha=1.0``."""
        if self.settings is None and any(key.startswith("settings__") for key in params):
            self.settings = MoESettings()  # so that a search can reach every setting
        names = {name for name, _ in _named(self.experts)}
        if any(key.partition("__")[0] in names for key in params):
            self.experts = _named(self.experts)  # scikit-learn looks for their names in pairs
        self._set_params("experts", **params)
        return self

    def get_metadata_routing(self) -> Any:
        """Sample weights go to this model and to experts that ask for them, groups to the splitter."""
        return metadata(self)

    def __sklearn_tags__(self) -> Any:
        return tags(self, super().__sklearn_tags__())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """The names of the experts."""
        check_is_fitted(self)
        return np.array(self._router.names, dtype=object)

    def _settings(self) -> MoESettings:
        settings = DEFAULT_SETTINGS if self.settings is None else self.settings
        if not isinstance(settings, MoESettings):
            raise TypeError(f"settings must be a gatewise.MoESettings, not {settings!r}")
        return settings

    def _asks_all(self) -> bool:
        """Whether a prediction may need the forecasts of all experts at every row."""
        return self.k is None or self.k == "auto"

    def _ks(self, n_experts: int) -> tuple[int | None, ...]:
        if self.k is None:
            return (None,)
        if self.k == "auto":
            return (None, *range(1, min(AUTO_K, n_experts - 1) + 1))
        if isinstance(self.k, str):
            raise ValueError(f"k must be None, a whole number or 'auto', not {self.k!r}")
        return (as_count(self.k, "k", high=n_experts),)

    def _rows_and_shares(self, X: Any, readout: str | None) -> tuple[Any, Floats]:
        if not hasattr(self, "_router"):  # scikit-learn's check asks every expert for its tags
            check_is_fitted(self)
        if readout is None:
            readout = self._settings().readout
        else:
            check_readout(readout)
        return checked_rows(self, X), self._router.shares(readout)

    def _in_memory(self, X: Any, n_experts: int, **others: Any) -> tuple[Any, list[Any], Indices | None]:
        """Rows for experts that are fitted already, as `rows_in_memory` has them; dask collections, too."""
        if self.cv != "prefit":
            raise ValueError(
                "X is a dask collection, but experts are fitted in memory: fit them first and set cv='prefit', "
                "or hand over a sample of the rows"
            )
        return rows_in_memory(X, others, n_experts, self.random_state)

    def _fit_rows(self, given: FitRows, settings: MoESettings, seed: int) -> tuple[FitRows, GateInputs]:
        """The rows that the fit uses, and what gates see of them, learned in the order of the router.

        They are the rows given, unless weights count rows or rows are equal.
        """
        plain, used = bool((given.weight == 1.0).all()), given
        if not plain or (len(given.y) <= MOST_COUNTED and has_equal_rows(given.X, given.y)):
            used = fit_rows(given, seed)
        table, now = used.X if used.place is None else _safe_indexing(used.X, np.argsort(used.place)), RUNNING.get()
        if now is not None:
            now.stage("columns that gates see")
        return used, GateInputs.fit(table, settings.n_components, settings.fade)

    def _train(self, task: TrainingTask, source: Indices) -> Trained:
        """Train experts and router; an error about row i of the task calls it row ``source``[i], as it was given."""
        try:
            return train(task) if task.splits else use_as_they_are(task)
        except RowError as error:
            raise error.renumbered(source) from None

    def _keep_router(self, router: FittedRouter) -> None:
        self._router = router
        self.verdict_, self.candidates_ = router.verdict, router.fitted.candidates
        self.weights_ = router.shares("aggregate")
        self.selected_ = self.candidates_[router.single]


class MoERegressor(RegressorMixin, TransformerMixin, RoutedEstimator):  # type: ignore[misc]
    """Combines experts by a gate that is learned from their held-out forecasts.

    Parameters
    ----------
    experts : list of regressors, or of (name, regressor) pairs
        One without a name is named after its type. Each gets X as it was handed in, so a pipeline that selects
        columns of a data frame works. A `ColumnExpert` is a column of X that already is a forecast.
    shared : list of regressors, or of (name, regressor) pairs
        Experts whose predictions are always added. The routed experts are fitted to the response less their held-out
        predictions, and the other way round, by backfitting.
    gates : "auto", or a sequence of names and gate objects
        The gates in the list, beside every single expert and the global stacks: names of `gatewise.gates.GATES`, or
        gates such as ``gw.LinearGate(3)`` and those of your own. A gate sees the inputs as standardised coordinates;
        "forecast" gates look at the experts' forecasts instead. An empty sequence: no gates.
    k : None, int or "auto"
        Experts that a gate activates: all, the k of largest score, or both kinds.
    cv : int, splitter, iterable of splits, "prefit" or None
        How rows are held out; None is a shuffled `KFold` of five, or `GroupKFold` if ``fit`` is given groups. Of 40
        to 3,000 rows in four to six even folds the experts are also fitted without every pair of folds, so that
        nothing that is judged on a fold has seen it. With splits in time, as from `TimeSeriesSplit`, the router is
        learned in the order of the rows. "prefit": the experts are fitted already, and all rows serve the router; X
        and y may then be dask arrays or data frames. Of more than 2^20 rows, or where inputs or forecasts are more
        than 2^26 numbers, a random part is used, the same wherever they are.
    n_jobs, random_state
        Processes for the experts; the seed of folds, orders and centres, and of experts that have none of their own.
    settings : MoESettings or None
        The rest: readout, orders, penalties, specialization, noise.
    verbose : 0, 1 or 2
        1 shows the stages of the fit, 2 also the pieces of each; `gatewise.progress.listen` tells them to a function.
    device : str or None
        Where softmax gates are fitted: ``None`` for compiled code on the CPU, "cuda" for a GPU
        (`gatewise[nn]`), "cpu" for PyTorch on the CPU. All else stays on the CPU.

    Attributes
    ----------
    verdict_ : Verdict
        Whether gating pays, a gate is used without a shown gain, or no gate is used; the gain over the stack.
    experts_, shared_ : lists
        The fitted experts.
    candidates_ : tuple of Candidate
        The list. Of more than 24,000 / sqrt(M) rows, half as many are drawn to try it on, and members far behind
        there are not in it.
    weights_ : array (S,)
        The share of every candidate in predictions; one below 0.001 is zero.
    sigma_ : array (S,)
        The held-out root mean squared error of every candidate.
    selected_ : Candidate
        The one that ``readout="single"`` uses.
    history_ : tuple of TrainingStage
        Every stage of backfitting and specialization that was tried: its held-out ``error`` and, with ``specialize``,
        the test of ``specialization`` there (`gatewise.geometry.coadaptation`).
    out_of_fold_ : OutOfFold
        Forecasts and gate weights of every row, from the fit that held it out; with more than 256 experts without the
        rows that chose those in the list.
    stack_weights_ : array (M,)
        The weights of the convex stack, what gains are measured against.
    left_out_ : list of str
        Experts that forecast as another one does, that diverge (most of their held-out forecasts are off the range of
        the response by more than its length), and, of more than 256, those that neither the convex stack uses nor are
        the best one at many rows. No candidate uses them.
    gain_over_constant_ : float
        The part of the held-out error of the mean response that predictions save, the held-out R2; `summary` says
        where it is not above zero. NaN if all responses are equal.
    rows_learned_ : int
        The number of rows that the list learned from. The experts use all rows. Of more than 50,000 rows n the list
        has a random choice of sqrt(50,000 n), and its softmax gates and forests take fewer still: the time of a fit
        grows slower than the rows.

    For responses that are classes there is `MoEClassifier`.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 2))
    >>> y = np.where(X[:, 0] < 0, 3 * X[:, 1], np.sin(9 * X[:, 1])) + 0.1 * rng.normal(size=400)
    >>> model = MoERegressor([("line", LinearRegression()), ("knn", KNeighborsRegressor())], random_state=0)
    >>> model.fit(X, y).gate_weights([[-0.7, 0.1], [0.7, 0.1]]).shape
    (2, 2)
    >>> print(model.verdict_.headline)
    a gate is used
    """

    _scale: PredictionScale

    def __init__(
        self,
        experts: Sequence[Any],
        shared: Sequence[Any] = (),
        gates: Any = "auto",
        k: Any = "auto",
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        settings: MoESettings | None = None,
        verbose: int = 0,
        device: str | None = None,
    ) -> None:
        self.experts = experts
        self.shared = shared
        self.gates = gates
        self.k = k
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.settings = settings
        self.verbose = verbose
        self.device = device

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the experts, learn the gate from their held-out forecasts, and refit the experts on all rows.

        Sample weights that are whole numbers, unless they are large, count copies of rows; others are relative.
        """
        (experts, shared), numbers = checked_experts(self.experts, self.shared), None
        if self.cv == "prefit" or hasattr(X, "__dask_graph__"):
            given = {"y": y, "sample_weight": sample_weight, "groups": groups}
            X, (y, sample_weight, groups), numbers = self._in_memory(X, len(experts), **given)
        X, y, weight = checked_sample(self, X, y, sample_weight, reset=True)
        groups, settings = checked_groups(groups, len(y)), self._settings()
        seed = drawn_seed(self.random_state)
        params, split_params = expert_params(self, [*experts, *shared], sample_weight, weight, groups)
        splits = [] if self.cv == "prefit" else make_splits(self.cv, X, y, split_params, seed)
        source = np.arange(len(y)) if numbers is None else numbers
        used, inputs = self._fit_rows(FitRows(X, y, weight, groups, splits, params, source), settings, seed)
        unit_weight = float(used.weight.mean())
        task = TrainingTask(
            X=used.X,
            y=used.y,
            sample_weight=used.weight / unit_weight,
            routed=Pool(experts, used.params, self.n_jobs, seed=seed, missing=True),
            shared=Pool(shared, used.params, self.n_jobs, seed=seed),
            splits=used.splits,
            inputs=inputs,
            gates=chosen_gates(self.gates, len(experts), self._asks_all()),
            ks=self._ks(len(experts)),
            settings=settings,
            seed=seed,
            groups=used.groups,
            source=used.source,
            alike=used.alike,
            place=used.place,
        )
        self._keep(task, self._train(task, used.source), inputs, unit_weight, used.source)
        return self

    def predict(self, X: Any, return_std: bool = False, readout: str | None = None) -> Any:
        """The mixture at every row, (n,); with ``return_std`` its standard deviation, too.

        mean +- 1.645 sd is meant to hold 90 % of the responses. ``readout`` overrides the settings. A dask array or
        data frame gives dask arrays, which are computed block by block.
        """
        if hasattr(X, "__dask_graph__"):
            found = lazy_answers(self, "predict", X, 2 * return_std, return_std=return_std, readout=readout)
            return (found[:, 0], found[:, 1]) if return_std else found
        X, shares = self._rows_and_shares(X, readout)
        router = self._router
        if not (return_std or router.needs_forecasts(shares)):
            weights = router.mean_weights(shares, router.rows(X))
            return self._always(X) + self._sparse_mixture(X, weights)
        rows = router.rows(X, self._guarded(X)[0])
        weights = router.fitted.mean_weights(shares, rows)
        mean = self._always(X) + np.einsum("im,im->i", weights, rows.F)
        mean += sum(router.fitted.shared_parts(shares, rows).values())
        return (mean, self._scale.sd(disagreement(weights, rows.F))) if return_std else mean

    def gate_weights(self, X: Any, readout: str | None = None) -> Floats:
        """The weight of every expert at every row, (n, M), each row on the simplex."""
        X, shares = self._rows_and_shares(X, readout)
        F = self._guarded(X)[0] if self._router.weights_need_forecasts(shares) else None
        return self._router.mean_weights(shares, self._router.rows(X, F))

    def explain(self, X: Any, readout: str | None = None) -> dict[str, Floats]:
        """What each prediction is made of, by name, (n,) each; the columns have the sum ``predict(X)``.

        The columns are an "intercept", the shared parts (the linear correction, learners on inputs and forecasts,
        shared experts), and for every expert its weight times its forecast. A part that has the name of an expert,
        such as "forest", is called "forest (shared part)". ``pandas.DataFrame`` takes the result.
        """
        X, shares = self._rows_and_shares(X, readout)
        rows = self._router.rows(X, self._guarded(X)[0])
        always = Pool(self._shared, n_jobs=self.n_jobs).predict(X)
        weighed = self._router.view.spread_out(self._router.fitted.mean_weights(shares, rows) * rows.F)
        experts = {name: always[:, j] for j, (name, _) in enumerate(self._shared)}
        experts |= {name: weighed[:, m] for m, name in enumerate(self._router.names)}
        parts = {"intercept": np.zeros(len(rows)), **self._router.fitted.shared_parts(shares, rows)}
        named = {f"{name} (shared part)" if name in experts else name: values for name, values in parts.items()}
        if named.keys() & experts.keys():
            raise ValueError(f"an expert has the name of a shared part, {', '.join(named.keys() & experts.keys())}")
        return {**named, **experts}

    def guarded_rows(self, X: Any) -> NDArray[np.bool_]:
        """Where an expert's forecast is set aside because it cannot be meant, (n, M); see `ForecastGuard`."""
        check_is_fitted(self)
        return self._guarded(checked_rows(self, X))[1]

    def transform(self, X: Any) -> Floats:
        """The forecasts of the experts as the mixture takes them, (n, M): see `guarded_rows` for those set aside."""
        check_is_fitted(self)
        return self._guarded(checked_rows(self, X))[0]

    def candidate_forecasts(self, X: Any) -> Floats:
        """The forecasts of all candidates, (n, S), without the shared experts."""
        check_is_fitted(self)
        X = checked_rows(self, X)
        return self._router.candidate_forecasts(X, self._guarded(X)[0])

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, update_experts: bool = False) -> Self:
        """Continue the aggregation on new rows, in the order given; gates stay as they are.

        AFTER with forgetting updates the weights of the candidates, so that the best one may change; the scales and
        the standard deviation of predictions follow the errors. Verdict and regions stay those of ``fit``.
        ``online_predictions_`` grows by the predictions of these rows, each made before its response was seen. With
        ``update_experts``, routed experts that have ``partial_fit`` are updated on these rows afterwards, without
        sample weights; the others stay. A row of weight 0 is predicted, and teaches nothing.
        """
        if not hasattr(self, "verdict_"):
            return self.fit(X, y, sample_weight)
        return self._add_rows(X, y, sample_weight, update_experts)

    @all_or_nothing
    def _add_rows(self, X: Any, y: Any, sample_weight: Any, update_experts: bool) -> Self:
        """`partial_fit` of a model that is fitted."""
        X, y, weight = checked_sample(self, X, y, sample_weight, reset=False)
        always, settings = self._always(X), self._settings()
        loss, weight = ResidualLoss(y - always, settings.density), weight / self._unit_weight
        F, guard = self._guard.continued(self._pool().predict(X), y - always, weight)
        router = self._router.continued(X, F, loss, weight)
        router = replace(router, view=replace(router.view, guard=guard))
        online = router.mixing.online + always
        shares = router.shares("aggregate")
        rows = router.rows(X, F)
        apart = disagreement(router.fitted.mean_weights(shares, rows), rows.F)
        self._scale = self._scale.continued(y - online, apart, weight)
        self._keep_router(router)
        self.sigma_ = router.mixing.scale
        self.online_predictions_ = np.concatenate([getattr(self, "online_predictions_", np.empty(0)), online])
        if update_experts:
            experts: list[Any] = deepcopy(self.experts_)  # one that came fitted stays as it was
            kept = np.flatnonzero(weight)
            for expert in experts if len(kept) else []:
                if hasattr(expert, "partial_fit"):
                    expert.partial_fit(_safe_indexing(X, kept), (y - always)[kept])
            self.experts_ = experts
        return self

    def _keep(
        self, task: TrainingTask, trained: Trained, inputs: GateInputs, unit_weight: float, source: Indices
    ) -> None:
        """The fitted attributes; ``source`` (n,) has the rows that were given of the rows of the fit."""
        fit, names, now = trained.fit, [name for name, _ in task.routed.experts], RUNNING.get()
        if now is not None:
            now.stage("verdict and regions")
        single_k = None if self._asks_all() else int(self.k)
        router = FittedRouter.from_fit(
            fit, trained.view, task.X, inputs, names, task.sample_weight, trained.signal, single_k
        )
        residual = task.y[fit.rows] - trained.always[fit.rows] - fit.forecasts
        scale = PredictionScale.fit(residual, disagreement(fit.weights, fit.F), task.sample_weight[fit.rows])
        always = trained.always[fit.rows]
        self.out_of_fold_ = OutOfFold(
            source[fit.rows], task.y[fit.rows], fit.F, fit.weights, fit.forecasts + always, fit.stack + always
        )
        self.online_predictions_ = np.empty(0)
        self.experts_, self.shared_, self.history_ = trained.routed, trained.shared, trained.history
        self._shared = list(zip(task.shared.names, trained.shared, strict=True))
        self.gain_over_constant_ = _gain_over_mean(task.y[fit.rows], residual, task.sample_weight[fit.rows])
        self._scale = scale
        self._unit_weight: float = unit_weight
        self._rows_learned = len(np.unique(source[fit.learned]))
        self.sigma_ = router.mixing.scale
        self._keep_router(router)

    def _pool(self) -> Pool:
        """The fitted experts."""
        return Pool(list(zip(self._router.names, self.experts_, strict=True)), n_jobs=self.n_jobs, missing=True)

    def _guarded(self, X: Any) -> tuple[Floats, NDArray[np.bool_]]:
        """The experts' forecasts with those replaced that cannot be meant, and where that was, (n, M) each."""
        return self._guard.apply(self._pool().predict(X))

    @property
    def _guard(self) -> ForecastGuard:
        guard = self._router.view.guard
        assert isinstance(guard, ForecastGuard)
        return guard

    def _sparse_mixture(self, X: Any, weights: Floats) -> Floats:
        """The mixture by weights (n, M), (n,), asking each expert for the rows where it has weight.

        Only at rows where an answer is out of range are all experts asked, as the guard compares them.
        """
        pool, guard = self._pool(), self._guard
        total, doubtful = np.zeros(len(weights)), np.zeros(len(weights), dtype=np.bool_)
        for m, rows, part, forecasts in pool.answers(X, nonzero_assignments(weights)):
            total[rows] += part * forecasts
            doubtful[rows] |= guard.doubts(m, forecasts)
        if doubtful.any():
            rows = np.flatnonzero(doubtful)
            F, _ = guard.apply(pool.predict(_safe_indexing(X, rows)), rows)
            total[rows] = np.einsum("im,im->i", weights[rows], F)
        return total

    def _always(self, X: Any) -> Floats:
        """The sum of the shared experts' predictions, (n,)."""
        return Pool(self._shared, n_jobs=self.n_jobs).total(X)


def _gain_over_mean(y: Floats, residual: Floats, sample_weight: Floats) -> float:
    """R2 of predictions with residuals (n,) of responses y (n,): 1 less the mean square over the variance of y."""
    variance = float(np.average((y - np.average(y, weights=sample_weight)) ** 2, weights=sample_weight))
    return 1.0 - float(np.average(residual**2, weights=sample_weight)) / variance if variance > 0.0 else np.nan


def _named(experts: Any) -> list[tuple[str, Any]]:
    """Pairs (name, expert); an empty list if these are not experts, for which ``fit`` raises an error."""
    try:
        return named_experts(experts)
    except (TypeError, ValueError):
        return []
