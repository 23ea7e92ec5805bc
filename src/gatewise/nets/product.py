"""Product nets: every combination of the values of every part of theta."""

from collections.abc import Sequence
from itertools import combinations
from math import ceil, comb, prod, sqrt

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_count, as_positive, Floats
from gatewise.nets.net import check_size, Net

MAX_LATTICE = 10**6
FEWER = "take fewer values per coefficient, a larger eta or a smaller radius, or list a random sample as thetas"


class ProductNet(Net):
    """All combinations of the rows of ``parts``, the last part running fastest.

    A part is one coefficient's values (g,), or g vectors (g, q) that fill q neighbouring places of theta. The
    parts one after the other make up theta row by row, or column by column with ``by_column=True`` (the kernel
    gate's centres). Only the parts are held; candidates are decoded from their numbers.

    >>> net = ProductNet([[0.0, 1.0], [5.0, 6.0, 7.0]], (1, 2))
    >>> net.size
    6
    >>> net.theta(4)
    array([[1., 6.]])
    """

    def __init__(self, parts: Sequence[ArrayLike], shape: tuple[int, int], by_column: bool = False) -> None:
        self.parts = tuple(_part(values, number) for number, values in enumerate(parts))
        self.theta_shape = shape
        self.by_column = by_column
        filled = sum(part.shape[1] for part in self.parts)
        if filled != shape[0] * shape[1]:
            raise ValueError(f"the parts fill {filled} places, but theta of shape {shape} has {prod(shape)}")
        self._sizes = tuple(len(part) for part in self.parts)
        self._size = check_size(prod(self._sizes), FEWER)

    @property
    def size(self) -> int:
        return self._size

    def theta(self, indices: ArrayLike) -> Floats:
        numbers = self._check_indices(indices)
        digits = np.unravel_index(numbers, self._sizes)
        flat = np.concatenate([part[digit] for part, digit in zip(self.parts, digits, strict=True)], axis=-1)
        if self.by_column:
            columns = flat.reshape(*numbers.shape, self.theta_shape[1], self.theta_shape[0])
            return np.ascontiguousarray(np.swapaxes(columns, -1, -2))
        return flat.reshape(*numbers.shape, *self.theta_shape)

    def factors(self) -> tuple[Floats, ...]:
        """The product structure by expert: factor m holds the G_m values of theta_m, (G_m, columns).

        Candidate s is (i_1, ..., i_{M-1}) in mixed radix, the last factor running fastest, and theta_m is row
        i_m of factor m. So what depends on one expert's score alone is computed sum G_m times and not S times.

        >>> net = ProductNet([[0.0, 1.0], [2.0, 3.0], [4.0], [5.0, 6.0, 7.0]], (2, 2))
        >>> [factor.shape for factor in net.factors()]
        [(4, 2), (3, 2)]
        """
        if self.by_column or any(part.shape[1] != 1 for part in self.parts):
            raise ValueError("factors by expert exist where every coefficient has its own list of values")
        columns = self.theta_shape[1]
        return tuple(
            ProductNet(self.parts[start : start + columns], (1, columns))._all_rows()
            for start in range(0, len(self.parts), columns)
        )

    def _all_rows(self) -> Floats:
        return self.theta(np.arange(self.size))[:, 0, :]

    def __repr__(self) -> str:
        return f"ProductNet(S={self.size:,}, theta_shape={self.theta_shape})"


def _part(values: ArrayLike, number: int) -> Floats:
    part = np.asarray(values, dtype=np.float64)
    part = part[:, None] if part.ndim == 1 else part
    if part.ndim != 2 or part.size == 0:
        raise ValueError(f"list {number} of a product net must hold at least one value, not shape {part.shape}")
    if not np.isfinite(part).all():
        raise ValueError(f"list {number} of a product net must be finite")
    if len(np.unique(part, axis=0)) < len(part):
        raise ValueError(f"list {number} of a product net holds a value twice, which would count it double")
    return part


def eta_net_size(n_params: int, eta: float, radius: float) -> int:
    """S of `eta_net`, without building it: ceil(sqrt(D) radius / eta)^D for D parameters.

    >>> eta_net_size(77, eta=0.5, radius=2.0) > 10**100
    True
    """
    n_params = as_count(n_params, "n_params")
    per_axis = ceil(sqrt(n_params) * as_positive(radius, "radius") / as_positive(eta, "eta"))
    return int(per_axis**n_params)


def eta_net(shape: tuple[int, int], eta: float, radius: float) -> ProductNet:
    """A Euclidean eta-net of the box [-radius, radius]^D, D the number of places in ``shape``.

    The box is cut into equal cubes whose half diagonal is at most eta; the net is their centres. So no point of
    the box is farther than eta from the net (step (a) of `alg:general`).
    """
    n_params = prod(shape)
    size = check_size(eta_net_size(n_params, eta, radius), FEWER)
    per_axis = round(size ** (1 / n_params))
    axis = radius * ((2 * np.arange(per_axis) + 1) / per_axis - 1)
    return ProductNet([axis] * n_params, shape)


def simplex_lattice(n_experts: int, levels: int) -> Floats:
    """The points of the simplex whose coordinates are multiples of 1 / levels, (G, M).

    >>> simplex_lattice(2, 2)
    array([[0. , 1. ],
           [0.5, 0.5],
           [1. , 0. ]])
    """
    n_experts, levels = as_count(n_experts, "n_experts", low=2), as_count(levels, "levels")
    count = comb(levels + n_experts - 1, n_experts - 1)
    if count > MAX_LATTICE:
        raise ValueError(f"the lattice would have {count:,} points, more than {MAX_LATTICE:,}; take fewer levels")
    bars = np.array(list(combinations(range(levels + n_experts - 1), n_experts - 1)), dtype=np.intp)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), levels + n_experts - 1)])
    return (np.diff(edges, axis=1) - 1) / levels
