"""The assignment loss of a whole gate class: the infimum over its parameters, and how sure it is."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import fmin_l_bfgs_b
from scipy.special import softmax

from gatewise.arrays import as_count, as_positive, as_rows, Floats
from gatewise.gates import Gate, KernelGate, ScoreGate
from gatewise.gates.phi import log_phi, Phi
from gatewise.geometry.assignment_loss import interior_mass, region_targets
from gatewise.solvers.simplex_least_squares import simplex_least_squares


class ClassLoss(NamedTuple):
    """The smallest loss found, its parameter and a gap.

    ``certified``: the infimum lies in [value - gap, value]. Otherwise the class is not convex, the gap is how much
    worse the second-best of the starts ended (0: at least two agree), and the infimum may be lower still.
    """

    value: float
    theta: Floats
    gap: float
    certified: bool


def class_loss(
    gate: Gate,
    X: Any,
    regions: ArrayLike,
    targets: ArrayLike | None = None,
    *,
    interior: ArrayLike | None = None,
    mass: ArrayLike | None = None,
    radius: float = 10.0,
    n_starts: int = 8,
    seed: int | np.random.Generator = 0,
) -> ClassLoss:
    """inf over theta of the assignment loss on rows or nodes X (`eq:L1loss`; with ``interior``, `eq:L2loss`).

    The kernel class is convex in theta: its infimum is exact, with a certificate. Classes of scores are searched
    from ``n_starts`` points in the box [-radius, radius] of parameters (C log M in the paper); a Top-K class
    starts from the dense solutions and moves by random steps, as its loss jumps where the active set changes.

    >>> from gatewise import LinearGate
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> round(class_loss(LinearGate(2, k=1), X, (X[:, 0] > 0).astype(int)).value, 6)
    0.0
    """
    rows = as_rows(X)
    share = interior_mass(interior, mass, len(rows))
    wanted = region_targets(regions, targets, len(rows), gate.n_experts)
    if isinstance(gate, KernelGate):
        return _kernel_infimum(gate.features(rows), wanted, share)
    if not isinstance(gate, ScoreGate):
        raise TypeError(f"gate must be a KernelGate or a ScoreGate, not {type(gate).__name__}")
    radius, rng = as_positive(radius, "radius"), np.random.default_rng(seed)
    shape = gate.theta_shape(rows.shape[1])
    starts = rng.uniform(-radius, radius, size=(as_count(n_starts, "n_starts", low=2), *shape))
    starts *= np.linspace(0.0, 1.0, n_starts)[:, None, None]  # the first start is the uniform gate
    ends = [_descend(gate, rows, wanted, share, start, radius) for start in starts]
    if gate.n_active < gate.n_experts:
        ends = [_wander(gate, rows, wanted, share, theta, radius, rng) for _, theta in ends]
    values = np.array([value for value, _ in ends])
    best = int(values.argmin())
    return ClassLoss(float(values[best]), ends[best][1], float(np.sort(values)[1] - values[best]), certified=False)


def _kernel_infimum(features: Floats, wanted: Floats, share: Floats) -> ClassLoss:
    """The minimum over theta (M, C), columns on the simplex, of sum_i share_i |wanted_i - theta features_i|^2.

    With Q R the weighted features, the loss is |Q' wanted - R theta'|^2 and a rest that theta does not change. Every
    entry (c, m) of the first is a response of its own that only weight m predicts: one row of least squares over the
    simplex, with the unit vectors for experts.
    """
    roots, M = np.sqrt(share)[:, None], wanted.shape[1]
    Q, R = np.linalg.qr(roots * features)
    response = (Q.T @ (roots * wanted)).ravel()
    fit = simplex_least_squares(np.repeat(R, M, axis=0), np.tile(np.eye(M), (len(R), 1)), response)
    value = float(share @ ((wanted - features @ fit.theta.T) ** 2).sum(axis=1))
    return ClassLoss(value, fit.theta, fit.gap * response.size, certified=True)  # the fit's loss is a mean


def _descend(
    gate: ScoreGate, rows: Floats, wanted: Floats, share: Floats, start: Floats, radius: float
) -> tuple[float, Floats]:
    """A local minimum of the dense class in the box, by a quasi-Newton method."""
    features = gate.features(rows)
    end, value, _ = fmin_l_bfgs_b(
        lambda flat: _dense_loss(flat.reshape(start.shape), features, wanted, share, gate.phi),
        start.ravel(),
        bounds=[(-radius, radius)] * start.size,
        factr=1e4,
        pgtol=1e-10,
        maxiter=1000,
    )
    return float(value), np.asarray(end, dtype=np.float64).reshape(start.shape)


def _dense_loss(theta: Floats, features: Floats, wanted: Floats, share: Floats, phi: Phi) -> tuple[float, Floats]:
    """The dense gate's loss and its gradient in theta (flat), by the chain rule through softmax(log phi(scores))."""
    scores = np.column_stack([features @ theta.T, np.zeros(len(features))])
    weights = softmax(log_phi(phi, scores), axis=1)
    slope = 2.0 * share[:, None] * (weights - wanted)
    slope = weights * (slope - (weights * slope).sum(axis=1, keepdims=True))
    if phi != "exp":
        slope *= (log_phi(phi, scores + 1e-6) - log_phi(phi, scores - 1e-6)) / 2e-6
    return float(share @ ((weights - wanted) ** 2).sum(axis=1)), (slope[:, :-1].T @ features).ravel()


def _wander(
    gate: ScoreGate, rows: Floats, wanted: Floats, share: Floats, theta: Floats, radius: float,
    rng: np.random.Generator, n_steps: int = 300,
) -> tuple[float, Floats]:  # fmt: skip
    """Random steps that are kept when the Top-K loss falls; the step grows on success and shrinks on failure."""

    def loss(candidate: Floats) -> float:
        return float(share @ ((gate.weights(rows, candidate) - wanted) ** 2).sum(axis=1))

    value, step = loss(theta), 0.1 * radius
    for _ in range(n_steps):
        candidate = np.clip(theta + step * rng.normal(size=theta.shape), -radius, radius)
        trial = loss(candidate)
        if trial < value:
            value, theta, step = trial, candidate, 2.0 * step
        else:
            step = max(0.9 * step, 1e-6 * radius)
    return value, theta
