"""The laws of every gate family, and its agreement with a naive implementation."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_expit, softmax
from sklearn.base import clone

from gatewise.gates import FeatureGate, Gate, KernelGate, LinearGate, QuadraticGate, register_gate, ScoreGate
from gatewise.gates import GATES as REGISTRY
from gatewise.gates.phi import log_phi
from tests.families import D, GATES, N_EXPERTS, random_theta, relabelled
from tests.gates.naive import naive_quadratic_score, naive_score_weights

every_gate = pytest.mark.parametrize("gate", GATES, ids=repr)
every_score_gate = pytest.mark.parametrize("gate", [g for g in GATES if isinstance(g, ScoreGate)], ids=repr)
seeds = st.integers(0, 2**32 - 1)
rows = arrays(np.float64, st.tuples(st.integers(1, 300), st.just(D)), elements=st.floats(-3, 3, width=32))


def test_every_registered_family_is_tested_and_every_family_is_registered():
    assert {type(gate) for gate in GATES} == set(REGISTRY.values())
    concrete = {family for family in _families(Gate) if family.__module__.startswith("gatewise.")}
    assert concrete - {ScoreGate} == set(REGISTRY.values())


def _families(family):
    return set().union(*({one} | _families(one) for one in family.__subclasses__()))


def test_a_name_of_the_registry_belongs_to_one_family():
    assert register_gate("linear", LinearGate) is LinearGate
    with pytest.raises(ValueError, match="belongs to LinearGate"):
        register_gate("linear", QuadraticGate)
    with pytest.raises(TypeError, match="must be a class derived from"):
        register_gate("own", LinearGate(3))
    with pytest.raises(ValueError, match="other than 'auto'"):
        register_gate("auto", LinearGate)


@every_gate
@given(X=rows, seed=seeds)
def test_weights_lie_on_the_simplex(gate, X, seed):
    weights = gate.weights(X, random_theta(gate, np.random.default_rng(seed)))
    assert weights.shape == (len(X), N_EXPERTS)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)


@every_gate
@given(X=rows, seed=seeds)
def test_relabelling_experts_relabels_weights(gate, X, seed):
    rng = np.random.default_rng(seed)
    theta, order = random_theta(gate, rng), rng.permutation(N_EXPERTS)
    if isinstance(gate, ScoreGate) and gate.phi != "exp":
        # Other transformations look at the score itself, which a change of the reference, the last expert, shifts.
        order = np.append(rng.permutation(N_EXPERTS - 1), N_EXPERTS - 1)
    scores = np.sort(gate.scores(X, theta), axis=1)
    untied = (np.diff(scores, axis=1) > 1e-9).all(axis=1) | (gate.n_active == N_EXPERTS)
    moved = gate.weights(X, relabelled(gate, theta, order))
    np.testing.assert_allclose(moved[untied], gate.weights(X, theta)[:, order][untied], atol=1e-9)


@every_gate
def test_many_candidates_are_one_array(gate):
    rng = np.random.default_rng(1)
    X, theta = rng.uniform(size=(150, D)), random_theta(gate, rng, 3, 2)
    weights, scores, active = gate.weights(X, theta), gate.scores(X, theta), gate.active(X, theta)
    assert weights.shape == scores.shape == (3, 2, 150, N_EXPERTS)
    assert active.shape == (3, 2, 150, gate.n_active)
    for i, j in np.ndindex(3, 2):
        np.testing.assert_array_equal(weights[i, j], gate.weights(X, theta[i, j]))
        np.testing.assert_array_equal(active[i, j], gate.active(X, theta[i, j]))


@every_gate
def test_a_row_alone_has_the_weights_it_has_among_others(gate):
    rng = np.random.default_rng(2)
    X, theta = rng.uniform(size=(200, D)), random_theta(gate, rng)
    alone = np.vstack([gate.weights(X[[i]], theta) for i in range(len(X))])
    np.testing.assert_allclose(alone, gate.weights(X, theta), atol=1e-15)


@every_score_gate
@given(X=rows, seed=seeds)
def test_weights_agree_with_the_naive_loop(gate, X, seed):
    theta = random_theta(gate, np.random.default_rng(seed))
    scores = gate.scores(X, theta)
    naive = [naive_score_weights(s, gate.n_active, lambda t: log_phi(gate.phi, t)) for s in scores]
    np.testing.assert_allclose(gate.weights(X, theta), naive, atol=1e-13)


@every_score_gate
@given(X=rows, seed=seeds)
def test_scores_are_features_times_theta(gate, X, seed):
    theta = random_theta(gate, np.random.default_rng(seed))
    scores = gate.scores(X, theta)
    np.testing.assert_array_equal(scores[:, -1], 0.0)
    np.testing.assert_allclose(scores[:, :-1], gate.features(X) @ theta.T, atol=1e-9)


@every_score_gate
@given(X=rows, seed=seeds)
def test_exactly_k_experts_are_active_and_hold_all_weight(gate, X, seed):
    theta = random_theta(gate, np.random.default_rng(seed))
    active, weights = gate.active(X, theta), gate.weights(X, theta)
    assert active.shape == (len(X), gate.n_active)
    assert all(len(set(row)) == gate.n_active for row in active.tolist())
    np.testing.assert_allclose(np.take_along_axis(weights, active, axis=1).sum(axis=1), 1.0, atol=1e-12)
    ordered = np.take_along_axis(gate.scores(X, theta), active, axis=1)
    assert (np.diff(ordered, axis=1) <= 0).all()


@every_gate
def test_the_route_is_the_gate_without_its_zeros(gate):
    rng = np.random.default_rng(9)
    X, theta = rng.uniform(size=(150, D)), random_theta(gate, rng, 2)
    active, weights = gate.route(X, theta)
    np.testing.assert_array_equal(active, gate.active(X, theta))
    full = np.zeros((2, 150, N_EXPERTS))
    np.put_along_axis(full, active, weights, axis=-1)
    np.testing.assert_allclose(full, gate.weights(X, theta), atol=1e-15)


@pytest.mark.parametrize("family", [LinearGate, QuadraticGate])
@given(X=rows, seed=seeds)
def test_k_equal_to_m_is_the_dense_gate(family, X, seed):
    dense, full = family(N_EXPERTS), family(N_EXPERTS, k=N_EXPERTS)
    theta = random_theta(dense, np.random.default_rng(seed))
    np.testing.assert_array_equal(dense.weights(X, theta), full.weights(X, theta))


@given(X=rows, seed=seeds, shift=st.floats(-20, 20))
def test_adding_one_constant_to_all_scores_changes_nothing(X, seed, shift):
    # Five experts, the last two forever far behind: shifting the first three against them is a common shift.
    rng = np.random.default_rng(seed)
    theta = np.vstack([rng.normal(size=(3, D + 1)), [[0.0] * D + [-200.0]]])
    theta[:, -1] += 400.0
    shifted = theta + np.eye(D + 1)[-1] * shift
    gate = LinearGate(5)
    np.testing.assert_allclose(gate.weights(X, theta), gate.weights(X, shifted), atol=1e-10)


def test_dense_softmax_is_scipys():
    rng = np.random.default_rng(3)
    X, theta = rng.normal(size=(500, 7)), rng.normal(size=(5, 8))
    scores = np.column_stack([X @ theta[:, :-1].T + theta[:, -1], np.zeros(500)])
    np.testing.assert_allclose(LinearGate(6).weights(X, theta), softmax(scores, axis=1), rtol=1e-12)


def test_quadratic_score_is_the_quadratic_form():
    rng = np.random.default_rng(4)
    d, X = 3, rng.normal(size=(20, 3))
    B = rng.normal(size=(d, d))
    B, beta, alpha = B + B.T, rng.normal(size=d), rng.normal()
    theta = np.concatenate([B[np.triu_indices(d)], beta, [alpha]])[None]
    naive = [naive_quadratic_score(x, B, beta, alpha) for x in X]
    np.testing.assert_allclose(QuadraticGate(2).scores(X, theta)[:, 0], naive, rtol=1e-12)
    diagonal = np.concatenate([np.diag(B), beta, [alpha]])[None]
    naive = [naive_quadratic_score(x, np.diag(np.diag(B)), beta, alpha) for x in X]
    np.testing.assert_allclose(QuadraticGate(2, cross=False).scores(X, diagonal)[:, 0], naive, rtol=1e-12)


def test_parameter_counts():
    assert LinearGate(4).theta_shape(3) == (3, 4)
    assert LinearGate(4, intercept=False).theta_shape(3) == (3, 3)
    assert QuadraticGate(3).theta_shape(2) == (2, 6)
    assert QuadraticGate(3, cross=False, intercept=False).n_params(2) == 8


@pytest.mark.parametrize("k", range(1, 6))
def test_ties_go_to_the_smaller_index(k):
    # All six experts tie everywhere, so the first k are active.
    gate = LinearGate(6, k=k)
    X = np.random.default_rng(0).normal(size=(300, 3))
    np.testing.assert_array_equal(gate.active(X, np.zeros((5, 4))), np.tile(np.arange(k), (300, 1)))
    expected = np.where(np.arange(6) < k, 1.0 / k, 0.0)
    np.testing.assert_allclose(gate.weights(X, np.zeros((5, 4))), np.tile(expected, (300, 1)), rtol=1e-15)


def test_equal_parameters_tie_to_the_bit_wherever_they_stand():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(517, 11))
    theta = rng.normal(size=(40, 7, 12))
    theta[:, 4] = theta[:, 1]
    theta[13] = theta[0]
    scores = LinearGate(8).scores(X, theta)
    np.testing.assert_array_equal(scores[:, :, 4], scores[:, :, 1])
    np.testing.assert_array_equal(scores[13], scores[0])
    np.testing.assert_array_equal(scores[7], LinearGate(8).scores(X[::-1], theta[7])[::-1])


@pytest.mark.parametrize("k", [None, 1, 2])
@pytest.mark.parametrize("phi", ["exp", "sigmoid"])
@pytest.mark.parametrize("size", [1e6, 1e15, 1e300])
def test_extreme_scores_give_finite_weights(k, phi, size):
    gate = LinearGate(3, k=k, phi=phi, intercept=False)
    weights = gate.weights([[1.0], [-1.0]], [[size], [-size]])
    expected = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    if phi == "sigmoid" and k != 1:
        third = 1.0 / 3.0  # sigmoid(0) = 1/2 beside sigmoid(1e6) = 1
        expected = [[2 * third, 0.0, third], [0.0, 2 * third, third]]
    np.testing.assert_allclose(weights, expected, atol=1e-15)


def test_overflowing_scores_are_an_error():
    for gate in (LinearGate(2), LinearGate(2, phi="sigmoid")):
        with pytest.raises(ValueError, match="scores overflow"):
            gate.weights([[1e200]], [[1e200, 0.0]])


@every_gate
@pytest.mark.parametrize("shares", [None, "random"])
def test_mean_gate_is_the_mean_of_the_gates(gate, shares):
    rng = np.random.default_rng(6)
    X, thetas = rng.uniform(size=(260, D)), random_theta(gate, rng, 33)
    share = np.full(33, 1 / 33) if shares is None else rng.dirichlet(np.ones(33))
    mean = gate.mean_weights(X, thetas, None if shares is None else share)
    np.testing.assert_allclose(mean, np.tensordot(share, gate.weights(X, thetas), axes=1), atol=1e-13)


def test_mean_gate_does_not_depend_on_the_blocks():
    gate = LinearGate(3)
    rng = np.random.default_rng(7)
    X, thetas = rng.normal(size=(140, 2)), rng.normal(size=(50, 2, 3))

    class SmallBlocks(type(gate.net(thetas=thetas))):
        def blocks(self, block_size=None):
            return super().blocks(7)

    shares = rng.dirichlet(np.ones(50))
    for share in (None, shares):
        whole = gate.mean_weights(X, thetas, share)
        np.testing.assert_array_equal(whole, gate.mean_weights(X, SmallBlocks(thetas), share))


def test_mean_gate_checks_its_shares():
    kernel = KernelGate(2, mesh=1.0)
    with pytest.raises(ValueError, match=r"shares must have shape \(3,\), not \(2,\)"):
        kernel.mean_weights(np.zeros((1, 1)), np.full((3, 2, 2), 0.5), np.ones(2))
    with pytest.raises(ValueError, match="shares must be finite, but entry 1 is not"):
        kernel.mean_weights(np.zeros((1, 1)), np.full((3, 2, 2), 0.5), [0.5, np.nan, 0.5])
    with pytest.raises(ValueError, match=r"shares must have shape \(5,\)"):
        LinearGate(2).mean_weights(np.zeros((1, 1)), np.zeros((5, 1, 2)), np.ones(4))


@every_gate
def test_pickle_copy_and_clone_keep_the_description(gate):
    for other in (pickle.loads(pickle.dumps(gate)), copy.deepcopy(gate), clone(gate, safe=False)):
        assert other == gate
        assert hash(other) == hash(gate)


def test_descriptions_are_frozen():
    with pytest.raises(FrozenInstanceError):
        LinearGate(3).k = 2


def test_sigmoid_weights_are_normalised_sigmoids():
    rng = np.random.default_rng(8)
    X, theta = rng.normal(size=(50, 2)), rng.normal(size=(2, 3))
    gate = LinearGate(3, phi="sigmoid")
    sigmoid = np.exp(log_expit(gate.scores(X, theta)))
    np.testing.assert_allclose(gate.weights(X, theta), sigmoid / sigmoid.sum(axis=1, keepdims=True), rtol=1e-12)


def test_zero_rows_give_zero_weights():
    for gate in GATES:
        assert gate.weights(np.empty((0, D)), random_theta(gate, np.random.default_rng())).shape == (0, N_EXPERTS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearGate(1), "n_experts must be a whole number at least 2, not 1"),
        (lambda: LinearGate(3, k=4), "k must be a whole number from 1 to 3, not 4"),
        (lambda: LinearGate(3, k=0), "k must be a whole number from 1 to 3, not 0"),
        (lambda: LinearGate(3, k=True), "k must be a whole number from 1 to 3, not True"),
        (lambda: LinearGate(3, phi="relu"), "phi must be one of 'exp', 'sigmoid'"),
        (lambda: KernelGate(3, mesh=0.0), "mesh must be a finite number above 0"),
        (lambda: KernelGate(3, mesh=0.5, kappa=2.0), "kappa must be from 1/2 to 1"),
        (lambda: KernelGate(3, mesh=0.5, low=1.0, high=0.0), "low must be below high"),
    ],
)
def test_bad_descriptions_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_inputs_are_named():
    gate = LinearGate(3)
    with pytest.raises(ValueError, match=r"theta must have shape \(2, 3\).*\(S, 2, 3\).*it has shape \(2, 2\)"):
        gate.weights(np.zeros((5, 2)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="theta must be finite"):
        gate.weights(np.zeros((5, 2)), np.full((2, 3), np.nan))
    X = np.zeros((5, 2))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X must be finite, but column 1 holds nan \(first at row 3\)"):
        gate.weights(X, np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"X must have shape \(n, d\), not \(5,\)"):
        gate.weights(np.zeros(5), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="X must have at least one column"):
        gate.weights(np.zeros((5, 0)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="X must be an array of numbers"):
        gate.weights([["a", "b"]], np.zeros((2, 3)))


def test_a_frame_names_its_bad_column():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [1.0, 2.0], "height": [1.0, np.inf]})
    with pytest.raises(ValueError, match=r"column 1 \('height'\) holds inf"):
        LinearGate(2).weights(frame, np.zeros((1, 3)))


def test_bad_phi_and_features_are_named():
    with pytest.raises(ValueError, match="phi must keep the shape"):
        LinearGate(2, phi=lambda t: t[:1]).weights(np.zeros((3, 1)), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="phi must give a finite log phi"):
        LinearGate(2, phi=lambda t: np.full_like(t, -np.inf)).weights(np.zeros((3, 1)), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="transform must be a callable"):
        FeatureGate(2)
    with pytest.raises(ValueError, match=r"features must have shape \(3, p\)"):
        FeatureGate(2, transform=lambda X: X[:1]).weights(np.zeros((3, 1)), np.zeros((1, 1)))
