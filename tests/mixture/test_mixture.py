"""The mixture predictor: its value, and whom it asks for what."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gatewise import expert_matrix, KernelGate, LinearGate, MixtureOfExperts, QuadraticGate
from gatewise.experts import AffineExpert, ConstantExpert
from tests.families import D, GATES, N_EXPERTS, random_theta

EXPERTS = [ConstantExpert(1.0), AffineExpert((1.0, -1.0)), AffineExpert((0.0, 3.0), 2.0), ConstantExpert(-4.0)]
SHARED = [AffineExpert((5.0, 0.0)), ConstantExpert(100.0)]


class Recorder:
    """An expert that keeps what it was asked."""

    def __init__(self, value):
        self.value = value
        self.asked = []

    def predict(self, X):
        self.asked.append(np.asarray(X))
        return np.full(len(X), self.value)


@pytest.mark.parametrize("gate", GATES, ids=repr)
@pytest.mark.parametrize("shared", [[], SHARED], ids=["routed", "shared"])
def test_prediction_is_shared_plus_weighted_routed(gate, shared):
    rng = np.random.default_rng(0)
    X, theta = rng.uniform(size=(300, D)), random_theta(gate, rng)
    model = MixtureOfExperts(gate, theta, EXPERTS, shared)
    expected = (gate.weights(X, theta) * expert_matrix(EXPERTS, X)).sum(axis=1)
    if shared:
        expected += expert_matrix(shared, X).sum(axis=1)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-12)
    np.testing.assert_array_equal(model.gate_weights(X), gate.weights(X, theta))


@given(seed=st.integers(0, 10_000), k=st.integers(1, 5), n=st.integers(1, 300))
def test_each_expert_is_asked_once_for_exactly_the_rows_that_selected_it(seed, k, n):
    rng = np.random.default_rng(seed)
    gate, X = LinearGate(6, k=k), rng.normal(size=(n, 2))
    theta = random_theta(gate, rng)
    routed, shared = [Recorder(float(m)) for m in range(6)], [Recorder(10.0)]
    MixtureOfExperts(gate, theta, routed, shared).predict(X)
    active = gate.active(X, theta)
    for m, expert in enumerate(routed):
        rows = np.flatnonzero((active == m).any(axis=1))
        if len(rows) == 0:
            assert expert.asked == []
        else:
            (asked,) = expert.asked
            np.testing.assert_array_equal(asked, X[rows])
    (asked,) = shared[0].asked
    assert len(asked) == n


def test_an_expert_that_no_row_selects_is_never_asked():
    def broken(X):
        raise AssertionError("must not be asked")

    theta = [[0.0, 5.0], [0.0, -5.0]]  # expert 0 leads everywhere
    model = MixtureOfExperts(LinearGate(3, k=1), theta, [ConstantExpert(7.0), broken, broken])
    np.testing.assert_array_equal(model.predict(np.zeros((4, 1))), np.full(4, 7.0))


def test_an_active_expert_whose_weight_underflows_is_still_asked():
    routed = [Recorder(1.0), Recorder(2.0)]
    MixtureOfExperts(LinearGate(2, k=2), [[1e6, 0.0]], routed).predict([[1.0]])
    assert [len(expert.asked) for expert in routed] == [1, 1]


def test_experts_get_frames_as_frames():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    models = [make_pipeline(StandardScaler(), LinearRegression()).fit(frame, frame[c]) for c in frame]
    theta = rng.normal(size=(1, 3))
    results = []
    for k in (None, 1):
        sparse = MixtureOfExperts(LinearGate(2, k=k), theta, models)
        results.append(sparse.predict(frame))
        sparse_polars = MixtureOfExperts(
            LinearGate(2, k=k), theta, [lambda f: f["a"].to_numpy(), lambda f: f["b"].to_numpy()]
        )
        np.testing.assert_allclose(sparse_polars.predict(pl.from_pandas(frame)), results[-1], atol=1e-12)
    weights = LinearGate(2).weights(frame, theta)
    np.testing.assert_allclose(results[0], (weights * frame.to_numpy()).sum(axis=1), atol=1e-12)


def test_no_rows_no_predictions_and_no_calls():
    routed = [Recorder(1.0), Recorder(2.0)]
    model = MixtureOfExperts(LinearGate(2), [[1.0, 0.0]], routed, [Recorder(0.0)])
    assert model.predict(np.empty((0, 1))).shape == (0,)
    assert routed[0].asked == []


def test_a_mixture_is_an_expert_and_pickles():
    inner = MixtureOfExperts(LinearGate(2), [[1.0, 0.0]], [ConstantExpert(0.0), ConstantExpert(1.0)])
    outer = MixtureOfExperts(QuadraticGate(2, k=1), np.zeros((1, 3)), [inner, ConstantExpert(9.0)])
    X = np.linspace(-1, 1, 7)[:, None]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(outer)).predict(X), inner.predict(X))


def test_bad_mixtures_are_named():
    with pytest.raises(ValueError, match="experts must hold one expert for each of the gate's 3, not 2"):
        MixtureOfExperts(LinearGate(3), np.zeros((2, 2)), EXPERTS[:2])
    with pytest.raises(ValueError, match="the expert '<lambda>' must return shape"):
        MixtureOfExperts(KernelGate(2, mesh=1.0), np.full((2, 2), 0.5), [EXPERTS[0], lambda X: X]).predict([[0.0]])
    with pytest.raises(ValueError, match="the shared expert '<lambda>' must return shape"):
        MixtureOfExperts(LinearGate(N_EXPERTS), np.zeros((3, 3)), EXPERTS, [lambda X: X]).predict([[0.0, 0.0]])
