"""Experts that are updated while they are used: a row is always predicted by a state that has not seen it."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from gatewise.arrays import Floats
from gatewise.experts.pool import expert_matrix, expert_predictions, Noting, Pool
from gatewise.experts.protocol import can_predict, Expert

PROBES = 256  # rows at which predictions are averaged over all states, to measure the error of keeping only a few


class EvolvingExpert:
    """An expert with an update rule that the user gives: ``update(expert, X, y)`` returns the next expert.

    >>> from gatewise.experts import ConstantExpert
    >>> last = EvolvingExpert(ConstantExpert(0.0), lambda expert, X, y: ConstantExpert(y[-1]))
    >>> last.partial_fit(np.zeros((2, 1)), np.array([3.0, 5.0])).predict(np.zeros((1, 1)))
    array([5.])
    """

    def __init__(self, expert: Expert, update: Callable[[Any, Any, Floats], Expert]) -> None:
        self.expert = expert
        self.update = update

    def partial_fit(self, X: Any, y: Floats) -> "EvolvingExpert":
        """Update the expert with these rows by the update rule."""
        self.expert = self.update(self.expert, X, y)
        return self

    def predict(self, X: Any) -> Floats:
        """The predictions of the expert as it is now, (n,)."""
        return expert_predictions(self.expert, X)


@dataclass(frozen=True)
class AveragedExpert:
    """f(x) = sum_i shares_i experts_i(x): a time-averaged expert of `remark3.2`."""

    experts: tuple[Expert, ...]
    shares: tuple[float, ...]

    def predict(self, X: Any) -> Floats:
        """f at every row of X, (n,)."""
        prediction: Floats = expert_matrix(self.experts, X) @ np.asarray(self.shares)
        return prediction


def after_burn_in(pool: Pool, X: Any, y: Floats, update: bool) -> Pool:
    """The pool with copies of its experts as they are after the burn-in rows X and responses y (n,).

    An expert that was not fitted is fitted to these rows; one that was is updated by ``partial_fit`` if ``update`` is
    true and it has one.
    """
    models = []
    for name, expert in pool.experts:
        with Noting(f"raised by the {pool.kind} {name!r} in the burn-in"):
            models.append(_after_burn_in(expert, X, y, update))
    return pool.with_models(models)


def _after_burn_in(expert: Expert, X: Any, y: Floats, update: bool) -> Any:
    if not can_predict(expert):
        fresh: Any = clone(expert)
        return fresh.partial_fit(X, y) if update and hasattr(fresh, "partial_fit") else fresh.fit(X, y)
    own: Any = copy.deepcopy(expert)
    return _update(own, X, y) if update and len(y) else own


class Trajectory(NamedTuple):
    """The result of `evolve`: predictions of evolving experts along a sequence of rows, and some of their states.

    ``predictions`` (n, M): of every row, made before the experts had seen it. ``states``: the pools that were kept,
    and ``edges`` (kept + 1,): state i stands for the rows from edges[i] to edges[i + 1] - 1. ``averages``: every
    expert averaged over time. ``thinning_error``: the root mean square difference, at some of the rows, between
    averages over all states and over the states that were kept.
    """

    predictions: Floats
    states: list[Pool]
    edges: NDArray[np.intp]
    averages: Pool
    thinning_error: float


def evolve(pool: Pool, X: Any, y: Floats, update_every: int, n_snapshots: int, keep_from: int = 0) -> Trajectory:
    """Predict and update along the rows: a block of ``update_every`` rows is predicted, then learned from.

    States are kept from row ``keep_from`` on, at most ``n_snapshots`` of them, evenly in time. No row's prediction
    depends on its own response or on a later one. The experts of the pool are changed: pass copies.
    """
    n = len(y)
    predictions = np.empty((n, len(pool)))
    probes = _safe_indexing(X, np.linspace(0, n - 1, min(n, PROBES)).astype(int))
    blocks = list(_update_blocks(n, update_every, keep_from))
    kept_blocks = [number for number, (start, _) in enumerate(blocks) if start >= keep_from]
    groups = np.array_split(np.asarray(kept_blocks), min(n_snapshots, len(kept_blocks)))
    stored = {int(group[len(group) // 2]) for group in groups}
    recorder = _Recorder(len(pool), n - keep_from)
    states = []
    for number, (start, stop) in enumerate(blocks):
        rows = _safe_indexing(X, np.arange(start, stop))
        with Noting(f"at observation {start}"):
            predictions[start:stop] = pool.predict(rows)
        if start >= keep_from:
            recorder.add(pool.models, probes, stop - start)
        if number in stored:
            states.append(pool.with_models([copy.deepcopy(expert) for expert in pool.models]))
        if stop < n:
            pool = _updated(pool, rows, y[start:stop])
    edges = np.array([blocks[group[0]][0] - keep_from for group in groups] + [n - keep_from])
    shares = np.diff(edges) / (n - keep_from)
    averages, error = recorder.averages([state.models for state in states], shares, probes)
    return Trajectory(predictions, states, edges, pool.with_models(averages), error)


def _updated(pool: Pool, X: Any, y: Floats) -> Pool:
    """The pool after ``partial_fit`` of every expert that has it."""
    models = []
    for name, expert in pool.experts:
        with Noting(f"raised by the {pool.kind} {name!r} in an update"):
            models.append(_update(expert, X, y))
    return pool.with_models(models)


def _update(expert: Any, X: Any, y: Floats) -> Any:
    if not hasattr(expert, "partial_fit"):
        return expert
    updated = expert.partial_fit(X, y)
    return expert if updated is None else updated


def _update_blocks(n: int, update_every: int, keep_from: int) -> Iterator[tuple[int, int]]:
    """Blocks (start, stop) of at most ``update_every`` rows between updates; one of them begins at ``keep_from``."""
    for low, high in ((0, keep_from), (keep_from, n)):
        for start in range(low, high, update_every):
            yield start, min(start + update_every, high)


class _Recorder:
    """Running averages over all states: of the predictions at the probes, and of linear coefficients."""

    def __init__(self, n_experts: int, n: int) -> None:
        self.n = n
        self.probe_means: list[Any] = [0.0] * n_experts
        self.coefficients: list[Any] = [0.0] * n_experts

    def add(self, experts: Sequence[Expert], probes: Any, rows: int) -> None:
        for m, expert in enumerate(experts):
            self.probe_means[m] = self.probe_means[m] + rows / self.n * expert_predictions(expert, probes)
            if hasattr(expert, "coef_") and hasattr(expert, "intercept_"):
                flat = np.append(np.ravel(expert.coef_), np.ravel(expert.intercept_))
                self.coefficients[m] = self.coefficients[m] + rows / self.n * flat

    def averages(self, states: list[list[Expert]], shares: Floats, probes: Any) -> tuple[list[Expert], float]:
        experts, errors = [], []
        for m, exact in enumerate(self.probe_means):
            states_of_m = tuple(state[m] for state in states)
            average: Expert = self._linear_average(m, states_of_m[-1], probes)
            if average is states_of_m[-1]:
                average = AveragedExpert(states_of_m, tuple(shares.tolist()))
            experts.append(average)
            errors.append(expert_predictions(average, probes) - exact)
        return experts, float(np.sqrt(np.mean(np.square(errors))))

    def _linear_average(self, m: int, last: Any, probes: Any) -> Any:
        """The expert with averaged coefficients, if its predictions are the averaged predictions; else ``last``."""
        if np.ndim(self.coefficients[m]) == 0:
            return last
        average = copy.deepcopy(last)
        size = np.size(last.coef_)
        average.coef_ = self.coefficients[m][:size].reshape(np.shape(last.coef_))
        average.intercept_ = self.coefficients[m][size:].reshape(np.shape(last.intercept_))
        exact = self.probe_means[m]
        close = np.allclose(expert_predictions(average, probes), exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())
        return average if close else last
