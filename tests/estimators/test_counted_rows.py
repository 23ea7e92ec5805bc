"""Sample weights of gates over given classifiers: a row of weight w is w copies of it, next to each other."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

import gatewise as gw
from tests.estimators.test_given_classifiers import all_thetas, CENTRES, DENSE, EXPERTS, KINDS, LABELS, N, ORDER, X, Y

RNG = np.random.default_rng(5)
WHOLE = RNG.integers(0, 4, N).astype(float)
COPIES = np.repeat(np.arange(N), WHOLE.astype(int))
BROKEN = RNG.choice([0.0, 0.2, 0.7, 1.0, 1.6, 2.5], N)
PARTICLES = {
    "soft particles": (DENSE, gw.Particles(60)),
    "particles of a kernel gate": (CENTRES, gw.Particles(30)),
    "particles of the best two": (KINDS["list of the best two"][0], gw.Particles(40)),
}


@pytest.mark.parametrize("kind", [*KINDS, *PARTICLES])
def test_a_whole_weight_is_as_many_copies(kind):
    gate, net = {**KINDS, **PARTICLES}[kind]
    one = gw.RouterClassifier(EXPERTS, gate, net, blocks=ORDER, random_state=0).fit(X, Y, sample_weight=WHOLE)
    two = gw.RouterClassifier(EXPERTS, gate, net, blocks=ORDER, random_state=0).fit(X[COPIES], Y[COPIES])
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-9)
    np.testing.assert_allclose(one.predict_proba(X, "single"), two.predict_proba(X, "single"), rtol=1e-9)
    assert one.projection_.squared_distance == pytest.approx(two.projection_.squared_distance)
    assert one.effective_candidates_ == pytest.approx(two.effective_candidates_)
    begin = np.cumsum(WHOLE[WHOLE > 0]).astype(int) - WHOLE[WHOLE > 0].astype(int)
    np.testing.assert_allclose(one.online_probabilities_, two.online_probabilities_[begin])
    np.testing.assert_array_equal(one.order_, np.flatnonzero(WHOLE))
    if kind in KINDS:
        np.testing.assert_allclose(one.weights_path_, two.weights_path_[np.append(begin, len(COPIES))])
    else:
        np.testing.assert_allclose(one.ess_, two.ess_[np.append(begin[1:], len(COPIES)) - 1])


def floored_observed(weight):
    """The experts' probabilities of the labels of the rows that count, with the floor that the docstring states."""
    kept = weight > 0
    floor = 1 / (1 + max(weight.sum(), kept.sum()))
    P = np.stack([expert(X) for _, expert in EXPERTS], axis=1) * (1 - floor) + floor / 3
    return kept, P[np.arange(N), :, np.searchsorted(LABELS, Y)][kept]


@pytest.mark.parametrize("scale", [1.0, 0.01])
@pytest.mark.parametrize("kind", KINDS)
def test_any_weights_give_the_two_lines_over_steps(kind, scale):
    gate, net = KINDS[kind]
    weight = scale * BROKEN
    model = gw.RouterClassifier(EXPERTS, gate, net, blocks=ORDER).fit(X, Y, sample_weight=weight)
    kept, F = floored_observed(weight)
    gates = gate.weights(X[kept], all_thetas(net))  # (S, n, M)
    z = np.einsum("snm,nm->ns", gates, F)
    parts = [(row, min(w - done, 1.0)) for row, w in enumerate(weight[kept]) for done in range(int(np.ceil(w)))]
    step, power = np.array(parts).T
    path = softmax(np.cumsum(np.vstack([0 * z[:1], power[:, None] * np.log(z[step.astype(int)])]), axis=0), axis=1)
    mean = np.einsum("s,snm->nm", np.average(path[:-1], 0, power), gates)
    np.testing.assert_allclose(model.gate_weights(X[kept]), mean, rtol=1e-7, atol=1e-12)
    first = np.searchsorted(step, np.arange(kept.sum()))
    np.testing.assert_allclose(model.online_probabilities_, (path[first] * z).sum(axis=1), rtol=1e-9)
    assert model.effective_candidates_ == pytest.approx(1.0 / np.sum(path[-1] ** 2), rel=1e-6)
    losses = -np.average(np.log(F), 0, weight[kept])
    assert model.summary().splitlines()[3].split()[:2] == ["expert-0", f"{losses[0]:.4g}"]
    steps = -np.log((path[:-1] * z[step.astype(int)]).sum(axis=1))  # what a step costs the aggregate, by its power
    assert power @ steps + (weight[kept] @ np.log(z)).max() <= np.log(z.shape[1]) + 1e-9


def test_the_nearest_candidate_is_nearest_by_weight():
    gate, net = KINDS["list"]
    model = gw.RouterClassifier(EXPERTS, gate, net, random_state=0).fit(X, Y, sample_weight=BROKEN)
    P = np.stack([expert(X) for _, expert in EXPERTS], axis=1)
    gaps = np.einsum("snm,nmc->snc", gate.weights(X, all_thetas(net)) - model.gate_weights(X), P)
    squares = np.average((gaps**2).sum(axis=2), 1, BROKEN)
    assert model.projection_.candidate == squares.argmin()
    assert model.projection_.squared_distance == pytest.approx(squares.min())


@pytest.mark.parametrize("gate", [gw.LinearGate(2, intercept=False), gw.LinearGate(2, intercept=False, k=1)])
def test_particles_with_weights_are_near_a_fine_net(gate):
    experts, grid = EXPERTS[:2], np.linspace(-2.95, 2.95, 60)
    fine = gw.RouterClassifier(experts, gate, gate.net(grid, d=2), blocks=ORDER).fit(X, Y, sample_weight=BROKEN)
    model = gw.RouterClassifier(experts, gate, gw.Particles(600), blocks=ORDER, random_state=0)
    model.fit(X, Y, sample_weight=BROKEN)
    np.testing.assert_allclose(model.gate_weights(X), fine.gate_weights(X), atol=0.05)
    gap = BROKEN[BROKEN > 0] @ np.log(fine.online_probabilities_ / model.online_probabilities_)
    assert abs(gap) < 0.5


def test_a_gate_is_fitted_to_the_aggregate_with_whole_weights_only():
    gate, net = KINDS["product"]
    kept = np.flatnonzero(WHOLE)
    later = int(WHOLE[kept[-15:]].sum())
    models = [
        gw.RouterClassifier(EXPERTS, gate, net, "cross_entropy", gw.Blocks(order="given", projection=rows))
        for rows in (15, later)
    ]
    one, two = models[0].fit(X, Y, sample_weight=WHOLE), models[1].fit(X[COPIES], Y[COPIES])
    np.testing.assert_allclose(one.theta_, two.theta_, atol=1e-6)
    assert one.projection_.compatibility.smallest_ratio == pytest.approx(two.projection_.compatibility.smallest_ratio)
    with pytest.raises(ValueError, match="sample_weight must be whole numbers with projection='cross_entropy'"):
        models[0].fit(X, Y, sample_weight=BROKEN)


def test_experts_get_the_weights_of_the_burn_in():
    raw = [LogisticRegression(), KNeighborsClassifier(3)]
    net = RNG.normal(size=(8, 1, 3))
    model = gw.RouterClassifier(raw, gw.LinearGate(2), net, random_state=0).fit(X, Y, sample_weight=BROKEN)
    kept = np.flatnonzero(BROKEN)
    assert set(model.order_) == set(kept)
    first, floor = model.order_[: len(kept) // 3], 1 / (1 + max(len(kept), BROKEN.sum()))
    own = LogisticRegression().fit(X[first], Y[first], sample_weight=BROKEN[first]).predict_proba(X)
    np.testing.assert_allclose(model.expert_probabilities(X)[:, 0], own * (1 - floor) + floor / 3)


@pytest.mark.parametrize("weight", [np.eye(N)[0], -np.ones(N), np.full(N, np.nan), np.ones(N - 1)])
def test_bad_weights_are_named(weight):
    for model, y in (
        (gw.RouterClassifier(EXPERTS, *KINDS["list"]), Y),
        (gw.SelectorClassifier(EXPERTS), Y),
        (gw.GateSelector([Ridge(), Ridge()]), X[:, 0]),
    ):
        with pytest.raises(ValueError, match="sample_weight"):
            model.fit(X, y, sample_weight=weight)


# ---- the choice among candidates


def test_the_selector_takes_weights_as_copies():
    first = N // 3
    weight = np.where(np.arange(N) < first, 1.0, WHOLE)
    copies = np.repeat(np.arange(N), weight.astype(int))
    pool = [LogisticRegression(), DecisionTreeClassifier(max_depth=3, random_state=0), KNeighborsClassifier(5)]
    blocks = gw.Blocks(order="given", burn_in=first)
    one = gw.SelectorClassifier(pool, blocks=blocks).fit(X, Y, sample_weight=weight)
    two = gw.SelectorClassifier(pool, blocks=blocks).fit(X[copies], Y[copies])
    np.testing.assert_allclose(one.weights_, two.weights_)
    np.testing.assert_allclose(one.squared_distances_, two.squared_distances_)
    np.testing.assert_allclose(one.weights_path_[-1], two.weights_path_[-1])
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X))
    assert len(one.online_probabilities_) == (WHOLE[first:] > 0).sum()


def test_the_selector_fits_candidates_with_weights():
    pool = [LogisticRegression(), KNeighborsClassifier(5)]
    model = gw.SelectorClassifier(pool, random_state=0).fit(X, Y, sample_weight=BROKEN)
    first = model.order_[: model.blocks_[0]]
    own = LogisticRegression().fit(X[first], Y[first], sample_weight=BROKEN[first])
    np.testing.assert_allclose(model.candidates_[0][1].coef_, own.coef_)


def test_weights_of_the_selector_of_regressors_are_those_of_the_noise_scale():
    y, weight = X[:, 0] * X[:, 1] + RNG.normal(size=N), RNG.choice([0.0, 0.5, 3.0], N)
    pool = [Ridge(), KNeighborsRegressor(5)]
    model = gw.GateSelector(pool, random_state=0).fit(X, y, sample_weight=weight)
    n1, n2, _ = model.blocks_
    first, second, third = np.split(model.order_, [n1, n1 + n2])
    root = np.sqrt(weight / weight[weight > 0].mean())
    fits = [Ridge().fit(X[first], y[first], root[first] ** 2), KNeighborsRegressor(5).fit(X[first], y[first])]
    residual = root[:, None] * (y[:, None] - np.column_stack([one.predict(X) for one in fits]))
    sigma = np.sqrt(np.mean(residual[second] ** 2, axis=0))
    np.testing.assert_allclose(model.sigma_, sigma)
    log_density = -0.5 * (residual[third] / sigma) ** 2 - np.log(sigma)
    path = softmax(np.cumsum(np.vstack([np.zeros(2), log_density]), axis=0), axis=1)
    np.testing.assert_allclose(model.weights_, path[:-1].mean(axis=0))
    online = (path[:-1] * np.column_stack([one.predict(X[third]) for one in fits])).sum(axis=1)
    np.testing.assert_allclose(model.online_predictions_, online)


# ---- labels, and classes that the first block lacks


@pytest.mark.parametrize(
    ("strange", "told"),
    [
        (pd.NA, "missing labels, but row 2 is <NA>"),
        (np.nan, "missing labels, but row 2 is nan"),
        (pd.NaT, "missing labels, but row 2 is NaT"),
        (7, "of one kind, not some of each of int, str: make them all text"),
    ],
)
def test_labels_that_are_none_or_cannot_be_sorted_are_named(strange, told):
    labels = Y.astype(object)
    labels[2] = strange
    models = (
        gw.RouterClassifier(EXPERTS, *KINDS["list"]),
        gw.GateClassifier(EXPERTS, DENSE),
        gw.SelectorClassifier(EXPERTS),
    )
    for model in models:
        with pytest.raises(ValueError, match=told):
            model.fit(X, labels)


def test_a_class_that_the_first_block_lacks_has_the_floor():
    labels = np.where(np.arange(N) == N - 1, "z", np.where(X[:, 0] > 0, "a", "b"))
    pool = [LogisticRegression(), DecisionTreeClassifier(max_depth=2)]
    model = gw.SelectorClassifier(pool, blocks=ORDER).fit(X, labels)
    assert model.classes_.tolist() == ["a", "b", "z"]
    np.testing.assert_allclose(model.predict_proba(X)[:, 2], 1 / (N + 1) / 3)


@pytest.mark.parametrize("seed", range(5))
def test_a_random_first_block_has_two_classes(seed):
    labels = np.where(np.arange(N) == 7, "rare", "frequent")
    model = gw.SelectorClassifier([LogisticRegression(), DecisionTreeClassifier()], gw.Blocks(n_orders=2), seed)
    assert (model.fit(X, labels).order_[:, model.blocks_[0] - 1] == 7).any() or 7 in model.order_[0][: N // 3]
    assert (np.sort(model.order_, axis=1) == np.arange(N)).all()


def test_a_given_first_block_of_one_class_is_refused_with_a_remedy():
    pool = [LogisticRegression(), DecisionTreeClassifier()]
    with pytest.raises(ValueError, match=r"the first block, 20 rows, has one class, 'a', .*larger burn_in"):
        gw.SelectorClassifier(pool, blocks=ORDER).fit(X, np.where(np.arange(N) < 30, "a", "b"))
