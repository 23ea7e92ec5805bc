"""Whole sample weights of `MoERegressor` and `MoEClassifier` are copies of rows, wherever these stand."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gatewise as gw
from gatewise.estimators import row_copies
from gatewise.estimators.row_copies import fit_rows, FitRows

N = 120
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 3))
Y = np.where(X[:, 0] < 0, 2 * X[:, 1], np.sin(3 * X[:, 2])) + 0.3 * RNG.normal(size=N)
WHOLE = RNG.integers(0, 4, N).astype(float)
SHUFFLED = RNG.permutation(np.repeat(np.arange(N), WHOLE.astype(int)))
FOLD = np.arange(N) % 5
REGRESSORS = [
    ("line", LinearRegression()),
    ("knn", KNeighborsRegressor(3)),
    ("tree", DecisionTreeRegressor(max_depth=4, random_state=0)),
]
CLASSIFIERS = [
    ("bayes", GaussianNB()),
    ("knn", KNeighborsClassifier(3)),
    ("tree", DecisionTreeClassifier(max_depth=4, random_state=0)),
]
KINDS = {
    "numbers": (gw.MoERegressor, REGRESSORS, Y, "predict"),
    "classes": (gw.MoEClassifier, CLASSIFIERS, np.where(Y > 0, "up", "down"), "predict_proba"),
}


def splits(fold):
    return [(np.flatnonzero(fold != j), np.flatnonzero(fold == j)) for j in range(5)]


def plain_fit_rows(weight, groups=None, cv=(), params=None, table=X, y=Y, seed=0):
    given = FitRows(table, y, np.asarray(weight, dtype=float), groups, list(cv), params or {}, np.arange(len(y)))
    return fit_rows(given, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_list_takes_weights_as_copies_in_any_order(kind):
    make, experts, y, ask = KINDS[kind]
    settings = gw.MoESettings(test=False)
    weighted = make(experts, cv=splits(FOLD), random_state=0, settings=settings).fit(X, y, sample_weight=WHOLE)
    repeated = make(experts, cv=splits(FOLD[SHUFFLED]), random_state=0, settings=settings)
    repeated.fit(X[SHUFFLED], y[SHUFFLED])
    np.testing.assert_allclose(getattr(weighted, ask)(X), getattr(repeated, ask)(X), atol=1e-12)
    np.testing.assert_allclose(weighted.gate_weights(X), repeated.gate_weights(X), atol=1e-12)
    np.testing.assert_array_equal(weighted.out_of_fold_.rows, SHUFFLED[repeated.out_of_fold_.rows])
    np.testing.assert_array_equal(weighted.out_of_fold_.y, y[weighted.out_of_fold_.rows])
    plain = make(experts, cv=splits(FOLD), random_state=0, settings=settings).fit(X, y)
    assert np.abs(getattr(weighted, ask)(X) - getattr(plain, ask)(X)).max() > 0.01


def test_a_table_without_copies_and_weights_is_used_as_it_is():
    given = FitRows(X, Y, np.ones(N), None, [], {}, np.arange(N))
    assert gw.MoERegressor(REGRESSORS)._fit_rows(given, gw.MoESettings(), 0)[0] is given
    assert plain_fit_rows(np.ones(N)).place is None
    np.testing.assert_array_equal(plain_fit_rows(np.ones(N)).source, np.arange(N))
    again = FitRows(X[FOLD], Y[FOLD], np.ones(N), None, [], {}, np.arange(N))
    used, _ = gw.MoERegressor(REGRESSORS)._fit_rows(again, gw.MoESettings(), 0)
    np.testing.assert_array_equal(used.X, X[FOLD])  # for the experts
    np.testing.assert_array_equal(np.sort(used.place), np.arange(N))


def test_copies_of_a_row_have_its_group():
    found = plain_fit_rows(WHOLE)
    np.testing.assert_array_equal(found.weight, 1.0)
    np.testing.assert_array_equal(found.X, X[found.source])
    np.testing.assert_array_equal(plain_fit_rows(WHOLE, groups=FOLD).groups, FOLD[found.source])
    assert found.groups is None


def test_weights_that_count_no_rows_stay_and_reach_the_experts(monkeypatch):
    for weight in (WHOLE + 0.5, WHOLE * 100.0):
        found = plain_fit_rows(weight, params={"line": {"sample_weight": weight}})
        np.testing.assert_array_equal(found.weight, weight[weight > 0])
        np.testing.assert_array_equal(found.params["line"]["sample_weight"], weight[weight > 0])
        np.testing.assert_array_equal(found.source, np.flatnonzero(weight))
    monkeypatch.setattr(row_copies, "MOST_COUNTED", N)
    np.testing.assert_array_equal(plain_fit_rows(WHOLE).weight, WHOLE[WHOLE > 0])
    np.testing.assert_array_equal(plain_fit_rows(np.arange(N) % 2).source, np.arange(1, N, 2))


class _LastBits(GaussianNB):
    """Probabilities with last bits of their own, as those of an expert that was fitted to rows in another order."""

    def predict_proba(self, X):
        P = super().predict_proba(X)
        noise = 2.0**-52 * RNG.integers(0, 5, size=len(P))
        return P + noise[:, None] * [1.0, -1.0]


def test_last_bits_of_probabilities_change_no_bit_of_a_share():
    y = KINDS["classes"][2]
    fits = [
        gw.MoEClassifier([("bayes", bayes), *CLASSIFIERS[1:]], cv=splits(FOLD), random_state=0).fit(X, y)
        for bayes in (GaussianNB(), _LastBits())
    ]
    np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weight_zero_change_nothing(kind):
    make, experts, y, ask = KINDS[kind]
    weight = np.where(np.arange(N) < 6, 0.0, RNG.uniform(0.5, 2.0, N))
    other = y.copy()
    other[:6] = 1e9 if kind == "numbers" else other[6:][other[6:] != other[6]][0]
    changed = np.where(np.arange(N)[:, None] < 6, 50.0, X)
    settings = gw.MoESettings(learners=(), test=False)
    fits = [
        make(experts, gates=["linear"], cv=splits(FOLD), random_state=0, settings=settings).fit(
            rows, response, sample_weight=weight
        )
        for rows, response in ((X, y), (changed, other))
    ]
    np.testing.assert_array_equal(*(getattr(fit, ask)(X) for fit in fits))
    assert fits[0].out_of_fold_.rows.min() == 6


def test_experts_get_copies_in_the_place_of_weights_and_their_own_groups():
    found = plain_fit_rows(WHOLE, params={"line": {"sample_weight": WHOLE, "groups": FOLD}})
    assert list(found.params["line"]) == ["groups"]
    np.testing.assert_array_equal(found.params["line"]["groups"], FOLD[found.source])


def test_weights_that_an_expert_refuses_by_routing_count_no_rows():
    with sklearn.config_context(enable_metadata_routing=True):
        found = plain_fit_rows(WHOLE, params={"line": {"sample_weight": WHOLE}, "knn": {}})
        np.testing.assert_array_equal(found.weight, WHOLE)
        asked = plain_fit_rows(WHOLE, params={"line": {"sample_weight": WHOLE}})
        np.testing.assert_array_equal(asked.weight, 1.0)


def test_splits_hold_out_the_copies_of_their_rows():
    found = plain_fit_rows(WHOLE, cv=splits(FOLD))
    for number, (train, out) in enumerate(found.splits):
        assert set(FOLD[found.source[out]]) == {number}
        np.testing.assert_array_equal(np.sort(np.append(train, out)), np.arange(len(found.source)))
    first_alone = np.where(FOLD == 0, 2.0, 0.0)
    with pytest.raises(ValueError, match="cv: no split both trains on and holds out rows"):
        plain_fit_rows(first_alone, cv=splits(FOLD))


def test_rows_in_time_keep_their_order():
    twice = np.repeat(np.arange(N // 2), 2)
    assert plain_fit_rows(np.ones(N), cv=TimeSeriesSplit(4).split(twice), table=X[twice], y=Y[twice]).place is None
    assert plain_fit_rows(np.ones(N), table=X[twice], y=Y[twice]).place is not None


def test_the_order_of_the_router_follows_from_contents_and_seed():
    table = pd.DataFrame({"x": [1.0, np.nan, 1.0, np.nan], "word": ["a", "b", "a", None]})
    y, taken = np.array([0.0, 1.0, 0.0, 1.0]), []
    for rows in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]):
        found = plain_fit_rows(np.ones(4), table=table.iloc[rows], y=y[rows], seed=1)
        taken.append(found.X.iloc[np.argsort(found.place)].reset_index(drop=True))
    for other in taken[1:]:
        pd.testing.assert_frame_equal(other, taken[0])
    assert (plain_fit_rows(WHOLE).place != plain_fit_rows(WHOLE, seed=1).place).any()


def test_given_experts_take_weights_as_copies_too():
    fitted = [(name, one.fit(X[:60], Y[:60])) for name, one in REGRESSORS]
    settings = gw.MoESettings(test=False)
    one, two = (gw.MoERegressor(fitted, cv="prefit", random_state=0, settings=settings) for _ in range(2))
    one.fit(X, Y, sample_weight=WHOLE)
    np.testing.assert_allclose(two.fit(X[SHUFFLED], Y[SHUFFLED]).predict(X), one.predict(X), atol=1e-12)


def test_a_bad_forecast_is_named_by_its_row_of_the_table_that_was_given():
    settings = gw.MoESettings(test=False)
    bad = gw.MoERegressor([("line", LinearRegression()), ("bad", Sick())], random_state=0, settings=settings)
    with pytest.raises(ValueError, match=r"gave nan at row 77$"):
        bad.fit(X, Y, sample_weight=np.where(np.arange(N) == 77, 2.0, WHOLE))


class Sick(LinearRegression):
    """Fails at one row."""

    def predict(self, X):
        return np.where(X[:, 0] == _ROW, np.nan, 0.0)


_ROW = X[77, 0]
