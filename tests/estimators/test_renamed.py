"""Old names are answered by errors that say the new ones, and scikit-learn sees the new ones alone."""

import numpy as np
import pytest
from sklearn.base import clone

import gatewise as gw
from gatewise.experts import ConstantExpert

GATE = gw.LinearGate(2)
EXPERTS = [ConstantExpert(0.0), ConstantExpert(1.0)]
NAMED = [("zero", EXPERTS[0]), ("one", EXPERTS[1])]
NET = GATE.net([-1.0, 0.0, 1.0], d=1)
X = np.random.default_rng(0).normal(size=(60, 1))
Y = (X[:, 0] > 0).astype(float)
MAKERS = {
    "mixture": lambda **kw: gw.MixtureOfExperts(gate=GATE, theta=np.zeros((1, 2)), **kw),
    "router": lambda **kw: gw.RouterAggregator(gate=GATE, net=NET, random_state=0, **kw),
    "gate": lambda **kw: gw.GateRegressor(gate=GATE, n_starts=2, random_state=0, **kw),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_routed_is_called_experts(make):
    with pytest.raises(TypeError, match="routed is now called experts"):
        make(routed=EXPERTS)
    model = make(experts=EXPERTS)
    with pytest.raises(AttributeError, match="routed is now called experts"):
        model.routed  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'router'"):
        model.router  # noqa: B018


@pytest.mark.parametrize("name", ["router", "gate"])
def test_scikit_learn_sees_the_new_names(name):
    model = MAKERS[name](experts=EXPERTS)
    assert "experts" in model.get_params(deep=False)
    assert "routed" not in model.get_params(deep=False)
    assert clone(model).experts == EXPERTS
    with pytest.raises(ValueError, match=r"Invalid parameter 'routed'(.|\n)*'experts'"):
        model.set_params(routed=EXPERTS)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_named_and_bare_experts_give_the_same(make):
    answers = []
    for experts in (EXPERTS, NAMED, [NAMED[0], EXPERTS[1]]):
        model = make(experts=experts, shared=[("half", ConstantExpert(0.5))])
        answers.append((model.fit(X, Y) if hasattr(model, "fit") else model).predict(X))
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])


def test_an_aggregated_gate_does_not_ask_how_experts_were_named():
    gates = [MAKERS["gate"](experts=experts) for experts in (EXPERTS, NAMED)]
    selector = gw.GateSelector(gates, random_state=0).fit(X, Y)
    np.testing.assert_allclose(selector.gate_weights(X).sum(axis=1), 1.0)
