"""Where there are many experts: screening, and gates with small spreads only."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

import gatewise as gw
from gatewise.experts import ColumnExpert
from gatewise.router import screening, training
from gatewise.router.screening import MOST_ROUTED, screened, screened_classes, screening_rows

LIGHT = gw.MoESettings(n_orders=1, spreads=(1.0,), learners=(), test=False)


@pytest.fixture
def few(monkeypatch):
    """Of more than four experts four are in the list."""
    for module in (screening, training):
        monkeypatch.setattr(module, "MOST_ROUTED", 4)


def of_columns(count, **options):
    experts = [(f"e{m}", ColumnExpert(m)) for m in range(count)]
    return gw.MoERegressor(experts, gates=["linear"], random_state=0, **{"settings": LIGHT, **options})


def alike(n, M, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    return truth[:, None] + rng.normal(size=(n, M)), truth + 0.1 * rng.normal(size=n)


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


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("count", [4, 5, 10])
def test_folds_of_whole_groups_may_hold_out_no_row_that_judges(count):
    F, y = alike(100, 8)
    model = of_columns(8).fit(F, y, groups=np.arange(100) % count)
    assert model.rows_learned_ == 100
    assert len(np.unique(model.out_of_fold_.rows % count)) == count - count // 2


@pytest.mark.usefixtures("few")
def test_weights_that_count_rows_choose_the_experts_that_copies_choose():
    (F, y), count = alike(120, 12), np.random.default_rng(1).integers(0, 4, 120)
    copies = np.random.default_rng(2).permutation(np.repeat(np.arange(120), count))

    def fitted(rows, **options):
        folds = [(np.flatnonzero(rows % 5 != j), np.flatnonzero(rows % 5 == j)) for j in range(5)]
        return of_columns(12, cv=folds).fit(F[rows], y[rows], **options)

    by_weight, by_copies = fitted(np.arange(120), sample_weight=count), fitted(copies)
    assert by_weight.left_out_ == by_copies.left_out_
    np.testing.assert_allclose(by_weight.predict(F), by_copies.predict(F), rtol=0.0, atol=1e-12)


@pytest.mark.usefixtures("few")
def test_equal_rows_choose_together_or_not_at_all():
    (F, y), rows = alike(60, 6), np.tile(np.arange(60), 2)
    model = of_columns(6, cv="prefit").fit(F[rows], y[rows])
    judging = np.bincount(model.out_of_fold_.rows % 60, minlength=60)
    assert set(judging) == {0, 2}


@pytest.mark.usefixtures("few")
def test_rows_that_choose_experts_are_learned_from_and_told():
    F, y = alike(14_000, 5)
    model = of_columns(5, cv="prefit").fit(F, y)
    assert (model.rows_learned_, len(model.out_of_fold_.rows)) == (14_000, 7_000)
    told = "7,000 rows chose the experts of the list; weights, gain and losses are of the other 7,000"
    assert told in model.summary()
    assert model.report()["rows_tried"] == 6_000
    all_judge = of_columns(4, cv="prefit").fit(F[:99], y[:99], sample_weight=np.arange(99) % 3 + 1)
    assert all_judge.rows_learned_ == 99
    assert "chose the experts" not in all_judge.summary()
    all_judge._router = replace(all_judge._router, n_entries=0)  # as in an older model file
    del all_judge._rows_learned
    assert all_judge.rows_learned_ == 99
    assert "chose the experts" not in all_judge.summary()


def on(columns):
    return make_pipeline(make_column_transformer(("passthrough", columns)), LinearRegression())


@pytest.mark.usefixtures("few")
def test_what_is_fitted_again_sees_predictions_at_the_rows_that_chose_the_experts(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (120, 7))
    y = np.where(X[:, 0] > 0.0, 3.0 * X[:, 1], -3.0 * X[:, 2]) + 2.0 * X[:, 6] + 0.1 * rng.normal(size=120)
    seen = {"_routed_part": [], "_specialist_weights": []}
    for name, found in seen.items():
        ours = getattr(training, name)

        def kept(*args, ours=ours, found=found, **options):
            found.append(ours(*args, **options))
            return found[-1]

        monkeypatch.setattr(training, name, kept)
    settings = gw.MoESettings(n_orders=1, spreads=(1.0,), learners=(), test=False, specialize=1)
    experts, shared = [(f"e{j}", on([j])) for j in range(6)], [("always", on([6]))]
    model = gw.MoERegressor(experts, shared, gates=["linear"], k=None, random_state=0, settings=settings).fit(X, y)
    assert len(model.out_of_fold_.rows) == 60
    assert all(part.all() for part in seen["_routed_part"])
    (weights,) = seen["_specialist_weights"]
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert (weights.any(axis=0)).sum() == 4  # experts that are left out have weight at no row


@pytest.mark.usefixtures("few")
def test_where_copies_are_left_out_and_no_other_expert_all_rows_are_tested():
    F, y = alike(120, 3)
    settings = gw.MoESettings(n_orders=1, spreads=(1.0,), learners=())
    alone = of_columns(3, settings=settings).fit(F, y)
    twice = of_columns(6, settings=settings).fit(np.tile(F, 2), y)
    assert twice.left_out_ == ["e3", "e4", "e5"]
    found, expected = (one._router.verdict.p_value for one in (twice, alone))
    assert found < 1.0
    assert len(twice.out_of_fold_.rows) == len(alone.out_of_fold_.rows) == 120
    assert abs(found - expected) < 0.05
