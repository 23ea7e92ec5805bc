"""Of very many experts, those that are useful to a gate."""

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats, Indices
from gatewise.losses import LogLoss, Loss, ResidualLoss
from gatewise.router.class_rows import ClassRows, ProbabilityFloor
from gatewise.router.fitted_router import ForecastGuard
from gatewise.solvers.softmax_path import stack_weights

MOST_ROUTED = 256  # experts in the list: of more, the most useful ones
FEWEST = 4  # units of rows that are divided, at least, to choose experts by one half


def screening_rows(n: int, units: Indices | None, seed: int) -> NDArray[np.bool_]:
    """Which of n rows choose the experts, (n,): a random half of them, or of their groups ``units`` (n,).

    >>> int(screening_rows(10, None, 0).sum()), screening_rows(3, None, 0).tolist()
    (5, [False, False, False])
    """
    own = np.arange(n) if units is None else units
    count = int(own.max()) + 1
    return np.asarray(
        np.random.default_rng([seed, 5]).permutation(count)[own] < (count // 2 if count >= FEWEST else 0)
    )


def screened(F: Floats, y: Floats, weight: Floats, distinct: Indices) -> Indices:
    """MOST_ROUTED of the distinct experts, sorted, from their held-out forecasts F (N, M) of y (N,).

    First those of largest weight in the convex stack, then those that are the best one at most rows: an expert that
    is in neither has no use to a gate. The choice fits the responses of these rows better than it fits others, so
    they must not weigh the list or judge it: `screening_rows` sets some of the rows apart.
    """
    forecasts = ForecastGuard.fit(F, y).apply(F)[0][:, distinct]
    return distinct[_most_useful(forecasts, ResidualLoss(y), weight)]


def screened_classes(F: Floats, y: Floats, weight: Floats, distinct: Indices) -> Indices:
    """As `screened`, from held-out probabilities F (N, M, C) of the classes y (N,), with the log loss."""
    rows = ClassRows(F[:, distinct], y.astype(np.intp))
    floored = ProbabilityFloor.fit(rows, weight).apply(rows.probabilities)
    return distinct[_most_useful(ClassRows(floored, rows.outcome).observed, LogLoss(), weight)]


def _most_useful(forecasts: Floats, loss: Loss, weight: Floats) -> Indices:
    """MOST_ROUTED of the columns of the forecasts (N, M), sorted."""
    stack = stack_weights(forecasts, loss, weight[None])[0]
    best = np.bincount(loss.error(forecasts).argmin(axis=1), weight, forecasts.shape[1])
    order = np.lexsort((-best, -stack))
    return np.sort(order[:MOST_ROUTED])
