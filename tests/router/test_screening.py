"""Where there are many experts: screening, and gates with small spreads only."""

import numpy as np

import gatewise as gw
from gatewise.experts import ColumnExpert
from gatewise.router import screening, training
from gatewise.router.screening import MOST_ROUTED, screened, screened_classes, screening_rows

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
    tried = {
        name: {c.spread for c in model.candidates_ if c.name == name and c.spread} for name in ("linear", "quadratic")
    }
    assert tried["quadratic"] == {0.3, 1.0}  # 4 x 44 coefficients: 4 n / C = 1.4
    assert tried["linear"] == {0.3, 1.0, 3.0}  # 4 x 8: 7.5


def test_the_rows_that_choose_experts_are_half_and_divide_no_group():
    units = np.repeat(np.arange(30), 4)
    chosen = screening_rows(120, units, 0)
    assert chosen.sum() == 60
    assert all(len(np.unique(chosen[units == unit])) == 1 for unit in range(30))
    assert not np.array_equal(screening_rows(100, None, 0), screening_rows(100, None, 1))


def test_held_out_errors_are_not_flattered_by_the_choice_of_experts(monkeypatch):
    """Of 120 experts that are alike, the ten that agree best with some responses by chance do so with no others."""
    for module in (screening, training):
        monkeypatch.setattr(module, "MOST_ROUTED", 10)
    told, fresh = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=1200)
        F, y = truth[:, None] + 2.0 * rng.normal(size=(1200, 120)), truth + rng.normal(size=1200)
        experts = [(f"e{m}", ColumnExpert(m)) for m in range(120)]
        model = gw.MoERegressor(experts, gates=["linear"], cv="prefit", settings=LIGHT, random_state=0)
        model.fit(F[:200], y[:200])
        assert len(model.left_out_) == 110
        told += model.report()["held_out_errors"]
        fresh.append(np.mean((model.predict(F[200:]) - y[200:]) ** 2))
    assert 0.9 < np.mean(told) / np.mean(fresh) < 1.12  # 0.66 where the same rows choose and judge
