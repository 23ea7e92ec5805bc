"""Where there are many experts: screening, and gates with small spreads only."""

import numpy as np

import gatewise as gw
from gatewise.experts import ColumnExpert
from gatewise.router.screening import MOST_ROUTED, screened, screened_classes

LIGHT = gw.MoESettings(n_orders=1, spreads=(1.0,), learners=(), test=False)


def test_the_useful_experts_stay():
    rng = np.random.default_rng(0)
    n, M = 400, MOST_ROUTED + 20
    y = rng.normal(size=n)
    F = y[:, None] + 3.0 * np.abs(rng.normal(size=(n, M))) + 5.0  # useless, and all on one side
    F[:, 7], F[: n // 2, 70] = y + rng.normal(size=n), y[: n // 2]  # one for everywhere, one for half of the rows
    kept = screened(F, y, np.ones(n), np.arange(M))
    assert len(kept) == MOST_ROUTED
    assert {7, 70} <= set(kept.tolist())
    np.testing.assert_array_equal(kept, np.sort(kept))
    moved = rng.permutation(M)
    again = screened(F[:, moved], y, np.ones(n), np.arange(M))
    assert {7, 70} <= {int(moved[m]) for m in again}


def test_the_useful_classifiers_stay():
    rng = np.random.default_rng(0)
    n, M = 400, MOST_ROUTED + 20
    y = rng.integers(0, 3, n)
    F = rng.dirichlet(np.ones(3), (n, M))
    F[np.arange(n), :, y] *= 0.1  # useless: little for the class that came
    F[:, 7] = 0.2 + 0.4 * np.eye(3)[y]
    F[: n // 2, 70] = 0.05 + 0.85 * np.eye(3)[y[: n // 2]]
    F /= F.sum(axis=2, keepdims=True)
    distinct = np.delete(np.arange(M), 3)
    kept = screened_classes(F, y.astype(float), np.ones(n), distinct)
    assert len(kept) == MOST_ROUTED
    assert {7, 70} <= set(kept.tolist()) <= set(distinct.tolist())
    np.testing.assert_array_equal(kept, np.sort(kept))


def test_experts_that_are_left_out_are_named_and_have_no_weight():
    rng = np.random.default_rng(1)
    n, M = 200, MOST_ROUTED + 6
    y = rng.normal(size=n)
    F = y[:, None] + rng.normal(size=(n, M)) * np.linspace(0.5, 3.0, M)
    experts = [(f"e{m}", ColumnExpert(m)) for m in range(M)]
    model = gw.MoERegressor(experts, gates=["linear"], k=None, cv="prefit", settings=LIGHT, random_state=0).fit(F, y)
    places = [int(name[1:]) for name in model.left_out_]
    assert len(places) == 6
    assert not model.gate_weights(F)[:, places].any()
    assert model.left_out_[0] in model.summary()
    assert model.report()["left_out"] == model.left_out_
    assert model.predict(F).shape == (n,)


def test_a_gate_with_many_coefficients_has_small_spreads_only():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 8))
    y = X[:, 0] + rng.normal(size=60)
    experts = [(f"e{m}", ColumnExpert(m)) for m in range(4)]
    light = gw.MoESettings(n_orders=1, learners=(), test=False)
    model = gw.MoERegressor(experts, gates=["linear", "quadratic"], k=None, cv="prefit", settings=light).fit(X, y)
    tried = {name: {c.spread for c in model.candidates_ if c.name == name} for name in ("linear", "quadratic")}
    assert tried["quadratic"] == {0.3, 1.0}  # 4 x 44 coefficients: 4 n / C = 1.4
    assert tried["linear"] == {0.3, 1.0, 3.0}  # 4 x 8: 7.5
