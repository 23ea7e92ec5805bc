"""Boundary layers and the constants of boundary-layer regularity (`def:boundary-regularity-main`)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_between, as_count, as_floats, as_positive, as_vector, Floats
from gatewise.geometry.boundary import boundary_distance, Domain
from gatewise.geometry.checked_inputs import as_labels
from gatewise.geometry.regions import RegionMap
from gatewise.stats import share_bounds

N_RADII = 5


class BoundaryRegularity(NamedTuple):
    """gamma_i with bounds, all (R,); their sum Gamma with bounds; and the layers that they come from.

    ``volumes`` (R, len(radii)) are the measures of B_i(rho) at the radii, with ``volume_errors`` one standard error.
    The bounds hold for all regions and radii at once, with the stated probability.
    """

    gamma: Floats
    gamma_low: Floats
    gamma_high: Floats
    total: float
    total_low: float
    total_high: float
    radii: Floats
    volumes: Floats
    volume_errors: Floats


def layer_shares(distance: ArrayLike, regions: ArrayLike, radii: ArrayLike, n_regions: int | None = None) -> Floats:
    """The fraction of rows in each boundary layer B_i(rho) = {x in X_i: dist(x, border) < rho}, (R, len(radii)).

    >>> layer_shares([0.1, 0.3, 0.1, 0.2], [0, 0, 1, 1], [0.15, 0.25])
    array([[0.25, 0.25],
           [0.25, 0.5 ]])
    """
    away = as_floats(distance, "distance")
    if away.ndim != 1 or np.isnan(away).any():
        raise ValueError(f"distance must have shape (n,) and no NaN; it has shape {away.shape}")
    labels = as_labels(regions, "regions", len(away), n_regions)
    count = int(labels.max()) + 1 if n_regions is None else n_regions
    reach = as_vector(radii, "radii")
    if (reach < 0.0).any():
        raise ValueError(f"radii must not be negative, but entry {int((reach < 0.0).argmax())} is")
    near = away[:, None] < reach
    return np.stack([near[labels == i].sum(axis=0) / len(away) for i in range(count)])


def boundary_regularity(
    regions: RegionMap,
    domain: Domain,
    rho0: float,
    *,
    n_samples: int = 20_000,
    level: float = 0.95,
    n_regions: int | None = None,
    seed: int | np.random.Generator = 0,
) -> BoundaryRegularity:
    """gamma_i = sup over 0 < rho <= rho0 of mu(B_i(rho)) / rho, and Gamma their sum, for a partition as a function.

    Uniform points of the domain are counted in the layers of radii rho0, rho0 / 2, ..., rho0 / 16; the supremum is
    over these. Its bounds are Clopper and Pearson's, shared out over regions and radii. ``mu`` is Lebesgue measure.

    >>> halves = lambda X: (X[:, 0] > 0.5).astype(int)
    >>> found = boundary_regularity(halves, Domain((0.0, 0.0), (1.0, 1.0)), rho0=0.2, n_samples=2000)
    >>> bool(found.total_low <= 2.0 <= found.total_high)  # gamma_1 = gamma_2 = 1
    True
    """
    rho0, level = as_positive(rho0, "rho0"), as_between(level, "level")
    rng, n = np.random.default_rng(seed), as_count(n_samples, "n_samples", low=100)
    X = domain.sample(n, rng)
    distance = boundary_distance(regions, X, domain, seed=rng)
    radii = np.ldexp(rho0, -np.arange(N_RADII))
    shares = layer_shares(distance, regions(X), radii, n_regions)  # (R, len(radii))
    volume = domain.volume(rng)
    each = 1.0 - (1.0 - level) / shares.size
    low, high = share_bounds(np.rint(shares * n), n, each)
    gamma, gamma_low, gamma_high = ((volume * part / radii).max(axis=1) for part in (shares, low, high))
    return BoundaryRegularity(
        gamma=gamma,
        gamma_low=gamma_low,
        gamma_high=gamma_high,
        total=float(gamma.sum()),
        total_low=float(gamma_low.sum()),
        total_high=float(gamma_high.sum()),
        radii=radii,
        volumes=volume * shares,
        volume_errors=volume * np.sqrt(shares * (1.0 - shares) / n),
    )
