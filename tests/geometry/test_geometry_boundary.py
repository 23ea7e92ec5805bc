"""Distances to borders, boundary layers and their constants against closed forms (`def:boundary-regularity-main`)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from gatewise.geometry import boundary_distance, boundary_regularity, Domain, layer_shares, unit_cube

DISK = Domain((-1.0, -1.0), (1.0, 1.0), inside=lambda X: (X**2).sum(axis=1) <= 1)
RIM = 0.5


def half_space(X):
    return (X @ np.array([0.6, 0.8]) > 0.7).astype(int)


def ball(X):
    return (np.linalg.norm(X, axis=1) > RIM).astype(int)


def grid(q):
    """q^d cells of [0, 1]^d."""
    return lambda X: np.minimum(np.floor(X * q), q - 1).astype(int) @ (q ** np.arange(X.shape[1]))


def ball_layers(rho):
    """mu(B_i(rho)) for a ball of radius RIM in the unit disk: the rim of the disk is no border."""
    return np.array([np.pi * (RIM**2 - (RIM - rho) ** 2), np.pi * ((RIM + rho) ** 2 - RIM**2)])


def grid_layers(rho, q, d):
    """side^d - prod_j (side - c_j rho), c_j the number of the cell's faces along axis j that are inside the cube."""
    cells = np.stack([g.ravel() for g in np.meshgrid(*[np.arange(q)] * d, indexing="ij")], axis=1)[:, ::-1]
    inner = (cells > 0).astype(int) + (cells < q - 1)
    return q**-d - np.prod(1 / q - inner * rho, axis=1)


def test_distances_to_a_half_space_and_to_a_ball():
    rng = np.random.default_rng(0)
    X = unit_cube(2).sample(1000, rng)
    X = X[np.abs(X - 0.5).max(axis=1) < 0.3]  # the nearest border point is inside the cube
    np.testing.assert_allclose(boundary_distance(half_space, X), np.abs(X @ [0.6, 0.8] - 0.7), atol=1e-4)
    X = DISK.sample(1000, rng)
    np.testing.assert_allclose(boundary_distance(ball, X, DISK), np.abs(np.linalg.norm(X, axis=1) - RIM), atol=1e-4)


@pytest.mark.parametrize(("d", "q"), [(1, 4), (2, 3), (3, 2)])
def test_distances_to_a_grid(d, q):
    X = unit_cube(d).sample(1000, np.random.default_rng(1))
    exact = np.abs(X[:, :, None] - np.arange(1, q) / q).min(axis=(1, 2))
    found = boundary_distance(grid(q), X)
    assert (found >= exact - 1e-9).all()  # never too small
    assert np.quantile(found - exact, 0.98) < 2e-3


@given(st.integers(0, 1000))
def test_voronoi_cells_lie_between_their_half_spaces_and_brute_force(seed):
    """A cell's border is no nearer than its half-spaces', and no farther than a sampled point of another cell."""
    rng = np.random.default_rng(seed)
    centers, X = rng.uniform(size=(4, 2)), rng.uniform(size=(20, 2))

    def cells(X):
        return cdist(X, centers).argmin(axis=1)

    found = boundary_distance(cells, X, n_reference=2000, seed=seed)
    sample, own = unit_cube(2).sample(4000, rng), cells(X)
    brute = np.where(own[:, None] != cells(sample), cdist(X, sample), np.inf).min(axis=1)
    assert (found <= brute + 5e-3).all()
    for x, label, distance in zip(X, own, found, strict=True):
        others = np.delete(centers, label, axis=0)
        excess = ((x - others) ** 2).sum(axis=1) - ((x - centers[label]) ** 2).sum()
        assert distance >= (excess / (2 * np.linalg.norm(others - centers[label], axis=1))).min() - 1e-9


def test_one_region_has_no_border():
    X = [[0.2, 0.3], [0.9, 0.1]]
    assert np.isinf(boundary_distance(lambda X: np.zeros(len(X), int), X)).all()
    found = boundary_regularity(lambda X: np.zeros(len(X), int), unit_cube(2), 0.1, n_samples=200)
    assert found.gamma[0] == 0


def test_layers_of_a_ball_against_the_closed_form():
    found = boundary_regularity(ball, DISK, rho0=0.2, n_samples=20_000)
    exact = np.stack([ball_layers(rho) for rho in found.radii], axis=1)
    assert (np.abs(found.volumes - exact) < 4 * found.volume_errors + 0.01 * exact).all()
    gamma = np.array([2 * np.pi * RIM, np.pi * (2 * RIM + 0.2)])  # suprema at rho -> 0 and at rho0
    assert (found.gamma_low <= gamma).all()
    assert (gamma <= found.gamma_high).all()
    assert found.total_low <= gamma.sum() <= found.total_high
    assert found.total == pytest.approx(gamma.sum(), rel=0.1)


@pytest.mark.parametrize(("d", "q"), [(1, 4), (2, 2), (2, 3)])
def test_layers_of_a_grid_against_the_closed_form(d, q):
    found = boundary_regularity(grid(q), unit_cube(d), rho0=0.1, n_samples=10_000, n_regions=q**d)
    exact = np.stack([grid_layers(rho, q, d) for rho in found.radii], axis=1)
    assert (np.abs(found.volumes - exact) <= 5 * np.sqrt(exact / 10_000) + 1e-3 * exact).all()
    total = 2 * d * (q - 1)  # twice the area of the inner walls
    assert found.total_low <= total <= found.total_high
    assert found.total_high - found.total_low < 2.2 * total


def halves(X):
    return (X[:, 0] > 0.3).astype(int)


def test_layers_of_a_half_space_and_more_samples_narrow_the_bounds():
    few, many = (boundary_regularity(halves, unit_cube(3), 0.25, n_samples=n) for n in (1000, 8000))
    for found in (few, many):
        assert (found.gamma_low <= 1).all()
        assert (found.gamma_high >= 1).all()
    assert many.total_high - many.total_low < few.total_high - few.total_low


@given(st.integers(0, 1000))
def test_layer_shares_grow_with_the_radius_up_to_the_region(seed):
    rng = np.random.default_rng(seed)
    distance, regions = rng.exponential(size=50), rng.integers(3, size=50)
    shares = layer_shares(distance, regions, [0.1, 0.5, 1.0, 1e9], n_regions=4)
    assert (np.diff(shares, axis=1) >= 0).all()
    np.testing.assert_allclose(shares[:, -1], np.bincount(regions, minlength=4) / 50)


def test_a_seed_fixes_the_result():
    first, second = (boundary_distance(ball, [[0.1, 0.2]], DISK, n_reference=500, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_the_volume_of_a_domain():
    assert Domain((0.0, 0.0), (2.0, 3.0)).volume(np.random.default_rng(0)) == 6.0
    assert DISK.volume(np.random.default_rng(0)) == pytest.approx(np.pi, rel=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Domain((0.0,), (0.0,)), "low must be below high"),
        (lambda: boundary_distance(ball, [[2.0, 0.0]]), "X must lie in the domain"),
        (lambda: boundary_distance(ball, [[0.1]], DISK), "X must lie in the domain"),
        (
            lambda: boundary_distance(lambda X: X[:, 0], [[0.1, 0.1]]),
            r"what regions\(X\) returns must hold one whole",
        ),
        (lambda: boundary_regularity(ball, DISK, 0.0), "rho0 must be a finite number above 0"),
        (lambda: boundary_regularity(ball, DISK, 0.1, level=1.0), "level must lie strictly between 0 and 1"),
        (
            lambda: Domain((0.0,), (1.0,), lambda X: X[:, 0] > 2).sample(5, np.random.default_rng(0)),
            "inside must hold",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
