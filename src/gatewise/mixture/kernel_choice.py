"""The mesh of a kernel gate and the number of its experts, chosen from data by splitting the rows into blocks.

The remark on resolution and learning cost asks for a balance that the bounds only tell up to constants. Here one
block fits the experts and the gates of every mesh over them, and the other measures what each of them loses.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans

from gatewise.arrays import as_count, as_rows, as_vector, Floats, Indices
from gatewise.experts import AffineExpert
from gatewise.experts.pool import Pool
from gatewise.gates import KernelGate
from gatewise.mixture.predictor import MixtureOfExperts
from gatewise.solvers.simplex_least_squares import simplex_least_squares

RIDGE = 1e-3  # of the rows' own scale, so that a cell with few rows has a line


class KernelChoice(NamedTuple):
    """The chosen gate over its experts, and the whole grid.

    ``errors`` (counts, meshes) are mean squared errors on held-out rows, averaged over the splits; NaN where a grid
    would have more free weights than rows. ``model`` is fitted to all rows.
    """

    n_experts: int
    mesh: float
    errors: Floats
    model: MixtureOfExperts


def local_lines(X: Floats, y: Floats, n_experts: int, seed: int = 0) -> list[AffineExpert]:
    """M affine experts, each fitted by least squares to the rows of one k-means cluster of X (n, d).

    >>> lines = local_lines(np.linspace(-1, 1, 20)[:, None], np.abs(np.linspace(-1, 1, 20)), 2)
    >>> sorted(round(line.slope[0], 1) for line in lines)
    [-1.0, 1.0]
    """
    labels = np.zeros(len(X), dtype=np.intp)
    if n_experts > 1:
        labels = KMeans(n_experts, n_init=3, random_state=seed).fit_predict(X)
    return [_line(X[labels == m], y[labels == m], y.mean()) for m in range(n_experts)]


def _line(X: Floats, y: Floats, otherwise: float) -> AffineExpert:
    if len(y) == 0:
        return AffineExpert((0.0,) * X.shape[1], otherwise)
    center, level = X.mean(axis=0), y.mean()
    moved = X - center
    gram = moved.T @ moved
    gram += RIDGE * (np.trace(gram) / len(gram) + 1e-12) * np.eye(len(gram))
    slope = np.linalg.solve(gram, moved.T @ (y - level))
    return AffineExpert(tuple(slope), float(level - slope @ center))


def choose_kernel_gate(
    X: Any,
    y: ArrayLike,
    pools: Sequence[Sequence[Any]] | Sequence[int],
    meshes: Sequence[float],
    *,
    kappa: float = 0.75,
    n_splits: int = 5,
    random_state: int = 0,
) -> KernelChoice:
    """The pool and the mesh with the least error on held-out rows, out of all combinations.

    ``pools`` are lists of ready experts, or numbers M of `local_lines` to be fitted. In each of ``n_splits`` random
    splits a fifth of the rows is held out. The gates cover the box of the rows. The chosen pair is fitted again to
    all rows.

    >>> from gatewise.paper import DESIGNS
    >>> X, y = DESIGNS["linear"].sample(400, np.random.default_rng(0))
    >>> chosen = choose_kernel_gate(X, y, [DESIGNS["linear"].experts], [2.0, 1.0, 0.5])
    >>> chosen.n_experts, chosen.mesh
    (3, 0.5)
    """
    task = KernelGrid(as_rows(X), as_vector(y, "y", len(X)), list(pools), [float(mesh) for mesh in meshes], kappa)
    rng = np.random.default_rng(random_state)
    as_count(n_splits, "n_splits")
    means = np.mean([task.held_out(rng.permutation(len(task.y)), random_state) for _ in range(n_splits)], axis=0)
    if not np.isfinite(means).any():
        raise ValueError("meshes must hold one whose gate has fewer free weights than there are rows")
    p, h = divmod(int(np.nanargmin(means)), len(task.meshes))
    model = task.fitted(p, h, random_state)
    return KernelChoice(model.gate.n_experts, task.meshes[h], means, model)


class KernelGrid:
    """Pools times meshes over given rows X (n, d) and responses y (n,)."""

    def __init__(self, X: Floats, y: Floats, pools: list[Any], meshes: list[float], kappa: float) -> None:
        self.X, self.y, self.pools, self.meshes, self.kappa = X, y, pools, meshes, kappa
        self.low, self.high = X.min(axis=0), X.max(axis=0) + 1e-9

    def experts(self, pool: Any, rows: Indices, seed: int) -> Pool:
        made = (
            local_lines(self.X[rows], self.y[rows], int(pool), seed) if isinstance(pool, int | np.integer) else pool
        )
        return Pool.of(made)

    def gate(self, n_experts: int, mesh: float) -> KernelGate:
        return KernelGate(n_experts, mesh, self.kappa, tuple(self.low.tolist()), tuple(self.high.tolist()))

    def n_weights(self, pool: Any, mesh: float) -> int:
        size = int(pool) if isinstance(pool, int | np.integer) else len(pool)
        return (size - 1) * self.gate(size, mesh).theta_shape(self.X.shape[1])[1]

    def held_out(self, order: Indices, seed: int) -> Floats:
        """Mean squared errors (pools, meshes) on the last fifth of an order; NaN where there are too few rows."""
        n_last = max(2, len(order) // 5)
        rest, last = order[:-n_last], order[-n_last:]
        out = np.full((len(self.pools), len(self.meshes)), np.nan)
        for p, pool in enumerate(self.pools):
            experts = self.experts(pool, rest, seed)
            F, F_last = experts.predict(self.X[rest]), experts.predict(self.X[last])
            for h, mesh in enumerate(self.meshes):
                if self.n_weights(pool, mesh) < len(rest):
                    gate = self.gate(len(experts), mesh)
                    theta = simplex_least_squares(gate.features(self.X[rest]), F, self.y[rest]).theta
                    mixture = (gate.weights(self.X[last], theta) * F_last).sum(axis=1)
                    out[p, h] = np.mean((self.y[last] - mixture) ** 2)
        return out

    def fitted(self, p: int, h: int, seed: int) -> MixtureOfExperts:
        """Pool p and mesh h, the experts and the gate fitted to all rows."""
        experts = self.experts(self.pools[p], np.arange(len(self.y)), seed)
        gate = self.gate(len(experts), self.meshes[h])
        theta = simplex_least_squares(gate.features(self.X), experts.predict(self.X), self.y).theta
        return MixtureOfExperts(gate, theta, experts.experts)
