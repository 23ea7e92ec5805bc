"""RouterAggregator against `alg:general` written out by hand."""

import copy
import pickle

import numba
import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LinearRegression, SGDRegressor
from sklearn.tree import ExtraTreeRegressor

import gatewise as gw
from gatewise.aggregation import Blocks, L2Projection, Particles
from gatewise.experts import AffineExpert, ConstantExpert, expert_matrix
from gatewise.experts.evolving import EvolvingExpert
from gatewise.nets import ListNet
from gatewise.noise import DoubleExponential, Gaussian, StudentT
from gatewise.paper import DESIGNS

DESIGN = DESIGNS["linear"]
X, Y = DESIGN.sample(150, np.random.default_rng(0))
GATE = gw.LinearGate(3, intercept=False)
NET = GATE.net([0.0, 1.0, 2.0, 3.0], d=2)
SHARED = [AffineExpert((0.5, 0.0)), ConstantExpert(1.0)]


def all_thetas(net):
    return np.concatenate(list(net.blocks()))


def by_hand(router, gate, thetas, noise, F, shared, bounds=None, sigma=None, prior=None):
    """The whole of steps (b) to (e) from the order and the block counts: an S x n array and nothing clever."""
    n1, n2, n3 = router.blocks_[:3]
    order = router.order_
    rows = order[n1 : n1 + n2 + n3]
    gates = gate.weights(X[rows], thetas)  # (S, n2 + n3, M)
    predictions = np.einsum("snm,nm->sn", gates, F[rows]) + shared[rows]
    residual = Y[rows] - predictions
    if sigma is None:
        spread = np.std((Y - shared)[rows[:n2]])
        low, high = bounds or (1e-3 * spread, 10 * spread)
        sigma = np.clip(np.sqrt(np.mean(residual[:, :n2] ** 2, axis=1)), low, high)
    sigma = np.broadcast_to(sigma, len(thetas))
    log_density = noise.log_density(residual[:, n2:] / sigma[:, None]) - np.log(sigma)[:, None]
    prior = np.zeros(len(thetas)) if prior is None else prior
    cumulated = np.cumsum(np.column_stack([prior, log_density]), axis=1)
    weights = softmax(cumulated, axis=0)  # (S, n3 + 1)
    online = np.sum(weights[:, :-1] * predictions[:, n2:], axis=0)
    return sigma, weights, online


@pytest.mark.parametrize("noise", [Gaussian(), DoubleExponential(), StudentT(5.0)], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("shared", [[], SHARED], ids=["routed", "shared"])
@pytest.mark.parametrize("k", [None, 1, 2])
def test_a_fit_can_be_replayed_by_hand(noise, shared, k):
    gate = gw.LinearGate(3, k=k, intercept=False)
    router = gw.RouterAggregator(DESIGN.experts, gate, NET, shared, noise, random_state=1).fit(X, Y)
    F = expert_matrix(DESIGN.experts, X)
    always = expert_matrix(shared, X).sum(axis=1) if shared else np.zeros(150)
    thetas = all_thetas(NET)
    sigma, weights, online = by_hand(router, gate, thetas, noise, F, always)
    assert router.blocks_ == (0, 75, 75)
    np.testing.assert_allclose(router.sigma_, sigma, rtol=1e-9)
    np.testing.assert_allclose(router.online_predictions_, online, rtol=1e-9, atol=1e-12)
    assert router.effective_candidates_ == pytest.approx(1 / np.sum(weights[:, -1] ** 2), rel=1e-9)
    mean = weights[:, :-1].mean(axis=1)
    average = np.tensordot(mean, gate.weights(X, thetas), axes=1)
    np.testing.assert_allclose(router.gate_weights(X), average, rtol=1e-9, atol=1e-12)
    aggregate = always + (average * F).sum(axis=1)
    np.testing.assert_allclose(router.predict(X), aggregate, rtol=1e-9)
    candidates = always + np.einsum("snm,nm->sn", gate.weights(X, thetas), F)
    nearest = np.argmin(np.mean((candidates - aggregate) ** 2, axis=1))
    np.testing.assert_array_equal(router.theta_, thetas[nearest])
    np.testing.assert_allclose(router.predict(X, readout="single"), candidates[nearest], rtol=1e-9)
    np.testing.assert_array_equal(router.gate_weights(X, readout="single"), gate.weights(X, thetas[nearest]))
    np.testing.assert_allclose(router.weights_path_, weights[router.leading_].T, rtol=1e-8, atol=1e-14)
    assert mean[router.leading_[0]] == mean.max()
    np.testing.assert_array_equal(router.leading_theta_, thetas[router.leading_])


@pytest.mark.parametrize(
    "gate",
    [gw.LinearGate(3, phi="sigmoid"), gw.QuadraticGate(3, k=2), gw.KernelGate(3, mesh=1.0, low=-1.0, high=1.0)],
    ids=lambda g: type(g).__name__,
)
def test_explicit_lists_of_every_kind_of_gate(gate):
    rng = np.random.default_rng(0)
    thetas = rng.normal(size=(40, *gate.theta_shape(2)))
    if isinstance(gate, gw.KernelGate):
        thetas = softmax(thetas, axis=1)
    router = gw.RouterAggregator(DESIGN.experts, gate, thetas, blocks=Blocks(sigma=0.5), random_state=2).fit(X, Y)
    F = expert_matrix(DESIGN.experts, X)
    _, weights, online = by_hand(router, gate, thetas, Gaussian(), F, np.zeros(150), sigma=0.5)
    assert router.blocks_ == (0, 0, 150)
    np.testing.assert_allclose(router.online_predictions_, online, rtol=1e-9)
    average = np.tensordot(weights[:, :-1].mean(axis=1), gate.weights(X, thetas), axes=1)
    np.testing.assert_allclose(router.gate_weights(X), average, rtol=1e-8, atol=1e-12)


def test_scale_bounds_clip():
    blocks = Blocks(sigma_bounds=(0.6, 0.8))
    router = gw.RouterAggregator(DESIGN.experts, GATE, NET, blocks=blocks, random_state=0).fit(X, Y)
    assert router.sigma_.min() == 0.6
    assert router.sigma_.max() == 0.8


def test_separated_candidates_only():
    net = GATE.net([0.0, 1.0, 2.0, 3.0], d=2, min_separation=1.5)
    router = gw.RouterAggregator(DESIGN.experts, GATE, net, random_state=0).fit(X, Y)
    kept = ListNet(all_thetas(net)[net.allowed()])
    alone = gw.RouterAggregator(DESIGN.experts, GATE, kept, random_state=0).fit(X, Y)
    assert 0 < net.n_allowed < net.size
    np.testing.assert_allclose(router.online_predictions_, alone.online_predictions_, rtol=1e-9)
    np.testing.assert_array_equal(router.theta_, alone.theta_)
    assert GATE.separation(router.theta_) >= 1.5


def test_several_orders_average():
    blocks = Blocks(n_orders=3)
    many = gw.RouterAggregator(DESIGN.experts, GATE, NET, blocks=blocks, random_state=5).fit(X, Y)
    assert many.order_.shape == (3, 150)
    assert many.online_predictions_.shape == (3, 75)
    assert many.sigma_.shape == (3, NET.size)
    F, total = expert_matrix(DESIGN.experts, X), 0.0
    for order in many.order_:
        one = gw.RouterAggregator(DESIGN.experts, GATE, NET)
        one.order_, one.blocks_ = order, many.blocks_
        _, weights, _ = by_hand(one, GATE, all_thetas(NET), Gaussian(), F, np.zeros(150))
        total = total + np.tensordot(weights[:, :-1].mean(axis=1), GATE.weights(X, all_thetas(NET)), axes=1) / 3
    np.testing.assert_allclose(many.gate_weights(X), total, rtol=1e-9)


def test_the_projection_may_use_points_or_a_box():
    results = []
    axis = np.linspace(-1, 1, 60)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    for projection in ("l2", L2Projection(points=grid), L2Projection(box=(-1.0, 1.0))):
        router = gw.RouterAggregator(DESIGN.experts, GATE, NET, projection=projection, random_state=1).fit(X, Y)
        results.append((router.theta_, router.projection_.squared_distance))
    np.testing.assert_array_equal(results[1][0], results[2][0])
    assert results[1][1] == pytest.approx(results[2][1], rel=0.1)


def test_cross_entropy_projection():
    router = gw.RouterAggregator(DESIGN.experts, GATE, NET, projection="cross_entropy", random_state=1).fit(X, Y)
    assert len(router.blocks_) == 4
    assert sum(router.blocks_) == 150
    last = X[router.order_[-router.blocks_[3] :]]
    labels = router.gate_weights(last)

    def loss(theta):
        return -np.mean(np.sum(labels * np.log(GATE.weights(last, theta)), axis=1))

    assert router.projection_.fit.gap <= 1e-8
    best = loss(router.theta_)
    for theta in all_thetas(NET):
        assert best <= loss(theta) + 1e-9
    assert np.abs(router.theta_).max() <= 3.0 + 1e-12
    assert router.projection_.compatibility.smallest_ratio > 0
    weights = router.gate_weights(X, readout="single")
    np.testing.assert_allclose(weights, GATE.weights(X, router.theta_))


@pytest.mark.parametrize(
    "gate", [gw.LinearGate(3, k=2, intercept=False), gw.LinearGate(3, phi="sigmoid", intercept=False)]
)
def test_cross_entropy_refuses_gates_that_are_not_dense_softmax(gate):
    with pytest.raises(ValueError, match=r"dense|softmax"):
        gw.RouterAggregator(DESIGN.experts, gate, NET, projection="cross_entropy", random_state=1).fit(X, Y)


class RunningMean:
    """Predicts the mean of the responses seen so far, plus a constant."""

    def __init__(self, shift):
        self.shift, self.total, self.count = shift, 0.0, 0

    def partial_fit(self, X, y):
        self.total, self.count = self.total + y.sum(), self.count + len(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.shift + self.total / max(1, self.count))


def forecasts_over_time(router, evolving, fixed, learn, every, probes):
    """What the experts of each time say of the rows of that time, (n, M), and at the probes, one entry per row.

    ``learn(state, rows, y)`` is the state of one evolving expert after these rows.
    """
    n1, n2, _ = router.blocks_
    rows = router.order_
    state = [learn(one, X[rows[:n1]], Y[rows[:n1]]) for one in evolving]
    F, at_probes = np.zeros((len(X), len(evolving) + len(fixed))), []
    for block in (range(n1, n1 + n2), range(n1 + n2, len(X))):
        for start in range(block.start, block.stop, every):
            part = rows[start : min(start + every, block.stop)]
            F[part] = expert_matrix([*state, *fixed], X[part])
            at_probes += [expert_matrix([*state, *fixed], probes)] * len(part)
            state = [learn(one, X[part], Y[part]) for one in state]
    return F, at_probes


def check_by_hand(router, F, at_probes, probes):
    """Online predictions and both readouts of a router over NET against the sums over time."""
    _, n2, n3 = router.blocks_
    _, weights, online = by_hand(router, GATE, all_thetas(NET), Gaussian(), F, np.zeros(150))
    np.testing.assert_allclose(router.online_predictions_, online, rtol=1e-9)
    gates = GATE.weights(probes, all_thetas(NET))  # (S, 10, 3)
    expected = np.mean([np.einsum("s,snm,nm->n", weights[:, t], gates, at_probes[n2 + t]) for t in range(n3)], axis=0)
    np.testing.assert_allclose(router.predict(probes), expected, rtol=1e-9)
    single = np.sum(GATE.weights(probes, router.theta_) * np.mean(at_probes[n2:], axis=0), axis=1)
    np.testing.assert_allclose(router.predict(probes, readout="single"), single, rtol=1e-9)


@pytest.mark.parametrize("update_every", [1, 4])
@pytest.mark.parametrize("net", [NET, Particles(40)], ids=["net", "particles"])
def test_evolving_experts_are_averaged_over_time_with_their_gates(update_every, net):
    experts, probes = [RunningMean(0.0), RunningMean(2.0), AffineExpert((2.0, -1.0), 2.0)], X[:10]
    blocks = Blocks(burn_in=20, calibration=50, updates=update_every)
    router = gw.RouterAggregator(experts, GATE, net, blocks=blocks, random_state=3).fit(X, Y)
    assert experts[0].count == 0  # the user's experts are not touched
    assert router.thinning_error_ == router.thinning_bound_ == 0.0
    learn = lambda expert, rows, y: copy.copy(expert).partial_fit(rows, y)  # noqa: E731
    F, at_probes = forecasts_over_time(router, experts[:2], experts[2:], learn, update_every, probes)
    if net is NET:
        check_by_hand(router, F, at_probes, probes)
        return
    _, n2, n3 = router.blocks_
    expected, time = np.zeros(10), n2
    for piece in router._router.pieces:  # the gates of particles are random: taken from the fit, one for each stretch
        stretch = np.array(at_probes[time : time + round(piece.share * n3)])
        np.testing.assert_array_equal(stretch, stretch[:1].repeat(len(stretch), axis=0))
        expected += piece.share * np.sum(piece.gate(GATE, probes, 1) * stretch[0], axis=1)
        time += len(stretch)
    assert time == n2 + n3
    np.testing.assert_allclose(router.predict(probes), expected, rtol=1e-9)


@pytest.mark.parametrize("net", [NET, Particles(30)], ids=["net", "particles"])
def test_no_past_output_moves_when_a_future_response_changes(net):
    experts = [SGDRegressor(random_state=0), RunningMean(1.0), lambda rows: rows[:, 0]]
    blocks = Blocks(burn_in=30, calibration=40, updates=2)
    make = lambda: gw.RouterAggregator(experts, GATE, net, blocks=blocks, random_state=7)  # noqa: E731
    first = make().fit(X, Y)
    late = first.order_[120]  # a row of the aggregation block, number 50 there
    changed = Y.copy()
    changed[late] += 25.0
    second = make().fit(X, changed)
    np.testing.assert_array_equal(first.order_, second.order_)
    if net is NET:  # the scales of particles belong to those of the end, which have seen the change
        np.testing.assert_array_equal(first.sigma_, second.sigma_)
    np.testing.assert_array_equal(first.online_predictions_[:50], second.online_predictions_[:50])
    # Row 50 is predicted as its response less the weighted residual: the response cancels but for rounding.
    np.testing.assert_allclose(first.online_predictions_[50], second.online_predictions_[50], rtol=1e-12)
    assert np.abs(first.online_predictions_[51:] - second.online_predictions_[51:]).max() > 1e-6


def test_unfitted_experts_are_fitted_on_the_burn_in():
    experts = [LinearRegression(), DESIGN.experts[1], DESIGN.experts[2]]
    router = gw.RouterAggregator(experts, GATE, NET, random_state=0).fit(X, Y)
    n1 = router.blocks_[0]
    assert n1 == 50
    own = LinearRegression().fit(X[router.order_[:n1]], Y[router.order_[:n1]])
    F = expert_matrix([own, *experts[1:]], X)
    _, _, online = by_hand(router, GATE, all_thetas(NET), Gaussian(), F, np.zeros(150))
    np.testing.assert_allclose(router.online_predictions_, online, rtol=1e-9)
    assert not hasattr(experts[0], "coef_")


def test_experts_without_a_seed_get_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=150)
    experts, shared = [ExtraTreeRegressor(), LinearRegression()], [ExtraTreeRegressor(max_depth=2)]
    routers = [
        gw.RouterAggregator(experts, gw.LinearGate(2), Particles(20), shared, random_state=seed).fit(X, y)
        for seed in (0, 0, 1)
    ]
    first, second, other = (router.predict(X) for router in routers)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("net", [NET, Particles(200, radius=3.0)], ids=["net", "particles"])
def test_the_seed_fixes_the_result_whatever_the_number_of_threads(net):
    before = numba.get_num_threads()
    results = []
    for threads in (1, min(2, before)):
        numba.set_num_threads(threads)
        router = gw.RouterAggregator(DESIGN.experts, GATE, net, random_state=11).fit(X, Y)
        results.append((router.online_predictions_, router.predict(X), router.theta_))
    numba.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_particles_agree_with_a_fine_net():
    net = GATE.net(np.linspace(-3 + 3 / 14, 3 - 3 / 14, 14), d=2)
    blocks = Blocks(sigma=0.5)
    fine = gw.RouterAggregator(DESIGN.experts, GATE, net, blocks=blocks, random_state=4).fit(X, Y)
    swarm = gw.RouterAggregator(DESIGN.experts, GATE, Particles(1000, radius=3.0), blocks=blocks, random_state=4).fit(
        X, Y
    )
    gap = np.sqrt(np.mean((fine.online_predictions_ - swarm.online_predictions_) ** 2))
    assert gap < 0.05 * 0.5
    assert np.abs(fine.predict(X) - swarm.predict(X)).max() < 0.1
    assert swarm.acceptance_.mean() > 0.2
    assert swarm.ess_.shape == (150,)


def test_frames_names_pickling_and_a_density_of_ones_own():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b"])
    experts = [lambda f: 2 + 2 * f["a"] - f["b"], lambda f: -1 - f["a"] + 2 * f["b"], EXPERT_THREE]
    own = Gaussian().log_density
    named = gw.RouterAggregator(experts, GATE, NET, noise=own, random_state=1).fit(frame, Y)
    plain = gw.RouterAggregator(DESIGN.experts, GATE, NET, random_state=1).fit(X, Y)
    assert list(named.feature_names_in_) == ["a", "b"]
    np.testing.assert_allclose(named.online_predictions_, plain.online_predictions_, rtol=1e-8)
    again = pickle.loads(pickle.dumps(plain))
    np.testing.assert_array_equal(again.predict(X), plain.predict(X))


def EXPERT_THREE(frame):  # noqa: N802
    return 1 + np.sin(np.pi * frame["a"]) - 1.5 * frame["b"] ** 2


def test_two_experts_that_agree_and_a_constant_response():
    experts = [ConstantExpert(1.0), ConstantExpert(1.0), ConstantExpert(1.0)]
    router = gw.RouterAggregator(experts, GATE, NET, random_state=0).fit(X, np.ones(150))
    np.testing.assert_allclose(router.predict(X), 1.0, rtol=1e-12)
    np.testing.assert_allclose(router.effective_candidates_, NET.size, rtol=1e-9)


def test_responses_far_from_every_candidate_survive():
    blocks = Blocks(sigma=1e-4)
    router = gw.RouterAggregator(DESIGN.experts, GATE, NET, blocks=blocks, random_state=0).fit(X, Y + 1000.0)
    assert np.isfinite(router.predict(X)).all()
    assert np.isfinite(router.online_predictions_).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.where(np.arange(150) == 3, np.nan, Y)}, "NaN"),
        ({"y": np.where(np.arange(150) == 3, np.inf, Y)}, "infinity"),
        ({"experts": DESIGN.experts[:2]}, "experts must hold one expert for each of the gate's 3, not 2"),
        ({"net": np.zeros((5, 2, 3))}, r"theta must have shape \(2, 2\)"),
        ({"experts": [*DESIGN.experts[:2], lambda rows: rows]}, "the expert '<lambda>' must return shape"),
        ({"shared": [("all", lambda rows: rows)]}, "the shared expert 'all' must return shape"),
        ({"experts": [*DESIGN.experts[:2], lambda rows: np.full(len(rows), np.nan)]}, "must return finite numbers"),
        ({"projection": "nearest"}, "projection must be 'l2', 'cross_entropy' or an L2Projection"),
        ({"noise": "cauchy"}, "noise must be one of"),
        ({"blocks": Blocks(calibration=149)}, "at least 2 rows"),
        ({"experts": [LinearRegression(), *DESIGN.experts[1:]], "blocks": Blocks(burn_in=0)}, "burn_in may be 0"),
    ],
)
def test_bad_input_is_named(change, message):
    change = dict(change)
    y = change.pop("y", Y)
    arguments = {"experts": DESIGN.experts, "gate": GATE, "net": NET, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        gw.RouterAggregator(**arguments).fit(X, y)


def test_an_interrupted_fit_leaves_the_estimator_as_it_was():
    router = gw.RouterAggregator(DESIGN.experts, GATE, NET, random_state=0).fit(X, Y)
    before = router.predict(X)

    class Interrupts:
        def predict(self, X):
            raise KeyboardInterrupt

    router.experts = [Interrupts(), *DESIGN.experts[1:]]
    with pytest.raises(KeyboardInterrupt):
        router.fit(X, Y)
    np.testing.assert_array_equal(router.predict(X), before)


def test_a_wrong_readout_and_an_unfitted_router():
    router = gw.RouterAggregator(DESIGN.experts, GATE, NET)
    with pytest.raises(Exception, match="not fitted"):
        router.predict(X)
    router.fit(X, Y)
    with pytest.raises(ValueError, match="readout must be 'aggregate' or 'single'"):
        router.predict(X, readout="mean")


def test_an_update_rule_of_ones_own():
    def refit(expert, rows, y):
        return ConstantExpert(float(np.mean(y)))

    experts = [EvolvingExpert(ConstantExpert(0.0), refit), *DESIGN.experts[1:]]
    blocks = Blocks(burn_in=20, updates=5)
    router = gw.RouterAggregator(experts, GATE, NET, blocks=blocks, random_state=0).fit(X, Y)
    assert experts[0].expert == ConstantExpert(0.0)
    assert router.thinning_error_ == 0.0
    replay = forecasts_over_time(router, [ConstantExpert(0.0)], experts[1:], refit, 5, X[:10])
    check_by_hand(router, *replay, X[:10])


@pytest.mark.parametrize("net", [NET, Particles(30)], ids=["net", "particles"])
def test_several_orders_with_experts_that_evolve(net):
    experts = [RunningMean(0.0), *DESIGN.experts[1:]]
    blocks = Blocks(burn_in=20, calibration=50, updates=10, n_orders=2)
    router = gw.RouterAggregator(experts, GATE, net, SHARED, blocks=blocks, random_state=3).fit(X, Y)
    assert sum(piece.share for piece in router._router.pieces) == pytest.approx(1.0)
    np.testing.assert_allclose(router.gate_weights(X).sum(axis=1), 1.0, rtol=1e-9)
    assert np.isfinite(router.predict(X, readout="single")).all()


def test_particles_with_static_experts_over_two_orders():
    blocks = Blocks(sigma=0.5, n_orders=2)
    router = gw.RouterAggregator(DESIGN.experts, GATE, Particles(50), blocks=blocks, random_state=3).fit(X, Y)
    assert sum(piece.share for piece in router._router.pieces) == pytest.approx(1.0)
    assert router.order_.shape == (2, 150)


@pytest.mark.parametrize("net", [ListNet(all_thetas(NET)[::7]), Particles(30, radius=2.0), all_thetas(NET)[100:101]])
def test_cross_entropy_over_lists_and_particles(net):
    router = gw.RouterAggregator(DESIGN.experts, GATE, net, projection="cross_entropy", random_state=1).fit(X, Y)
    assert router.projection_.fit.converged
    assert router.theta_.shape == (2, 2)


def test_rows_in_their_own_order():
    blocks = Blocks(order="given")
    router = gw.RouterAggregator(DESIGN.experts, GATE, NET, blocks=blocks).fit(X, Y)
    np.testing.assert_array_equal(router.order_, np.arange(150))
    F = expert_matrix(DESIGN.experts, X)
    _, _, online = by_hand(router, GATE, all_thetas(NET), Gaussian(), F, np.zeros(150))
    np.testing.assert_allclose(router.online_predictions_, online, rtol=1e-9)


@pytest.mark.parametrize("net", [NET, Particles(40)], ids=["net", "particles"])
def test_equal_sample_weights_change_nothing_and_zero_leaves_rows_out(net):
    make = lambda: gw.RouterAggregator(  # noqa: E731
        DESIGN.experts, GATE, net, blocks=Blocks(order="given"), random_state=1
    )
    plain = make().fit(X, Y)
    np.testing.assert_allclose(make().fit(X, Y, np.full(150, 7.0)).predict(X), plain.predict(X), rtol=1e-9)
    weight = np.where(np.arange(150) % 3 == 0, 0.0, 2.0)
    kept = np.flatnonzero(weight)
    some, alone = make().fit(X, Y, weight), make().fit(X[kept], Y[kept])
    np.testing.assert_array_equal(some.order_, kept)
    np.testing.assert_allclose(some.predict(X), alone.predict(X), rtol=1e-9)


def test_a_sample_weight_is_a_noise_scale_of_its_row():
    """The replay by hand with the scale sigma / sqrt(w) at every row, and densities with that scale."""
    weight = np.random.default_rng(0).uniform(0.2, 3.0, size=150)
    weight /= weight.mean()
    router = gw.RouterAggregator(DESIGN.experts, GATE, NET, random_state=1).fit(X, Y, weight)
    _, n2, n3 = router.blocks_
    rows, thetas = router.order_, all_thetas(NET)
    residual = Y[rows] - np.einsum(
        "snm,nm->sn", GATE.weights(X[rows], thetas), expert_matrix(DESIGN.experts, X[rows])
    )
    sigma = np.sqrt(np.mean(weight[rows[:n2]] * residual[:, :n2] ** 2, axis=1))
    np.testing.assert_allclose(router.sigma_, sigma, rtol=1e-9)
    scale = sigma[:, None] / np.sqrt(weight[rows[n2:]])
    log_density = Gaussian().log_density(residual[:, n2:] / scale) - np.log(scale)
    weights = softmax(np.cumsum(np.column_stack([np.zeros(len(thetas)), log_density]), axis=1), axis=0)
    online = Y[rows[n2:]] - np.sum(weights[:, :-1] * residual[:, n2:], axis=0)
    np.testing.assert_allclose(router.online_predictions_, online, rtol=1e-8)
    assert n3 == 75


def test_bad_sample_weights_are_named():
    for weight in (-np.ones(150), np.eye(150)[0], np.ones(3)):
        with pytest.raises(ValueError, match="sample_weight must"):
            gw.RouterAggregator(DESIGN.experts, GATE, NET).fit(X, Y, weight)


def test_the_summary_tells_errors_one_step_ahead():
    blocks = Blocks(n_orders=2)
    named = list(zip("abc", DESIGN.experts, strict=True))
    router = gw.RouterAggregator(named, GATE, NET, SHARED, blocks=blocks, random_state=1).fit(X, Y)
    y = Y[router.order_[:, 75:]]
    forecasts = expert_matrix(DESIGN.experts, X) + expert_matrix(SHARED, X).sum(axis=1, keepdims=True)
    error = np.sqrt(np.mean((y - router.online_predictions_) ** 2))
    best = np.sqrt(np.mean((y[..., None] - forecasts[router.order_[:, 75:]]) ** 2, axis=(0, 1)))
    text = router.summary()
    assert f"router         {error:.4g}" in text
    for name, value in zip("abc", best, strict=True):
        assert f"  {name:<13}  {value:.4g}" in text
    assert "of 256 candidates are left" in text


@pytest.mark.parametrize("design", ["linear", "quadratic", "nonlinear"])
def test_the_deviation_is_that_of_new_responses(design):
    made = DESIGNS[design]
    rng = np.random.default_rng(5)
    rows, y = made.sample(800, rng)
    router = gw.RouterAggregator(made.experts, GATE, NET, random_state=0).fit(rows, y)
    fresh, response = made.sample(8000, rng)
    for readout in ("aggregate", "single"):
        prediction, deviation = router.predict(fresh, readout=readout, return_std=True)
        np.testing.assert_array_equal(prediction, router.predict(fresh, readout=readout))
        assert np.mean(((response - prediction) / deviation) ** 2) == pytest.approx(1.0, abs=0.2)
        assert deviation.shape == (8000,)
