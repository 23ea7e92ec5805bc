"""How far a gate is from the regions: the global and the interior assignment loss of one gate."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_count, as_rows, Floats
from gatewise.geometry.checked_inputs import as_labels, as_mass
from gatewise.stats import mean_and_error

MAX_NODES = 10**8


class Estimate(NamedTuple):
    """A mean and its standard error; NaN where the mean is a quadrature and has none."""

    value: float
    standard_error: float


def region_targets(regions: Any, targets: ArrayLike | None, n: int, n_experts: int) -> Floats:
    """w*_{r(x)} at every row, (n, M): the targets (R, M) of the regions, canonical vectors unless given.

    >>> region_targets([1, 0], None, 2, 2)
    array([[0., 1.],
           [1., 0.]])
    """
    if targets is None:
        return np.asarray(np.eye(n_experts)[as_labels(regions, "regions", n, n_experts)])
    table = as_rows(targets, "targets")
    if table.shape[1] != n_experts:
        raise ValueError(f"targets must have one column per expert, shape (R, {n_experts}), not {table.shape}")
    if (table < 0).any() or (np.abs(table.sum(axis=1) - 1.0) > 1e-9).any():
        raise ValueError("targets must lie on the simplex: not negative, each row with sum 1")
    return np.asarray(table[as_labels(regions, "regions", n, len(table))])


def interior_mass(interior: Any, mass: ArrayLike | None, n: int) -> Floats:
    """The probability of every row, (n,), zero where ``interior`` (n,) is false; it sums to P(interior)."""
    full = as_mass(mass, n)
    if interior is None:
        return full
    mask = np.asarray(interior)
    if mask.shape != (n,) or mask.dtype != np.bool_:
        raise ValueError(
            f"interior must be a mask, one truth value a row, shape ({n},), not {mask.shape} of {mask.dtype}"
        )
    return np.where(mask, full, 0.0)


def assignment_loss(
    weights: ArrayLike,
    regions: ArrayLike,
    targets: ArrayLike | None = None,
    *,
    interior: ArrayLike | None = None,
    mass: ArrayLike | None = None,
) -> Estimate:
    """sum_r || (w*_r - g) 1_{X_r} ||^2 in L2(P_X) of one gate (`eq:L1loss`; with ``interior``, `eq:L2loss`).

    ``weights`` (n, M) are the gate at rows drawn from P_X, or at the nodes of a quadrature with ``mass`` (n,);
    ``regions`` (n,) are the rows' regions; ``targets`` (R, M) the weights wanted on each, e_r unless given;
    ``interior`` (n,) is true on the shrunken regions. The value lies in [0, 2].

    >>> assignment_loss([[0.5, 0.5], [0.0, 1.0]], [0, 1])
    Estimate(value=0.25, standard_error=0.25)
    """
    gate = as_rows(weights, "weights")
    n, n_experts = gate.shape
    if n == 0:
        raise ValueError("weights must hold at least one row")
    if (gate < -1e-9).any() or (np.abs(gate.sum(axis=1) - 1.0) > 1e-6).any():
        raise ValueError("weights must lie on the simplex: not negative, each row with sum 1")
    kept = interior_mass(interior, mass, n)
    terms = ((region_targets(regions, targets, n, n_experts) - gate) ** 2).sum(axis=1)
    value = float(kept @ terms)
    if mass is not None:
        return Estimate(value, float("nan"))
    return Estimate(value, mean_and_error(n * kept * terms)[1] if n > 1 else float("nan"))


def box_quadrature(
    low: ArrayLike, high: ArrayLike, per_axis: int, inside: Callable[[Floats], Any] | None = None
) -> tuple[Floats, Floats]:
    """Midpoint nodes X (n, d) and mass (n,) of the uniform distribution on a box, or on its part ``inside``.

    Another density is a factor: pass ``mass * density(X)`` on, which is scaled to sum one.

    >>> X, mass = box_quadrature([0.0], [1.0], 2)
    >>> X.ravel(), mass
    (array([0.25, 0.75]), array([0.5, 0.5]))
    """
    lows, highs = np.broadcast_arrays(np.atleast_1d(np.asarray(low, float)), np.atleast_1d(np.asarray(high, float)))
    if lows.ndim != 1 or not (np.isfinite(lows).all() and np.isfinite(highs).all() and (lows < highs).all()):
        raise ValueError(f"low must be below high in every coordinate, both finite vectors, not {low!r} and {high!r}")
    per_axis = as_count(per_axis, "per_axis")
    if per_axis**lows.size > MAX_NODES:
        raise ValueError(f"per_axis = {per_axis} in {lows.size} dimensions makes more than {MAX_NODES:,} nodes")
    step = (np.arange(per_axis) + 0.5) / per_axis
    axes = [a + (b - a) * step for a, b in zip(lows, highs, strict=True)]
    nodes = np.stack([grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")], axis=1)
    if inside is not None:
        nodes = nodes[np.asarray(inside(nodes), dtype=np.bool_)]
        if len(nodes) == 0:
            raise ValueError("inside must hold for at least one node; take more nodes per axis")
    return nodes, np.full(len(nodes), 1.0 / len(nodes))
