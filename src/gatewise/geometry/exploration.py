"""Where to ask the experts that the gate did not choose: counterfactual evaluations under a budget.

Sparse training sees the loss of the expert that was asked. Asking the others at a row shows who would have been
best there, and costs M - 1 evaluations. Half of the budget goes to rows near the borders between the regions as they
are known so far, where a change of the best expert is likely to be missed; the other half to rows at random, as the
losses of two experts that cross at a border hardly differ beside it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from gatewise.arrays import as_between, as_count, as_rows, Floats, Indices
from gatewise.geometry.regions import best_expert

LossQuery = Callable[[Indices], Floats]  # the losses (m, M) of all experts at rows with these numbers
FIRST = 0.25  # of the budget, asked at random before there is a border to look at


class Exploration(NamedTuple):
    """The rows that were asked, in their order, (B,), and the losses of all experts there, (B, M)."""

    rows: Indices
    losses: Floats


def smoothed_losses(X: Floats, losses: Floats, X_new: Floats, width: float | None = None) -> Floats:
    """Local-linear means of losses (B, M), known at rows X (B, d), at new rows, (n, M).

    Gaussian weights of the bandwidth ``width``, B^(-1 / (4 + d)) times the columns' mean deviation unless given, and
    a faint ridge on the slopes. A line, unlike a mean, is not pulled to where more rows were asked.
    """
    B, d = X.shape
    bandwidth = B ** (-1 / (4 + d)) * float(X.std(axis=0).mean()) if width is None else width
    out = np.empty((len(X_new), losses.shape[1]))
    for start in range(0, len(X_new), 512):
        part = X_new[start : start + 512]
        logs = -0.5 * cdist(part, X, "sqeuclidean") / bandwidth**2
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))  # (b, B)
        moved = np.concatenate([np.ones((len(part), B, 1)), X[None] - part[:, None]], axis=2)  # (b, B, d + 1)
        gram = np.einsum("qb,qbi,qbj->qij", weights, moved, moved)
        ridge = np.full(d + 1, 0.1 * bandwidth**2)
        ridge[0] = 1e-9
        gram += weights.sum(axis=1)[:, None, None] * np.diag(ridge)
        right = np.einsum("qb,qbi,bm->qim", weights, moved, losses)
        out[start : start + 512] = np.linalg.solve(gram, right)[:, 0]
    return out


def explored_regions(X: Any, found: Exploration, X_new: Any) -> Indices:
    """The best expert at new rows, (n,), from the losses that an exploration of rows X has seen."""
    return best_expert(smoothed_losses(as_rows(X)[found.rows], found.losses, as_rows(X_new)))


def explore(
    X: Any, query: LossQuery, budget: int, *, near_border: float = 0.5, n_rounds: int = 8, seed: Any = 0
) -> Exploration:
    """Ask all experts at ``budget`` rows of X (n, d), a fraction ``near_border`` of them near the borders.

    The first quarter of the budget is spent at random. Then, in ``n_rounds`` rounds, the losses seen so far are
    smoothed, and rows with a small gap between the two least losses are drawn, with chances proportional to
    exp(-gap / unit), where the unit is the lower quartile of all gaps. ``near_border=0`` is uniform exploration.

    >>> X = np.linspace(-1, 1, 400)[:, None]
    >>> losses = np.column_stack([(X[:, 0] < 0.3), (X[:, 0] >= 0.3)]).astype(float)
    >>> found = explore(X, lambda rows: losses[rows], budget=60)
    >>> len(found.rows), bool(np.abs(X[found.rows, 0] - 0.3).mean() < np.abs(X[:, 0] - 0.3).mean())
    (60, True)
    """
    rows, rng = as_rows(X), np.random.default_rng(seed)
    budget = as_count(budget, "budget", high=len(rows))
    share = as_between(near_border, "near_border", -1e-9, 1.0 + 1e-9)
    first = min(budget, max(8, int(FIRST * budget)))
    asked = rng.choice(len(rows), size=first, replace=False)
    losses = np.asarray(query(asked), dtype=np.float64)
    sizes = [len(part) for part in np.array_split(np.arange(budget - first), n_rounds) if len(part)]
    for size in sizes:
        free = np.setdiff1d(np.arange(len(rows)), asked)
        n_near = int(rng.binomial(size, share))
        near = _near_border(rows, asked, losses, free, n_near, rng)
        others = rng.choice(np.setdiff1d(free, near), size=size - len(near), replace=False)
        new = np.concatenate([near, others])
        asked, losses = np.concatenate([asked, new]), np.concatenate([losses, query(new)])
    return Exploration(asked, losses)


def _near_border(
    X: Floats, asked: Indices, losses: Floats, free: Indices, size: int, rng: np.random.Generator
) -> Indices:
    """Rows that were not asked yet, drawn by how close the best two experts are at them."""
    if size == 0:
        return np.empty(0, dtype=np.intp)
    ordered = np.sort(smoothed_losses(X[asked], losses, X[free]), axis=1)
    gap = ordered[:, 1] - ordered[:, 0]
    unit = np.quantile(gap, 0.25) + 1e-12
    chances = np.exp(-gap / unit)
    return rng.choice(free, size=size, replace=False, p=chances / chances.sum())
