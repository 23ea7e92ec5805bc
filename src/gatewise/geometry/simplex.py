"""Least squares with a probability vector at every centre: convex, so solved with a certificate."""

import numpy as np

from gatewise.arrays import Floats


def project_columns(theta: Floats) -> Floats:
    """The nearest point with every column (M,) on the simplex: max(theta - t, 0) with t so that columns sum to one.

    >>> project_columns(np.array([[0.7, 2.0], [0.7, 0.0]]))
    array([[0.5, 1. ],
           [0.5, 0. ]])
    """
    ordered = -np.sort(-theta, axis=0)
    excess = (ordered.cumsum(axis=0) - 1.0) / np.arange(1, len(theta) + 1)[:, None]
    support = (ordered > excess).sum(axis=0) - 1
    return np.maximum(theta - np.take_along_axis(excess, support[None], axis=0), 0.0)


def simplex_least_squares(
    features: Floats, wanted: Floats, mass: Floats, tol: float = 1e-9, max_iter: int = 50_000
) -> tuple[Floats, float, float]:
    """theta (M, C), value and gap of min sum_i mass_i |wanted_i - theta features_i|^2 over columns on the simplex.

    Accelerated projected gradients with restarts. The gap is sum_c (theta_c . G_c - min_j G_jc) with G the gradient:
    by convexity no theta is better by more. It stops at a gap of ``tol``, or after max_iter steps at a larger one.

    >>> simplex_least_squares(np.eye(2), np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0.5, 0.5]))[0]
    array([[1. , 0.5],
           [0. , 0.5]])
    """
    weighted = features * mass[:, None]
    gram, cross = features.T @ weighted, wanted.T @ weighted  # (C, C), (M, C)
    step = 0.5 / max(float(np.linalg.eigvalsh(gram)[-1]), np.finfo(float).tiny)
    theta = project_columns(_normalised(cross))
    ahead, speed = theta, 1.0
    for iteration in range(max_iter):
        if iteration % 10 == 0 and _gap(theta, gram, cross) <= tol:
            break
        new = project_columns(ahead - 2.0 * step * (ahead @ gram - cross))
        if ((ahead - new) * (new - theta)).sum() > 0.0:  # the momentum points uphill: start it again
            ahead, speed, theta = new, 1.0, new
            continue
        faster = (1.0 + np.sqrt(1.0 + 4.0 * speed**2)) / 2.0
        ahead, speed, theta = new + (speed - 1.0) / faster * (new - theta), faster, new
    # The expanded square would lose digits near zero, so the value is taken from the residuals.
    value = float(mass @ ((wanted - features @ theta.T) ** 2).sum(axis=1))
    return theta, value, _gap(theta, gram, cross)


def _gap(theta: Floats, gram: Floats, cross: Floats) -> float:
    slope = 2.0 * (theta @ gram - cross)
    return max(float((theta * slope).sum() - slope.min(axis=0).sum()), 0.0)


def _normalised(cross: Floats) -> Floats:
    """A first guess: at every centre the mean of the wanted weights near it."""
    total = cross.sum(axis=0)
    return np.asarray(np.where(total > 0, cross / np.where(total > 0, total, 1.0), 1.0 / len(cross)))
