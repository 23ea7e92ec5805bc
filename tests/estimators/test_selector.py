"""GateSelector against `alg:selection` written out by hand, and its manners."""

import pickle

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import ExtraTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import gatewise as gw
from gatewise.aggregation import Blocks
from gatewise.noise import DoubleExponential, Gaussian, StudentT
from gatewise.paper import DESIGNS

DESIGN = DESIGNS["linear"]
X, Y = DESIGN.sample(150, np.random.default_rng(0))
POOL = [("line", LinearRegression()), ("neighbours", KNeighborsRegressor(3)), ("mean", DummyRegressor())]
GATES = [gw.LinearGate(3, intercept=False), gw.KernelGate(3, mesh=1.0, low=-1.0, high=1.0)]


@parametrize_with_checks(
    [gw.GateSelector([Ridge(), DummyRegressor()], random_state=0)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": "weights are those of the noise scale"
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def by_hand(selector, models, noise, sigma=None, bounds=None):
    """Steps (a) to (d) from the order and the block counts: cumulative sums and nothing of ours but the density."""
    n1, n2, _ = selector.blocks_
    order = selector.order_
    if n1:
        models = [clone(model).fit(X[order[:n1]], Y[order[:n1]]) for model in models]
    rest = order[n1:]
    F = np.array([model.predict(X[rest]) for model in models])  # (L, n2 + n3)
    residual = Y[rest] - F
    if sigma is None:
        spread = np.std(Y[rest[:n2]])
        sigma = np.clip(np.sqrt(np.mean(residual[:, :n2] ** 2, axis=1)), *(bounds or (1e-3 * spread, 10 * spread)))
    sigma = np.broadcast_to(sigma, len(models))
    log_density = noise.log_density(residual[:, n2:] / sigma[:, None]) - np.log(sigma)[:, None]
    path = softmax(np.cumsum(np.column_stack([np.zeros(len(models)), log_density]), axis=1), axis=0).T
    mean = path[:-1].mean(axis=0)
    distances = np.mean((F - mean @ F) ** 2, axis=1)
    return models, sigma, path, (path[:-1] * F[:, n2:].T).sum(axis=1), mean, distances


@pytest.mark.parametrize("noise", [Gaussian(), DoubleExponential(), StudentT(5.0)], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize(
    "blocks", [None, Blocks(burn_in=60, calibration=0.2), Blocks(sigma=0.5), Blocks(sigma_bounds=(1.0, 1.2))]
)
def test_a_fit_can_be_replayed_by_hand(noise, blocks):
    selector = gw.GateSelector(POOL, blocks, noise, random_state=1).fit(X, Y)
    extra = {"sigma": blocks.sigma, "bounds": blocks.sigma_bounds} if blocks else {}
    models, sigma, path, online, mean, distances = by_hand(selector, [model for _, model in POOL], noise, **extra)
    assert sum(selector.blocks_) == 150
    np.testing.assert_array_equal(np.sort(selector.order_), np.arange(150))
    np.testing.assert_allclose(selector.sigma_, sigma, rtol=1e-9)
    np.testing.assert_allclose(selector.weights_path_, path, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(selector.online_predictions_, online, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(selector.weights_, mean, rtol=1e-9)
    np.testing.assert_allclose(selector.squared_distances_, distances, rtol=1e-8)
    best = int(np.argmin(distances))
    assert (selector.selected_index_, selector.selected_) == (best, POOL[best][0])
    answers = np.array([model.predict(X) for model in models])
    np.testing.assert_allclose(selector.predict(X), mean @ answers, rtol=1e-9)
    np.testing.assert_allclose(selector.predict(X, readout="single"), answers[best], rtol=1e-9)
    assert not hasattr(POOL[0][1], "coef_")  # the user's own are not touched


def test_ready_candidates_are_used_as_they_are_and_need_no_first_block():
    ready = [LinearRegression().fit(X[:50], Y[:50]), DummyRegressor().fit(X[:50], Y[:50])]
    selector = gw.GateSelector([*ready, DESIGN.truth], random_state=0).fit(X, Y)
    assert selector.blocks_ == (0, 75, 75)
    assert selector.candidates_[0][1] is ready[0]
    assert [name for name, _ in selector.candidates_] == ["linearregression", "dummyregressor", "truth"]
    assert selector.selected_ == "truth"
    mixed = gw.GateSelector([ready[0], KNeighborsRegressor()], random_state=0).fit(X, Y)
    assert mixed.blocks_ == (50, 50, 50)
    assert mixed.candidates_[0][1] is ready[0]


def test_several_orders_share_the_first_block_and_average():
    blocks = Blocks(n_orders=3)
    several = gw.GateSelector(POOL, blocks, random_state=2).fit(X, Y)
    assert several.order_.shape == (3, 150)
    assert (several.order_[:, :50] == several.order_[0, :50]).all()
    assert len(np.unique(several.order_[:, 50])) > 1
    paths = several.weights_path_[:, :-1].mean(axis=1)
    np.testing.assert_allclose(several.weights_, paths.mean(axis=0), rtol=1e-12)
    for i in range(3):
        once = gw.GateSelector(POOL, random_state=2)
        once.fit(X, Y)
        once.order_ = several.order_[i]
        _, sigma, path, online, _, _ = by_hand(once, [model for _, model in POOL], Gaussian())
        np.testing.assert_allclose(several.sigma_[i], sigma, rtol=1e-9)
        np.testing.assert_allclose(several.weights_path_[i], path, rtol=1e-8, atol=1e-14)
        np.testing.assert_allclose(several.online_predictions_[i], online, rtol=1e-9)


def test_no_past_output_moves_when_a_future_response_changes():
    first = gw.GateSelector(POOL, random_state=7).fit(X, Y)
    changed = Y.copy()
    changed[first.order_[120]] += 25.0  # row 20 of the aggregation block
    second = gw.GateSelector(POOL, random_state=7).fit(X, changed)
    np.testing.assert_array_equal(first.order_, second.order_)
    np.testing.assert_array_equal(first.sigma_, second.sigma_)
    np.testing.assert_array_equal(first.weights_path_[:21], second.weights_path_[:21])
    np.testing.assert_array_equal(first.online_predictions_[:21], second.online_predictions_[:21])
    assert np.abs(first.weights_path_[21:] - second.weights_path_[21:]).max() > 1e-6
    np.testing.assert_array_equal(first.candidates_[0][1].coef_, second.candidates_[0][1].coef_)


def test_relabelling_shifts_and_twins():
    here = gw.GateSelector(POOL, random_state=3).fit(X, Y)
    turned = gw.GateSelector(POOL[::-1], random_state=3).fit(X, Y)
    np.testing.assert_allclose(turned.weights_, here.weights_[::-1], rtol=1e-9)
    assert turned.selected_ == here.selected_
    moved = gw.GateSelector(POOL, random_state=3).fit(X, Y + 100.0)
    np.testing.assert_allclose(moved.weights_, here.weights_, rtol=1e-6)
    np.testing.assert_allclose(moved.predict(X), here.predict(X) + 100.0, rtol=1e-9)
    twins = gw.GateSelector([("a", Ridge()), ("b", Ridge()), ("c", DummyRegressor())], random_state=3).fit(X, Y)
    assert twins.weights_[0] == twins.weights_[1] > twins.weights_[2]
    assert twins.selected_ == "a"


def test_one_candidate_has_all_the_weight():
    selector = gw.GateSelector([Ridge()], random_state=0).fit(X, Y)
    assert selector.selected_ == "ridge"
    np.testing.assert_array_equal(selector.weights_, [1.0])
    np.testing.assert_array_equal(selector.squared_distances_, [0.0])
    np.testing.assert_array_equal(selector.predict(X), selector.predict(X, readout="single"))


def test_a_constant_response():
    selector = gw.GateSelector(POOL, random_state=0).fit(X, np.full(150, 3.0))
    np.testing.assert_allclose(selector.predict(X), 3.0, rtol=1e-12)
    np.testing.assert_allclose(selector.weights_, 1 / 3, rtol=1e-6)


def test_gate_families_over_known_experts():
    candidates = [gw.GateRegressor(DESIGN.experts, gate, n_starts=2, random_state=0) for gate in GATES]
    selector = gw.GateSelector(candidates, random_state=0).fit(X, Y)
    assert [name for name, _ in selector.candidates_] == ["lineargate", "kernelgate"]
    gates = [candidate.gate_weights(X) for _, candidate in selector.candidates_]
    aggregate = selector.gate_weights(X)
    np.testing.assert_allclose(aggregate, np.tensordot(selector.weights_, gates, axes=1), rtol=1e-12)
    experts = gw.expert_matrix(DESIGN.experts, X)
    np.testing.assert_allclose(selector.predict(X), (aggregate * experts).sum(axis=1), rtol=1e-9)
    np.testing.assert_array_equal(selector.gate_weights(X, "single"), gates[selector.selected_index_])


def test_fitted_experts_keep_their_fit_and_stay_shared():
    experts = [LinearRegression().fit(X[:40], Y[:40]), KNeighborsRegressor().fit(X[:40], Y[:40]), DESIGN.experts[0]]
    candidates = [gw.GateRegressor(experts, gate, n_starts=2, random_state=0) for gate in GATES]
    selector = gw.GateSelector(candidates, random_state=0).fit(X[40:], Y[40:])
    assert selector.candidates_[0][1].experts[0] is selector.candidates_[1][1].experts[0]
    np.testing.assert_allclose(selector.gate_weights(X).sum(axis=1), 1.0, rtol=1e-12)


def test_gate_weights_need_gates_over_the_same_experts():
    gate = gw.GateRegressor(DESIGN.experts, GATES[0], n_starts=2, random_state=0)
    other = gw.GateRegressor(DESIGN.experts[::-1], GATES[0], n_starts=2, random_state=0)
    with pytest.raises(ValueError, match="the same experts"):
        gw.GateSelector([gate, other], random_state=0).fit(X, Y).gate_weights(X)
    with pytest.raises(ValueError, match=r"the candidate 'mean' \(DummyRegressor\) has no gate_weights"):
        gw.GateSelector([gate, ("mean", DummyRegressor())], random_state=0).fit(X, Y).gate_weights(X)


def test_a_router_and_a_mixture_are_candidates_too():
    net = GATES[0].net([0.0, 1.0, 2.0, 3.0], d=2)
    router = gw.RouterAggregator(DESIGN.experts, GATES[0], net, random_state=0)
    ready = gw.MixtureOfExperts(GATES[0], [[2.0, 0.0], [0.0, 2.0]], DESIGN.experts)  # the truth
    selector = gw.GateSelector([("router", router), ("truth", ready)], random_state=0).fit(X, Y)
    assert selector.blocks_ == (50, 50, 50)
    np.testing.assert_allclose(selector.gate_weights(X).sum(axis=1), 1.0, rtol=1e-9)


DISK = OSError("no such disk")


class Fails(RegressorMixin, BaseEstimator):
    """Raises or answers badly, as told."""

    def __init__(self, when="fit", error=DISK, answer=None):
        self.when = when
        self.error = error
        self.answer = answer

    def fit(self, X, y):
        if self.when == "fit":
            raise self.error
        self.fitted_ = True
        return self

    def predict(self, X):
        if self.when == "predict":
            raise self.error
        return self.answer(X)


@pytest.mark.parametrize(
    ("candidate", "kind", "message"),
    [
        (Fails("fit"), OSError, "no such disk\nraised by the candidate 'bad' in its fit to 50 rows"),
        (Fails("predict"), OSError, "no such disk\nraised by the candidate 'bad'"),
        (Fails("fit", ValueError("odd")), ValueError, "odd\nraised by the candidate 'bad' in its fit to 50 rows"),
        (Fails("", answer=lambda X: np.ones(len(X) - 1)), ValueError, r"the candidate 'bad' .*shape \(100,\)"),
        (Fails("", answer=lambda X: np.full(len(X), np.nan)), ValueError, "the candidate 'bad' .*finite numbers"),
        (Fails("", answer=lambda X: ["a"] * len(X)), ValueError, "the candidate 'bad' .*return numbers"),
    ],
)
def test_an_error_names_the_candidate_at_fault(candidate, kind, message):
    with pytest.raises(kind, match=message):
        gw.GateSelector([("good", Ridge()), ("bad", candidate)], random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([], "candidates must hold at least one"),
        ([("a", Ridge()), ("a", Ridge())], "'a' occurs more than once"),
        ([("a", Ridge(), 3)], r"candidates\[0\] must be a model or a pair \(name, model\)"),
        ([Ridge], r"candidates\[0\] must be an instance, as Ridge\(...\)"),
        ([("a", GATES[0])], r"candidates\[0\] \('a'\) is a gate without experts; use GateRegressor"),
        ([3.0], r"candidates\[0\] must have predict\(X\) or be a callable"),
    ],
)
def test_bad_candidates_are_named(candidates, message):
    with pytest.raises((ValueError, TypeError), match=message):
        gw.GateSelector(candidates).fit(X, Y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.where(np.arange(150) == 3, np.nan, Y)}, "NaN"),
        ({"y": np.where(np.arange(150) == 3, np.inf, Y)}, "infinity"),
        ({"X": np.full((150, 2), np.nan)}, r"NaN(.|\n)*raised by the candidate 'line' in its fit"),
        ({"blocks": Blocks(burn_in=149)}, "at least 2 rows"),
        ({"blocks": Blocks(burn_in=0)}, "burn_in may be 0"),
        ({"blocks": Blocks(projection=0.2)}, r"blocks.projection must be None for a selection, not 0.2"),
        ({"blocks": Blocks(updates=5)}, r"blocks.updates must be None"),
        ({"blocks": (50, 50, 50)}, r"blocks must be Blocks\(...\) or None"),
        ({"noise": "cauchy"}, "noise must be one of"),
        ({"X": X[:5], "y": Y[:5]}, "every block needs at least 2 rows"),
    ],
)
def test_bad_settings_are_named(change, message):
    change = {"X": X, "y": Y, **change}
    rows, y = change.pop("X"), change.pop("y")
    with pytest.raises((ValueError, TypeError), match=message):
        gw.GateSelector(POOL, **change).fit(rows, y)


def test_a_response_that_no_candidate_allows():
    def triangle(z):
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(0.0, 1.0 - np.abs(z) / np.sqrt(6.0))) - 0.5 * np.log(6.0)

    selector = gw.GateSelector(POOL, Blocks(sigma=1e-3), triangle, random_state=0)
    with pytest.raises(ValueError, match="impossible under every candidate"):
        selector.fit(X, Y)
    gw.GateSelector(POOL, Blocks(sigma=1e-6), random_state=0).fit(X, Y + 1e6 * X[:, 0])  # far, but not impossible


def test_an_interrupted_fit_leaves_the_estimator_as_it_was():
    selector = gw.GateSelector(POOL, random_state=0).fit(X, Y)
    before = selector.predict(X)
    selector.candidates = [*POOL, ("stop", Fails("predict", KeyboardInterrupt()))]
    with pytest.raises(KeyboardInterrupt):
        selector.fit(X, Y)
    np.testing.assert_array_equal(selector.predict(X), before)


def test_a_wrong_readout_and_an_unfitted_selector():
    selector = gw.GateSelector(POOL, random_state=0)
    with pytest.raises(Exception, match="not fitted"):
        selector.predict(X)
    with pytest.raises(ValueError, match="readout must be 'aggregate' or 'single', not 'best'"):
        selector.fit(X, Y).predict(X, readout="best")


def test_old_words_are_answered_by_the_new_ones():
    selector = gw.GateSelector(POOL, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="the readout 'selected' is now called 'single'"):
        selector.predict(X, readout="selected")
    with pytest.raises(AttributeError, match="weight_path_ is now called weights_path_"):
        selector.weight_path_  # noqa: B018
    assert not hasattr(selector, "weight_path_")


def test_clone_pickle_and_cross_validation():
    selector = gw.GateSelector(POOL, random_state=4).fit(X, Y)
    again = pickle.loads(pickle.dumps(selector))
    np.testing.assert_array_equal(again.predict(X), selector.predict(X))
    fresh = clone(selector)
    assert not hasattr(fresh, "selected_")
    np.testing.assert_array_equal(fresh.fit(X, Y).weights_, selector.weights_)
    own = LinearRegression().fit(X[:50], Y[:50])
    frozen = gw.GateSelector([("own", FrozenEstimator(own)), ("mean", DummyRegressor())], random_state=0)
    assert clone(frozen).fit(X, Y).candidates_[0][1].estimator is own
    assert np.isfinite(cross_val_score(gw.GateSelector(POOL, random_state=0), X, Y, cv=3)).all()


def test_frames_reach_the_candidates_as_they_came():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 0] > 0, "right", "left")})
    frame.loc[3, "b"] = np.nan  # no candidate below looks at it
    encoded = make_pipeline(make_column_transformer((OneHotEncoder(), ["c"])), Ridge())
    selector = gw.GateSelector([("encoded", encoded), ("line", _on_a)], random_state=0).fit(frame, Y)
    assert list(selector.feature_names_in_) == ["a", "b", "c"]
    assert np.isfinite(selector.predict(frame)).all()
    assert not hasattr(encoded[-1], "coef_")


def _on_a(frame):
    return 2.0 * frame["a"]


def test_polars_frames_give_what_arrays_give():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    named = gw.GateSelector(POOL, random_state=0).fit(frame, Y)
    plain = gw.GateSelector(POOL, random_state=0).fit(X, Y)
    np.testing.assert_allclose(named.weights_, plain.weights_, rtol=1e-9)
    np.testing.assert_allclose(named.predict(frame), plain.predict(X), rtol=1e-9)


def test_a_diverging_candidate_changes_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X @ [1.0, -2.0] + 0.3 * rng.normal(size=300)

    def wild(rows):
        return np.where(rows[:, 0] > 2.0, 1e6, 1e9 * rows[:, 1])

    good = [("line", LinearRegression()), ("mean", DummyRegressor())]
    new = rng.normal(size=(500, 2))
    plain, other = (gw.GateSelector(p, random_state=0).fit(X, y) for p in (good, [("wild", wild), *good]))
    for readout in ("aggregate", "single"):
        np.testing.assert_allclose(other.predict(new, readout), plain.predict(new, readout))
    assert other.weights_.tolist() == [0.0, *plain.weights_]
    assert other.selected_ == plain.selected_
    assert np.isinf([other.sigma_[0], other.squared_distances_[0]]).all()
    np.testing.assert_array_equal(other.weights_path_[:, 1:], plain.weights_path_)


def test_a_wild_candidate_is_set_aside_for_its_row():
    given = [
        ("one", gw.experts.ColumnExpert(0)),
        ("two", gw.experts.ColumnExpert(1)),
        ("mean", gw.experts.ColumnExpert(2)),
    ]
    rng = np.random.default_rng(0)
    y = rng.normal(size=120)
    rows = y[:, None] + np.array([0.1, 0.5, 1.0]) * rng.normal(size=(120, 3))
    selector = gw.GateSelector(given, random_state=0).fit(rows, y)
    assert selector.selected_ == "one"
    wild = rows.copy()
    wild[:4, 0] = 1e6
    assert np.array_equal(np.argwhere(selector.guarded_rows(wild)), [[i, 0] for i in range(4)])
    for readout in ("single", "aggregate"):
        assert np.abs(selector.predict(wild, readout) - y).max() < 6.0
        np.testing.assert_array_equal(selector.predict(wild, readout)[4:], selector.predict(rows, readout)[4:])


def test_candidates_without_a_seed_get_one():
    pool = [("extra", ExtraTreeRegressor()), ("line", LinearRegression())]
    one, two, other = (gw.GateSelector(pool, random_state=seed).fit(X, Y).predict(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)
