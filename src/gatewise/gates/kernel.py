"""The Gaussian-kernel gate: a weight vector at every centre of a grid, interpolated by Gaussian kernels."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from math import comb, floor, prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from gatewise.arrays import as_count, as_positive, as_rows, as_vector, BLOCK_NUMBERS, Floats
from gatewise.gates.feature_maps import ClusterFeatures, GateFeatures
from gatewise.gates.gate import flatten_candidates, Gate
from gatewise.kernels import top_k
from gatewise.nets import ListNet, MAX_SIZE, Net, ProductNet, simplex_lattice

MAX_CENTERS = 100_000
FAR = 1e8  # bandwidths


def check_simplices(theta: Floats) -> None:
    """Raise an error unless every column of theta (..., M, C) is on the simplex."""
    if not np.isfinite(theta).all() or (theta < 0).any() or (np.abs(theta.sum(axis=-2) - 1.0) > 1e-9).any():
        raise ValueError("theta must hold a simplex vector per centre: not negative, each column with sum 1")


@dataclass(frozen=True)
class KernelGate(Gate):
    """g_j(x) = sum_c theta[j, c] phi(x, c) / sum_c phi(x, c), phi Gaussian with bandwidth kappa * mesh.

    The centres c are the grid of spacing ``mesh`` in the cube [low, high], last coordinate fastest; ``low`` and
    ``high`` are numbers, for a cube of any dimension, or vectors. theta has shape (M, C), one simplex vector per
    centre. The gate is dense, reaches hard assignments and any mixture by region, and is linear in theta
    (section 5.3; `thm:kernel-global-main`).

    Without a ``mesh`` the gate can be used in `MoERegressor` only, which takes the centres of clusters of the rows.

    A Gaussian kernel is a product over coordinates, and so is its normaliser on a grid. The features are
    therefore products of one-dimensional softmaxes of log kernels: finite however far x is from the cube.

    >>> gate = KernelGate(2, mesh=1.0, kappa=0.5)
    >>> gate.weights([[0.0], [0.5]], [[1.0, 0.0], [0.0, 1.0]]).round(3)
    array([[0.881, 0.119],
           [0.5  , 0.5  ]])
    """

    feature_map: ClassVar[type[GateFeatures]] = ClusterFeatures

    mesh: float | None = None
    kappa: float = 0.75
    low: float | tuple[float, ...] = 0.0
    high: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mesh is not None:
            object.__setattr__(self, "mesh", as_positive(self.mesh, "mesh"))
        if not 0.5 <= self.kappa <= 1.0:
            raise ValueError(f"kappa must be from 1/2 to 1, not {self.kappa!r}; change mesh for other bandwidths")
        for name in ("low", "high"):
            value = getattr(self, name)
            fixed = float(value) if np.ndim(value) == 0 else tuple(as_vector(value, name).tolist())
            object.__setattr__(self, name, fixed)
        if not (np.less(self.low, self.high).all() and np.isfinite(self.high).all() and np.isfinite(self.low).all()):
            raise ValueError(f"low must be below high in every coordinate, not {self.low} and {self.high}")

    @property
    def bandwidth(self) -> float:
        """The standard deviation of the kernels, kappa * mesh."""
        return self.kappa * self._spacing

    @property
    def _spacing(self) -> float:
        if self.mesh is None:
            raise ValueError(
                "KernelGate needs a mesh here; without one its centres are clusters of rows, which MoERegressor finds"
            )
        return self.mesh

    def centers(self, d: int) -> Floats:
        """The grid of centres, (C, d).

        >>> KernelGate(2, mesh=1.0, low=-1.0, high=1.0).centers(1).ravel()
        array([-1.,  0.,  1.])
        """
        self.theta_shape(d)
        grids = np.meshgrid(*self._axes(d), indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)

    def theta_shape(self, d: int) -> tuple[int, int]:
        counts = [len(axis) for axis in self._axes(as_count(d, "d"))]
        if prod(counts) > MAX_CENTERS:
            raise ValueError(
                f"the grid would have {prod(counts):,} centres ({' x '.join(map(str, counts))}), more than "
                f"{MAX_CENTERS:,}; take a larger mesh or fewer features"
            )
        return self.n_experts, prod(counts)

    def features(self, X: Any) -> Floats:
        """The normalised kernels phi(x, c) / sum_c phi(x, c), (n, C): not negative, each row with sum one."""
        rows = as_rows(X)
        n, d = rows.shape
        self.theta_shape(d)
        factors = (
            softmax(-0.5 * ((self._near(rows[:, [j]], axis) - axis) / self.bandwidth) ** 2, axis=1)
            for j, axis in enumerate(self._axes(d))
        )
        return reduce(lambda left, right: (left[:, :, None] * right[:, None, :]).reshape(n, -1), factors)

    def _near(self, x: Floats, axis: Floats) -> Floats:
        """x within FAR bandwidths of the grid: beyond, the outermost centre has all the weight, up to rounding."""
        return np.clip(x, axis[0] - FAR * self.bandwidth, axis[-1] + FAR * self.bandwidth)

    def scores(self, X: Any, theta: ArrayLike) -> Floats:
        """The logarithms of the weights, so that their softmax is the gate; -inf where a weight is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights(X, theta))

    def weights(self, X: Any, theta: ArrayLike) -> Floats:
        rows = as_rows(X)
        theta = self.check_theta(theta, rows.shape[1])
        return self._interpolate(rows, theta)

    def active(self, X: Any, theta: ArrayLike) -> NDArray[np.intp]:
        return top_k(self.weights(X, theta), self.n_experts)

    def mean_weights(self, X: Any, thetas: ArrayLike | Net, shares: ArrayLike | None = None) -> Floats:
        """The mean gate, (n, M). The gate is linear in theta, so it is the gate of the mean theta."""
        rows = as_rows(X)
        net = thetas if isinstance(thetas, Net) else ListNet(thetas)
        shares = np.full(net.size, 1.0 / net.size) if shares is None else as_vector(shares, "shares", net.size)
        mean = np.zeros(self.theta_shape(rows.shape[1]))
        start = 0
        for block in net.blocks():
            theta = self.check_theta(block, rows.shape[1])
            mean += np.tensordot(shares[start : start + len(theta)], theta, axes=1)
            start += len(theta)
        return self._interpolate(rows, mean)

    def check_theta(self, theta: ArrayLike, d: int) -> Floats:
        array = super().check_theta(theta, d)
        check_simplices(array)
        return array

    def net(self, levels: int | None = None, *, d: int | None = None, thetas: ArrayLike | None = None) -> Net:
        """A finite set of parameters: a lattice on the simplex at every centre, or an explicit array ``thetas``.

        ``levels=L`` takes every simplex vector with coordinates in {0, 1/L, ..., 1} at every centre. Their number
        is exponential in the number of centres. The gate is linear in theta, so least squares over all of its
        parameters is a convex problem with an exact solution (`GateRegressor`): except for the smallest grids, that
        is the better choice.
        """
        if (levels is None) == (thetas is None):
            raise ValueError("net takes one of: levels (with d); thetas")
        if thetas is not None:
            return ListNet(thetas)
        if d is None or levels is None:
            raise ValueError("levels needs d, the number of features")
        shape = self.theta_shape(d)
        per_center = comb(as_count(levels, "levels") + self.n_experts - 1, self.n_experts - 1)
        if shape[1] * np.log(per_center) > np.log(MAX_SIZE):
            raise ValueError(
                f"the net would have S = {per_center}^{shape[1]} candidates, and at most {MAX_SIZE:,} can be "
                "enumerated; the predictor is linear in theta, so solve the exact least squares over the simplex "
                "at every centre instead of a net"
            )
        return ProductNet([simplex_lattice(self.n_experts, levels)] * shape[1], shape, by_column=True)

    def _axes(self, d: int) -> list[Floats]:
        for name in ("low", "high"):
            if np.ndim(getattr(self, name)) and len(getattr(self, name)) != d:
                raise ValueError(f"{name} has {len(getattr(self, name))} coordinates, but X has {d} columns")
        lows, highs = np.broadcast_to(self.low, d), np.broadcast_to(self.high, d)
        # A mesh such as 2/3 divides the side up to rounding; its last centre belongs to the cube.
        steps = [floor((high - low) / self._spacing * (1 + 1e-12)) for low, high in zip(lows, highs, strict=True)]
        return [low + self._spacing * np.arange(count + 1) for low, count in zip(lows, steps, strict=True)]

    def _interpolate(self, rows: Floats, theta: Floats) -> Floats:
        candidates = flatten_candidates(theta)
        out = np.empty((len(candidates), len(rows), self.n_experts))
        for part in _row_blocks(len(rows), theta.shape[-1]):
            out[:, part] = self.features(rows[part]) @ np.swapaxes(candidates, 1, 2)
        return out.reshape(*theta.shape[:-2], len(rows), self.n_experts)


def _row_blocks(n: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK_NUMBERS // width)
    return (slice(start, start + step) for start in range(0, n, step))
