"""Gates over given classifiers by log loss: exact nets, lists, Top-K, particles, one gate, the choice of a class."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import gatewise as gw
from gatewise.nets import MaskedNet
from gatewise.router.class_scores import ClassScores
from gatewise.solvers.local_descent import log_loss_and_grad
from gatewise.solvers.simplex_log_loss import simplex_log_loss

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
LABELS = np.array(["a", "b", "c"])
TABLES = RNG.dirichlet(np.ones(3), size=(3, 5))  # of three experts, by where a row lies
TWO = np.random.default_rng(1).dirichlet(np.ones(2), size=5)
ORDER = gw.Blocks(order="given")


def cell(rows):
    return np.clip(np.floor(np.asarray(rows)[:, 0] + 2.5), 0, 4).astype(int)


EXPERTS = [(f"expert-{m}", lambda rows, m=m: TABLES[m][cell(rows)]) for m in range(3)]
Y = LABELS[np.argmax(TABLES[(X[:, 1] > 0) * 1, cell(X)] + RNG.gumbel(size=(N, 3)) * 0.3, axis=1)]
DENSE, TOP = gw.LinearGate(3, intercept=False), gw.LinearGate(3, intercept=False, k=2)
THETAS = RNG.normal(scale=2.0, size=(20, 2, 2))
CENTRES = gw.KernelGate(3, 1.0, 0.5, -1.0, 1.0)
KINDS = {
    "product": (DENSE, DENSE.net([-2.0, 0.0, 2.0], d=2)),
    "product of the best two": (TOP, TOP.net([-2.0, 0.0, 2.0], d=2)),
    "list": (DENSE, DENSE.net(thetas=THETAS)),
    "list of the best two": (TOP, TOP.net(thetas=THETAS)),
    "sigmoid": (gw.LinearGate(3, intercept=False, phi="sigmoid"), THETAS),
    "kernel": (CENTRES, RNG.dirichlet(np.ones(3), size=(20, CENTRES.theta_shape(2)[1])).swapaxes(1, 2)),
}


def floored(n=N):
    """The experts' probabilities of all classes, (n, M, C), with the floor that the docstring states."""
    P = np.stack([expert(X[:n]) for _, expert in EXPERTS], axis=1)
    return P * (1 - 1 / (n + 1)) + 1 / (n + 1) / 3


def observed(n=N):
    return floored(n)[np.arange(n), :, np.searchsorted(LABELS, Y[:n])]


def all_thetas(net):
    return np.concatenate(list(net.blocks())) if hasattr(net, "blocks") else np.asarray(net)


def aggregation(z):
    """Two lines of AFTER for z (n, S): the weights that predict every row, and those after the last."""
    path = softmax(np.vstack([np.zeros(z.shape[1]), np.cumsum(np.log(z), axis=0)]), axis=1)
    return path[:-1], path[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_every_net_gives_the_two_lines(kind):
    gate, net = KINDS[kind]
    model = gw.RouterClassifier(EXPERTS, gate, net, blocks=ORDER, random_state=0).fit(X, Y)
    gates = gate.weights(X, all_thetas(net))  # (S, n, M)
    z = np.einsum("snm,nm->ns", gates, observed())
    weights, last = aggregation(z)
    mean = np.einsum("s,snm->nm", weights.mean(axis=0), gates)
    np.testing.assert_allclose(model.online_probabilities_, (weights * z).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(model.gate_weights(X), mean, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), np.einsum("nm,nmc->nc", mean, floored()), rtol=1e-7)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
    assert model.effective_candidates_ == pytest.approx(1.0 / np.sum(last**2), rel=1e-6)
    assert (model.predict(X) == LABELS[model.predict_proba(X).argmax(axis=1)]).all()
    assert model.blocks_ == (0, N)
    assert f"mean over {N} rows" in model.summary()


@pytest.mark.parametrize("kind", ["product", "list of the best two"])
def test_the_single_gate_is_the_candidate_nearest_in_all_classes(kind):
    gate, net = KINDS[kind]
    model = gw.RouterClassifier(EXPERTS, gate, net, random_state=0).fit(X, Y)
    P = np.stack([expert(X) for _, expert in EXPERTS], axis=1)
    gaps = np.einsum("snm,nmc->snc", gate.weights(X, all_thetas(net)) - model.gate_weights(X), P)
    squares = (gaps**2).sum(axis=2).mean(axis=1)
    assert model.projection_.candidate == squares.argmin()
    assert model.projection_.squared_distance == pytest.approx(squares.min())
    np.testing.assert_array_equal(model.theta_, all_thetas(net)[squares.argmin()])
    single = model.predict_proba(X, readout="single")
    np.testing.assert_allclose(single, np.einsum("nm,nmc->nc", gate.weights(X, model.theta_), floored()), rtol=1e-9)


def test_orders_are_averaged_and_a_gate_is_fitted_to_the_aggregate():
    gate, net = KINDS["product"]
    blocks = gw.Blocks(n_orders=2, projection=15)
    model = gw.RouterClassifier(EXPERTS, gate, net, "cross_entropy", blocks, random_state=0).fit(X, Y)
    assert model.order_.shape == (2, N)
    assert model.online_probabilities_.shape == (2, N - 15)
    assert model.projection_.compatibility.smallest_ratio >= 0.0
    one = gw.RouterClassifier(EXPERTS, gate, net, "cross_entropy", gw.Blocks(projection=15), random_state=0).fit(X, Y)
    assert not np.array_equal(one.gate_weights(X), model.gate_weights(X))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("least", [0.0, 1e-6, 0.2])
def test_regret_is_at_most_log_s_where_labels_are_chosen_against_the_aggregate(kind, least):
    """Each label is the one that a first run over all rows held for least likely; two experts are sure of it."""
    gate, net = KINDS[kind]
    tables = TABLES.copy()
    tables[0] = np.eye(3)[[0, 1, 2, 0, 1]] * (1 - 3 * least) + least
    experts = [lambda rows, m=m: tables[m][cell(rows)] for m in range(3)]
    labels = Y
    for _ in range(2):
        model = gw.RouterClassifier(experts, gate, net, blocks=ORDER).fit(X, labels)
        P = model.expert_probabilities(X)
        z = np.einsum(
            "snm,nm->ns", gate.weights(X, all_thetas(net)), P[np.arange(N), :, np.searchsorted(LABELS, labels)]
        )
        regret = -np.log(model.online_probabilities_).sum() + np.log(z).sum(axis=0).max()
        assert regret <= np.log(z.shape[1]) + 1e-8
        labels = LABELS[model.predict_proba(X).argmin(axis=1)]
        labels[:3] = LABELS


@pytest.mark.parametrize("gate", [gw.LinearGate(2, intercept=False), gw.LinearGate(2, intercept=False, k=1)])
def test_particles_are_near_a_fine_net(gate):
    """One parameter for each of two inputs: a net of 61^2 candidates in the box is the truth."""
    experts = EXPERTS[:2]
    fine = gw.RouterClassifier(experts, gate, gate.net(np.linspace(-2.95, 2.95, 60), d=2), blocks=ORDER).fit(X, Y)
    model = gw.RouterClassifier(experts, gate, gw.Particles(600), blocks=ORDER, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.online_probabilities_, fine.online_probabilities_, atol=0.05)
    gap = np.log(fine.online_probabilities_).sum() - np.log(model.online_probabilities_).sum()
    assert abs(gap) < 0.5
    assert model.ess_.shape == (N,)


def test_particles_of_a_kernel_gate():
    model = gw.RouterClassifier(EXPERTS, CENTRES, gw.Particles(100), blocks=ORDER, random_state=0).fit(X, Y)
    best = gw.GateClassifier(EXPERTS, CENTRES).fit(X, Y).report_.log_loss
    assert best < -np.log(model.online_probabilities_).mean() < best + 0.3
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_experts_are_fitted_on_the_burn_in_and_not_changed():
    rows = pd.DataFrame(X, columns=["u", "v"])
    raw = [LogisticRegression(), DecisionTreeClassifier(max_depth=2, random_state=0), LinearSVC()]
    net = RNG.normal(size=(8, 2, 3))
    blocks = gw.Blocks(n_orders=2)
    model = gw.RouterClassifier(raw, gw.LinearGate(3), net, blocks=blocks, random_state=0).fit(rows, Y)
    assert not hasattr(raw[0], "coef_")
    first = model.order_[0][: N // 3]
    assert (np.sort(model.order_[1][: N // 3]) == np.sort(first)).all()
    own = LogisticRegression().fit(rows.iloc[first], Y[first]).predict_proba(rows)
    np.testing.assert_allclose(model.expert_probabilities(rows)[:, 0], own * (1 - 1 / (N + 1)) + 1 / (N + 1) / 3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_a_wrong_zero_ends_no_gate():
    sure = lambda rows: np.tile([1.0, 0.0, 0.0], (len(rows), 1))  # noqa: E731
    gate = gw.LinearGate(2, k=1)
    model = gw.RouterClassifier([sure, sure], gate, gate.net(thetas=RNG.normal(size=(5, 1, 3)))).fit(X, Y)
    assert np.isfinite(np.log(model.online_probabilities_)).all()


# ---- one gate


def numpy_log_loss(theta, gate, F):
    return -np.log(np.einsum("nm,nm->n", gate.weights(X, theta), F)).mean()


def test_the_gradient_is_the_slope_of_the_log_loss():
    F, theta, gate = observed(), RNG.normal(size=(2, 2)), DENSE
    value, grad = log_loss_and_grad(theta, X, F)
    assert value == pytest.approx(numpy_log_loss(theta, gate, F))
    for place in np.ndindex(2, 2):
        step = np.zeros((2, 2))
        step[place] = 1e-6
        slope = (numpy_log_loss(theta + step, gate, F) - numpy_log_loss(theta - step, gate, F)) / 2e-6
        assert grad[place] == pytest.approx(slope, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_net_is_searched_exactly(kind):
    gate, net = KINDS[kind]
    model = gw.GateClassifier(EXPERTS, gate, net).fit(X, Y)
    losses = [numpy_log_loss(theta, gate, observed()) for theta in all_thetas(net)]
    assert model.report_.candidate == np.argmin(losses)
    assert model.report_.log_loss == pytest.approx(min(losses), rel=1e-9)
    np.testing.assert_array_equal(model.theta_, all_thetas(net)[np.argmin(losses)])


def test_a_masked_net_leaves_candidates_out():
    net = DENSE.net([-2.0, 0.0, 2.0], d=2)
    best = gw.GateClassifier(EXPERTS, DENSE, net).fit(X, Y).report_
    masked = MaskedNet(net, np.arange(net.size) != best.candidate)
    second = gw.GateClassifier(EXPERTS, DENSE, masked).fit(X, Y).report_
    losses = np.array([numpy_log_loss(theta, DENSE, observed()) for theta in all_thetas(net)])
    assert second.candidate == np.argsort(losses)[1]
    assert second.log_loss == pytest.approx(np.sort(losses)[1], rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gate_tells_its_calibration_error_beside_its_log_loss(kind):
    gate, net = KINDS[kind]
    model = gw.GateClassifier(EXPERTS, gate, net=net).fit(X, Y)
    scores = ClassScores.of(model.predict_proba(X), np.searchsorted(LABELS, Y))
    assert model.report_.log_loss == pytest.approx(scores.log_loss)
    assert model.calibration_error_ == pytest.approx(scores.calibration_error)


def test_a_softmax_gate_is_at_least_as_good_as_scipy_finds():
    model = gw.GateClassifier(EXPERTS, DENSE, radius=3.0, random_state=0).fit(X, Y)
    rival = minimize(
        lambda flat: numpy_log_loss(flat.reshape(2, 2), DENSE, observed()),
        np.zeros(4),
        method="L-BFGS-B",
        bounds=[(-3, 3)] * 4,
    )
    assert model.report_.log_loss <= rival.fun + 1e-7
    assert model.report_.log_loss == pytest.approx(numpy_log_loss(model.theta_, DENSE, observed()))
    np.testing.assert_allclose(
        model.predict_proba(X), np.einsum("nm,nmc->nc", DENSE.weights(X, model.theta_), floored()), rtol=1e-9
    )


def test_a_kernel_gate_is_solved_with_a_certificate():
    rng = np.random.default_rng(1)
    features, F = rng.dirichlet(np.ones(4), size=80), rng.uniform(0.01, 1.0, (80, 3))
    found = simplex_log_loss(features, F)

    theta = np.full((3, 4), 1 / 3)  # the oracle is EM: theta times the mean of F phi / z, normalised
    for _ in range(5000):
        theta = theta * ((F / ((features @ theta.T) * F).sum(axis=1, keepdims=True)).T @ features)
        theta /= theta.sum(axis=0)
    rival = -np.log(((features @ theta.T) * F).sum(axis=1)).mean()
    assert found.converged
    assert found.gap <= 1e-9
    assert found.log_loss == pytest.approx(rival, abs=1e-6)
    assert found.log_loss <= rival + 1e-9
    np.testing.assert_allclose(found.theta.sum(axis=0), 1.0)
    with pytest.warns(UserWarning, match="of its minimum"):
        simplex_log_loss(features, F, max_iter=1)


# ---- the choice among classes of gates


def test_the_selector_gives_the_two_lines_and_takes_the_nearest():
    third = np.arange(N) < N // 3
    given = [DummyClassifier(strategy="prior"), LogisticRegression(), KNeighborsClassifier(3)]
    model = gw.SelectorClassifier(given, blocks=ORDER).fit(X, Y)
    P = np.stack([clone(one).fit(X[third], Y[third]).predict_proba(X[~third]) for one in given], axis=1)
    P = P * (1 - 1 / (N + 1)) + 1 / (N + 1) / 3
    z = P[np.arange(len(P)), :, np.searchsorted(LABELS, Y[~third])]
    weights, last = aggregation(z)
    np.testing.assert_allclose(model.weights_, weights.mean(axis=0))
    np.testing.assert_allclose(model.weights_path_[-1], last)
    np.testing.assert_allclose(model.online_probabilities_, (weights * z).sum(axis=1))
    assert -np.log(model.online_probabilities_).sum() <= -np.log(z).sum(axis=0).max() + np.log(3) + 1e-9
    gaps = P - np.einsum("l,nlc->nc", model.weights_, P)[:, None]
    np.testing.assert_allclose(model.squared_distances_, (gaps**2).sum(axis=2).mean(axis=0))
    assert model.selected_index_ == model.squared_distances_.argmin()
    np.testing.assert_allclose(
        model.predict_proba(X), np.einsum("l,nlc->nc", model.weights_, model.expert_probabilities(X))
    )
    single = model.predict_proba(X, readout="single")
    np.testing.assert_allclose(single, model.expert_probabilities(X)[:, model.selected_index_])


def test_the_selector_chooses_among_gates_and_averages_them():
    gates = [gw.GateClassifier(EXPERTS, DENSE, radius=3.0, random_state=0), gw.GateClassifier(EXPERTS, CENTRES)]
    model = gw.SelectorClassifier(gates, random_state=0).fit(X, Y)
    assert model.selected_ in ("lineargate", "kernelgate")
    parts = [weight * one.gate_weights(X) for weight, (_, one) in zip(model.weights_, model.candidates_, strict=True)]
    np.testing.assert_allclose(model.gate_weights(X), sum(parts))
    chosen = model.candidates_[model.selected_index_][1]
    np.testing.assert_allclose(model.gate_weights(X, "single"), chosen.gate_weights(X))


# ---- bad input, and scikit-learn


def fitted(rows=X, labels=Y):
    return FrozenEstimator(LogisticRegression().fit(rows, labels))


def table(row):
    return lambda rows: np.tile(row, (len(rows), 1))


@pytest.mark.parametrize(
    ("experts", "labels", "told"),
    [
        ([table([0.5, 0.6, -0.1])] * 2, Y, "probabilities with sum one, but row 0"),
        ([table([0.5, 0.6, 0.2])] * 2, Y, "probabilities with sum one, but row 0"),
        ([table([0.5, np.nan, 0.2])] * 2, Y, "must return finite numbers, but row 0"),
        ([table([0.5, 0.5])] * 2, Y, "a column for each of 3 classes"),
        ([table([0.5, 0.3, 0.2])] * 2, np.full(N, "a"), "at least two classes, but has one class"),
        ([fitted(), fitted()], np.where(Y == "a", "z", Y), r"the label 'z', which no (expert|candidate) has seen"),
        ([fitted(), fitted()], np.arange(N) % 2, "knows the classes"),
        ([fitted(), fitted()], RNG.normal(size=N), "Unknown label type"),
        ([("svm", FrozenEstimator(LinearSVC().fit(X, Y))), fitted()], Y, r"needs predict_proba, and 'svm' \(Frozen"),
    ],
)
def test_bad_input_is_named(experts, labels, told):
    net = RNG.normal(size=(4, 1, 3))
    for model in (
        gw.RouterClassifier(experts, gw.LinearGate(2), net),
        gw.GateClassifier(experts, gw.LinearGate(2)),
        gw.SelectorClassifier(experts),
    ):
        with pytest.raises((ValueError, TypeError), match=told):
            model.fit(X, labels)


def test_candidates_are_called_candidates_in_errors():
    for labels, told in (
        (np.where(Y == "a", "z", Y), "the label 'z', which no candidate has seen"),
        (np.arange(N) % 3, r"the candidate 'frozenestimator-1' knows the classes \['a', 'b', 'c'\]"),
    ):
        with pytest.raises(ValueError, match=told):
            gw.SelectorClassifier([fitted(), fitted()]).fit(X, labels)


def test_a_class_that_only_an_expert_knows_has_a_column():
    model = gw.GateClassifier([fitted(), fitted()], gw.LinearGate(2)).fit(X[Y != "a"], Y[Y != "a"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.predict_proba(X).shape == (N, 3)


@pytest.mark.parametrize("name", ["sigma", "calibration", "sigma_bounds", "updates"])
def test_blocks_without_meaning_are_refused(name):
    value = {"sigma": 1.0, "calibration": 0.5, "sigma_bounds": (0.1, 1.0), "updates": 5}[name]
    for model in (
        gw.RouterClassifier(EXPERTS, gw.LinearGate(3), THETAS, blocks=gw.Blocks(**{name: value})),
        gw.SelectorClassifier(EXPERTS, blocks=gw.Blocks(**{name: value})),
    ):
        with pytest.raises(ValueError, match=rf"blocks.{name} must be None"):
            model.fit(X, Y)


def test_a_refit_that_fails_leaves_the_model_as_it_was():
    model = gw.RouterClassifier(EXPERTS, DENSE, THETAS, random_state=0).fit(X, Y)
    before, attributes = model.predict_proba(X), dict(vars(model))
    with pytest.raises(ValueError, match="one class"):
        model.fit(np.column_stack([X, X]), np.full(N, "a"))
    assert vars(model) == attributes
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_experts_of_one_gate_must_be_fitted():
    with pytest.raises(ValueError, match="must be fitted"):
        gw.GateClassifier([LogisticRegression()] * 2, gw.LinearGate(2)).fit(X, Y)
    with pytest.raises(ValueError, match="gate's 3"):
        gw.RouterClassifier(EXPERTS[:2], gw.LinearGate(3), THETAS).fit(X, Y)


def test_the_summary_tells_calibration_errors():
    experts = [("calm", lambda rows: np.tile([0.4, 0.6], (len(rows), 1))), ("bold", lambda rows: TWO[cell(rows)])]
    y = np.where(X[:, 0] > 0.3, "b", "a")
    gate = gw.LinearGate(2)
    model = gw.RouterClassifier(experts, gate, gate.net([-2.0, 0.0, 2.0], d=2), blocks=ORDER).fit(X, y)
    lines = model.summary(X, y).splitlines()
    assert lines[0] == f"log loss, and calibration error one step ahead (mean over {N} rows):"
    outcome, P = (y == "b").astype(int), model.expert_probabilities(X)
    for m, name in enumerate(("calm", "bold")):  # the experts learn nothing: both tables say the same of them
        scores = ClassScores.of(P[:, m], outcome)
        wanted = [name, f"{scores.log_loss:.4g}", f"{scores.calibration_error:.4g}"]
        assert [line.split() for line in lines].count(wanted) == 2
    ours = model.online_probabilities_
    p = np.where(outcome[:, None] == [0, 1], ours[:, None], 1.0 - ours[:, None])
    assert lines[1].split()[1:] == [
        f"{v:.4g}" for v in (-np.log(ours).mean(), ClassScores.of(p, outcome).calibration_error)
    ]
    with pytest.raises(ValueError, match="labels of"):
        model.summary(X, np.full(N, "c"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [None, np.where(np.arange(N) % 2, 2.5, 1.0)], ids=["plain", "weighted"])
def test_the_summary_of_three_classes_tells_the_calibration_error_one_step_ahead(kind, weight):
    gate, net = KINDS[kind]
    model = gw.RouterClassifier(EXPERTS, gate, net, blocks=ORDER).fit(X, Y, sample_weight=weight)
    counts, outcome, P = (
        np.ones(N) if weight is None else weight,
        np.searchsorted(LABELS, Y),
        model.expert_probabilities(X),
    )
    gates = np.stack([gate.weights(X, theta) for theta in all_thetas(net)])
    z = np.einsum("snm,nmc->snc", gates, P)
    losses = np.cumsum(counts * np.log(z[:, np.arange(N), outcome]), axis=1)
    ahead = np.einsum("sn,snc->nc", softmax(np.column_stack([np.zeros(len(z)), losses[:, :-1]]), axis=0), z)
    np.testing.assert_allclose(ahead[np.arange(N), outcome], model.online_probabilities_)
    wanted = [ClassScores.of(p, outcome, counts) for p in (ahead, P.mean(axis=1), *P.swapaxes(0, 1))]
    lines = model.summary().splitlines()
    assert lines[0] == f"log loss, and calibration error one step ahead (mean over {N} rows):"
    assert [line.split()[-2:] for line in lines[1:6]] == [
        [f"{one.log_loss:.4g}", f"{one.calibration_error:.4g}"] for one in wanted
    ]
    assert "new rows" not in model.summary()


def test_the_summary_of_several_classes_says_how_a_calibration_error_is_had():
    experts = [(f"even {m}", lambda rows: np.full((len(rows), 3), 1 / 3)) for m in range(2)]
    y = np.arange(N) % 3
    model = gw.RouterClassifier(experts, gw.LinearGate(2), gw.Particles(20), blocks=ORDER, random_state=0).fit(X, y)
    lines = model.summary().splitlines()
    assert lines[1].split()[-1] == "-"
    assert lines[2].split()[-1] != "-"
    assert lines[-1] == "the router's calibration error needs new rows: summary(X, y)"
    assert "needs new rows" not in model.summary(X, y)


def test_a_candidate_that_is_fitted_and_has_no_probabilities_is_told_so():
    with pytest.raises(TypeError, match=r"candidates: 'svm' needs predict_proba.*CalibratedClassifierCV\(LinearSVC"):
        gw.SelectorClassifier([("svm", LinearSVC()), ("line", LogisticRegression())], random_state=0).fit(X, Y)
