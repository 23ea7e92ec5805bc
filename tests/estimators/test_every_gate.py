"""Every gate of the registry, and one of a user's own, in the estimators that learn a gate over given experts."""

from dataclasses import dataclass

import numpy as np
import pytest

import gatewise as gw
from gatewise.aggregation import Blocks
from gatewise.experts import AffineExpert, ConstantExpert
from gatewise.experts.pool import Pool
from gatewise.gates import GATES, ScoreGate

EXPERTS = [("up", AffineExpert((1.0,))), ("down", AffineExpert((-1.0,))), ConstantExpert(0.5)]
X = np.random.default_rng(0).uniform(-1, 1, size=(90, 1))
Y = np.abs(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=90)


@dataclass(frozen=True)
class SignGate(ScoreGate):
    """A user's own family: the sign of the first column and a constant."""

    def features(self, X):
        return np.column_stack([np.sign(X[:, 0]), np.ones(len(X))])


def waves(rows):
    return np.column_stack([np.sin(3 * rows), np.ones(len(rows))])


# What a family must be told beyond the number of experts.
ARGUMENTS = {
    "kernel": {"mesh": 0.5, "low": -1.0, "high": 1.0},
    "feature": {"transform": waves},
    "forecast": {"experts": Pool.of(EXPERTS).models},
}
ALL = {**{name: family(3, **ARGUMENTS.get(name, {})) for name, family in GATES.items()}, "own": SignGate(3)}


def thetas(gate, size=30):
    theta = np.random.default_rng(2).exponential(size=(size, *gate.theta_shape(1)))
    return theta / theta.sum(axis=1, keepdims=True) if isinstance(gate, gw.KernelGate) else 4.0 * theta - 4.0


@pytest.mark.parametrize("gate", ALL.values(), ids=ALL)
def test_a_router_learns_it(gate):
    router = gw.RouterAggregator(EXPERTS, gate, thetas(gate), blocks=Blocks(sigma=0.2), random_state=0).fit(X, Y)
    for readout in ("aggregate", "single"):
        weights = router.gate_weights(X, readout)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-9)
        F = gw.expert_matrix(EXPERTS, X)
        np.testing.assert_allclose(router.predict(X, readout), (weights * F).sum(axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(router.gate_weights(X, "single"), gate.weights(X, router.theta_))


@pytest.mark.parametrize("gate", ALL.values(), ids=ALL)
def test_particles_learn_it(gate):
    net = gw.Particles(30)
    router = gw.RouterAggregator(EXPERTS, gate, net, blocks=Blocks(sigma=0.2), random_state=0).fit(X[:40], Y[:40])
    np.testing.assert_allclose(router.gate_weights(X).sum(axis=1), 1.0, rtol=1e-9)


@pytest.mark.parametrize("gate", ALL.values(), ids=ALL)
def test_least_squares_finds_one_as_good_as_any_of_a_list(gate):
    net = thetas(gate)
    free = gw.GateRegressor(EXPERTS, gate, n_starts=5, random_state=0).fit(X, Y)
    listed = gw.GateRegressor(EXPERTS, gate, net=net).fit(X, Y)
    errors = [
        np.mean((Y - (gate.weights(X, theta) * gw.expert_matrix(EXPERTS, X)).sum(axis=1)) ** 2) for theta in net
    ]
    assert np.mean((Y - listed.predict(X)) ** 2) == pytest.approx(min(errors), rel=1e-9)
    assert np.mean((Y - free.predict(X)) ** 2) <= min(errors) * (1 + 1e-9)


def test_a_selector_chooses_among_all():
    candidates = [(name, gw.GateRegressor(EXPERTS, gate, n_starts=2, random_state=0)) for name, gate in ALL.items()]
    selector = gw.GateSelector(candidates, random_state=0).fit(X, Y)
    assert selector.selected_ in ALL
    np.testing.assert_allclose(selector.gate_weights(X).sum(axis=1), 1.0, rtol=1e-9)
    assert np.mean((Y - selector.predict(X)) ** 2) < np.var(Y)
