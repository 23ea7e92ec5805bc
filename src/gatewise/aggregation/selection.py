"""Choice among estimators by aggregation and projection: steps (c) and (d) of `alg:selection`.

Plain arrays: predictions F (n, L) of L candidates that were fitted on other rows, and responses y (n,). With one
candidate per gate class this is the choice of a gate class; the functions work for candidates of any kind.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gatewise.aggregation.scales import check_bounds, clipped_scale
from gatewise.aggregation.weight_steps import weight_steps
from gatewise.aggregation.weights import init, run
from gatewise.arrays import as_rows, as_vector, Floats
from gatewise.noise import as_noise, LogDensity, Noise

NoiseLike: TypeAlias = str | Noise | LogDensity


class Weighing(NamedTuple):
    """The result of the aggregation of L candidates over n rows.

    path (n + 1, L): row t holds the weights that predict row t, the last row those after all; weights (L,): the mean
    of those that predicted, over rows and their copies; online (n,): the weighted predictions, each made before its
    response was seen.
    """

    path: Floats
    weights: Floats
    online: Floats


class Nearest(NamedTuple):
    """The candidate nearest to the aggregate, and the mean squared distance of each of the L to it."""

    candidate: int
    squared_distances: Floats


def scales(F: ArrayLike, y: ArrayLike, bounds: tuple[float, float]) -> Floats:
    """One noise scale per candidate, (L,): its root mean squared residual, clipped; F (n, L), y (n,).

    sigma_l^2 = min(high^2, max(low^2, mean_i (y_i - F_il)^2)).

    >>> scales([[0.0, 3.0], [2.0, 3.0]], [1.0, 1.0], bounds=(0.1, 1.5))
    array([1. , 1.5])
    """
    rows, response = _checked(F, y)
    return clipped_scale(response[:, None] - rows, *check_bounds(bounds))


def weigh(
    F: ArrayLike, y: ArrayLike, sigma: ArrayLike, noise: NoiseLike = "gaussian", copies: Floats | None = None
) -> Weighing:
    """AFTER over the rows with equal weights at first; F (n, L), y (n,), sigma one number, (L,) or (n, L).

    w_{l,t+1} is proportional to w_{l,t} h{(y_t - F_tl) / sigma_l} / sigma_l. A row counts as so
    many copies (n,) of it next to each other (`weight_steps`); as one, if None.

    >>> weigh([[0.0, 1.0], [0.0, 1.0]], [0.0, 0.0], sigma=1.0).path.round(3)
    array([[0.5  , 0.5  ],
           [0.622, 0.378],
           [0.731, 0.269]])
    """
    rows, response = _checked(F, y)
    L = rows.shape[1]
    scale = np.broadcast_to(np.asarray(sigma, dtype=np.float64), rows.shape)
    if not (np.isfinite(scale).all() and (scale > 0.0).all()):
        raise ValueError(f"sigma must be finite and above 0, not {sigma!r}")
    with np.errstate(over="ignore"):  # a density may be zero: the weights then say so, or that it is zero for all
        log_density = as_noise(noise).log_density((response[:, None] - rows) / scale) - np.log(scale)
    if copies is None:
        path: Floats = np.exp(run(init(np.zeros(L)), log_density)[1])
        return Weighing(path, path[:-1].mean(axis=0), (path[:-1] * rows).sum(axis=1))
    steps = weight_steps(copies)
    along: Floats = np.exp(run(init(np.zeros(L)), log_density[steps.row] * steps.power[:, None])[1])
    path = along[steps.ends]
    return Weighing(path, np.average(along[:-1], 0, steps.power), (path[:-1] * rows).sum(axis=1))


def nearest(F: ArrayLike, weights: ArrayLike, copies: Floats | None = None) -> Nearest:
    """The candidate nearest to the weighted sum of all in mean square over rows F (n, L) and copies (n,) of them.

    argmin_l mean_i (F_il - sum_r weights_r F_ir)^2; equal distances go to the first.

    >>> nearest([[0.0, 1.0, 4.0]], [0.2, 0.5, 0.3])
    Nearest(candidate=1, squared_distances=array([2.89, 0.49, 5.29]))
    """
    rows = as_rows(F, "F")
    shares = as_vector(weights, "weights", rows.shape[1])
    # Distances from the first candidate: a constant that all share must not cost digits.
    relative = rows - rows[:, [0]]
    distances = np.average((relative - (relative @ shares)[:, None]) ** 2, 0, copies)
    return Nearest(int(np.argmin(distances)), distances)


def _checked(F: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    rows = as_rows(F, "F")
    if len(rows) == 0:
        raise ValueError("F must have at least one row, not 0")
    return rows, as_vector(y, "y", len(rows))
