"""Principal axes of a table that comes in blocks of rows."""

from collections.abc import Callable, Iterator

import numpy as np

from gatewise.arrays import Floats

MOST_EXACT = 500  # columns, and twice as many rows: where both are more, no matrix of their products is made
MORE_AXES, PASSES = 10, 8  # beyond that: axes that are sought beside those asked for, and passes over the rows
SMALLEST = 1e-6  # of the largest principal variance: axes with a smaller variance are rounding errors


def principal_axes(blocks: Callable[[], Iterator[Floats]], n: int, n_components: int) -> Floats:
    """The leading principal axes of n rows in blocks (., p), each divided by its standard deviation, (p, r)."""
    rows = blocks()
    first = next(rows)
    p = first.shape[1]
    if p > MOST_EXACT and n > 2 * MOST_EXACT:
        variances, axes = _subspace(blocks, n, p, n_components + MORE_AXES)
    elif p > n:  # the same axes from the smaller matrix of products of rows
        Z = np.concatenate([first, *rows])
        variances, mixtures = np.linalg.eigh(Z @ Z.T / n)
        axes = Z.T @ (mixtures / np.sqrt(n * np.maximum(variances, SMALLEST * variances.max())))
    else:
        variances, axes = np.linalg.eigh(sum((Z.T @ Z for Z in rows), first.T @ first) / n)
    order = np.argsort(-variances)[:n_components]
    order = order[variances[order] > SMALLEST * variances.max()]
    axes = axes[:, order] * np.where(axes[np.abs(axes[:, order]).argmax(axis=0), order] < 0.0, -1.0, 1.0)
    return np.asarray(axes / np.sqrt(variances[order]))


def _subspace(blocks: Callable[[], Iterator[Floats]], n: int, p: int, r: int) -> tuple[Floats, Floats]:
    """About the r largest principal variances, (r,), and their axes (p, r), of n rows in blocks (., p).

    A random subspace is multiplied by the covariance matrix Z'Z / n in a few passes over the rows, without that
    matrix itself: the time is n p r. The seed is always the same.
    """
    image = np.random.default_rng(0).normal(size=(p, r))
    for _ in range(PASSES):
        basis = np.linalg.qr(image)[0]
        image = sum((Z.T @ (Z @ basis) for Z in blocks()), np.zeros((p, r))) / n
    within = basis.T @ image
    variances, mixtures = np.linalg.eigh(0.5 * (within + within.T))
    return variances, np.asarray(basis @ mixtures)
