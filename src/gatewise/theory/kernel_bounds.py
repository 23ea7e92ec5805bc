"""The Gaussian-kernel gate: what its mesh h must be, and how near it comes to any weights by region."""

from math import e, exp, floor, log, sqrt

from gatewise.arrays import as_between, as_count, as_dimension, as_non_negative, as_positive, within_floats


def _check_kappa(kappa: float) -> float:
    if not 0.5 <= kappa <= 1.0:
        raise ValueError(f"kappa must be from 1/2 to 1, not {kappa!r}")
    return float(kappa)


def mesh_limit(d: int, kappa: float = 0.75) -> float:
    """The h below which `thm:kernel-global-main` holds: exp{-max(1, d / (16 kappa^2)) / (d/2 + 1)}.

    >>> round(mesh_limit(1), 4), round(mesh_limit(2), 4)
    (0.5134, 0.6065)
    """
    d = as_dimension(d)
    return exp(-max(1.0, d / (16 * _check_kappa(kappa) ** 2)) / (d / 2 + 1))


def interior_mesh_limit(d: int, margin: float, kappa: float = 0.75) -> float:
    """The h below which the interior bound holds: min{2 rho / sqrt(d), rho / (2 kappa)} (`cor:kernel-interior-main`).

    >>> interior_mesh_limit(d=1, margin=0.3)
    0.19999999999999998
    """
    rho = as_positive(margin, "margin")
    return min(2 * rho / sqrt(as_dimension(d)), rho / (2 * _check_kappa(kappa)))


def layer_width(mesh: float, d: int, kappa: float = 0.75) -> float:
    """rho_h = 2 kappa h sqrt((d/2 + 1) log(1/h)), the boundary layer of the global bound's proof.

    >>> round(layer_width(0.1, d=2), 4)
    0.3219
    """
    h = as_between(mesh, "mesh", 0.0, 1.0)
    return 2 * _check_kappa(kappa) * h * sqrt((as_dimension(d) / 2 + 1) * log(1 / h))


def n_centers(mesh: float, d: int) -> int:
    """How many kernel centres the unit cube holds: (floor(1/h) + 1)^d, each with M - 1 free weights.

    >>> n_centers(0.25, d=2)
    25
    """
    return int((floor(1 / as_positive(mesh, "mesh") * (1 + 1e-12)) + 1) ** as_dimension(d))


def kernel_loss(
    mesh: float, n_experts: int, d: int, boundary: float, kappa: float = 0.75, constant: float = 1.0
) -> float:
    """C {M h^(d+2) + Gamma h sqrt(log(1/h))}, a bound on the global loss (`thm:kernel-global-main`).

    Gamma = ``boundary``, the total boundary-layer complexity of `def:boundary-regularity-main`. An upper bound:
    integrating the proof's pointwise estimate over the layer leaves C {h^(d+2) + Gamma h}, without M and logarithm.

    >>> round(kernel_loss(0.01, n_experts=4, d=2, boundary=2.0), 4)
    0.0429
    """
    h = as_between(mesh, "mesh", 0.0, mesh_limit(d, kappa))
    interior = as_count(n_experts, "n_experts") * h ** (d + 2)
    return float(
        as_positive(constant, "constant") * (interior + as_non_negative(boundary, "boundary") * h * sqrt(log(1 / h)))
    )


@within_floats
def kernel_interior_loss(
    mesh: float, n_experts: int, d: int, margin: float, kappa: float = 0.75, constant: float = 1.0
) -> float:
    """C M exp{-rho^2 / (2 kappa^2 h^2)} bounds the loss farther than rho from borders (`cor:kernel-interior-main`).

    >>> round(kernel_interior_loss(0.05, n_experts=2, d=1, margin=0.2), 7)
    1.3e-06
    """
    h = as_between(mesh, "mesh", 0.0, interior_mesh_limit(d, margin, kappa))
    decay = exp(-(margin**2) / (2 * (kappa * h) ** 2))
    return as_positive(constant, "constant") * as_count(n_experts, "n_experts") * decay


@within_floats
def grid_tail_constant(d: int, kappa: float = 0.75) -> float:
    """A in: Gaussians at grid points farther than r >= 2 sigma sum to at most A exp{-r^2 / (4 sigma^2)}.

    A = e/(e - 1) (1 + 4 kappa)^d (2 sqrt(d))^d e^(-d/2), the constants of the proof of `lem:supp-grid-tail`.

    >>> round(grid_tail_constant(1, kappa=0.5), 3)
    5.757
    """
    d = as_dimension(d)
    return float(e / (e - 1) * ((1 + 4 * _check_kappa(kappa)) * 2 * sqrt(d)) ** d * exp(-d / 2))
