"""Experts that learn on the way: states over time, none of which has seen what it predicts."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from gatewise.arrays import Floats
from gatewise.experts.protocol import Expert, expert_matrix, expert_predictions

PROBES = 256  # rows on which the error of keeping only some states is measured


class EvolvingExpert:
    """An expert with an update rule of one's own: ``update(expert, X, y)`` returns the next expert.

    >>> from gatewise.experts import ConstantExpert
    >>> last = EvolvingExpert(ConstantExpert(0.0), lambda expert, X, y: ConstantExpert(y[-1]))
    >>> last.partial_fit(np.zeros((2, 1)), np.array([3.0, 5.0])).predict(np.zeros((1, 1)))
    array([5.])
    """

    def __init__(self, expert: Expert, update: Callable[[Any, Any, Floats], Expert]) -> None:
        self.expert = expert
        self.update = update

    def partial_fit(self, X: Any, y: Floats) -> "EvolvingExpert":
        """Take the rows in by the update rule."""
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


def is_ready(expert: Expert) -> bool:
    """Whether an expert can predict: a function can, a scikit-learn estimator once it is fitted."""
    if not (hasattr(expert, "fit") and hasattr(expert, "predict")):
        return True
    try:
        check_is_fitted(expert)
    except (NotFittedError, TypeError):
        return False
    return True


def started(experts: Sequence[Expert], X: Any, y: Floats, update: bool) -> list[Expert]:
    """Copies of the experts after the burn-in rows: fitted if they were not, else updated if asked and able."""
    return [_start(expert, X, y, update) for expert in experts]


def _start(expert: Expert, X: Any, y: Floats, update: bool) -> Any:
    if not is_ready(expert):
        fresh: Any = clone(expert)
        return fresh.partial_fit(X, y) if update and hasattr(fresh, "partial_fit") else fresh.fit(X, y)
    own: Any = copy.deepcopy(expert)
    return _update(own, X, y) if update and len(y) else own


class Trajectory(NamedTuple):
    """What evolving experts did along a sequence of rows.

    predictions (n, M): each row's from the state before it. states: the kept states of all experts, each standing for
    the rows from one of ``edges`` (kept + 1,) to the next. averages: the time-averaged experts. thinning_error: the
    root mean square difference, at some of the rows, between averages over all states and over those kept.
    """

    predictions: Floats
    states: list[list[Expert]]
    edges: NDArray[np.intp]
    averages: list[Expert]
    thinning_error: float


def evolve(
    experts: Sequence[Expert], X: Any, y: Floats, update_every: int, n_snapshots: int, keep_from: int = 0
) -> Trajectory:
    """Predict and update along the rows: a block of ``update_every`` is predicted, then learned from.

    States are kept from row ``keep_from`` on, at most ``n_snapshots`` of them, evenly in time; a row's prediction
    never depends on its own response or a later one. The experts handed over are changed: pass copies.
    """
    n = len(y)
    current: list[Any] = list(experts)
    predictions = np.empty((n, len(current)))
    probes = _safe_indexing(X, np.linspace(0, n - 1, min(n, PROBES)).astype(int))
    blocks = list(_update_blocks(n, update_every, keep_from))
    kept_blocks = [number for number, (start, _) in enumerate(blocks) if start >= keep_from]
    groups = np.array_split(np.asarray(kept_blocks), min(n_snapshots, len(kept_blocks)))
    stored = {int(group[len(group) // 2]) for group in groups}
    recorder = _Recorder(len(current), n - keep_from)
    states = []
    for number, (start, stop) in enumerate(blocks):
        rows = _safe_indexing(X, np.arange(start, stop))
        predictions[start:stop] = expert_matrix(current, rows, f"at observation {start}, experts")
        if start >= keep_from:
            recorder.add(current, probes, stop - start)
        if number in stored:
            states.append([copy.deepcopy(expert) for expert in current])
        if stop < n:
            current = [_update(expert, rows, y[start:stop]) for expert in current]
    edges = np.array([blocks[group[0]][0] - keep_from for group in groups] + [n - keep_from])
    shares = np.diff(edges) / (n - keep_from)
    averages, error = recorder.averages(states, shares, probes)
    return Trajectory(predictions, states, edges, averages, error)


def _update(expert: Any, X: Any, y: Floats) -> Any:
    if not hasattr(expert, "partial_fit"):
        return expert
    updated = expert.partial_fit(X, y)
    return expert if updated is None else updated


def _update_blocks(n: int, update_every: int, keep_from: int) -> Iterator[tuple[int, int]]:
    """Blocks of rows between updates; one of them begins at ``keep_from``."""
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
        """The expert with averaged coefficients, if that predicts the average; ``last`` itself if it does not."""
        if np.ndim(self.coefficients[m]) == 0:
            return last
        average = copy.deepcopy(last)
        size = np.size(last.coef_)
        average.coef_ = self.coefficients[m][:size].reshape(np.shape(last.coef_))
        average.intercept_ = self.coefficients[m][size:].reshape(np.shape(last.intercept_))
        exact = self.probe_means[m]
        close = np.allclose(expert_predictions(average, probes), exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())
        return average if close else last
