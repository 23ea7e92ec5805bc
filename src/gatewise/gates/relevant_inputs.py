"""Which coordinates tell where the experts differ: a screening of all pairs of them."""

from collections.abc import Iterable
from math import sqrt

import numpy as np

from gatewise.arrays import Floats, Indices

MOST_ROWS = 2_000  # that are looked at, evenly spaced
MOST_BINS, ROWS_PER_CELL = 8, 10  # of a coordinate; the cells of a pair have so many rows on average, at least
MOST_PULLS = 3  # principal directions of the pulls
CLEAR = 4.0  # standard deviations by which a coordinate must add to another one, of all that it may be paired with


def relevant_inputs(Z: Floats, pulls: Iterable[tuple[Indices, Floats]], most: int) -> list[Indices]:
    """For every sample at most so many columns of Z (n, r), in order, on which its pulls depend; none if unclear.

    A sample is some rows and the pulls (rows, M) there. The pull on an expert's score is the slope of the loss in it:
    a gate is worth what its inputs explain of the pulls. Columns are cut into bins of equal mass. A column counts with
    what it adds, in the cells of a pair, to what the other column explains alone, so that a checkerboard, on which no
    column tells anything by itself, is seen.

    >>> rng = np.random.default_rng(0)
    >>> Z = rng.uniform(-1, 1, (1000, 6))
    >>> pulls = np.sign(Z[:, [4]] * Z[:, [1]]) + rng.normal(size=(1000, 1))
    >>> relevant_inputs(Z, [(np.arange(1000), pulls)], 5)
    [array([1, 4])]
    """
    return [_relevant(Z[rows], some, most) for rows, some in pulls]


def _relevant(Z: Floats, pulls: Floats, most: int) -> Indices:
    """The columns of Z (n, r) on which the pulls (n, M) depend."""
    step = max(1, -(-len(Z) // MOST_ROWS))
    Z, pulls = Z[::step], _principal(pulls[::step])
    n, r = Z.shape
    bins = min(MOST_BINS, int(sqrt(n / ROWS_PER_CELL)))
    if bins < 2 or r < 2:
        return np.arange(0)
    codes = np.stack([_codes(column, bins) for column in Z.T], axis=1)
    cells = (codes[:, :, None] == np.arange(bins)).reshape(n, r * bins).astype(np.float64)
    counts = (cells.T @ cells).reshape(r, bins, r, bins)
    explained = np.zeros((r, r))
    for pull in pulls.T:
        sums = (cells.T @ (cells * pull[:, None])).reshape(r, bins, r, bins)
        explained += (sums**2 / np.maximum(counts, 1.0)).sum(axis=(1, 3))
    # A column alone stands on the diagonal. By chance a cell explains the variance of one row.
    parts, noise = (counts > 0.0).sum(axis=(1, 3)), float((pulls**2).sum()) / n
    added = explained - np.diag(explained) - noise * (parts - np.diag(parts))
    size = noise * np.sqrt(2.0 * np.maximum(parts - np.diag(parts), 1.0))
    clear = np.where(np.eye(r, dtype=np.bool_), -np.inf, added / np.maximum(size, 1e-300)).max(axis=1)
    order = np.argsort(-clear, kind="stable")[:most]
    return np.sort(order[clear[order] > CLEAR])


def _principal(pulls: Floats) -> Floats:
    """The pulls (n, M) in their MOST_PULLS principal directions, about their means and without far outliers."""
    centred = pulls - pulls.mean(axis=0)
    found = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -MOST_PULLS:]
    found = np.clip(found, *np.quantile(found, [0.01, 0.99], axis=0))
    return np.asarray(found - found.mean(axis=0))


def _codes(column: Floats, bins: int) -> Indices:
    """The number of each value's bin; bins have equal mass as far as ties allow."""
    edges = np.quantile(column, np.linspace(0.0, 1.0, bins + 1)[1:-1])
    return np.searchsorted(np.unique(edges), column, side="right")
