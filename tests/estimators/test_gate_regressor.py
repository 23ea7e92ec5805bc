"""GateRegressor: the least squares that exist, behind one face."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import gatewise as gw
from gatewise.aggregation import least_squares, net_least_squares, simplex_least_squares
from gatewise.experts import AffineExpert, ConstantExpert, expert_matrix
from gatewise.paper import DESIGNS

DESIGN = DESIGNS["linear"]
X, Y = DESIGN.sample(120, np.random.default_rng(3))
F = expert_matrix(DESIGN.experts, X)
LINEAR = gw.LinearGate(3, intercept=False)
KERNEL = gw.KernelGate(3, mesh=1.0, low=-1.0, high=1.0)
TOP = gw.LinearGate(3, k=2, intercept=False)
NET = TOP.net([-2.0, 0.0, 2.0], d=2)


@dataclass(frozen=True)
class OneColumn:
    """An expert whose text is the same in every process, for the names of the checks."""

    place: int
    sign: float

    def __call__(self, X):
        return self.sign * np.asarray(X)[:, self.place]


# Two fixed functions of the inputs cannot fit a response that is linear in ten of them.
FAILS = {"check_regressors_train": "ready experts: the fit is as good as they are, and these are poor on purpose"}


@parametrize_with_checks(
    [gw.GateRegressor([OneColumn(0, 1.0), OneColumn(-1, -1.0)], gw.LinearGate(2), n_starts=2, random_state=0)],
    expected_failed_checks=lambda estimator: FAILS,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("shared", [[], [AffineExpert((0.5, 0.0)), ConstantExpert(1.0)]], ids=["routed", "shared"])
@pytest.mark.parametrize("gate", [LINEAR, KERNEL, TOP], ids=["softmax", "kernel", "top-2"])
def test_theta_is_that_of_the_plain_function(gate, shared):
    always = expert_matrix(shared, X).sum(axis=1) if shared else np.zeros(120)
    net = NET if gate is TOP else None
    model = gw.GateRegressor(DESIGN.experts, gate, shared, net, radius=3.0, n_starts=4, random_state=1).fit(X, Y)
    if gate is TOP:
        theta = net_least_squares(TOP, NET, X, Y - always, F).theta
    elif gate is KERNEL:
        theta = simplex_least_squares(KERNEL.features(X), F, Y - always).theta
    else:
        theta = least_squares(LINEAR, X, Y - always, F, radius=3.0, n_starts=4, rng=1).theta
    np.testing.assert_array_equal(model.theta_, theta)
    np.testing.assert_array_equal(model.gate_weights(X), gate.weights(X, theta))
    by_hand = always + (gate.weights(X, theta) * F).sum(axis=1)
    np.testing.assert_allclose(model.predict(X), by_hand, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(model.report_.theta, theta)


@pytest.mark.parametrize("unit", [1e-5, 1e5])
def test_units_of_the_response_do_not_matter(unit):
    def weights(unit):
        experts = [lambda X, m=m: unit * expert_matrix(DESIGN.experts, X)[:, m] for m in range(3)]
        return gw.GateRegressor(experts, LINEAR, n_starts=2, random_state=0).fit(X, unit * Y).gate_weights(X)

    np.testing.assert_allclose(weights(unit), weights(1.0), atol=1e-4)


def test_frames_and_pickling():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b"])
    experts = [_by_name, DESIGN.experts[1]]
    model = gw.GateRegressor(experts, gw.LinearGate(2), n_starts=2, random_state=0).fit(frame, Y)
    assert list(model.feature_names_in_) == ["a", "b"]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def _by_name(frame):
    return 2 + 2 * frame["a"] - frame["b"]


def test_a_fitted_expert_survives_cloning_only_when_frozen():
    own = LinearRegression().fit(X[:60], Y[:60])
    plain = gw.GateRegressor([own, DESIGN.experts[1], DESIGN.experts[2]], LINEAR, random_state=0)
    expected = plain.fit(X[60:], Y[60:]).predict(X)
    with pytest.raises(ValueError, match=r"the expert 'linearregression' must be fitted.*FrozenEstimator"):
        clone(plain).fit(X[60:], Y[60:])
    frozen = gw.GateRegressor([FrozenEstimator(own), DESIGN.experts[1], DESIGN.experts[2]], LINEAR, random_state=0)
    np.testing.assert_array_equal(clone(frozen).fit(X[60:], Y[60:]).predict(X), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"experts": DESIGN.experts[:2]}, "experts must hold one expert for each of the gate's 3, not 2"),
        ({"shared": [LinearRegression()]}, "the shared expert 'linearregression' must be fitted"),
        ({"gate": TOP}, r"Top-K gate .* search a net"),
        ({"net": np.zeros((5, 2, 3))}, r"theta must have shape \(2, 2\)"),
        ({"radius": 0.0}, "radius must be a finite number above 0"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"experts": DESIGN.experts, "gate": LINEAR, **change}
    with pytest.raises(ValueError, match=message):
        gw.GateRegressor(**arguments).fit(X, Y)


@pytest.mark.parametrize("size", [1e-200, 1e150])
def test_a_unit_in_which_squares_say_nothing_is_refused(size):
    x = np.linspace(-1, 1, 40)[:, None]
    model = gw.GateRegressor([lambda X: 0.0 * X[:, 0], lambda X: X[:, 0]], gw.LinearGate(2), random_state=0)
    with pytest.raises(ValueError, match="change its unit"):
        model.fit(x, size * x[:, 0])
