"""Where to ask the experts that the gate did not choose: counterfactual evaluations under a budget.

Sparse training sees the loss of the expert that was asked. Asking others at a row shows who would have been best
there. Half of the budget goes to rows near the borders between the regions as they are known so far, where only the
runner-up is asked; the other half to rows at random, where all are, as the losses of two experts that cross at a
border hardly differ beside it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from gatewise.arrays import as_count, as_rows, as_vector, Floats, Indices
from gatewise.geometry.regions import best_expert

LossQuery = Callable[[Indices], Floats]  # the losses (m, M) of all experts at rows with these numbers
FIRST = 0.25  # of the budget, spent at random before there is a border to look at
BLOCK = 512  # new rows that are smoothed together


class Exploration(NamedTuple):
    """The rows that were asked, in their order, (B,), and the losses that were seen, (B, M), NaN where none was.

    ``cost`` is the number of counterfactual evaluations: of experts other than the one that leads at the row.
    """

    rows: Indices
    losses: Floats
    cost: int


def smoothed_losses(X: Floats, losses: Floats, X_new: Floats, width: float | None = None) -> Floats:
    """Local-linear means of losses (B, M), seen at rows X (B, d), at new rows, (n, M); NaN stands for not seen.

    Gaussian weights of the bandwidth ``width``, B^(-1 / (4 + d)) times the columns' mean deviation unless given, and
    a faint ridge on the slopes. A line, unlike a mean, is not pulled to where more rows were asked.
    """
    B, d = X.shape
    bandwidth = B ** (-1 / (4 + d)) * float(X.std(axis=0).mean()) if width is None else width
    out = np.empty((len(X_new), losses.shape[1]))
    for start in range(0, len(X_new), BLOCK):
        part = X_new[start : start + BLOCK]
        logs = -0.5 * cdist(part, X, "sqeuclidean") / bandwidth**2
        for m in range(losses.shape[1]):
            seen = ~np.isnan(losses[:, m])
            weights = np.exp(logs[:, seen] - logs[:, seen].max(axis=1, keepdims=True))
            out[start : start + BLOCK, m] = _local_line(weights, X[seen], losses[seen, m], part, bandwidth)
    return out


def _local_line(weights: Floats, X: Floats, values: Floats, X_new: Floats, bandwidth: float) -> Floats:
    """The intercepts at X_new (q, d) of lines fitted to values (B,) at X (B, d) with weights (q, B)."""
    d = X.shape[1]
    total = weights.sum(axis=1)  # (q,)
    first = weights @ X / total[:, None] - X_new  # the mean of X less the new row, (q, d)
    products = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    mean, level = weights @ X / total[:, None], weights @ values / total
    second = (weights @ products / total[:, None]).reshape(-1, d, d) - mean[:, :, None] * mean[:, None, :]
    cross = weights @ (values[:, None] * X) / total[:, None] - level[:, None] * mean
    slope = np.linalg.solve(second + 0.1 * bandwidth**2 * np.eye(d), cross[:, :, None])[:, :, 0]
    return np.asarray(level - (slope * first).sum(axis=1))


def less_noise(X: Any, y: ArrayLike, F: ArrayLike, width: float | None = None) -> Floats:
    """(y - F_m)^2 less (y - f)^2, (n, M), where f is a smooth of y over all rows: the noise that all experts share.

    The responses cost nothing, so f is known from all rows; what remains of the noise is linear in it.
    """
    rows, forecasts = as_rows(X), as_rows(F, "F")
    response = as_vector(y, "y", len(rows))
    smooth = smoothed_losses(rows, response[:, None], rows, width)[:, 0]
    return np.asarray((response[:, None] - forecasts) ** 2 - ((response - smooth) ** 2)[:, None])


def explored_regions(X: Any, found: Exploration, X_new: Any) -> Indices:
    """The best expert at new rows, (n,), from the losses that an exploration of rows X has seen."""
    return best_expert(smoothed_losses(as_rows(X)[found.rows], found.losses, as_rows(X_new)))


def explore(
    X: Any, query: LossQuery, budget: int, *, near_border: float = 0.5, n_rounds: int = 4, seed: Any = 0
) -> Exploration:
    """Spend ``budget`` counterfactual evaluations on rows of X (n, d), a fraction ``near_border`` near the borders.

    A row at random is asked for all M experts, M - 1 of them counterfactual. After a quarter of the budget there are
    regions; in each of ``n_rounds`` rounds the losses seen so far are smoothed, and rows with a small gap between the
    two least losses are drawn, with chances proportional to exp(-gap / unit), where the unit is the lower quartile
    of all gaps. There the leader is the expert that the gate asks anyway, and one evaluation shows the runner-up.
    ``near_border=0`` is uniform exploration.

    >>> X = np.linspace(-1, 1, 400)[:, None]
    >>> losses = np.column_stack([(X[:, 0] < 0.3), (X[:, 0] >= 0.3)]).astype(float)
    >>> found = explore(X, lambda rows: losses[rows], budget=60)
    >>> found.cost, bool(np.abs(X[found.rows, 0] - 0.3).mean() < np.abs(X[:, 0] - 0.3).mean())
    (60, True)
    """
    rows, rng = as_rows(X), np.random.default_rng(seed)
    price = np.shape(query(np.zeros(1, dtype=np.intp)))[1] - 1
    budget = as_count(budget, "budget", low=4 * price, high=price * len(rows))
    if not 0.0 <= near_border <= 1.0:
        raise ValueError(f"near_border must be from 0 to 1, not {near_border!r}")
    first = max(4, int(FIRST * budget) // price)
    asked = rng.choice(len(rows), size=first, replace=False)
    losses, cost = np.array(query(asked), dtype=np.float64), first * price
    for left in range(n_rounds, 0, -1):
        part = (budget - cost) // left
        n_near = min(round(near_border * part), len(rows) - len(asked))
        free = np.setdiff1d(np.arange(len(rows)), asked)
        near, seen = _near_border(rows, asked, losses, free, n_near, query, rng)
        n_others = (part - n_near) // price
        others = rng.choice(np.setdiff1d(free, near), size=n_others, replace=False)
        asked = np.concatenate([asked, near, others])
        losses = np.concatenate([losses, seen, query(others)])
        cost += n_near + n_others * price
    return Exploration(asked, losses, cost)


def _near_border(
    X: Floats, asked: Indices, losses: Floats, free: Indices, size: int, query: LossQuery, rng: np.random.Generator
) -> tuple[Indices, Floats]:
    """Rows that were not asked yet, drawn by how close the best two experts are, and these two's losses there."""
    if size == 0:
        return np.empty(0, dtype=np.intp), np.empty((0, losses.shape[1]))
    smooth = smoothed_losses(X[asked], losses, X[free])
    order = np.argsort(smooth, axis=1)
    gap = np.take_along_axis(smooth, order[:, 1:2], axis=1)[:, 0] - smooth.min(axis=1)
    chances = np.exp(-gap / (np.quantile(gap, 0.25) + 1e-12))
    places = rng.choice(len(free), size=size, replace=False, p=chances / chances.sum())
    seen = np.full((size, losses.shape[1]), np.nan)
    best_two = order[places, :2]
    np.put_along_axis(seen, best_two, np.take_along_axis(query(free[places]), best_two, axis=1), axis=1)
    return free[places], seen
