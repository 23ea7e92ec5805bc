"""The gates of the paper's proofs as builders: each returns a family of gates and a parameter."""

from collections.abc import Callable
from math import floor, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import KDTree

from gatewise.arrays import as_count, as_positive, as_rows, Floats, Indices
from gatewise.experts import AffineExpert, expert_predictions
from gatewise.gates import Gate, KernelGate, LinearGate
from gatewise.geometry.assignment_loss import region_targets
from gatewise.geometry.regions import RegionMap
from gatewise.mixture import MixtureOfExperts

MAX_POINTS = 10**7


class BuiltGate(NamedTuple):
    """A gate with its parameter; ``specialists`` (R,) or (R, 2) are the experts that belong to each region."""

    gate: Gate
    theta: Floats
    specialists: Indices

    def weights(self, X: Any) -> Floats:
        """The weight of every expert at every row, (n, M)."""
        return self.gate.weights(X, self.theta)


def oracle_kernel_weights(gate: KernelGate, d: int, regions: RegionMap, targets: ArrayLike | None = None) -> Floats:
    """w_jc = sum_r targets_rj 1{c in region r}, (M, C): every centre carries its region's weights (section 5.3).

    ``regions`` gives the region 0, ..., R - 1 of every row; ``targets`` (R, M) are the weights wanted there, e_r
    unless given.

    >>> gate = KernelGate(2, mesh=0.5)
    >>> oracle_kernel_weights(gate, 1, lambda X: (X[:, 0] > 0.6).astype(int))
    array([[1., 1., 0.],
           [0., 0., 1.]])
    """
    centers = gate.centers(d)
    labels = np.asarray(regions(centers))
    return np.ascontiguousarray(region_targets(labels, targets, len(centers), gate.n_experts).T)


def oracle_kernel_gate(
    regions: RegionMap, d: int, mesh: float, targets: ArrayLike, kappa: float = 0.75, low: Any = 0.0, high: Any = 1.0
) -> BuiltGate:
    """The kernel gate of `thm:kernel-global-main` for weights ``targets`` (R, M) on given regions of a cube.

    >>> halves = oracle_kernel_gate(lambda X: (X[:, 0] > 0.5).astype(int), d=1, mesh=0.1, targets=np.eye(2))
    >>> halves.weights([[0.2], [0.9]]).round(3)
    array([[1., 0.],
           [0., 1.]])
    """
    table = as_rows(targets, "targets")
    gate = KernelGate(table.shape[1], mesh=mesh, kappa=kappa, low=low, high=high)
    theta = oracle_kernel_weights(gate, as_count(d, "d"), regions, table)
    return BuiltGate(gate, theta, table.argmax(axis=1))


def separated_top1_gate(directions: ArrayLike, n_experts: int, input_norm: float, box: float = 1.0) -> BuiltGate:
    """The Top-1 gate of `cor:Top1-single`: linearly separable regions, idle experts that never lead.

    ``directions`` (R, d + 1) are the v_r of `ass:linearly-separable`, intercepts last: region r is where
    v_r . (x, 1) is the largest. ``input_norm`` bounds |x|, and every parameter lies in [-box, box]. Experts
    0, ..., R - 2 and the last one are the specialists. The slopes of all experts are separated, those of the idle
    ones by an order of M^(-1/d).

    >>> built = separated_top1_gate([[1.0, 0.0], [-1.0, 0.0]], n_experts=5, input_norm=1.0)
    >>> built.weights([[0.5], [-0.5]]).argmax(axis=1), built.specialists
    (array([0, 4]), array([0, 4]))
    """
    v, M = _directions(directions, n_experts)
    c_0 = as_positive(box, "box")
    active = min(0.5, c_0 / 4) * (v[:-1] - v[-1])  # (R - 1, d + 1)
    offset = min(c_0, 1.0) / 2
    taken = np.vstack([active[:, :-1], np.zeros(v.shape[1] - 1)])
    reach = offset / (2 * max(1.0, as_positive(input_norm, "input_norm")))
    slopes = _packing(reach, taken, M - len(v))
    idle = np.column_stack([slopes, np.full(len(slopes), -offset)])
    return BuiltGate(LinearGate(M, k=1), np.vstack([active, idle]), _specialists(len(v), M))


def soft_region_gate(directions: ArrayLike, n_experts: int, input_norm: float, box: float = 3.0) -> BuiltGate:
    """The dense softmax gate of `prop:supp-linear-no-margin`, near to hard regions.

    Scores t (v_r - v_R) . (x, 1) with t = C log(M) / (4 B), C = ``box`` > 2, B = max(1, ``input_norm``) with
    ``input_norm`` >= |(x, 1)|; idle experts have the constant score -C log M. ``directions`` and specialists as in
    `separated_top1_gate`; its distance to the regions is bounded by `theory.soft_assignment_error`.

    >>> built = soft_region_gate([[1.0, 0.0], [-1.0, 0.0]], 1000, input_norm=1.5)
    >>> built.weights([[0.2], [0.9]])[:, 0].round(2)
    array([0.8, 1. ])
    """
    v, M = _directions(directions, n_experts)
    reach = _reach(M, box)
    active = reach / (4 * max(1.0, as_positive(input_norm, "input_norm"))) * (v[:-1] - v[-1])
    return BuiltGate(
        LinearGate(M), np.vstack([active, _idle(M - len(v), v.shape[1], reach)]), _specialists(len(v), M)
    )


def soft_mixture_gate(
    directions: ArrayLike, weights: ArrayLike, n_experts: int, input_norm: float, box: float = 3.0
) -> BuiltGate:
    """As `soft_region_gate` with two experts on each region, mixed by ``weights`` (R, 2), each row with sum one.

    Experts 2r and 2r + 1 belong to region r; the second one of the last region is the last expert
    (`prop:supp-linear-top2-no-margin`).

    >>> built = soft_mixture_gate([[1.0, 0.0], [-1.0, 0.0]], [[0.3, 0.7], [0.5, 0.5]], 10_000, input_norm=1.5)
    >>> built.weights([[1.0]])[0, built.specialists[0]].round(2)
    array([0.3, 0.7])
    """
    pairs = as_rows(weights, "weights")
    v, M = _directions(directions, n_experts, per_region=2)
    if pairs.shape != (len(v), 2) or (pairs <= 0).any() or (np.abs(pairs.sum(axis=1) - 1.0) > 1e-9).any():
        raise ValueError(f"weights must be ({len(v)}, 2), positive, each row with sum 1, not {pairs!r}")
    reach = _reach(M, box)
    base = reach / (4 * max(1.0, as_positive(input_norm, "input_norm"))) * (v - v[-1])
    first = base.copy()
    first[:, -1] += np.log(pairs[:, 0] / pairs[:, 1])
    active = np.stack([first, base], axis=1).reshape(-1, v.shape[1])[:-1]  # the last one is the reference
    specialists = np.arange(2 * len(v)).reshape(-1, 2)
    specialists[-1, -1] = M - 1
    theta = np.vstack([active, _idle(M - 2 * len(v), v.shape[1], reach)])
    return BuiltGate(LinearGate(M), theta, specialists)


def local_affine_softmax(
    h: Callable[[Any], Any], slope: Callable[[Any], Any], n_experts: int, width: float | None = None
) -> MixtureOfExperts:
    """M tangents of h on [0, 1] behind a softmax gate of linear scores (`exa:role-shared-routed-expert`).

    Expert m is the tangent at x_m = (2m - 1) / (2M); its score x_m x / tau^2 - x_m^2 / (2 tau^2) makes the gate a
    Gaussian kernel of bandwidth tau = ``width`` around x_m, 1 / floor(sqrt(log M)) unless given. ``h`` and its
    derivative ``slope`` take rows (n, 1). The error is of the order sup |h''| tau^2.

    >>> model = local_affine_softmax(lambda X: X[:, 0] ** 2, lambda X: 2 * X[:, 0], n_experts=50, width=0.05)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.05**2)
    True
    """
    M = as_count(n_experts, "n_experts", low=3)
    tau = 1.0 / floor(sqrt(log(M))) if width is None else as_positive(width, "width")
    centers = (np.arange(M) + 0.5) / M
    level = expert_predictions(h, centers[:, None], "the function h")
    tilt = expert_predictions(slope, centers[:, None], "the function slope")
    scores = np.column_stack([centers, -0.5 * centers**2]) / tau**2
    experts = [AffineExpert((b,), a - b * c) for a, b, c in zip(level, tilt, centers, strict=True)]
    return MixtureOfExperts(LinearGate(M), scores[:-1] - scores[-1], experts)


def _directions(directions: ArrayLike, n_experts: int, per_region: int = 1) -> tuple[Floats, int]:
    """v scaled to max |v_r| = 1, and M, large enough for the regions."""
    v = as_rows(directions, "directions")
    if len(v) < 2 or v.shape[1] < 2:
        raise ValueError(f"directions must be (R, d + 1) with R >= 2 and d >= 1, not {v.shape}")
    norm = np.linalg.norm(v, axis=1).max()
    if norm == 0:
        raise ValueError("directions must not all be zero")
    return v / norm, as_count(n_experts, "n_experts", low=per_region * len(v))


def _specialists(n_regions: int, n_experts: int) -> Indices:
    return np.append(np.arange(n_regions - 1), n_experts - 1)


def _reach(n_experts: int, box: float) -> float:
    if as_positive(box, "box") <= 2:
        raise ValueError(f"box must be above 2, not {box!r}: the idle experts' weights would not vanish")
    return box * log(n_experts)


def _idle(count: int, width: int, reach: float) -> Floats:
    return np.column_stack([np.zeros((count, width - 1)), np.full(count, -reach)])


def _packing(radius: float, taken: Floats, count: int) -> Floats:
    """count points of the coarsest grid in the ball that stay half a step from the points taken, (count, d)."""
    d, side = taken.shape[1], 2
    while count > 0:
        if side**d > MAX_POINTS:
            raise ValueError(f"no room for {count} idle experts in {d} dimensions was found; take fewer experts")
        axis = radius * np.linspace(-1.0, 1.0, side)
        points = np.stack([grid.ravel() for grid in np.meshgrid(*[axis] * d, indexing="ij")], axis=1)
        clear = KDTree(taken).query(points)[0] > (axis[1] - axis[0]) / 2
        usable = points[(np.linalg.norm(points, axis=1) <= radius) & clear]
        if len(usable) >= count:
            return np.asarray(usable[:count])
        side += 1
    return np.zeros((0, d))
