"""Named experts that are fitted and asked for predictions together; an error says which of them failed.

Names are given by the user, or made from the type of the expert.
"""

import copy
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, count
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import delayed, Parallel
from sklearn.utils.validation import _check_method_params, has_fit_parameter

from gatewise.arrays import as_floats, Floats, Indices
from gatewise.backends import sent_once
from gatewise.experts.protocol import can_predict, Expert, RowError
from gatewise.progress import RUNNING

NamedExperts: TypeAlias = list[tuple[str, Any]]
ATTEMPTS = 4  # to fit experts on a cluster that loses workers
Split = tuple[Indices, Indices]  # the rows that experts are fitted on, and those that are held out


def bounded_jobs(n_jobs: int | None) -> int | None:
    """The number of jobs, but at most eight or two a core: more would only start, and take memory.

    >>> bounded_jobs(2), bounded_jobs(100_000) < 100_000
    (2, True)
    """
    if n_jobs is None:
        return None
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than 0, or None, not {n_jobs!r}")
    return int(min(n_jobs, max(8, 2 * (os.cpu_count() or 1))))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Out-of-fold forecasts: N entries, one for each time that a row was held out.

    ``rows`` (N,) are the rows, ``fold`` (N,) the split that held each out, ``F`` (N, M) the experts' forecasts, or
    (N, M, C) their probabilities of C classes, and ``train`` the rows that the experts of each split were fitted on.
    ``nested`` (K, N, M), where experts were fitted for it, has for each of K folds the forecasts for what is learned
    without the fold: at the entries of another fold by experts that were fitted to the rows of neither, at the
    entries of the fold itself the out-of-fold forecasts.
    """

    rows: Indices
    fold: Indices
    F: Floats
    train: tuple[Indices, ...]
    nested: Floats | None = None

    @property
    def in_time(self) -> bool:
        """Whether rows are held out in time: there are several splits, and each is fitted only on earlier rows."""
        return len(self.train) > 1 and all(
            part.size > 0 and self.rows[self.fold == number].min(initial=part.max() + 1) > part.max()
            for number, part in enumerate(self.train)
        )

    def part(self, entries: Indices) -> "HeldOut":
        """Some of the entries, without nested forecasts; the experts of each split were fitted on the same rows."""
        return replace(self, rows=self.rows[entries], fold=self.fold[entries], F=self.F[entries], nested=None)

    def in_order(self, place: Indices) -> "HeldOut":
        """The entries of each fold by the places (n,) of their rows."""
        order = np.lexsort((place[self.rows], self.fold))
        return replace(self.part(order), nested=None if self.nested is None else self.nested[:, order])

    def learners(self) -> Iterator[tuple[Indices, Indices]]:
        """For every split: the entries that a gate may be fitted to, and the entries that it then predicts.

        The former are the entries of the split's training rows, wherever these were held out.
        """
        for number, part in enumerate(self.train):
            yield np.flatnonzero(np.isin(self.rows, part)), np.flatnonzero(self.fold == number)


@dataclass(frozen=True, eq=False)
class Pool:
    """Named experts, and how they are fitted and asked for predictions.

    ``experts`` are M pairs (name, expert); ``params`` holds the keywords for the fit of each, by name; ``n_jobs`` is
    the number of processes (1: this one only; None: as joblib's context says); ``kind`` is the word for one of them
    in an error. ``outputs`` is the shape of an expert's answer at one row: () for a number, (C,) for probabilities of
    C classes, which become a last axis of every array of forecasts. An expert whose random_state is None is fitted
    with a seed that follows from ``seed``, if given. With ``missing`` a forecast may be NaN, where an expert says so
    (``may_miss``, as a `ColumnExpert` does).

    An error that an expert raises keeps its type and gets a note with the name of the expert. An answer that is not
    one finite number per row is a ValueError that names the expert.
    """

    experts: Sequence[tuple[str, Any]]
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    n_jobs: int | None = 1
    kind: str = "expert"
    outputs: tuple[int, ...] = ()
    seed: int | None = None
    missing: bool = False

    @classmethod
    def of(cls, experts: Iterable[Any], argument: str = "experts", least: int = 1, kind: str = "expert") -> Self:
        """The pool of experts or (name, expert) pairs, as `named_experts` takes them.

        >>> Pool.of([lambda X: X[:, 0], ("zero", lambda X: 0.0 * X[:, 0])]).predict(np.ones((2, 1)))
        array([[1., 0.],
               [1., 0.]])
        """
        return cls(named_experts(experts, argument, least), kind=kind)

    def __len__(self) -> int:
        return len(self.experts)

    @property
    def names(self) -> list[str]:
        """The names of the experts, in their order."""
        return [name for name, _ in self.experts]

    @property
    def models(self) -> list[Any]:
        """The experts without their names, in their order."""
        return [expert for _, expert in self.experts]

    @property
    def can_predict(self) -> bool:
        """Whether every expert can predict without being fitted first."""
        return not self.unfitted()

    def unfitted(self) -> list[tuple[str, Any]]:
        """The pairs (name, expert) of those that have to be fitted before they can predict."""
        return [(name, expert) for name, expert in self.experts if not can_predict(expert)]

    def with_models(self, models: Iterable[Any]) -> Self:
        """The pool with other experts under the same names."""
        return replace(self, experts=list(zip(self.names, models, strict=True)))

    def fit(self, X: Any, targets: Floats, splits: Sequence[Split]) -> tuple[list[Any], HeldOut]:
        """The experts fitted on all rows, and their forecasts on the rows that each split holds out.

        ``targets`` is (n,) for all experts, or (n, M).
        """
        models, held, _ = self._fit_and_hold_out(X, targets, splits, [])
        return models, held

    def fit_nested(self, X: Any, targets: Floats, splits: Sequence[Split]) -> tuple[list[Any], HeldOut]:
        """As `fit`, with nested forecasts: the experts are also fitted without each pair of folds.

        Every pair must leave rows to fit to.
        """
        pairs = _pairs_of_folds(splits)
        models, held, done = self._fit_and_hold_out(X, targets, splits, list(pairs.values()))
        return models, replace(held, nested=_nested(held, list(pairs), done))

    def _fit_and_hold_out(
        self, X: Any, targets: Floats, splits: Sequence[Split], others: Sequence[Split]
    ) -> tuple[list[Any], HeldOut, list[list[tuple[Any, Floats]]]]:
        """The experts fitted on all rows, their forecasts on the splits, and the results of the other splits."""
        everything = (np.arange(len(targets)), np.empty(0, dtype=np.intp))
        done = self._fit_splits(X, targets, [everything, *splits], f"{self.kind}s", others)
        held = _collect(splits, done[1 : 1 + len(splits)])
        return [model for model, _ in done[0]], held, done[1 + len(splits) :]

    def hold_out(self, X: Any, targets: Floats, splits: Sequence[Split]) -> HeldOut:
        """The experts' forecasts on the rows that each split holds out, without a fit to all rows."""
        return _collect(splits, self._fit_splits(X, targets, splits, f"{self.kind}s of the test"))

    def _fit_splits(
        self, X: Any, targets: Floats, splits: Sequence[Split], stage: str, pairs: Sequence[Split] = ()
    ) -> list[list[tuple[Any, Floats]]]:
        """The results of `_fit_one` for every split, and within it for every expert; a ``stage`` of the progress.

        After the splits come those that hold out ``pairs`` of folds.
        """
        labels, splits = [*_fold_labels(splits), *([" (without two folds)"] * len(pairs))], [*splits, *pairs]
        n, M = len(targets), len(self.experts)
        columns, params = targets.reshape(n, -1), [self.params.get(name, {}) for name in self.names]
        given = [X, columns, *chain(*splits), *chain(*(own.values() for own in params))]
        copies = [UnfittedCopies.of(expert, self._label(name)) for name, expert in self._seeded()]
        done, now = [], RUNNING.get()
        if now is not None:
            now.stage(stage, M * len(splits))

        jobs = bounded_jobs(self.n_jobs)
        alone = _is_alone(jobs)

        def task(number: int) -> tuple[Any, ...]:
            split, m = divmod(number, M)
            known = alone and split > 0 and copies[m].simple
            label = copies[m].label + labels[split]
            about = label, m % columns.shape[1], self.outputs, self.missing, known, tuple(params[m])
            return about, copies[m].make(), X, columns, *splits[split], *params[m].values()

        for result in _results(task, M * len(splits), given, jobs, alone):
            done.append(result)
            if now is not None:
                now.step(self.experts[(len(done) - 1) % M][0])
        return [done[M * number : M * (number + 1)] for number in range(len(splits))]

    def _seeded(self) -> list[tuple[str, Any]]:
        """The experts, with copies of those that would draw a seed of their own."""
        if self.seed is None:
            return list(self.experts)
        return [(name, with_seed(expert, self.seed)) for name, expert in self.experts]

    def seeded(self, seed: int) -> Self:
        """The pool with the seed in copies of those experts that are not fitted and have none of their own.

        The copies are deep ones, as in `fit_unfitted`.
        """
        unfitted = self.unfitted()
        copies = dict(zip((name for name, _ in unfitted), copy.deepcopy([one for _, one in unfitted]), strict=True))
        seeds = {name: _open_seeds(model, seed) for name, model in copies.items()}
        drawn = {name: copies[name].set_params(**own) for name, own in seeds.items() if own}
        return self.with_models(drawn.get(name, expert) for name, expert in self.experts)

    def weighted(self, sample_weight: Floats | None, rows: Indices) -> Self:
        """The pool whose experts, where they take them, are fitted with the sample weights (n,) of these rows."""
        own = None if sample_weight is None else sample_weight[rows]
        return replace(self, params={name: weight_params(expert, own) for name, expert in self.experts})

    def fit_unfitted(self, X: Any, y: Floats) -> Self:
        """A pool in which every expert can predict: copies of the unfitted ones are fitted to the rows, others stay.

        The fits get ``params``. The copies are deep copies and not made by `clone`, which would undo the fit of
        experts inside of an unfitted one. All are copied at once, so that an expert that several of them hold is
        copied once for all.
        """
        unfitted = self.unfitted()
        models = copy.deepcopy([expert for _, expert in unfitted])
        copies = {name: model for (name, _), model in zip(unfitted, models, strict=True)}
        now = RUNNING.get()
        for name, model in copies.items():
            seeds = {} if self.seed is None else _open_seeds(model, self.seed)
            if seeds:
                model.set_params(**seeds)
            with Noting(f"raised by {self._label(name)} in its fit to {len(y)} rows"):
                model.fit(X, y, **self.params.get(name, {}))
            if now is not None:
                now.step(name)
        return replace(self, experts=[(name, copies.get(name, expert)) for name, expert in self.experts], params={})

    def predict(self, X: Any, rows: Indices | None = None) -> Floats:
        """The predictions of all experts, (n, M), at the n rows of X or at those of the numbers ``rows`` (n,)."""
        X = X if rows is None else _safe_indexing(X, rows)
        if self.n_jobs == 1 or effective_n_jobs(bounded_jobs(self.n_jobs)) == 1:
            columns = [
                expert_predictions(one, X, self._label(name), self.outputs, rows, self.missing)
                for name, one in self.experts
            ]
        else:
            columns = Parallel(n_jobs=bounded_jobs(self.n_jobs), require="sharedmem")(
                delayed(expert_predictions)(one, X, self._label(name), self.outputs, rows, self.missing)
                for name, one in self.experts
            )
        return np.stack(columns, axis=1) if columns else np.empty((_n_rows(X), 0))

    def total(self, X: Any) -> Floats:
        """The sum of the predictions of all experts, (n,); zeros where there is no expert."""
        return np.asarray(self.predict(X).sum(axis=1)) if self.experts else np.zeros(_n_rows(X))

    def mix(self, X: Any, assignments: Iterable[tuple[int, Indices, Floats]]) -> Floats:
        """The sum over (m, rows, weights) of weights times expert m's predictions at these rows, (n,).

        Every expert is asked for the rows that are assigned to it and for no others.
        """
        total = np.zeros(_n_rows(X))
        for _, rows, weights, predictions in self.answers(X, assignments):
            total[rows] += weights * predictions
        return total

    def answers(
        self, X: Any, assignments: Iterable[tuple[int, Indices, Floats]]
    ) -> Iterator[tuple[int, Indices, Floats, Floats]]:
        """Every (m, rows, weights) of the assignments with expert m's predictions at these rows."""
        n = _n_rows(X)
        for m, rows, weights in assignments:
            name, expert = self.experts[m]
            part = X if len(rows) == n else _safe_indexing(X, rows)
            answer = expert_predictions(expert, part, self._label(name), self.outputs, rows, self.missing)
            yield m, rows, weights, answer

    def _label(self, name: str) -> str:
        return f"the {self.kind} {name!r}"


def expert_matrix(experts: Sequence[Any], X: Any, name: str = "experts") -> Floats:
    """The predictions of every expert, (n, M); an error names the expert at fault.

    ``experts`` are experts or (name, expert) pairs, and ``name`` is what an error calls the list of them.

    >>> from gatewise.experts import ConstantExpert
    >>> expert_matrix([ConstantExpert(1.0), ConstantExpert(2.0)], np.zeros((3, 1)))
    array([[1., 2.],
           [1., 2.],
           [1., 2.]])
    """
    return Pool.of(experts, name).predict(X)


def expert_predictions(
    expert: Expert,
    X: Any,
    label: str = "the expert",
    outputs: tuple[int, ...] = (),
    places: Indices | None = None,
    missing: bool = False,
) -> Floats:
    """The predictions of one expert, (n,) or (n, *outputs), checked.

    An error calls the expert ``label`` and names a row by its number in ``places`` (n,), where they are given. With
    ``missing``, an expert that has ``may_miss`` may answer NaN.

    >>> expert_predictions(lambda X: X[:, 0] + 1.0, np.zeros((2, 1)))
    array([1., 1.])
    """
    ask: Any = getattr(expert, "predict", expert)
    with Noting(f"raised by {label}"):
        try:
            answer = ask(X)
        except RowError as error:
            raise (error if places is None else error.renumbered(places)) from None
    plain = type(answer) is np.ndarray and answer.dtype == np.float64
    try:
        predictions: Floats = answer if plain else as_floats(answer, "its answer")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{label} must return numbers: {error}") from error
    n = _n_rows(X)
    if predictions.shape != (n, *outputs):
        what = "probabilities" if outputs else "one number"
        raise ValueError(f"{label} must return shape {(n, *outputs)}, {what} per row, not {predictions.shape}")
    answered = np.isfinite(predictions)
    if not answered.all() and missing and getattr(expert, "may_miss", False):
        answered |= np.isnan(predictions)
    if not answered.all():
        row = int(np.argmin(answered.reshape(n, -1).all(axis=1)))
        words = f"{label} must return finite numbers, but gave {predictions[row]} at row {{row}}"
        raise RowError(words, row if places is None else int(places[row]))
    return predictions


def nonzero_assignments(weights: Floats) -> Iterator[tuple[int, Indices, Floats]]:
    """Triples (m, rows where expert m has a positive weight, its weights there) of weights (n, M), for `Pool.mix`."""
    for m in np.flatnonzero(weights.any(axis=0)):
        rows = np.flatnonzero(weights[:, m])
        yield int(m), rows, weights[rows, m]


def weight_params(expert: Any, sample_weight: Floats | None) -> dict[str, Floats]:
    """The keyword argument that passes a sample weight to an expert's fit, as a dict; empty if it takes none.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> list(weight_params(make_pipeline(StandardScaler(), Ridge()), np.ones(3)))
    ['ridge__sample_weight']
    """
    if sample_weight is None:
        return {}
    if has_fit_parameter(expert, "sample_weight"):
        return {"sample_weight": sample_weight}
    steps = getattr(expert, "steps", None)
    if steps and has_fit_parameter(steps[-1][1], "sample_weight"):
        return {f"{steps[-1][0]}__sample_weight": sample_weight}
    if hasattr(expert, "regressor"):  # a transformed target hands its keywords on
        return weight_params(expert.regressor, sample_weight)
    if hasattr(expert, "param_grid") or hasattr(expert, "param_distributions"):  # and so does a search
        return weight_params(expert.estimator, sample_weight)
    return {}


def with_seed(expert: Any, seed: int) -> Any:
    """The expert, or a copy in which every ``random_state`` that is None, also of its parts, is the seed.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> [with_seed(DecisionTreeRegressor(random_state=own), 3).random_state for own in (None, 5)]
    [3, 5]
    """
    seeds = _open_seeds(expert, seed)
    return clone(expert).set_params(**seeds) if seeds else expert


def _open_seeds(expert: Any, seed: int) -> dict[str, int]:
    """The seed for every ``random_state`` that is None, of an expert or its parts."""
    if not hasattr(expert, "get_params") or isinstance(expert, type):
        return {}
    params = expert.get_params(deep=True)
    return {key: seed for key, value in params.items() if key.endswith("random_state") and value is None}


class Noting:
    """Context manager: an error that is raised inside keeps its type and gets a note, such as the expert's name."""

    def __init__(self, note: str) -> None:
        self.note = note

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Exception):
            error.add_note(self.note)


class UnfittedCopies(NamedTuple):
    """Unfitted copies of an expert, as `clone` makes them, and what an error calls the expert.

    Where a ``plain`` expert and its parts hold their parameters, and beside them constants alone, a deep copy of one
    clone is what another clone would be, in a fraction of the time: `clone` inspects the signature of constructors.
    Of a ``simple`` one, scikit-learn's own and without parts, one fit checks the parameters of all.
    """

    expert: Any
    label: str
    plain: bool
    simple: bool

    @classmethod
    def of(cls, expert: Any, label: str) -> Self:
        """The copies of an expert."""
        with Noting(f"raised by {label}"):
            fresh = clone(expert)
            plain = _is_plain(fresh)
            own = plain and type(fresh).__module__.startswith("sklearn.")
            return cls(fresh, label, plain, own and len(_parts(fresh)) == 1)

    def make(self) -> Any:
        """One copy."""
        with Noting(f"raised by {self.label}"):
            return copy.deepcopy(self.expert) if self.plain else clone(self.expert)


def _is_plain(expert: Any) -> bool:
    """Whether an unfitted expert and its parts are of scikit-learn's base class and hold parameters and constants."""
    if not isinstance(expert, BaseEstimator):
        return False
    for part in _parts(expert):
        if getattr(type(part), "__sklearn_clone__", None) is not BaseEstimator.__sklearn_clone__:
            return False
        others = vars(part).keys() - part.get_params(deep=False).keys()
        if not all(isinstance(vars(part)[name], bool | int | float | str | None) for name in others):
            return False
    return True


def _parts(expert: BaseEstimator) -> list[Any]:
    """The expert and the estimators among its parameters."""
    return [expert, *(part for part in expert.get_params().values() if hasattr(part, "get_params"))]


def _is_alone(n_jobs: int | None) -> bool:
    """Whether so many jobs are one, in this process."""
    return getattr(get_active_backend()[0], "client", None) is None and effective_n_jobs(n_jobs) == 1


def _results(
    task: Callable[[int], tuple[Any, ...]], count: int, given: Sequence[Any], n_jobs: int | None, alone: bool
) -> Iterator[Any]:
    """The results of `_fit_one` for the arguments of every task, in their order; a task is made when it is its turn.

    One job ``alone`` needs no joblib, which sets up the configuration and the filters of warnings for every task. On
    a cluster the ``given`` values are sent to the workers once. Where all workers that held a value are lost, what is
    left of the tasks is sent again. Results come one by one where the backend can hand them out so, which ray's
    cannot.
    """
    backend, n_done = get_active_backend()[0], 0
    client, how = getattr(backend, "client", None), "generator" if backend.supports_return_generator else "list"
    if alone:
        yield from (_fit_one(*task(number)) for number in range(count))
        return
    fit_one = delayed(_fit_one)
    for attempt in range(ATTEMPTS):
        try:
            tasks = (fit_one(*task(number)) for number in range(n_done, count))
            with nullcontext() if client is None else sent_once(client, given):
                for result in Parallel(n_jobs=n_jobs, return_as=how)(tasks):
                    n_done += 1
                    yield result
                return
        except CancelledError:
            if client is None or attempt == ATTEMPTS - 1:
                raise


def _fit_one(
    about: tuple[str, int, tuple[int, ...], bool, bool, tuple[str, ...]],
    expert: Any,
    X: Any,
    targets: Floats,
    train: Indices,
    test: Indices,
    *params: Any,
) -> tuple[Any, Floats]:
    """An expert fitted to the training rows of a split, and its forecasts of the rows that are held out.

    The ``expert`` is a copy that may be fitted. ``about``: what an error calls it, its column in targets (n, 1 or
    M), `Pool.outputs`, `Pool.missing`, whether scikit-learn has checked its parameters before, and the names of
    ``params``, the keywords of its fit. Arrays are arguments of their own, so that none travels twice. If rows are
    held out the fitted model is not needed any more, and None is returned in its place.
    """
    label, column, outputs, missing, known, names = about
    y, keywords = targets[:, column], dict(zip(names, params, strict=True))
    whole = len(test) == 0  # a bootstrap sample, too, has as many rows as the data
    part, target = (X, y) if whole else (_rows(X, train), y[train])
    if keywords:
        keywords = _check_method_params(X, keywords, indices=None if whole else train)
    checks = config_context(skip_parameter_validation=True) if known else nullcontext()
    with Noting(f"raised by {label}"), checks:
        model = expert.fit(part, target, **keywords)
    if len(test) == 0:
        return model, np.empty(0)
    answer = expert_predictions(model, _rows(X, test), label, outputs, test, missing)
    return None, answer if answer.base is None else answer.copy()  # one column would keep all of the rows in memory


def _rows(X: Any, rows: Indices) -> Any:
    """Some rows of X; of an array without scikit-learn's search for the kind of table, which takes longer."""
    return X[rows] if type(X) is np.ndarray else _safe_indexing(X, rows)


def _fold_labels(splits: Sequence[Split]) -> list[str]:
    """What an error says about the split: nothing for a fit to all rows, the number of the fold for the others."""
    folds = sum(len(test) > 0 for _, test in splits)
    first = len(splits) - folds
    return [
        f" (fold {number - first + 1} of {folds})" if len(test) else "" for number, (_, test) in enumerate(splits)
    ]


def _collect(splits: Sequence[Split], done: Sequence[Sequence[tuple[Any, Floats]]]) -> HeldOut:
    rows = np.concatenate([test for _, test in splits])
    fold = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
    forecasts = [np.stack([forecast for _, forecast in part], axis=1) for part in done]
    return HeldOut(rows, fold, np.concatenate(forecasts), tuple(train for train, _ in splits))


def _pairs_of_folds(splits: Sequence[Split]) -> dict[tuple[int, int], Split]:
    """By each pair of folds the split that holds both out: its training rows are those that both splits train on.

    >>> folds = [(np.delete(np.arange(4), i), np.array([i])) for i in range(4)]
    >>> [part.tolist() for part in _pairs_of_folds(folds)[0, 2]]
    [[1, 3], [0, 2]]
    """
    return {
        (g, h): (np.intersect1d(splits[g][0], splits[h][0]), np.concatenate([splits[g][1], splits[h][1]]))
        for g, h in combinations(range(len(splits)), 2)
    }


def _nested(held: HeldOut, pairs: Sequence[tuple[int, int]], done: Sequence[Sequence[tuple[Any, Floats]]]) -> Floats:
    """The nested forecasts (K, N, M), from the fits without each pair of folds."""
    F = np.stack([held.F] * len(held.train))
    for (g, h), fits in zip(pairs, done, strict=True):
        forecasts = np.stack([forecast for _, forecast in fits], axis=1)  # entries of g, then those of h
        ours, theirs = np.flatnonzero(held.fold == g), np.flatnonzero(held.fold == h)
        F[h, ours], F[g, theirs] = forecasts[: len(ours)], forecasts[len(ours) :]
    return F


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def named_experts(experts: Iterable[Any], argument: str = "experts", least: int = 1) -> NamedExperts:
    """Pairs (name, expert) from experts, from such pairs, or from both kinds mixed.

    An expert without a name is named after its type in small letters, or after the type of its gate where it has one;
    where that name is already in use, a number is added. ``argument`` is what an error calls the list, and ``least``
    is the smallest number of experts that it may hold.

    >>> from sklearn.linear_model import Ridge
    >>> [name for name, _ in named_experts([Ridge(), Ridge(10.0), ("mean", lambda X: 0.0 * X[:, 0])])]
    ['ridge-1', 'ridge-2', 'mean']
    """
    if isinstance(experts, str) or not isinstance(experts, Iterable):
        raise TypeError(f"{argument} must be a list of models or of (name, model) pairs, not {experts!r}")
    items = [_pair(item, f"{argument}[{place}]") for place, item in enumerate(experts)]
    if len(items) < least:
        wanted = "one model or (name, model) pair" if least == 1 else f"{least} models or (name, model) pairs"
        raise ValueError(f"{argument} must hold at least {wanted}, not {len(items) or 'none'}")
    given = Counter(name for name, _ in items if name is not None)
    for name, uses in given.items():
        if uses > 1:
            raise ValueError(f"{argument} must have different names, but {name!r} occurs more than once")
    unnamed = Counter(_type_name(expert) for name, expert in items if name is None)
    free = {kind: _free_names(kind, uses, given) for kind, uses in unnamed.items()}
    return [(next(free[_type_name(expert)]) if name is None else name, expert) for name, expert in items]


def _free_names(kind: str, uses: int, given: Counter[str]) -> Iterator[str]:
    """Names that are not among those given: ``kind`` if one is enough and it is free, else kind-1, kind-2, ..."""
    if uses == 1 and kind not in given:
        return iter([kind])
    return (name for name in (f"{kind}-{number}" for number in count(1)) if name not in given)


def _pair(item: Any, place: str) -> tuple[str | None, Any]:
    """(name or None, expert) of one entry, or an error that names its place."""
    if not isinstance(item, tuple | list):
        _check_expert(item, place)
        return None, item
    if len(item) != 2:
        raise TypeError(f"{place} must be a model or a pair (name, model), not {item!r}")
    name, expert = item
    if not isinstance(name, str) or not name or "__" in name:
        raise ValueError(f"{place} must be named by text without a double underscore, not {name!r}")
    _check_expert(expert, f"{place} ({name!r})")
    return name, expert


def _type_name(expert: Any) -> str:
    gate = getattr(expert, "gate", None)
    named = expert if gate is None else gate
    name = str(getattr(named, "__name__", type(named).__name__)).lower()
    return re.sub("_{2,}", "_", name)


def _check_expert(expert: Any, who: str) -> None:
    if isinstance(expert, type):
        raise TypeError(f"{who} must be an instance, as {expert.__name__}(...), not the class itself")
    if callable(getattr(expert, "predict", None)) or callable(expert):
        return
    if hasattr(expert, "n_experts") and hasattr(expert, "weights"):
        raise TypeError(f"{who} is a gate without experts; use GateRegressor(experts, {expert!r})")
    raise TypeError(f"{who} must have predict(X) or be a callable X -> (n,), not {expert!r}")
