"""`MoEClassifier`: a pool of classifiers and a gate that says which to use where."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import ClassifierMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from gatewise.arrays import Floats, Indices
from gatewise.estimators.class_labels import checked_labels, plain_labels
from gatewise.estimators.class_splits import class_splits
from gatewise.estimators.floored_classifiers import all_classes
from gatewise.estimators.large_rows import lazy_answers
from gatewise.estimators.moe_regressor import RoutedEstimator
from gatewise.estimators.row_copies import FitRows
from gatewise.estimators.validation import (
    all_or_nothing,
    checked_experts,
    checked_groups,
    checked_rows,
    chosen_gates,
    drawn_seed,
    expert_params,
)
from gatewise.experts.calibrated_classifiers import CalibratedClassifiers
from gatewise.experts.class_expert import ClassExpert
from gatewise.experts.pool import named_experts, NamedExperts, nonzero_assignments, Pool
from gatewise.gates.inputs import GateInputs
from gatewise.losses import LogLoss
from gatewise.progress import RUNNING
from gatewise.router.class_rows import ClassOutOfFold, ClassRows, ProbabilityFloor
from gatewise.router.class_scores import ClassScores
from gatewise.router.fitted_router import FittedRouter, held_out_regions
from gatewise.router.members import ListRows
from gatewise.router.settings import MoESettings
from gatewise.router.training import Trained, TrainingTask
from gatewise.router.verdict import RegionTable

UNKNOWN: Indices = np.empty(0, dtype=np.intp)
MODEL, STACK, SHARED_PART = "model", "convex stack", " (shared part)"  # names in held_out_scores_ and explain


class MoEClassifier(ClassifierMixin, RoutedEstimator):  # type: ignore[misc]
    """Combines classifiers by a gate that is learned from their held-out probabilities, with the log loss.

    p(c | x) = sum_m g_m(x) p_m(c | x), averaged over a list of gates and stacks by AFTER. Nothing may be added to a
    probability, so there are no shared experts; members of the list that are no mixture of the experts, such as a
    logistic stack, enter as their difference to the convex stack.

    Parameters
    ----------
    experts : list of classifiers, or of (name, classifier) pairs
        With ``predict_proba``; one with ``decision_function`` only is calibrated by a sigmoid that is fitted to
        held-out decisions (`CalibratedClassifiers`), and one with labels only by a smoothed confusion matrix
        (`ClassExpert`). Probabilities are bounded away from 0 by a floor that is learned from held-out rows
        (`ProbabilityFloor`).
    gates, k, n_jobs, random_state, settings
        As in `MoERegressor`. ``settings.correct`` is whether the list has tempered, log-linear and logistic stacks,
        "boosted" in ``settings.learners`` whether it has boosted ones; ``settings.noise`` has no meaning here.
    cv : int, splitter, iterable of splits, "prefit" or None
        As in `MoERegressor`; None is a shuffled `StratifiedKFold` of five, or `StratifiedGroupKFold` if ``fit`` is
        given groups. The training rows of a split must not tell which class it holds out, as those of a
        `LeaveOneOut` do (`told_by_shares`). With "prefit", ``classes_`` has the classes of y and all that the experts
        know.
    cost : None, number or array (C, C)
        What ``predict`` decides by. None: the most probable class. A number t: of two classes the second, where its
        probability is at least t. A matrix: the class with the least expected cost, where cost[j, c] is that of
        deciding for class c when class j is true, both in the order of ``classes_``.
    verbose : 0, 1 or 2
        1 shows the stages of the fit, 2 also the pieces of each; `gatewise.progress.listen` tells them to a function.
    device : str or None
        Where softmax gates are fitted: ``None`` for compiled code on the CPU, "cuda" for a GPU
        (`gatewise[nn]`), "cpu" for PyTorch on the CPU. All else stays on the CPU.
    shared : empty sequence
        Must stay empty. `MoERegressor` adds the predictions of its shared experts to the mixture; nothing may be
        added to a probability.

    Attributes
    ----------
    classes_ : array (C,)
    verdict_, experts_, candidates_, weights_, selected_, history_, stack_weights_
        As in `MoERegressor`; errors and gains are log losses.
    log_loss_ : array (S,)
        The held-out log loss of every candidate.
    calibration_error_ : array (S,)
        The expected calibration error of its held-out probabilities; NaN where there are more than two classes and
        the candidate's share is below 0.01.
    floor_ : array (M,)
        The part of the class frequencies that is mixed into the probabilities of every expert.
    out_of_fold_ : ClassOutOfFold
        Probabilities and gate weights of every row, from the fit that held it out; with more than 256 experts without
        the rows that chose those in the list.
    held_out_scores_ : dict of ClassScores
        Log loss, Brier score, accuracy, AUC and calibration error of the model, the convex stack and every expert.
    gain_over_constant_ : float
        The part of the log loss of the class frequencies that predictions save on held-out rows.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (300, 2))
    >>> y = np.where(np.where(X[:, 0] < 0, X[:, 1], np.sin(9 * X[:, 1])) > 0, "yes", "no")
    >>> model = MoEClassifier([LogisticRegression(), KNeighborsClassifier()], random_state=0).fit(X, y)
    >>> model.predict_proba(X[:5]).shape, model.gate_weights(X[:5]).shape
    ((5, 2), (5, 2))
    """

    _pool_: Pool
    _unit_weight: float
    online_probabilities_: Floats

    def __init__(
        self,
        experts: Sequence[Any],
        gates: Any = "auto",
        k: Any = "auto",
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        settings: MoESettings | None = None,
        cost: Any = None,
        verbose: int = 0,
        device: str | None = None,
        shared: Sequence[Any] = (),
    ) -> None:
        self.experts = experts
        self.gates = gates
        self.k = k
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.settings = settings
        self.cost = cost
        self.verbose = verbose
        self.device = device
        self.shared = shared

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the experts, learn the gate from their held-out probabilities, and refit the experts on all rows.

        Sample weights that are whole numbers, unless they are large, count copies of rows; others are relative.
        """
        experts, numbers = self._checked_experts(), None
        if hasattr(X, "__dask_graph__") or (isinstance(self.cv, str) and self.cv == "prefit"):
            given = {"y": y, "sample_weight": sample_weight, "groups": groups}
            X, (y, sample_weight, groups), numbers = self._in_memory(X, len(experts), **given)
        X, labels, weight = checked_labels(self, X, y, sample_weight, reset=True)
        groups = checked_groups(groups, len(labels))
        prefit, classes = isinstance(self.cv, str) and self.cv == "prefit", np.unique(labels)
        if len(counted := np.unique(labels[weight > 0.0])) < 2:
            where = "" if len(classes) < 2 else " among the rows of positive sample_weight"
            raise ValueError(f"y must have at least two classes, but has one class{where}, {counted.tolist()[0]!r}")
        if prefit and len(known := all_classes(labels, experts)) > len(classes):
            classes = known
        codes = np.searchsorted(classes, labels)
        self.classes_, settings = classes, self._settings()
        self._checked_cost()
        seed = drawn_seed(self.random_state)
        params, split_params = expert_params(self, experts, sample_weight, weight, groups)
        splits = [] if prefit else class_splits(self.cv, X, codes, weight, split_params, seed)
        source, target = np.arange(len(codes)) if numbers is None else numbers, codes.astype(np.float64)
        used, inputs = self._fit_rows(FitRows(X, target, weight, groups, splits, params, source), settings, seed)
        unit_weight = float(used.weight.mean())
        task = TrainingTask(
            X=used.X,
            y=used.y,
            sample_weight=used.weight / unit_weight,
            routed=CalibratedClassifiers(
                self._wrapped(experts, prefit, seed),
                used.params,
                self.n_jobs,
                outputs=(len(classes),),
                seed=seed,
                sample_weight=used.weight,
            ),
            shared=Pool([]),
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
        self._unit_weight = unit_weight
        self._keep(task, self._train(task, used.source), inputs, used.source)
        return self

    def predict_proba(self, X: Any, readout: str | None = None) -> Floats:
        """The probability of every class, (n, C), in the order of ``classes_``; of a dask collection a dask array."""
        if hasattr(X, "__dask_graph__"):
            check_is_fitted(self)
            return lazy_answers(self, "predict_proba", X, len(self.classes_), readout=readout)  # type: ignore[no-any-return]
        X, shares = self._rows_and_shares(X, readout)
        router = self._router
        if router.needs_forecasts(shares):
            rows = self._rows(X)
            total = self._mixture(router.fitted.mean_weights(shares, rows), rows)
            for part in router.fitted.shared_parts(shares, rows).values():
                total += part
        else:
            total = self._sparse_mixture(X, router.mean_weights(shares, router.rows(X)))
        total = np.maximum(total, 0.0)  # rounding
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def predict(self, X: Any, readout: str | None = None) -> NDArray[Any]:
        """The label of every row, (n,), as ``cost`` decides; a dask array for a dask collection."""
        if hasattr(X, "__dask_graph__"):
            check_is_fitted(self)
            return lazy_answers(self, "predict", X, kind=self.classes_.dtype, readout=readout)  # type: ignore[no-any-return]
        p, cost = self.predict_proba(X, readout), self._checked_cost()
        if cost is None:
            return np.asarray(self.classes_[p.argmax(axis=1)])
        decided = (p[:, 1] >= cost).astype(np.intp) if cost.ndim == 0 else (p @ cost).argmin(axis=1)
        return np.asarray(self.classes_[decided])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy of ``predict`` on rows X with labels y (n,), of any type that ``fit`` takes."""
        return float(super().score(X, plain_labels(y), sample_weight))

    def gate_weights(self, X: Any, readout: str | None = None) -> Floats:
        """The weight of every expert at every row, (n, M), each row on the simplex."""
        X, shares = self._rows_and_shares(X, readout)
        rows = self._rows(X) if self._router.weights_need_forecasts(shares) else self._router.rows(X)
        return self._router.mean_weights(shares, rows)

    def explain(self, X: Any, readout: str | None = None) -> dict[str, Floats]:
        """What the probabilities are made of, by name, (n, C) each; they have the sum ``predict_proba(X)``.

        For every expert its weight times its probabilities, and for every stack that is no mixture of the experts its
        share times its difference to the convex stack.
        """
        X, shares = self._rows_and_shares(X, readout)
        rows = self._rows(X)
        assert rows.classes is not None
        weighed = self._router.fitted.mean_weights(shares, rows)[:, :, None] * rows.classes.probabilities
        used = {int(m): weighed[:, place] for place, m in enumerate(self._router.view.distinct)}
        experts = {name: used.get(m, 0.0 * weighed[:, 0]) for m, name in enumerate(self._router.names)}
        parts = self._router.fitted.shared_parts(shares, rows)
        named = {f"{name}{SHARED_PART}" if name in experts else name: part for name, part in parts.items()}
        return {**named, **experts}

    def expert_probabilities(self, X: Any) -> Floats:
        """The probabilities of the experts with their floors, (n, M, C)."""
        check_is_fitted(self)
        return self._floored(checked_rows(self, X))

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, update_experts: bool = False
    ) -> Self:
        """Continue the aggregation on new rows, in the order given; gates stay as they are.

        As in `MoERegressor`. ``online_probabilities_`` grows by the probability of the class of each of these rows,
        given before it was seen. A first call is a fit; ``classes`` must then be those of y, and in later calls those
        of the fit. With ``update_experts`` an expert learns the rows whose classes it knows; its sigmoid or confusion
        matrix stays.
        """
        first = not hasattr(self, "verdict_")
        if classes is not None:
            _check_classes(plain_labels(classes), np.unique(plain_labels(y)) if first else self.classes_, first)
        if first:
            return self.fit(X, y, sample_weight)
        return self._add_rows(X, y, sample_weight, update_experts)

    @all_or_nothing
    def _add_rows(self, X: Any, y: Any, sample_weight: Any, update_experts: bool) -> Self:
        """`partial_fit` of a model that is fitted."""
        X, labels, weight = checked_labels(self, X, y, sample_weight, reset=False)
        strange = np.flatnonzero(~np.isin(labels, self.classes_))
        if len(strange):
            raise ValueError(f"y has the label {labels[strange].tolist()[0]!r}, which fit has not seen; fit again")
        rows = ClassRows(self._floored(X), np.searchsorted(self.classes_, labels))
        rows = rows.of_experts(self._router.view.distinct)
        router = self._router.continued(X, rows.observed, LogLoss(), weight / self._unit_weight, rows)
        self._keep_router(router)
        self.online_probabilities_ = np.concatenate([self.online_probabilities_, router.mixing.online])
        if update_experts:
            kept = np.flatnonzero(weight)
            if len(kept):
                self._update_experts(_safe_indexing(X, kept), labels[kept])
        return self

    def region_table(self, measure: str = "log loss") -> RegionTable:
        """Per expert: where it leads, its loss there beside the runner-up's, and its region in words.

        ``measure`` is "log loss", or "errors" for the fraction of rows whose most probable class is wrong.
        """
        check_is_fitted(self)
        if measure not in ("log loss", "errors"):
            raise ValueError(f"measure must be 'log loss' or 'errors', not {measure!r}")
        return self._router.regions if measure == "log loss" else self._error_regions

    def _checked_experts(self) -> NamedExperts:
        """The experts as pairs (name, classifier), or an error that says what is wrong with them."""
        if added := [name for name, _ in named_experts(self.shared, "shared", least=0)]:
            raise ValueError(
                f"shared must be empty, not {added}: nothing may be added to a probability, so a classifier has no "
                "shared experts; put these into experts"
            )
        experts, _ = checked_experts(self.experts, (), "classifier")
        _check_names([name for name, _ in experts])
        return experts

    def _wrapped(self, experts: Sequence[tuple[str, Any]], prefit: bool, seed: int) -> list[tuple[str, ClassExpert]]:
        """The experts as ones that answer with probabilities of all classes."""
        if prefit:
            return [(name, ClassExpert.of_fitted(one, self.classes_, name)) for name, one in experts]
        return [(name, ClassExpert(one, self.classes_, seed)) for name, one in experts]

    def _keep(self, task: TrainingTask, trained: Trained, inputs: GateInputs, source: Indices) -> None:
        """The fitted attributes; ``source`` (n,) has the rows that were given of the rows of the fit."""
        fit, names, labels, now = trained.fit, task.routed.names, self.classes_, RUNNING.get()
        if now is not None:
            now.stage("verdict and regions")
        single_k = None if self._asks_all() else int(self.k)
        outcome = task.y[fit.rows].astype(np.intp)
        self._keep_router(
            FittedRouter.from_fit(
                fit, trained.view, task.X, inputs, names, task.sample_weight, trained.signal, single_k
            )
        )
        wrong = (fit.experts.argmax(axis=2) != outcome[:, None]).astype(np.float64)
        self._error_regions = held_out_regions(fit, wrong, task.X, inputs, names, task.sample_weight)
        self._pool_ = Pool(
            list(zip(names, trained.routed, strict=True)), n_jobs=self.n_jobs, outputs=task.routed.outputs
        )
        self.experts_, self.history_ = [expert.fitted for expert in trained.routed], trained.history
        self.log_loss_, self.calibration_error_ = fit.errors, fit.calibration
        self.online_probabilities_ = np.empty(0)
        self._rows_learned = len(np.unique(source[fit.learned]))
        self.out_of_fold_ = ClassOutOfFold(
            source[fit.rows], labels[outcome], outcome, fit.experts, fit.weights, fit.probabilities, fit.stacked
        )
        answers = {MODEL: fit.probabilities, STACK: fit.stacked}
        answers |= {name: fit.experts[:, m] for m, name in enumerate(names)}
        weight = task.sample_weight[fit.rows]
        self.held_out_scores_ = {name: ClassScores.of(p, outcome, weight) for name, p in answers.items()}
        frequency = np.bincount(outcome, weight) / weight.sum()
        entropy = float(special.entr(frequency).sum())
        self.gain_over_constant_ = 1.0 - self.held_out_scores_[MODEL].log_loss / entropy if entropy > 0.0 else np.nan

    @property
    def floor_(self) -> Floats:
        """The part of the class frequencies in the probabilities of every expert, (M,)."""
        check_is_fitted(self)
        return self._floor.floor

    @property
    def _floor(self) -> ProbabilityFloor:
        floor = self._router.view.guard
        assert isinstance(floor, ProbabilityFloor)
        return floor

    def _checked_cost(self) -> Floats | None:
        """The cost as an array, a threshold () or a matrix (C, C); None for the most probable class."""
        if self.cost is None:
            return None
        C = len(self.classes_)
        try:
            given = np.asarray(self.cost, dtype=np.float64)
        except (TypeError, ValueError):  # no numbers, or rows of different lengths
            given = np.empty(0)
        threshold = given.ndim == 0 and C == 2 and bool(0.0 < given < 1.0)
        if not threshold and (given.shape != (C, C) or not np.isfinite(given).all()):
            raise ValueError(
                f"cost must be None, a threshold between 0 and 1 for two classes, or a finite ({C}, {C}) matrix for "
                f"these {C} classes, not {self.cost!r}"
            )
        return given

    def _floored(self, X: Any) -> Floats:
        """The experts' probabilities with their floors, (n, M, C)."""
        return self._floor.apply(self._pool_.predict(X))

    def _rows(self, X: Any) -> ListRows:
        """What the candidates see of the rows of X: the probabilities of the experts in the list."""
        classes = ClassRows(self._floored(X), UNKNOWN).of_experts(self._router.view.distinct)
        return self._router.rows(X, None, classes)

    def _mixture(self, weights: Floats, rows: ListRows) -> Floats:
        assert rows.classes is not None
        return np.asarray(np.einsum("im,imc->ic", weights, rows.classes.probabilities))

    def _sparse_mixture(self, X: Any, weights: Floats) -> Floats:
        """The mixture by weights (n, M), (n, C), asking each expert for the rows where it has weight."""
        total = np.zeros((len(weights), len(self.classes_)))
        for m, rows, part, p in self._pool_.answers(X, nonzero_assignments(weights)):
            total[rows] += part[:, None] * self._floor.apply_one(m, p)
        return total

    def _update_experts(self, X: Any, labels: NDArray[Any]) -> None:
        """Update the experts that have ``partial_fit``, in copies: one that came fitted stays as it was."""
        experts = deepcopy(self._pool_.models)
        for expert in experts:
            expert.update(X, labels)
        self._pool_ = self._pool_.with_models(experts)
        self.experts_ = [expert.fitted for expert in experts]


def _check_names(names: Sequence[str]) -> None:
    """An error for an expert whose name another entry of ``held_out_scores_`` or of ``explain`` has."""
    for name in names:
        if name in (MODEL, STACK) or name.endswith(SHARED_PART):
            taken = "held_out_scores_" if name in (MODEL, STACK) else "explain"
            raise ValueError(f"experts: {name!r} is the name of another entry of {taken}; take another")


def _check_classes(given: NDArray[Any], known: NDArray[Any], first: bool) -> None:
    """An error where the ``classes`` of a partial fit are not those that are known, from the first rows or a fit."""
    if set(given.tolist()) != set(known.tolist()):
        what = "those of the first rows, as experts are fitted to them" if first else "those of the fit"
        raise ValueError(f"classes must be {what}, {known.tolist()}, not {given.tolist()}")
