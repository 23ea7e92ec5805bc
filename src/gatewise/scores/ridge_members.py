"""Score models that are linear in features: ridge regressions of centred scores that share strength between models.

With centred features X (n, q) and centred scores C (n, M) the residual covariance R of a first fit whitens the M
columns, and the leading axes U of what the features explain there turn them into directions, each with a penalty of
its own, chosen by generalised cross-validation. A direction in which models do not differ by query is shrunk away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from gatewise.arrays import Floats
from gatewise.scores.leaders import centre, leading_models, with_leaders
from gatewise.scores.queries import Design, Queries

PENALTIES = np.geomspace(1.0, 1e5, 26)  # times the mean square length of a centred row
FIRST = 100.0  # the penalty of the fit that finds directions, in the same unit
N_LANDMARKS = 200
WIDTH = 1.3
RIDGE_OF_KERNEL = 1e-6  # keeps the root of the kernel's matrix finite
TINY = 1e-9  # of the largest: smaller variances are rounding errors


class Spectrum(NamedTuple):
    """Features (n, q) less their mean, by the eigenvalues and eigenvectors of X'X: it serves any scores."""

    mean: Floats  # (q,)
    values: Floats  # (q,)
    vectors: Floats  # (q, q)
    rows: Floats  # (n, q): the centred features
    unit: float  # the mean square length of a centred row


class RidgeFit(NamedTuple):
    """Coefficients (q, M) and level (M,): forecasts are level + (x - mean) . coefficients.

    The posterior variance of the forecast for model m at x is sum_k noise_mk (sum_j (x - mean)_j^2 / precision_jk) in
    the basis ``vectors``, with ``noise`` (M, J) the squared loadings of J whitened directions and ``precision`` (q,
    J).
    """

    mean: Floats
    level: Floats
    coefficients: Floats
    vectors: Floats
    precision: Floats
    noise: Floats
    n_rows: int

    def forecast(self, features: Floats) -> Floats:
        """Forecasts (n, M) of centred scores."""
        return np.asarray(self.level + (features - self.mean) @ self.coefficients)

    def variance(self, features: Floats) -> Floats:
        """Posterior variances (n, M) of the forecasts, that of the level included."""
        squares = ((features - self.mean) @ self.vectors) ** 2  # (n, q)
        return np.asarray((squares @ (1.0 / self.precision) + 1.0 / self.n_rows) @ self.noise.T)


def spectrum(features: Floats) -> Spectrum:
    """The eigenvalues and eigenvectors of centred features (n, q)."""
    mean = features.mean(axis=0)
    rows = features - mean
    values, vectors = np.linalg.eigh(rows.T @ rows)
    unit = float(np.mean(np.sum(rows**2, axis=1)))
    return Spectrum(mean, np.maximum(values, 0.0), vectors, rows, unit or 1.0)


def fit_ridge(seen: Spectrum, centred: Floats) -> RidgeFit:
    """Ridge regressions of centred scores (n, M) with one penalty for each whitened direction.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> scores = np.c_[0.3 * x, -0.3 * x] + rng.normal(size=(500, 2))
    >>> fit = fit_ridge(spectrum(x), scores - scores.mean(axis=1, keepdims=True))
    >>> fit.forecast(np.array([[1.0]])).round(1)
    array([[ 0.3, -0.3]])
    """
    n, values, unit = len(centred), seen.values[:, None], seen.unit
    level = centred.mean(axis=0)
    Y = centred - level
    squares, product = Y.T @ Y, seen.vectors.T @ (seen.rows.T @ Y)  # (M, M), (q, M)
    first = product / (values + FIRST * unit)
    residual = squares - product.T @ first - first.T @ product + first.T @ (values * first)
    whiten, restore = _whitening(residual / n)
    signal = (values * (first @ whiten)).T @ (first @ whiten)
    axes = np.linalg.eigh(signal)[1]
    turned = whiten @ axes  # (M, J)
    product, total = product @ turned, np.einsum("mj,mk,kj->j", turned, squares, turned, optimize=True)
    criteria = np.stack([_criterion(values, product, total, unit * one, n) for one in PENALTIES])
    penalty = unit * PENALTIES[criteria.argmin(axis=0)]  # (J,)
    precision = values + penalty
    turn = axes.T @ restore  # (J, M)
    coefficients = seen.vectors @ (product / precision) @ turn
    return RidgeFit(seen.mean, level, coefficients, seen.vectors, precision, (turn**2).T, n)


def fit_score_ridge(seen: Spectrum, centred: Floats) -> RidgeFit:
    """`fit_ridge` to all models, with the differences between the leaders by a fit of their own."""
    fit, leaders = fit_ridge(seen, centred), leading_models(centred)
    if len(leaders) == centred.shape[1]:
        return fit
    own = fit_ridge(seen, centre(centred[:, leaders]))
    level = with_leaders(fit.level, own.level, leaders)
    return fit._replace(level=level, coefficients=with_leaders(fit.coefficients, own.coefficients, leaders))


def _whitening(covariance: Floats) -> tuple[Floats, Floats]:
    """W (M, J) with W' covariance W = 1, and its inverse on the range (J, M)."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > max(TINY * values.max(), np.finfo(np.float64).tiny)
    root = np.sqrt(values[kept])
    return vectors[:, kept] / root, (vectors[:, kept] * root).T


def _criterion(values: Floats, product: Floats, total: Floats, penalty: float, n: int) -> Floats:
    """Generalised cross-validation of each direction, (J,): squared residuals over (1 - freedom / n)^2."""
    coefficients = product / (values + penalty)
    squares = total - 2.0 * (product * coefficients).sum(axis=0) + (values * coefficients**2).sum(axis=0)
    freedom = 1.0 + float((values / (values + penalty)).sum())
    return np.asarray(squares / max(1.0 - freedom / n, 1e-3) ** 2)


@dataclass(frozen=True, eq=False)
class KernelBasis:
    """Gaussian kernels about landmarks (L, q), as features whose products are the kernel's (Nystroem).

    They are exp(-|x - landmark|^2 / (2 width^2)) times ``root`` (L, L), the inverse root of the kernel's matrix at
    the landmarks.
    """

    landmarks: Floats
    root: Floats
    width: float

    @classmethod
    def fit(cls, rows: Floats, seed: int) -> Self:
        """N_LANDMARKS of the rows (n, q), at random; the width is WIDTH root mean square distances from the mean."""
        landmarks = rows[np.random.default_rng(seed).choice(len(rows), min(N_LANDMARKS, len(rows)), replace=False)]
        width = WIDTH * (float(np.sqrt(np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1)))) or 1.0)
        kernel = np.exp(-0.5 * square_distances(landmarks, landmarks) / width**2)
        values, vectors = np.linalg.eigh(kernel + RIDGE_OF_KERNEL * np.eye(len(kernel)))
        return cls(landmarks, vectors / np.sqrt(np.maximum(values, RIDGE_OF_KERNEL)), width)

    def features(self, rows: Floats) -> Floats:
        """Features (n, L) of rows (n, q)."""
        return np.asarray(np.exp(-0.5 * square_distances(rows, self.landmarks) / self.width**2) @ self.root)


@dataclass(frozen=True, eq=False)
class LinearMember:
    """A ridge regression on the features of queries, with or without text, or on Gaussian kernels of them."""

    design: Design
    kernel: KernelBasis | None
    fit: RidgeFit

    def features(self, queries: Queries) -> Floats:
        """The features of queries, (n, q) or (n, L)."""
        rows = queries.design(self.design)
        return rows if self.kernel is None else self.kernel.features(rows)

    def forecast(self, queries: Queries) -> Floats:
        """Forecasts (n, M) of centred scores."""
        return self.fit.forecast(self.features(queries))

    def variance(self, queries: Queries) -> Floats:
        """Posterior variances (n, M) of the forecasts."""
        return self.fit.variance(self.features(queries))


def square_distances(rows: Floats, others: Floats) -> Floats:
    """Squared Euclidean distances (n, L) between rows (n, q) and others (L, q), by one matrix product.

    >>> square_distances(np.array([[0.0, 3.0]]), np.array([[4.0, 0.0], [0.0, 3.0]]))
    array([[25.,  0.]])
    """
    own, theirs = np.einsum("ij,ij->i", rows, rows), np.einsum("ij,ij->i", others, others)
    return np.asarray(np.maximum(own[:, None] + theirs - 2.0 * (rows @ others.T), 0.0))


def fit_linear(queries: Queries, centred: Floats, design: Design) -> LinearMember:
    """A ridge regression of centred scores (n, M) on the features."""
    return LinearMember(design, None, fit_score_ridge(spectrum(queries.design(design)), centred))


def fit_kernel(queries: Queries, centred: Floats, design: Design, seed: int) -> LinearMember:
    """A ridge regression of centred scores (n, M) on Gaussian kernels of the features."""
    rows = queries.design(design)
    basis = KernelBasis.fit(rows, seed)
    return LinearMember(design, basis, fit_score_ridge(spectrum(basis.features(rows)), centred))


def fit_observed_ridge(features: Floats, scores: Floats, penalty: float = 30.0) -> Callable[[Floats], Floats]:
    """One ridge regression a model on the rows where it was tried; scores (n, M) with NaN for not tried.

    ``penalty`` is in units of the mean square length of a centred row. Returns the forecasts as a function.
    """
    mean = features.mean(axis=0)
    rows = features - mean
    unit = float(np.mean(np.sum(rows**2, axis=1))) or 1.0
    coefficients, levels = np.empty((features.shape[1], scores.shape[1])), np.empty(scores.shape[1])
    for m, column in enumerate(scores.T):
        seen = ~np.isnan(column)
        level = float(column[seen].mean()) if seen.any() else 0.0
        own = rows[seen]
        system = own.T @ own + penalty * unit * np.eye(rows.shape[1])
        coefficients[:, m] = np.linalg.solve(system, own.T @ (column[seen] - level))
        levels[m] = level

    def forecast(new: Floats) -> Floats:
        return np.asarray(levels + (new - mean) @ coefficients)

    return forecast
