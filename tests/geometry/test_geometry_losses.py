"""Assignment losses of one gate and of whole classes (`eq:L1loss`, `eq:L2loss`)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from gatewise import KernelGate, LinearGate, QuadraticGate
from gatewise.gates import Gate
from gatewise.geometry import assignment_loss, box_quadrature, class_loss, Domain, shrunken
from gatewise.geometry.boundary import boundary_distance
from gatewise.geometry.infimum import _dense_loss


def threshold_loss(slope, rho=0.0):
    """The loss of g = (sigmoid(-slope x), sigmoid(slope x)) at a threshold at 0, x uniform on [-1, 1].

    int_rho^1 2 sigmoid(-slope x)^2 dx, as the integral of sigmoid(-u)^2 is log sigmoid(u) - sigmoid(u).
    """
    low, high = expit(rho * slope), expit(slope)
    return 2 / slope * (np.log(high) - high - np.log(low) + low)


@pytest.mark.parametrize("slope", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("rho", [0.0, 0.25])
def test_the_loss_of_a_softmax_at_a_threshold_has_a_closed_form(slope, rho):
    gate, theta = LinearGate(2), [[-slope, 0.0]]
    X, mass = box_quadrature([-1.0], [1.0], 4000)
    regions, interior = (X[:, 0] > 0).astype(int), shrunken(np.abs(X[:, 0]), rho)
    exact = threshold_loss(slope, rho)
    by_quadrature = assignment_loss(gate.weights(X, theta), regions, interior=interior, mass=mass)
    assert by_quadrature.value == pytest.approx(exact, abs=1e-6)
    assert np.isnan(by_quadrature.standard_error)
    rows = np.random.default_rng(0).uniform(-1, 1, size=(40_000, 1))
    labels, inside = (rows[:, 0] > 0).astype(int), shrunken(np.abs(rows[:, 0]), rho)
    by_sample = assignment_loss(gate.weights(rows, theta), labels, interior=inside)
    assert by_sample.value == pytest.approx(exact, abs=4 * by_sample.standard_error + 1e-12)


@given(st.integers(0, 10_000))
def test_losses_lie_between_0_and_2_and_the_interior_loss_below_the_global_one(seed):
    rng = np.random.default_rng(seed)
    weights, regions = rng.dirichlet(np.ones(4) * 0.3, size=30), rng.integers(3, size=30)
    targets, distance = rng.dirichlet(np.ones(4), size=3), rng.uniform(size=30)
    whole = assignment_loss(weights, regions, targets).value
    inner = [assignment_loss(weights, regions, targets, interior=distance >= rho).value for rho in (0.0, 0.2, 0.5)]
    assert 0 <= inner[2] <= inner[1] <= inner[0] == pytest.approx(whole)
    assert whole <= 2
    naive = np.mean([((targets[r] - w) ** 2).sum() for r, w in zip(regions, weights, strict=True)])
    assert whole == pytest.approx(naive)
    assert assignment_loss(targets[regions], regions, targets).value == 0


def test_the_dense_class_at_a_threshold_takes_the_steepest_gate():
    X, mass = box_quadrature([-1.0], [1.0], 2000)
    regions = (X[:, 0] > 0).astype(int)
    for radius in (2.0, 8.0):
        found = class_loss(LinearGate(2), X, regions, mass=mass, radius=radius)
        assert found.value == pytest.approx(threshold_loss(radius), abs=1e-6)
        assert found.gap == pytest.approx(0.0, abs=1e-9)
        assert not found.certified
        np.testing.assert_allclose(found.theta, [[-radius, 0.0]], atol=1e-4)


def test_the_disk_tells_linear_from_quadratic_gates():
    """`exa:linear-quadratic-l1-l2`: the linear class stays above C_L, the quadratic one goes to zero."""
    r1, rho = 0.6, 0.1
    X, mass = box_quadrature([-1.0, -1.0], [1.0, 1.0], 40, inside=lambda X: (X**2).sum(axis=1) <= 1)
    radius = np.linalg.norm(X, axis=1)
    regions, interior = (radius > r1).astype(int), np.abs(radius - r1) >= rho
    lower = min((r1 - rho) ** 2, 1 - (r1 + rho) ** 2) / 8
    linear = class_loss(LinearGate(2), X, regions, interior=interior, mass=mass, radius=30.0, n_starts=4)
    quadratic = class_loss(QuadraticGate(2), X, regions, interior=interior, mass=mass, radius=30.0, n_starts=4)
    assert linear.value > lower
    assert quadratic.value < 0.01 < linear.value
    assert class_loss(QuadraticGate(2, k=1), X, regions, mass=mass, radius=30.0, n_starts=2).value < 0.01


@pytest.mark.parametrize(("k", "phi"), [(1, "exp"), (2, "exp"), (None, "sigmoid")])
def test_a_search_from_bad_starts_still_finds_three_sectors(k, phi):
    """Targets that the class itself makes: the infimum is zero up to what the search leaves."""
    X = np.random.default_rng(5).uniform(-1, 1, size=(300, 2))
    gate, theta = LinearGate(3, k=k, phi=phi), np.array([[3.0, 1.0, 0.4], [-1.0, 2.0, -0.7]])
    hard = LinearGate(3, k=1).active(X, theta)[:, 0]
    targets = np.eye(3) if k == 1 else np.array([[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.1, 0.0, 0.9]])
    found = class_loss(gate, X, hard, targets, radius=20.0, n_starts=3, seed=1)
    assert found.gap >= 0
    assert found.value < (0.02 if k == 1 else 0.25)
    at_theta = assignment_loss(gate.weights(X, found.theta), hard, targets)
    assert found.value == pytest.approx(at_theta.value, abs=1e-9)
    assert found.value <= assignment_loss(np.full((300, 3), 1 / 3), hard, targets).value
    again = class_loss(gate, X, hard, targets, radius=20.0, n_starts=3, seed=1)
    assert again.value == found.value  # a seed fixes the result


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(1)
    features, wanted = rng.normal(size=(20, 3)), rng.dirichlet(np.ones(4), size=20)
    share, theta = rng.dirichlet(np.ones(20)), rng.normal(size=(3, 3))
    for phi in ("exp", "sigmoid", lambda t: t / 2):
        gradient = _dense_loss(theta, features, wanted, share, phi)[1]
        for place in range(9):
            step = np.zeros(9)
            step[place] = 1e-5
            up = _dense_loss(theta + step.reshape(3, 3), features, wanted, share, phi)[0]
            down = _dense_loss(theta - step.reshape(3, 3), features, wanted, share, phi)[0]
            assert gradient[place] == pytest.approx((up - down) / 2e-5, abs=1e-7)


def test_the_kernel_class_is_solved_to_its_certificate():
    X, mass = box_quadrature([0.0, 0.0], [1.0, 1.0], 30)
    regions = (X.sum(axis=1) > 0.9).astype(int) + (X[:, 0] > 0.7)
    targets = [[1.0, 0.0, 0.0], [0.2, 0.8, 0.0], [0.0, 0.5, 0.5]]
    gate = KernelGate(3, mesh=0.25)
    found = class_loss(gate, X, regions, targets, mass=mass)
    assert found.certified
    assert found.gap < 1e-8
    at_theta = assignment_loss(gate.weights(X, gate.check_theta(found.theta, 2)), regions, targets, mass=mass)
    assert found.value == pytest.approx(at_theta.value, rel=1e-9)
    rng = np.random.default_rng(2)
    for _ in range(50):  # no other parameter is better
        step = rng.choice([1e-3, 0.1, 1.0])
        theta = (1.0 - step) * found.theta + step * rng.dirichlet(np.ones(3), found.theta.shape[1]).T
        assert assignment_loss(gate.weights(X, theta), regions, targets, mass=mass).value >= found.value - 1e-8
    # The paper's oracle choice (each centre carries its region's target) is one of them.
    centers = gate.centers(2)
    label = (centers.sum(axis=1) > 0.9).astype(int) + (centers[:, 0] > 0.7)
    oracle = assignment_loss(gate.weights(X, np.array(targets)[label].T), regions, targets, mass=mass)
    assert oracle.value > found.value


def test_the_kernel_infimum_equals_a_general_solver_and_beats_every_lattice_point():
    X, mass = box_quadrature([0.0], [1.0], 60)
    regions = (np.abs(X[:, 0] - 0.5) < 0.2).astype(int)
    gate = KernelGate(2, mesh=0.5)
    found = class_loss(gate, X, regions, mass=mass)
    features, wanted = gate.features(X), np.eye(2)[regions]

    def loss(first):
        return float(mass @ ((wanted - features @ np.stack([first, 1 - first], axis=1)) ** 2).sum(axis=1))

    general = minimize(loss, np.full(3, 0.5), bounds=[(0, 1)] * 3, method="L-BFGS-B", options={"ftol": 1e-15})
    assert found.value == pytest.approx(general.fun, abs=1e-8)
    net = gate.net(levels=4, d=1)
    assert min(loss(theta[0]) for block in net.blocks() for theta in block) >= found.value - 1e-9


def test_shrunken_regions_of_a_disk_leave_out_the_rim():
    disk = Domain((-1.0, -1.0), (1.0, 1.0), inside=lambda X: (X**2).sum(axis=1) <= 1)
    X = disk.sample(500, np.random.default_rng(4))
    radius = np.linalg.norm(X, axis=1)
    kept = shrunken(boundary_distance(lambda X: (np.linalg.norm(X, axis=1) > 0.5).astype(int), X, disk), 0.1)
    clear = np.abs(np.abs(radius - 0.5) - 0.1) > 1e-4
    np.testing.assert_array_equal(kept[clear], ((radius <= 0.4) | (radius >= 0.6))[clear])


def test_quadrature_has_mass_one_and_takes_a_density():
    X, mass = box_quadrature([0.0, -1.0], [2.0, 1.0], 50)
    assert mass.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(mass @ X, [1.0, 0.0], atol=1e-12)
    linear = np.column_stack([X[:, 0] / 2, 1 - X[:, 0] / 2])
    tilted = assignment_loss(linear, np.zeros(len(X), int), mass=mass * X[:, 0])
    assert tilted.value == pytest.approx(2 / 6, abs=1e-3)  # int_0^1 2 (1 - u)^2 2u du = 1/3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: assignment_loss([[0.5, 0.5]], [2]), "regions must be from 0 to 1"),
        (lambda: assignment_loss([[0.5, 0.5]], [0.0]), "regions must hold one whole number a row"),
        (lambda: assignment_loss(np.zeros((0, 2)), np.zeros(0, int)), "at least one row"),
        (lambda: assignment_loss([[0.5, 0.5]], [0], [[1.0, 0.0, 0.0]]), "targets must have one column per expert"),
        (lambda: assignment_loss([[0.5, 0.5]], [0], [[0.9, 0.0]]), "targets must lie on the simplex"),
        (lambda: assignment_loss([[0.5, 0.5]], [0], interior=[1.0]), "interior must be a mask"),
        (lambda: assignment_loss([[0.5, 0.5]], [0], mass=[-1.0]), "mass must not be negative"),
        (lambda: box_quadrature([1.0], [0.0], 5), "low must be below high"),
        (lambda: box_quadrature([0.0] * 9, [1.0] * 9, 10), "more than 100,000,000 nodes"),
        (lambda: box_quadrature([0.0], [1.0], 5, inside=lambda X: X[:, 0] > 2), "inside must hold"),
        (lambda: class_loss(LinearGate(2), [[0.0]], [0], radius=0), "radius must be a finite number above 0"),
        (lambda: class_loss(LinearGate(2), [[0.0]], [0], n_starts=1), "n_starts must be a whole number at least 2"),
        (lambda: shrunken([0.1], -1.0), "rho must be 0 or above"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_gate_of_another_kind_is_refused():
    class Odd(Gate):
        """Neither of scores nor of kernels."""

    Odd.__abstractmethods__ = frozenset()
    with pytest.raises(TypeError, match="gate must be a KernelGate or a ScoreGate, not Odd"):
        class_loss(Odd(2), [[0.0]], [0])
