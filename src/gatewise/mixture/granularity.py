"""Many small experts or few large ones? Polynomials on cells, at equal total and equal active numbers of parameters.

M experts of p coefficients each, M p = total; K of them active at every row, K p = active. The cells are the
intervals of [0, 1] that a regression tree finds, and the gate has a linear score for each, so that the scores of
neighbours cross at their border.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike
from sklearn.tree import DecisionTreeRegressor

from gatewise.arrays import as_count, as_rows, as_vector, Floats
from gatewise.gates import LinearGate

WIDTHS = (0.01, 0.2, 1.0)  # in which the gate turns from one expert to the next, in units of a mean cell
RIDGE = 1e-4


class Granularity(NamedTuple):
    """A division of a budget: M experts of p coefficients, K of them active."""

    n_experts: int
    size: int
    k: int


def divisions(total: int, active: int) -> list[Granularity]:
    """All divisions of ``total`` parameters, ``active`` of which are used at a row, coarsest first.

    >>> [tuple(division) for division in divisions(12, 4)]
    [(3, 4, 1), (6, 2, 2), (12, 1, 4)]
    """
    total, active = as_count(total, "total"), as_count(active, "active", high=total)
    sizes = [size for size in range(active, 0, -1) if total % size == 0 and active % size == 0]
    return [Granularity(total // size, size, active // size) for size in sizes]


class CellExperts(NamedTuple):
    """Legendre polynomials, coefficients (M, p), on intervals with borders ``cuts`` (M - 1,), behind a Top-K gate.

    Scores of neighbours cross at their border, and the gate turns from one to the other within ``width`` / M of it.
    """

    coefficients: Floats
    cuts: Floats
    k: int
    width: float

    def predict(self, X: Any) -> Floats:
        """The mixture at every row of X (n, 1), (n,)."""
        rows = as_rows(X)
        M, size = self.coefficients.shape
        local = np.clip(_local(rows[:, 0], self.cuts), -2.0, 2.0)  # a polynomial must not run away from its cell
        values = np.einsum("nmp,mp->nm", legendre.legvander(local, size - 1), self.coefficients)
        if M == 1:
            return np.asarray(values[:, 0])
        slopes = np.arange(M) * M / self.width
        levels = -M / self.width * np.concatenate([[0.0], np.cumsum(self.cuts)])
        scores = np.column_stack([slopes, levels])
        weights = LinearGate(M, k=min(self.k, M)).weights(rows, scores[:-1] - scores[-1])
        return np.asarray((weights * values).sum(axis=1))


def _local(x: Floats, cuts: Floats) -> Floats:
    """x in the coordinates of every interval, (n, M): from -1 to 1 on its own."""
    edges = np.concatenate([[0.0], cuts, [1.0]])
    return np.asarray((2 * x[:, None] - edges[1:] - edges[:-1]) / np.diff(edges))


def fit_cells(X: Any, y: ArrayLike, division: Granularity, width: float) -> CellExperts:
    """The intervals of a regression tree with M leaves, and an expert on each by least squares with a faint ridge.

    A tree that finds fewer intervals has fewer experts.
    """
    rows = as_rows(X)
    x, response = rows[:, 0], as_vector(y, "y", len(rows))
    cuts = np.zeros(0)
    if division.n_experts > 1:
        leaf = 4 * division.size  # else a polynomial through few rows swings
        tree = DecisionTreeRegressor(max_leaf_nodes=division.n_experts, min_samples_leaf=leaf, random_state=0)
        found = tree.fit(rows, response).tree_
        cuts = np.sort(found.threshold[found.feature >= 0])
    cell, local = np.searchsorted(cuts, x), _local(x, cuts)
    coefficients = np.zeros((len(cuts) + 1, division.size))
    for m in range(len(coefficients)):
        own = cell == m
        basis = legendre.legvander(local[own, m], division.size - 1)
        gram = basis.T @ basis + RIDGE * max(1, own.sum()) * np.eye(division.size)
        coefficients[m] = np.linalg.solve(gram, basis.T @ response[own])
    return CellExperts(coefficients, cuts, division.k, width)


class GranularityChoice(NamedTuple):
    """The chosen division, its model on all rows, and the held-out error of each division at its best width."""

    division: Granularity
    model: CellExperts
    errors: Floats


def choose_granularity(
    X: Any, y: ArrayLike, candidates: Sequence[Granularity], n_splits: int = 5, seed: int = 0
) -> GranularityChoice:
    """The division of a budget, and the width of its gate, with the least error on held-out rows.

    X (n, 1) in [0, 1]. ``n_splits`` folds; the chosen pair is fitted again to all rows.

    >>> X = np.linspace(0, 1, 400)[:, None]
    >>> truths = np.sign(np.sin(60 * X[:, 0])), X[:, 0] ** 5
    >>> [choose_granularity(X, y, divisions(24, 6)).division.n_experts for y in truths]
    [24, 4]
    """
    rows, response = as_rows(X), as_vector(y, "y", np.shape(X)[0])
    folds = np.random.default_rng(seed).permutation(len(response)) % as_count(n_splits, "n_splits", low=2)
    errors = np.zeros((len(candidates), len(WIDTHS)))
    for fold in range(n_splits):
        held = folds == fold
        for i, division in enumerate(candidates):
            fitted = fit_cells(rows[~held], response[~held], division, WIDTHS[0])
            for j, width in enumerate(WIDTHS):
                gap = response[held] - fitted._replace(width=width).predict(rows[held])
                errors[i, j] += (gap**2).sum() / len(response)
    best, width_place = divmod(int(errors.argmin()), len(WIDTHS))
    model = fit_cells(rows, response, candidates[best], WIDTHS[width_place])
    return GranularityChoice(candidates[best], model, errors.min(axis=1))
