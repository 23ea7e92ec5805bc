"""The rivals of the benchmark against slow, obvious versions of themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

pd = pytest.importorskip("pandas")

from benchmarks.real.competitors import COMPETITORS, Contest, find_competitors
from benchmarks.real.dynamic import DynamicSelection
from benchmarks.real.facts import router_facts
from benchmarks.real.memo import Memo, Memoized
from benchmarks.real.weighted import best_single, greedy, simplex, WeightedExperts
from gatewise.app.models.default_pool import core_experts, make_experts, scaled_inputs
from gatewise.geometry import Interval


def greedy_twin(F, y, rounds):
    """Every list that greedy selection passes through, written out."""
    chosen, path = [], []
    for _ in range(rounds):
        tried = [mean_squared_error(y, F[:, [*chosen, m]].mean(axis=1)) for m in range(F.shape[1])]
        chosen = [*chosen, int(np.argmin(tried))]
        path.append((mean_squared_error(y, F[:, chosen].mean(axis=1)), list(chosen)))
    best = min(path, key=lambda one: one[0])[1]
    return np.array([best.count(m) / len(best) for m in range(F.shape[1])])


@given(seed=st.integers(0, 10_000), M=st.integers(1, 5), rounds=st.integers(1, 12))
def test_greedy_is_its_twin(seed, M, rounds):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=40)
    F = y[:, None] + rng.normal(size=(40, M)) * rng.uniform(0.5, 2.0, size=M)
    np.testing.assert_allclose(greedy(F, y, rounds), greedy_twin(F, y, rounds))


@given(seed=st.integers(0, 10_000))
def test_rules_give_weights_on_the_simplex_and_the_stack_is_the_best_of_them(seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=60)
    F = y[:, None] + rng.normal(size=(60, 4)) * rng.uniform(0.2, 2.0, size=4)
    weights = {rule.__name__: rule(F, y) for rule in (best_single, greedy, simplex)}
    errors = {name: mean_squared_error(y, F @ w) for name, w in weights.items()}
    for w in weights.values():
        assert w.min() >= 0.0
        assert w.sum() == pytest.approx(1.0)
    assert errors["simplex"] <= errors["greedy"] * (1 + 1e-9)
    assert errors["greedy"] <= errors["best_single"] * (1 + 1e-12)


@pytest.fixture(scope="module")
def rows():
    """A frame with numbers, text and missing values of both kinds: training rows, test rows and responses."""
    rng = np.random.default_rng(0)
    n = 150
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.exponential(size=n)})
    frame["kind"] = rng.choice(["red", "green", "blue"], size=n).astype(object)
    y = frame["a"] * np.where(frame["kind"] == "red", 2.0, -1.0) + frame["b"] + 0.2 * rng.normal(size=n)
    frame.loc[rng.choice(n, 15, replace=False), "b"] = np.nan
    frame.loc[rng.choice(n, 10, replace=False), "kind"] = np.nan
    frame.loc[149, "kind"] = "seen only in the test"
    return frame[:100], frame[100:].reset_index(drop=True), y[:100].to_numpy(), y[100:].to_numpy()


def small_experts(X):
    """The experts of the benchmark with fewer trees."""
    experts = dict(make_experts(X))
    experts["forest"].set_params(randomforestregressor__n_estimators=10)
    experts["boosting"].set_params(histgradientboostingregressor__max_iter=20)
    return list(experts.items())


@pytest.fixture(scope="module")
def memo():
    return Memo()


def test_weighted_experts_by_hand(rows):
    X, X_new, y, _ = rows
    X, X_new = X[["a"]], X_new[["a"]]
    experts = [("line", LinearRegression()), ("tree", DecisionTreeRegressor(max_depth=2, random_state=0))]
    folds = KFold(5, shuffle=True, random_state=1)
    F = np.empty((len(y), 2))
    for train, held_out in folds.split(X):
        for m, (_, expert) in enumerate(experts):
            F[held_out, m] = clone(expert).fit(X.iloc[train], y[train]).predict(X.iloc[held_out])
    weights = simplex(F, y)
    expected = np.column_stack([clone(expert).fit(X, y).predict(X_new) for _, expert in experts]) @ weights
    model = WeightedExperts(experts, simplex, folds).fit(X, y)
    np.testing.assert_allclose(model.weights_, weights)
    np.testing.assert_allclose(model.predict(X_new), expected)


@pytest.mark.slow
def test_memoized_experts_change_no_competitor_and_are_fitted_once(rows):
    X, X_new, y, _ = rows
    memo = Memo()
    plain = small_experts(X)
    remembered = [(name, Memoized(expert, memo)) for name, expert in plain]
    for competitor in find_competitors(["best single", "ridge stack", "boosted stack"]):  # one of each kind
        models = [competitor.build(Contest(experts, X, y, 3)).fit(X, y) for experts in (plain, remembered)]
        np.testing.assert_array_equal(models[0].predict(X_new), models[1].predict(X_new))
    assert memo.n_fits == len(plain) * 6  # five folds and all rows


def test_what_the_memo_kept_needs_no_fit_and_other_data_do(rows, tmp_path):
    X, X_new, y, _ = rows
    memo = Memo(tmp_path / "kept.npz")
    first = Memoized(KNeighborsRegressor(), memo).fit(X[["a"]], y).predict(X_new[["a"]])
    memo.save()
    again = Memo(memo.path)
    expert = Memoized(KNeighborsRegressor(), again).fit(X[["a"]].copy(), y.copy())
    np.testing.assert_array_equal(expert.predict(X_new[["a"]]), first)
    np.testing.assert_array_equal(expert.predict(X_new[["b", "a"]][["a"]][::-1])[::-1], first)
    assert again.n_fits == 1  # for the rows in another order; the first prediction was known
    others = [
        Memoized(KNeighborsRegressor(4), again).fit(X[["a"]], y),
        Memoized(KNeighborsRegressor(), again).fit(X[["a"]], y + 1.0),
        Memoized(KNeighborsRegressor(), again).fit(X[["a"]][::-1], y),
        Memoized(KNeighborsRegressor(), again).fit(X[["a"]].rename(columns={"a": "other"}), y),
    ]
    for other in others[:-1]:
        assert (other.predict(X_new[["a"]]) != first).any()
    np.testing.assert_array_equal(others[-1].predict(X_new[["a"]].rename(columns={"a": "other"})), first)
    assert again.n_fits == 1 + len(others)


def test_two_memos_of_one_file_lose_nothing(rows, tmp_path):
    X, X_new, y, _ = rows
    first, second = Memo(tmp_path / "kept.npz"), Memo(tmp_path / "kept.npz")
    for memo, k in ((first, 3), (second, 4)):
        Memoized(KNeighborsRegressor(k), memo).fit(X[["a"]], y).predict(X_new[["a"]])
        memo.save()
    assert Memo(first.path).predictions.keys() == first.predictions.keys() | second.predictions.keys()
    other = Memo(first.path, versions=("scikit-learn of tomorrow",))
    Memoized(KNeighborsRegressor(3), other).fit(X[["a"]], y).predict(X_new[["a"]])
    assert other.n_fits == 1


def test_dynamic_selection_is_the_package_row_by_row(rows):
    pytest.importorskip("desReg")
    X, X_new, y, _ = rows
    experts = [(name, model) for name, model in core_experts() if name in ("ridge", "knn", "svm")]
    model = DynamicSelection(experts, scaled_inputs(["a", "b"], ["kind"]), random_state=1).fit(X, y)
    encoded = model.encoder_.transform(X_new[:20])
    np.testing.assert_allclose(model.predict(X_new[:20]), np.ravel(model.model_.predict(encoded)), rtol=1e-10)


LONG = ("gatewise", "DESReg", "neural ensembler")


@pytest.mark.parametrize(
    "competitor",
    [pytest.param(one, marks=[pytest.mark.slow] if one.name in LONG else []) for one in COMPETITORS],
    ids=lambda one: one.name,
)
def test_every_competitor_takes_text_and_missing_values_and_a_seed_fixes_it(competitor, rows, memo):
    if competitor.name == "DESReg":
        pytest.importorskip("desReg")
    X, X_new, y, y_new = rows
    contest = Contest([(name, Memoized(expert, memo)) for name, expert in small_experts(X)], X, y, 5)
    first, second = (competitor.build(contest).fit(X, y).predict(X_new) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert mean_squared_error(y_new, first) < y_new.var()  # better than the mean


@pytest.mark.parametrize(
    "name", ["best single", "mean", "simplex stack", "ridge stack", "greedy", "feature-weighted", "neural ensembler"]
)
def test_units_of_the_response_do_not_matter(name, rows):
    X, X_new, y, _ = rows
    X, X_new = X[["a"]], X_new[["a"]]
    (rival,) = find_competitors([name])
    experts = [("line", LinearRegression()), ("knn", KNeighborsRegressor())]
    plain = rival.build(Contest(experts, X, y, 0)).fit(X, y).predict(X_new)
    small = rival.build(Contest(experts, X, 1e-3 * y, 0)).fit(X, 1e-3 * y).predict(X_new)
    np.testing.assert_allclose(1e3 * small, plain, rtol=1e-6, atol=1e-6)


def test_competitors_are_found_by_name():
    assert [one.name for one in find_competitors(["greedy", "mean"])] == ["mean", "greedy"]
    assert find_competitors(None) == COMPETITORS
    with pytest.raises(ValueError, match=r"competitor must be one of best single, .*, not 'median'"):
        find_competitors(["median"])


def test_facts_of_a_router_are_read_from_it(rows):
    X, X_new, y, y_new = rows

    class Verdict:
        headline, gain = "no gate", Interval(0.0, -0.1, 0.1)

    class Router:
        verdict_ = Verdict()

        def predict(self, X, return_std):
            return np.zeros(len(X)), np.where(np.arange(len(X)) < 10, 1e9, 1e-9)

    contest = Contest([("line", LinearRegression()), ("knn", KNeighborsRegressor())], X[["a"]], y, 0)
    facts = router_facts(Router(), contest, X_new[["a"]], y_new)
    assert facts["verdict"] == "no gate"
    assert facts["coverage90"] == pytest.approx(10 / len(y_new))
    stack = WeightedExperts(contest.experts, simplex, contest.folds).fit(contest.X, y).predict(X_new[["a"]])
    assert facts["test_gain"] == pytest.approx(1.0 - np.mean(y_new**2) / mean_squared_error(y_new, stack))
    assert facts["gain_covered"] == (abs(facts["test_gain"]) <= 0.1)
