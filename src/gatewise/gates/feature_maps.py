"""The features of a gate in the learned list: standardised, bounded, and zero far from the data.

A gate of the learned list has the weights softmax(log reference + features . theta_m). The features of every gate
family are bounded, fall to zero away from the data (where the gate is then its reference), and are scaled such that
coefficients of standard deviation s give scores of a standard deviation of about s. A family names its feature map in
``feature_map``; one that names none gets `StandardFeatures`, its own features standardised.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats, Indices
from gatewise.gates.inputs import Inputs

BOUND = 4.0  # standardised features are clipped to [-BOUND, BOUND]
QUADRATIC_INPUTS = 6  # products are taken of this many coordinates, the first ones
KERNEL_INPUTS = 5  # kernels look at this many coordinates at most: those that matter, or the first ones
# Kernel centres at 1,000 rows, in up to three coordinates and in more. Their number grows as n^(r / (r + 4)), with
# which a gate that is twice smooth in r coordinates is approximated and learned alike (`thm:kernel-global-main`).
CENTERS, CENTERS_HIGH = 60, 20
CLUSTERED, LEAST_CLUSTERED = 30, 2_000  # rows for each centre that are clustered, at most, but no fewer than that
MOST_FEATURES, MOST_FEATURES_HIGH = 30_000_000, 10_000_000  # rows times centres, at most: 240 and 80 MB
# Of the search for the inputs that matter:
MOST_ROWS = 2_000  # that are looked at, evenly spaced
MOST_BINS, ROWS_PER_CELL = 8, 10  # of a coordinate; the cells of a pair have so many rows on average, at least
MOST_PULLS = 3  # principal directions of the pulls
CLEAR = 4.0  # standard deviations by which a coordinate must add to another one, of all that it may be paired with


class GateFeatures(Protocol):
    """A fitted map from gate inputs to features (n, p).

    ``needs_forecasts`` says whether the features are computed from the experts' forecasts; ``n_features`` is p.
    """

    needs_forecasts: ClassVar[bool]

    @property
    def n_features(self) -> int:
        """The number p of the features."""
        ...

    @classmethod
    def fit(cls, gate: Any, inputs: Inputs, F: Floats, seed: int) -> Self:
        """Learn standard deviations and centres from rows and the experts' forecasts, without the responses.

        ``gate`` is a gate, or a family that stands for its gate with default parameters.
        """
        ...

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:
        """The features of rows (n, p); F (n, M) are the experts' forecasts there, where the gate needs them."""
        ...

    def about(self, coordinates: Indices, inputs: Inputs) -> Self:
        """The map for a gate in these coordinates alone, if it would see fewer: learned from rows, not responses."""
        ...


class FixedFeatures:
    """A map that looks at the same coordinates whichever of them matter."""

    needs_forecasts: ClassVar[bool] = False

    def about(self, coordinates: Indices, inputs: Inputs) -> Self:  # noqa: ARG002
        return self


@dataclass(frozen=True, eq=False)
class StandardFeatures(FixedFeatures):
    """Features of any gate, standardised and bounded; columns that are constant in the fit are left out."""

    gate: Any
    kept: NDArray[np.bool_]
    mean: Floats
    scale: Floats
    n_features: int

    @classmethod
    def fit(cls, gate: Any, inputs: Inputs, F: Floats, seed: int) -> Self:  # noqa: ARG003 - nothing is drawn
        gate = gate(F.shape[1]) if isinstance(gate, type) else gate
        columns = np.asarray(gate.features(inputs.Z), dtype=np.float64)
        if columns.ndim != 2 or len(columns) != len(inputs.Z) or not np.isfinite(columns).all():
            raise ValueError(f"features of {gate!r} must be finite, with shape ({len(inputs.Z)}, p), on these rows")
        deviation = columns.std(axis=0)
        kept = deviation > 1e-12 * (1.0 + np.abs(columns).max(axis=0, initial=0.0))
        return cls(gate, kept, columns[:, kept].mean(axis=0), deviation[kept], 1 + int(kept.sum()))

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:  # noqa: ARG002
        columns = np.asarray(self.gate.features(inputs.Z), dtype=np.float64)[:, self.kept]
        return faded(inputs, np.clip((columns - self.mean) / self.scale, -BOUND, BOUND))


@dataclass(frozen=True, eq=False)
class CoordinateFeatures(FixedFeatures):
    """The coordinates themselves, which are standardised already."""

    n_features: int

    @classmethod
    def fit(cls, gate: Any, inputs: Inputs, F: Floats, seed: int) -> Self:  # noqa: ARG003 - nothing to learn
        return cls(1 + inputs.Z.shape[1])

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:  # noqa: ARG002
        return faded(inputs, inputs.Z)


@dataclass(frozen=True, eq=False)
class ProductFeatures(FixedFeatures):
    """The first QUADRATIC_INPUTS coordinates, and their squares and products, standardised."""

    mean: Floats
    scale: Floats
    n_features: int

    @classmethod
    def fit(cls, gate: Any, inputs: Inputs, F: Floats, seed: int) -> Self:  # noqa: ARG003
        products = _products(inputs.Z)
        count = 1 + min(QUADRATIC_INPUTS, inputs.Z.shape[1]) + products.shape[1]
        return cls(products.mean(axis=0), _positive(products.std(axis=0)), count)

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:  # noqa: ARG002
        products = np.minimum(np.maximum((_products(inputs.Z) - self.mean) / self.scale, -BOUND), BOUND)
        return faded(inputs, np.concatenate([inputs.Z[:, :QUADRATIC_INPUTS], products], axis=1))


@dataclass(frozen=True, eq=False)
class ClusterFeatures:
    """Normalised Gaussian kernels (section 5.3) about centres: those of k-means clusters of the rows, or a grid.

    The grid is that of the gate, if it has a mesh; the bandwidth then is the gate's, else the median distance from a
    centre to its nearest neighbour. Kernels about clusters look at the ``places`` among the coordinates: the first
    KERNEL_INPUTS of them, unless it is told which ones matter. The clusters are drawn by the ``seed``.
    """

    needs_forecasts: ClassVar[bool] = False

    centers: Floats  # (C, r)
    bandwidth: float
    places: Indices  # (r,)
    seed: int | None  # None for a grid
    n_features: int  # C

    @classmethod
    def fit(cls, gate: Any, inputs: Inputs, F: Floats, seed: int) -> Self:  # noqa: ARG003
        places = np.arange(min(KERNEL_INPUTS, inputs.Z.shape[1]))
        if gate.mesh is not None:
            centers = gate.centers(len(places))
            return cls(centers, gate.bandwidth, places, None, len(centers))
        centers, bandwidth = _clusters(inputs.Z[:, places], n_centers(len(inputs.Z), len(places)), seed)
        return cls(centers, bandwidth, places, seed, len(centers))

    def about(self, coordinates: Indices, inputs: Inputs) -> Self:
        """Clusters in these coordinates, no more of them than there are: fewer coordinates have a finer mesh."""
        if self.seed is None or not coordinates.size or np.array_equal(coordinates, self.places):
            return self
        places, n = coordinates[:KERNEL_INPUTS], len(inputs.Z)
        count = min(n_centers(n, len(places)), n_centers(n, len(self.places)))
        centers, bandwidth = _clusters(inputs.Z[:, places], count, self.seed)
        return type(self)(centers, bandwidth, places, self.seed, len(centers))

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:  # noqa: ARG002
        distances = _squared_distances(inputs.Z[:, self.places], self.centers)
        distances -= distances.min(axis=1, keepdims=True)
        distances *= -0.5 / self.bandwidth**2
        kernels = np.exp(distances, out=distances)
        kernels *= (2.0 * inputs.inside / kernels.sum(axis=1))[:, None]  # the kernels at a row have a norm of about 1
        return kernels


def _clusters(Z: Floats, count: int, seed: int) -> tuple[Floats, float]:
    """The centres of so many clusters of the rows Z (n, r), and the median distance to the nearest other centre."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import

    most = max(CLUSTERED * count, LEAST_CLUSTERED)
    if len(Z) > most:
        Z = Z[np.random.default_rng(seed).choice(len(Z), most, replace=False)]
    count = min(count, len(np.unique(Z, axis=0)))
    centers = KMeans(count, n_init=1, random_state=seed).fit(Z).cluster_centers_ if Z.shape[1] else np.zeros((1, 0))
    gaps = np.sqrt(_squared_distances(centers, centers) + np.diag(np.full(len(centers), np.inf)))
    spacing = float(np.median(gaps.min(axis=1)))
    return centers, spacing if 0.0 < spacing < np.inf else 1.0


def n_centers(n: int, r: int) -> int:
    """The number of kernel centres for n rows in r coordinates.

    >>> [n_centers(n, 2) for n in (100, 1_000, 10_000, 100_000)]
    [10, 60, 129, 278]
    """
    few, most = (CENTERS, MOST_FEATURES) if 0 < r <= 3 else (CENTERS_HIGH, MOST_FEATURES_HIGH)
    grown = int(few * max(n / 1000.0, 1.0) ** (r / (r + 4.0)))
    return max(1, min(grown, n // 10, most // n))


@dataclass(frozen=True, eq=False)
class ForecastFeatures(FixedFeatures):
    """The experts' mean forecast, its square, and the distance of each expert's forecast from it, standardised.

    A gate can then prefer different experts where forecasts are high and where they are low, or where they disagree.
    """

    needs_forecasts: ClassVar[bool] = True

    mean: float
    scale: float
    distance: float
    n_features: int

    @classmethod
    def fit(cls, gate: Any, inputs: Inputs, F: Floats, seed: int) -> Self:  # noqa: ARG003
        level = F.mean(axis=1)
        distance = np.sqrt(np.mean((F - level[:, None]) ** 2))
        return cls(float(level.mean()), float(_positive(level.std())), float(_positive(distance)), 3 + F.shape[1])

    def features(self, inputs: Inputs, F: Floats | None) -> Floats:
        if F is None:
            raise ValueError("a forecast gate needs the experts' forecasts")
        return faded(inputs, forecast_columns(F, self.mean, self.scale, self.distance))


def forecast_columns(F: Floats, mean: float, scale: float, distance: float) -> Floats:
    """The features of a forecast gate from forecasts F (n, M): (n, 2 + M).

    They are l, l^2 - 1 and |F_m - c| / distance for every expert m, where c is the mean of the row's forecasts and
    l = (c - mean) / scale. l is clipped to [-3, 3] and the distances to at most 3.
    """
    common = F.mean(axis=1)
    level = np.minimum(np.maximum((common - mean) / scale, -3.0), 3.0)
    out = np.empty((len(F), 2 + F.shape[1]))
    out[:, 0], out[:, 1] = level, level**2 - 1.0
    np.minimum(np.abs(F - common[:, None]) / distance, 3.0, out=out[:, 2:])
    return out


def faded(inputs: Inputs, columns: Floats) -> Floats:
    """(1, columns) * inside / sqrt(1 + q), of shape (n, 1 + q), for standardised columns (n, q).

    A constant is added as the first feature. The features of a row then have a norm of about one, and fall to zero
    far from the data, where ``inputs.inside`` does.
    """
    out, share = np.empty((len(columns), 1 + columns.shape[1])), inputs.inside / sqrt(1.0 + columns.shape[1])
    out[:, 0] = share
    np.multiply(columns, share[:, None], out=out[:, 1:])
    return out


def _products(Z: Floats) -> Floats:
    first, second = _pairs(min(QUADRATIC_INPUTS, Z.shape[1]))
    return np.asarray(Z[:, first] * Z[:, second])


@cache
def _pairs(count: int) -> tuple[Indices, Indices]:
    return np.triu_indices(count)


def _squared_distances(A: Floats, B: Floats) -> Floats:
    squares = A @ (-2.0 * B.T)
    squares += (A**2).sum(axis=1)[:, None]
    squares += (B**2).sum(axis=1)
    return np.asarray(np.maximum(squares, 0.0, out=squares))


def _positive(scale: Any) -> Any:
    return np.where(scale > 0.0, scale, 1.0)


def about_what_matters(
    maps: Mapping[str, GateFeatures], inputs: Inputs, pulls: Iterable[tuple[Indices, Floats]]
) -> list[dict[str, GateFeatures]]:
    """The maps for every sample, about its `relevant_inputs`; samples with the same inputs share their maps."""
    made: dict[bytes, dict[str, GateFeatures]] = {}
    found = []
    for places in relevant_inputs(inputs.Z, pulls, KERNEL_INPUTS):
        key = places.tobytes()
        if key not in made:
            made[key] = {name: one.about(places, inputs) for name, one in maps.items()}
        found.append(made[key])
    return found


def relevant_inputs(Z: Floats, pulls: Iterable[tuple[Indices, Floats]], most: int) -> list[Indices]:
    """For every sample at most so many columns of Z (n, r), in order, on which its pulls depend; none if unclear.

    A sample is some rows and the pulls (rows, M) there. The pull on an expert's score is the slope of the loss in
    it: a gate is worth what its inputs explain of the pulls. Columns are cut into bins of equal mass. A column counts
    with what it adds, in the cells of a pair, to what the other column explains alone, so that a checkerboard, on
    which no column tells anything by itself, is seen.

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
    Z, pulls = Z[::step], _principal_pulls(pulls[::step])
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


def _principal_pulls(pulls: Floats) -> Floats:
    """The pulls (n, M) in their MOST_PULLS principal directions, about their means and without far outliers."""
    centred = pulls - pulls.mean(axis=0)
    found = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -MOST_PULLS:]
    found = np.clip(found, *np.quantile(found, [0.01, 0.99], axis=0))
    return np.asarray(found - found.mean(axis=0))


def _codes(column: Floats, bins: int) -> Indices:
    """The number of each value's bin; bins have equal mass as far as ties allow."""
    edges = np.quantile(column, np.linspace(0.0, 1.0, bins + 1)[1:-1])
    return np.searchsorted(np.unique(edges), column, side="right")
