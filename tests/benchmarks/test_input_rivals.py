"""The rivals whose weights depend on the inputs, and the strong pool, against slow versions of themselves."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import cross_val_predict, KFold
from sklearn.neighbors import KNeighborsRegressor

pd = pytest.importorskip("pandas")

from benchmarks.real import feature_weighted, neural_ensembler
from benchmarks.real.feature_weighted import FeatureWeightedStack, products
from benchmarks.real.memo import digest
from benchmarks.real.neural_ensembler import drop_experts, gate, gradients, Layers, NeuralEnsembler, train
from benchmarks.real.pools import find_pool, POOLS
from benchmarks.real.second_level import SecondLevel
from benchmarks.real.weighted import simplex
from gatewise.app.models.default_pool import scaled_inputs


@pytest.fixture(scope="module")
def local():
    """Two experts, each right on its side of zero, and a category that does not matter."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(-1.0, 1.0, size=400), "b": rng.normal(size=400)})
    X["kind"] = rng.choice(["red", "green"], size=400).astype(object)
    y = rng.normal(size=400)
    wrong = rng.normal(size=400)
    left = X["a"].to_numpy() < 0.0
    F = np.column_stack([np.where(left, y, wrong), np.where(left, wrong, y)])
    return X, F, y


def encoder():
    return scaled_inputs(["a", "b"], ["kind"])


def test_products_by_hand():
    rng = np.random.default_rng(1)
    F, Z = rng.normal(size=(5, 2)), rng.normal(size=(5, 3))
    expected = [[Z[i, k] * F[i, m] for k in range(3) for m in range(2)] for i in range(5)]
    np.testing.assert_array_equal(products(F, Z), expected)


def test_feature_weighted_stacking_is_ridge_on_products_with_the_least_left_out_error(local, monkeypatch):
    X, F, y = (part[:20] for part in local)
    alphas = np.array([0.1, 1.0, 10.0, 1000.0])
    monkeypatch.setattr(feature_weighted, "ALPHAS", alphas)
    model = FeatureWeightedStack(encoder()).fit(F, X, y)
    Z = np.column_stack([np.ones(20), np.clip(encoder().fit(X).transform(X), -3.0, 3.0)])
    G, left = (F - y.mean()) / y.std(), (y - F @ simplex(F, y)) / y.std()
    errors = {}
    for width in (1, 3, 5):
        rows = products(G, Z[:, :width])
        for alpha in alphas:
            fits = [Ridge(alpha).fit(np.delete(rows, i, axis=0), np.delete(left, i)) for i in range(20)]
            errors[width, alpha] = np.mean([(fits[i].predict(rows[i : i + 1])[0] - left[i]) ** 2 for i in range(20)])
    best = min(errors, key=errors.get)
    assert (model.width_, model.model_.alpha_) == best
    assert -model.model_.best_score_ == pytest.approx(errors[best])
    whole = Ridge(best[1]).fit(products(G, Z[:, : best[0]]), left)
    expected = F @ simplex(F, y) + y.std() * whole.predict(products(G, Z[:, : best[0]]))
    np.testing.assert_allclose(model.predict(F, X), expected)


def test_feature_weighted_stacking_finds_a_linear_gate_and_leaves_noise_alone(local):
    X, F, y = local
    half = 200
    model = FeatureWeightedStack(encoder()).fit(F[:half], X[:half], y[:half])
    stack = F[half:] @ simplex(F[:half], y[:half])
    assert mean_squared_error(y[half:], model.predict(F[half:], X[half:])) < 0.6 * mean_squared_error(y[half:], stack)
    rng = np.random.default_rng(2)
    same = y[:, None] + rng.normal(size=F.shape)  # nothing depends on the inputs
    plain = FeatureWeightedStack(encoder()).fit(same[:half], X[:half], y[:half])
    error = mean_squared_error(y[half:], plain.predict(same[half:], X[half:]))
    assert error < 1.1 * mean_squared_error(y[half:], same[half:] @ simplex(same[:half], y[:half]))


def test_gradients_are_those_of_the_loss():
    rng = np.random.default_rng(3)
    B, b, p, h, M = 2, 7, 4, 3, 3
    layers = Layers(*(rng.normal(size=shape) for shape in ((B, p, h), (B, 1, h), (B, h, M), (B, 1, M))))
    V, F, y = rng.normal(size=(B, b, p)), rng.normal(size=(B, b, M)), rng.normal(size=(B, b))
    kept = drop_experts(rng, (B, b, M), np.array([0.3, 0.6]))

    def loss(layers, i):
        _, weights = gate(layers, V, kept)
        return np.mean(((weights * F).sum(axis=2) - y) ** 2, axis=1)[i]

    slopes = gradients(layers, V, F, y, kept)
    for part in range(4):
        for place in np.ndindex(layers[part].shape):
            moved = [np.array(one) for one in layers]
            moved[part][place] += 1e-6
            up = loss(Layers(*moved), place[0])
            moved[part][place] -= 2e-6
            assert slopes[part][place] == pytest.approx((up - loss(Layers(*moved), place[0])) / 2e-6, abs=1e-7)


def test_experts_are_dropped_at_their_rate_and_never_all():
    kept = drop_experts(np.random.default_rng(4), (2, 20_000, 3), np.array([0.2, 0.9]))
    assert kept.sum(axis=2).min() == 1.0
    assert kept[0].mean() == pytest.approx(1.0 - 0.2 + 0.2**3 / 3, abs=0.01)
    assert kept[1].mean() == pytest.approx(0.1 + 0.9**3 / 3, abs=0.01)
    _, weights = gate(
        Layers(*(np.ones(s) for s in ((2, 1, 1), (2, 1, 1), (2, 1, 3), (2, 1, 3)))), kept[:, :, :1], kept
    )
    assert (weights[kept == 0.0] == 0.0).all()
    np.testing.assert_allclose(weights.sum(axis=2), 1.0)


def test_the_neural_ensembler_finds_a_gate_and_its_weights_lie_on_the_simplex(local):
    X, F, y = local
    model = NeuralEnsembler(encoder(), seed=1).fit(F[:250], X[:250], y[:250])
    weights = model.weights(F[250:], X[250:])
    assert weights.min() >= 0.0
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose((weights * F[250:]).sum(axis=1), model.predict(F[250:], X[250:]))
    stack = F[250:] @ simplex(F[:250], y[:250])
    assert mean_squared_error(y[250:], model.predict(F[250:], X[250:])) < 0.5 * mean_squared_error(y[250:], stack)
    assert model.setting_[1] == 1.0  # the inputs are what matters


def test_without_an_epoch_the_neural_ensembler_is_the_floored_stack(local, monkeypatch):
    X, F, y = local
    monkeypatch.setattr(neural_ensembler, "EPOCHS", 0)
    model = NeuralEnsembler(encoder()).fit(F, X, y)
    np.testing.assert_allclose(model.weights(F, X), np.tile(0.95 * simplex(F, y) + 0.025, (len(y), 1)), atol=1e-3)


def test_a_network_is_judged_on_rows_it_did_not_see(monkeypatch):
    """Responses of held-out rows decide when to stop, and change no step."""
    rng = np.random.default_rng(5)
    V, F, y = rng.normal(size=(60, 4)), rng.normal(size=(60, 3)), rng.normal(size=60)
    held = [np.arange(i % 5, 60, 5) for i in range(20)]
    monkeypatch.setattr(neural_ensembler, "EPOCHS", 3)
    monkeypatch.setattr(neural_ensembler, "_start", start_of(rng.normal(size=(20, 4, 32))))
    monkeypatch.setattr(neural_ensembler, "_errors", falling())
    first, _ = train(V, F, y, held, np.random.default_rng(0))
    other = y.copy()
    other[held[0]] += 100.0
    monkeypatch.setattr(neural_ensembler, "_errors", falling())
    second, _ = train(V, F, other, held, np.random.default_rng(0))
    np.testing.assert_array_equal(first.hidden[0], second.hidden[0])
    assert (first.hidden[1] != second.hidden[1]).any()


def start_of(hidden):
    """A start that does not look at the responses."""
    B = len(hidden)
    return lambda *_: Layers(hidden, np.zeros((B, 1, 32)), np.zeros((B, 32, 3)), np.zeros((B, 1, 3)))


def falling():
    """Errors that fall from epoch to epoch, so that the last layers are kept."""
    steps = iter(range(100, 0, -1))
    return lambda layers, *_: np.full(len(layers.hidden), float(next(steps)))


def test_a_second_level_sees_out_of_fold_forecasts_and_refitted_experts(local):
    X, _, y = local
    X, y = X[["a", "b"]][:90], y[:90]
    experts = [("line", LinearRegression()), ("knn", KNeighborsRegressor())]
    seen = {}

    class Spy:
        def fit(self, F, X, y):
            seen["fit"] = F
            return self

        def predict(self, F, X):
            return F.sum(axis=1)

    folds = KFold(3, shuffle=True, random_state=0)
    model = SecondLevel(experts, Spy(), folds).fit(X, y)
    held = np.column_stack([cross_val_predict(expert, X, y, cv=folds) for _, expert in experts])
    np.testing.assert_array_equal(seen["fit"], held)
    np.testing.assert_allclose(model.predict(X), sum(expert.fit(X, y).predict(X) for _, expert in experts))


def test_pools_are_found_by_name():
    assert list(POOLS) == ["default", "strong"]
    assert find_pool("default").versions[0].startswith("scikit-learn 1.")
    assert replace(find_pool("default"), revision=2).versions[1:] == ("revision 2",)
    with pytest.raises(ValueError, match=r"pool must be one of default, strong, not 'weak'"):
        find_pool("weak")


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost", "extra trees", "ridge", "network"])
def test_every_strong_expert_takes_text_and_missing_values_and_its_seed_fixes_it(name, monkeypatch):
    for package in ("lightgbm", "xgboost", "catboost"):
        pytest.importorskip(package, reason="the strong pool comes with the extra 'strong'")
    monkeypatch.setattr("benchmarks.real.strong_pool.TREES", 100)
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=150), "b": rng.exponential(size=150)})
    X["kind"] = rng.choice(["red", "green", "blue"], size=150).astype(object)
    y = X["a"].to_numpy() * np.where(X["kind"] == "red", 2.0, -1.0) + 0.2 * rng.normal(size=150)
    X.loc[rng.choice(150, 15, replace=False), "b"] = np.nan
    X.loc[rng.choice(150, 10, replace=False), "kind"] = np.nan
    X.loc[149, "kind"] = "seen only in the test"
    first, second = (dict(POOLS["strong"].make(X))[name].fit(X[:120], y[:120]).predict(X[120:]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert mean_squared_error(y[120:], first) < y[120:].var()
    assert digest(dict(POOLS["strong"].make(X))[name]) == digest(dict(POOLS["strong"].make(X))[name])
    core = dict(POOLS["strong"].core())[name]
    if name in ("lightgbm", "xgboost", "catboost"):  # the others are the same objects
        matrix = scaled_inputs(["a", "b"], ["kind"]).fit_transform(X)
        assert (
            mean_squared_error(y[120:], core.fit(matrix[:120], y[:120]).predict(matrix[120:])) < 1.2 * y[120:].var()
        )
