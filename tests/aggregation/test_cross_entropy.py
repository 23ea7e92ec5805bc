"""The cross-entropy fit and the compatibility constant: loss, certificate, independent solver, laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import approx_fprime, Bounds, minimize
from sklearn.exceptions import ConvergenceWarning

from gatewise import KernelGate, LinearGate, QuadraticGate
from gatewise.aggregation.compatibility import compatibility_constant, gate_differences
from gatewise.aggregation.soft_labels import cross_entropy_fit
from gatewise.gates import ScoreGate
from gatewise.solvers.cross_entropy import box_gap, cross_entropy

Floats = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)
GATES = (LinearGate(2), LinearGate(4, intercept=False), QuadraticGate(3), QuadraticGate(3, cross=False))


def soft_labels(gate: ScoreGate, seed: int, n: int = 80, d: int = 2) -> tuple[Floats, Floats]:
    """Rows, and the mean gate of ten random candidates: a soft label that no single gate attains."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, gate.mean_weights(X, rng.normal(0, 3, (10, *gate.theta_shape(d))))


# --- the loss -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", GATES)
def test_loss_and_gradient(gate: ScoreGate) -> None:
    X, labels = soft_labels(gate, 0)
    features = gate.features(X)
    theta = np.random.default_rng(1).normal(size=gate.theta_shape(2))
    value, gradient = cross_entropy(theta, features, labels)
    assert value == pytest.approx(-np.mean(np.sum(labels * np.log(gate.weights(X, theta)), axis=1)))
    numeric = approx_fprime(theta.ravel(), lambda t: cross_entropy(t.reshape(theta.shape), features, labels)[0])
    np.testing.assert_allclose(gradient.ravel(), numeric, atol=1e-6)


def test_time_expanded_loss_is_the_loss_of_time_averaged_labels() -> None:
    rng = np.random.default_rng(2)
    gate, X = LinearGate(3), rng.normal(size=(15, 2))
    net = rng.normal(size=(6, 2, 3))
    shares = rng.dirichlet(np.ones(6), 9)  # one weight vector over the net per time t
    aggregated = np.einsum("ts,sim->tim", shares, gate.weights(X, net))
    theta = rng.normal(size=(2, 3))
    log_weights = np.log(gate.weights(X, theta))
    expanded = 0.0
    for i in range(15):
        for t in range(9):
            for m in range(3):
                expanded -= aggregated[t, i, m] * log_weights[i, m] / (15 * 9)
    value, _ = cross_entropy(theta, gate.features(X), aggregated.mean(axis=0))
    assert value == pytest.approx(expanded, rel=1e-12)


# --- the fit --------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("radius", [0.3, 2.0, 20.0])
def test_certificate_and_agreement_with_lbfgs(gate: ScoreGate, radius: float) -> None:
    X, labels = soft_labels(gate, 3)
    features, shape = gate.features(X), gate.theta_shape(2)
    fit = cross_entropy_fit(gate, X, labels, radius)
    value, gradient = cross_entropy(fit.theta, features, labels)
    assert np.abs(fit.theta).max() <= radius
    assert fit.objective == pytest.approx(value)
    assert fit.gap == pytest.approx(box_gap(gradient, fit.theta, radius), abs=1e-14)
    assert fit.converged
    assert fit.gap <= 1e-10

    def flat(theta: Floats) -> tuple[float, Floats]:
        value, gradient = cross_entropy(theta.reshape(shape), features, labels)
        return value, gradient.ravel()

    rival = minimize(
        flat,
        np.zeros(shape).ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(-radius, radius),
        options={"ftol": 0.0, "gtol": 1e-12, "maxiter": 5000},
    )
    assert fit.objective <= rival.fun + 1e-14
    assert fit.objective == pytest.approx(rival.fun, abs=1e-9)


@given(seed=seeds)
def test_a_gate_of_the_family_is_found_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gate, X, theta = LinearGate(3), rng.normal(size=(60, 2)), rng.uniform(-2, 2, (2, 3))
    fit = cross_entropy_fit(gate, X, gate.weights(X, theta), radius=3.0)
    np.testing.assert_allclose(fit.theta, theta, atol=1e-6)


@given(seed=seeds)
def test_relabelling_experts_relabels_scores(seed: int) -> None:
    gate = LinearGate(3)
    X, labels = soft_labels(gate, seed)
    fit = cross_entropy_fit(gate, X, labels, radius=50.0)  # no bound binds: the box is not invariant
    swapped = cross_entropy_fit(gate, X, labels[:, [1, 0, 2]], radius=50.0)
    np.testing.assert_allclose(swapped.theta, fit.theta[[1, 0]], atol=1e-6)
    cycled = cross_entropy_fit(gate, X, labels[:, [2, 0, 1]], radius=50.0)
    np.testing.assert_allclose(gate.weights(X, cycled.theta), gate.weights(X, fit.theta)[:, [2, 0, 1]], atol=1e-7)


def test_intercept_alone_gives_the_log_odds() -> None:
    labels = np.array([[0.1, 0.2, 0.7], [0.3, 0.2, 0.5]])
    fit = cross_entropy_fit(LinearGate(3), np.zeros((2, 1)), labels, radius=5.0)
    np.testing.assert_allclose(fit.theta[:, 1], np.log(np.array([0.2, 0.2]) / 0.6), atol=1e-9)
    np.testing.assert_array_equal(fit.theta[:, 0], 0.0)  # a feature that is zero everywhere moves nothing


def test_hard_labels_end_at_the_border() -> None:
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    fit = cross_entropy_fit(LinearGate(2, intercept=False), X, np.eye(2)[[1, 1, 0, 0]], radius=3.0)
    assert fit.theta[0, 0] == 3.0
    assert fit.gap == pytest.approx(0.0, abs=1e-15)
    assert cross_entropy_fit(LinearGate(2), X, np.eye(2)[[1, 1, 0, 0]], radius=500.0).converged


@pytest.mark.parametrize("radius", [30.0, 1000.0])
def test_separable_labels_need_shorter_steps(radius: float) -> None:
    gate, rng = QuadraticGate(3), np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    best = gate.weights(X, rng.normal(0, 2, gate.theta_shape(2))).argmax(axis=1)
    fit = cross_entropy_fit(gate, X, np.eye(3)[best], radius)
    assert fit.converged
    assert (gate.weights(X, fit.theta).argmax(axis=1) == best).mean() > 0.98


def test_one_row_and_experts_without_weight() -> None:
    assert cross_entropy_fit(LinearGate(3), [[0.4]], [[0.2, 0.3, 0.5]], radius=10.0).converged
    fit = cross_entropy_fit(LinearGate(3), [[0.4], [1.0]], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], radius=2.0)
    np.testing.assert_array_equal(fit.theta, [[2.0, 2.0], [-2.0, -2.0]])


def test_too_few_steps_warn_and_say_so() -> None:
    gate = QuadraticGate(3)
    X, labels = soft_labels(gate, 5)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 steps with a gap of"):
        fit = cross_entropy_fit(gate, X, labels, radius=10.0, max_iter=1)
    assert not fit.converged
    assert fit.objective - fit.gap <= cross_entropy_fit(gate, X, labels, radius=10.0).objective <= fit.objective


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        (LinearGate(3, k=2), "gate must be dense, but it has k=2.*take k=None"),
        (LinearGate(3, phi="sigmoid"), "gate must have phi='exp', not 'sigmoid'"),
        (KernelGate(3, mesh=0.5), "not a KernelGate.*simplex_least_squares"),
        ("linear", "gate must be a LinearGate"),
    ],
)
def test_other_gates_are_refused_with_a_remedy(gate, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        cross_entropy_fit(gate, [[0.0]], [[0.2, 0.3, 0.5]], radius=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [[np.nan]]}, "X must be finite"),
        ({"X": np.ones((0, 1))}, "X must have at least one row"),
        ({"labels": [[0.5, 0.5]]}, r"labels must have shape \(1, 3\)"),
        ({"labels": [[0.5, 0.5, 0.5]]}, "labels must lie on the simplex"),
        ({"labels": [[1.5, -0.5, 0.0]]}, "labels must lie on the simplex"),
        ({"labels": [[np.nan, 0.5, 0.5]]}, "labels must be finite"),
        ({"radius": 0.0}, "radius must be a finite number above 0"),
        ({"radius": np.inf}, "radius must be a finite number above 0"),
        ({"tol": -1.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
    ],
)
def test_bad_input_names_the_argument(change: dict[str, object], message: str) -> None:
    arguments = {"X": [[0.4]], "labels": [[0.2, 0.3, 0.5]], "radius": 1.0} | change
    with pytest.raises(ValueError, match=message):
        cross_entropy_fit(LinearGate(3), **arguments)


# --- the compatibility constant -------------------------------------------------------------------


def brute_ratio(F: Floats, delta: Floats) -> float:
    """Both sides of eq:online-compat for F and delta (T, n, M), by loops."""
    left = right = 0.0
    for t in range(len(F)):
        for i in range(F.shape[1]):
            left += float(delta[t, i] @ F[t, i]) ** 2
            right += float(delta[t, i] @ delta[t, i])
    return left / right


@given(seed=seeds)
def test_ratio_by_loops_and_bound_below_every_member_of_the_span(seed: int) -> None:
    rng = np.random.default_rng(seed)
    F, basis = rng.normal(size=(4, 12, 3)), rng.normal(size=(5, 12, 3))
    found = compatibility_constant(F, basis)
    assert found.rank == 5
    ratios = [brute_ratio(F, np.broadcast_to(delta, F.shape)) for delta in basis]
    assert found.smallest_ratio == pytest.approx(min(ratios))
    for _ in range(20):
        mixed = np.einsum("tj,jim->tim", rng.normal(size=(4, 5)), basis)  # other coefficients at every t
        assert brute_ratio(F, mixed) >= found.span_bound - 1e-12


def test_span_bound_is_attained_for_experts_that_stay() -> None:
    rng = np.random.default_rng(0)
    F, basis = rng.normal(size=(12, 3)), rng.normal(size=(5, 12, 3))
    found = compatibility_constant(F, basis)
    shown = np.einsum("jim,im->ji", basis, F)
    flat = basis.reshape(5, -1)
    values, vectors = np.linalg.eig(np.linalg.solve(flat @ flat.T, shown @ shown.T))
    assert found.span_bound == pytest.approx(values.real.min(), rel=1e-8)
    worst = np.tensordot(vectors[:, values.real.argmin()].real, basis, axes=1)
    assert compatibility_constant(F, worst[None]).smallest_ratio == pytest.approx(found.span_bound, rel=1e-8)


def test_differences_by_time() -> None:
    rng = np.random.default_rng(3)
    F, delta = rng.normal(size=(4, 12, 3)), rng.normal(size=(2, 4, 12, 3))
    found = compatibility_constant(F, delta)
    assert found.smallest_ratio == pytest.approx(min(brute_ratio(F, delta[0]), brute_ratio(F, delta[1])))
    assert found.span_bound <= found.smallest_ratio
    once = delta * np.array([1.0, 0.0, 0.0, 0.0])[:, None, None]  # no difference after the first time
    first = compatibility_constant(F[0], once[:, 0])
    assert compatibility_constant(F, once).span_bound == pytest.approx(first.span_bound)


def test_experts_that_agree_hide_every_difference() -> None:
    rng = np.random.default_rng(1)
    gate, X = LinearGate(3), rng.normal(size=(40, 2))
    differences = gate_differences(gate, X, rng.normal(size=(5, 2, 3)), 2.0, size=10, seed=0)
    np.testing.assert_allclose(differences.sum(axis=2), 0.0, atol=1e-14)
    same = np.repeat(rng.normal(size=(40, 1)), 3, axis=1)
    found = compatibility_constant(same, differences)
    assert found.smallest_ratio == pytest.approx(0.0, abs=1e-20)
    assert found.span_bound == pytest.approx(0.0, abs=1e-20)
    apart = compatibility_constant(rng.normal(size=(40, 3)), differences)
    assert 0.0 < apart.span_bound < apart.smallest_ratio
    assert compatibility_constant(same[:4], differences[:, :4]).span_bound == 0.0  # rank above n


@given(seed=seeds, S=st.integers(2, 6))
def test_differences_are_of_the_assumptions_class(seed: int, S: int) -> None:
    rng = np.random.default_rng(seed)
    gate = LinearGate(2, intercept=False)
    thetas = 40.0 * np.eye(S)[:, None, :]  # candidate s is sharp in feature s: its weight reads off its share
    X = np.eye(S)
    differences = gate_differences(gate, X, thetas, 1e-9, size=5, seed=rng)
    shares = 2.0 * differences[:, :, 0]  # weight 1 at the own row, 1/2 at the others, less 1/2
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    assert (shares <= 0.5 + 1e-6).all()


@pytest.mark.parametrize(
    ("F", "differences", "message"),
    [
        (np.ones(3), np.ones((1, 3, 2)), "F must have shape"),
        (np.ones((3, 2)), np.ones((3, 2)), "differences must have shape"),
        (np.ones((3, 2)), np.ones((1, 4, 2)), "differences must be"),
        (np.ones((5, 3, 2)), np.ones((1, 4, 3, 2)), "differences must be"),
        (np.full((3, 2), np.nan), np.ones((1, 3, 2)), "F must be finite"),
        (np.ones((3, 2)), np.zeros((1, 3, 2)), "differences must not all be zero"),
    ],
)
def test_bad_compatibility_input(F: Floats, differences: Floats, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compatibility_constant(F, differences)


def test_one_candidate_has_no_mixture() -> None:
    with pytest.raises(ValueError, match="S at least 2"):
        gate_differences(LinearGate(2), [[0.0]], np.zeros((1, 1, 2)), 1.0, size=2)
