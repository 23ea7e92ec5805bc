"""Shared and routed experts that learn together."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, SGDRegressor
from sklearn.tree import DecisionTreeRegressor

from gatewise.experts import AffineExpert, ConstantExpert
from gatewise.experts.evolving import after_burn_in, AveragedExpert, EvolvingExpert, state_bytes, weighted
from gatewise.experts.gated import GatedExperts
from gatewise.experts.joint_update import RULES, Updates
from gatewise.experts.linear_expert import linear_basis, linear_coefficients, with_coefficients
from gatewise.experts.pool import Pool

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 2))
y = X @ [1.0, -2.0] + 0.5 + rng.normal(scale=0.1, size=80)
EQUAL = np.full((80, 2), 0.5)


class Notebook:
    """Predicts a constant and writes down what it was given."""

    def __init__(self, value):
        self.value, self.rows, self.targets = value, [], []

    def partial_fit(self, X, y):
        self.rows, self.targets = [*self.rows, X], [*self.targets, y]

    def predict(self, X):
        return np.full(len(X), self.value)


def gated(routed, shared=()):
    return GatedExperts.of(routed, shared, len(routed))


@pytest.mark.parametrize("rule", ["residual", "routed"])
def test_every_expert_gets_what_the_others_leave(rule):
    pools = gated([Notebook(1.0), Notebook(2.0)], [Notebook(10.0), Notebook(20.0)])
    weights = np.where(np.arange(80)[:, None] < 30, [[0.9, 0.1]], [[0.2, 0.8]])
    after = Updates(rule=rule).apply(pools, X, y, weights)
    first, second = after.shared.models
    mixture = weights @ [1.0, 2.0]
    np.testing.assert_allclose(first.targets[0], y - mixture - 20.0)
    np.testing.assert_allclose(second.targets[0], y - mixture - 10.0)
    parts = [slice(30), slice(30, None)] if rule == "routed" else [slice(None)] * 2
    for expert, part in zip(after.experts.models, parts, strict=True):
        np.testing.assert_allclose(expert.targets[0], (y - 30.0)[part])
        np.testing.assert_array_equal(expert.rows[0], X[part])


def test_all_rows_without_shared_experts_and_a_refusal_with_them():
    after = Updates(rule="all").apply(gated([Notebook(1.0), Notebook(2.0)]), X, y, EQUAL)
    for expert in after.experts.models:
        np.testing.assert_array_equal(expert.targets[0], y)
    with pytest.raises(ValueError, match="the response would count twice; take the rule 'residual'"):
        Updates(rule="all").check(gated([Notebook(1.0)], [ConstantExpert(1.0)]))
    with pytest.raises(ValueError, match="count twice"):
        RULES["all"](Pool.of([ConstantExpert(1.0)]), Pool.of([Notebook(1.0)]), X, y, EQUAL[:, :1])


def test_a_rule_of_ones_own_and_what_it_must_return():
    def rule(shared, routed, X, y, gate_weights):
        return shared, routed.with_models([ConstantExpert(float(y.mean())) for _ in routed.models])

    pools = gated([ConstantExpert(0.0), ConstantExpert(1.0)])
    assert Updates(rule=rule).needs_gate(pools)
    after = Updates(rule=rule).apply(pools, X, y, EQUAL)
    assert after.experts.models == [ConstantExpert(float(y.mean()))] * 2
    with pytest.raises(TypeError, match="must return two pools"):
        Updates(rule=lambda *_: None).apply(pools, X, y, EQUAL)
    with pytest.raises(ValueError, match="as many shared and routed experts"):
        Updates(rule=lambda s, r, *_: (s, s)).apply(pools, X, y, EQUAL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every": 0}, "every must be a whole number"),
        ({"memory": 0.0}, "memory must be"),
        ({"rule": "both"}, "rule must be one of 'residual', 'routed', 'all' or a function, not 'both'"),
    ],
)
def test_bad_updates_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Updates(**arguments)


def test_a_burn_in_fits_shared_and_routed_experts_to_their_sum():
    """Backfitting of linear experts ends at joint least squares; two separate fits would sum to twice y."""
    routed = [LinearRegression(), DecisionTreeRegressor(max_depth=2)]
    pools = after_burn_in(gated(routed, [LinearRegression()]), X, y, None, EQUAL)
    total = pools.shared.total(X) + pools.experts.predict(X).mean(axis=1)
    assert np.sqrt(np.mean((total - y) ** 2)) < 0.11
    assert np.polyfit(X @ [1.0, -2.0], total, 1)[0] == pytest.approx(1.0, abs=0.02)
    assert not hasattr(routed[0], "coef_")


def test_a_shared_expert_that_is_fixed_is_taken_off():
    fixed = AffineExpert((1.0, 0.0))
    pools = after_burn_in(gated([LinearRegression(), LinearRegression()], [fixed]), X, y, None, EQUAL)
    expected = LinearRegression().fit(X, y - X[:, 0])
    for expert in pools.experts.models:
        np.testing.assert_allclose(expert.coef_, expected.coef_)


def test_sample_weights_reach_those_that_take_them():
    weight = np.arange(80) + 1.0
    pools = after_burn_in(gated([LinearRegression(), Notebook(0.0)]), X, y, Updates(), EQUAL, weight)
    expected = LinearRegression().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(pools.experts.models[0].coef_, expected.coef_)
    ready = gated([SGDRegressor(random_state=0).fit(X, y)])
    one = Updates().apply(weighted(ready, weight), X, y, np.ones((80, 1))).experts.models[0].coef_.copy()
    plain = SGDRegressor(random_state=0).fit(X, y).partial_fit(X, y, sample_weight=weight).coef_
    np.testing.assert_allclose(one, plain)


def test_an_error_in_an_update_names_the_expert():
    class Fails(Notebook):
        def partial_fit(self, X, y):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        Updates().apply(gated([("bad", Fails(0.0))]), X, y, np.ones((80, 1)))
    assert caught.value.__notes__ == ["raised by the expert 'bad' in an update"]


def test_linear_experts_add_up_from_their_basis():
    model = SGDRegressor(random_state=0).fit(X, y)
    coefficients = linear_coefficients(model)
    basis = linear_basis(model, X)
    total = sum(c * b.predict(X) for c, b in zip(coefficients, basis, strict=True))
    np.testing.assert_allclose(total, model.predict(X))
    np.testing.assert_array_equal(with_coefficients(model, 2 * coefficients).predict(X), 2 * model.predict(X))
    assert linear_basis(DecisionTreeRegressor().fit(X, y), X) is None


def test_an_expert_with_coefficients_that_is_not_linear_is_found_out():
    class Clipped(LinearRegression):
        def predict(self, X):
            return np.maximum(super().predict(X), 0.0)

    assert linear_basis(Clipped().fit(X, y), X) is None


def test_evolving_and_averaged_experts():
    last = EvolvingExpert(ConstantExpert(0.0), lambda expert, X, y: ConstantExpert(float(y[-1])))
    assert last.partial_fit(X, y).predict(X[:1]) == y[-1]
    mean = AveragedExpert((ConstantExpert(1.0), ConstantExpert(4.0)), (0.25, 0.75))
    np.testing.assert_allclose(mean.predict(X[:2]), 3.25)
    assert state_bytes(last) > 0  # a lambda cannot be pickled
