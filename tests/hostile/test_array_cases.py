"""Bad arrays for gates, the engine, geometry, statistics and estimators."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

pd = pytest.importorskip("pandas")

import gatewise as gw
from gatewise import geometry, stats
from gatewise.aggregation import engine, net_least_squares
from gatewise.aggregation.gate_candidates import gate_candidates
from gatewise.experts import ColumnExpert
from gatewise.shared.bases import PolynomialBasis
from tests.hostile.bad_values import bad_rows, bad_vectors, NO_NUMBERS
from tests.hostile.outcomes import Case, on_the_simplex, run

RNG = np.random.default_rng(0)
X, Y, F = RNG.normal(size=(12, 2)), RNG.normal(size=12), RNG.normal(size=(12, 3))
GATES = {
    "linear": gw.LinearGate(3),
    "linear without intercept": gw.LinearGate(3, intercept=False),
    "linear Top-1": gw.LinearGate(3, k=1),
    "linear sigmoid": gw.LinearGate(3, phi="sigmoid"),
    "quadratic": gw.QuadraticGate(3),
    "quadratic Top-1": gw.QuadraticGate(3, k=1),
    "kernel": gw.KernelGate(3, mesh=1.0, low=-1.0, high=1.0),
}


def theta_of(gate, seed=0):
    shape = gate.theta_shape(2)
    theta = np.random.default_rng(seed).normal(size=shape)
    if isinstance(gate, gw.KernelGate):
        theta = np.abs(theta)
        theta /= theta.sum(axis=0)
    return theta


def gate_cases():
    for name, gate in GATES.items():
        theta = theta_of(gate)
        for what, rows in bad_rows().items():
            yield Case("gates", f"{name}.weights(X: {what})", lambda g=gate, r=rows, t=theta: g.weights(r, t), ("X",))
            yield Case("gates", f"{name}.active(X: {what})", lambda g=gate, r=rows, t=theta: g.active(r, t), ("X",))
            yield Case("gates", f"{name}.weights(theta: {what})", lambda g=gate, b=rows: g.weights(X, b), ("theta",))
        for size in (1e100, 1e200, 1e308):
            yield Case(
                "gates",
                f"{name}.weights(X of {size:g})",
                lambda g=gate, t=theta, s=size: g.weights(np.sign(X) * s, t),
                ("X",),
                on_the_simplex,
            )


def net_of(gate, count=5):
    return gate.net(thetas=np.stack([theta_of(gate, seed) for seed in range(count)]))


def engine_cases():
    """Features, responses and predictions that do not fit the candidates: compiled code must not see them."""
    for name, gate in GATES.items():
        candidates = gate_candidates(gate, net_of(gate))
        for other, wrong in GATES.items():
            if wrong.features(X).shape[1] == gate.features(X).shape[1]:
                continue
            features = wrong.features(X)
            names = ("columns", "features", "shape")
            for call, what in (
                (lambda c=candidates, f=features: engine.calibrate(c, f, Y, F, (0.1, 10.0)), "calibrate"),
                (lambda c=candidates, f=features: engine.aggregate(c, f, Y, F, 1.0), "aggregate"),
                (lambda c=candidates, f=features: engine.aggregated_gate(c, f, np.full(5, 0.2)), "aggregated_gate"),
                (lambda c=candidates, f=features: engine.project_l2(c, f, Y, F), "project_l2"),
            ):
                yield Case("engine", f"{what}({name} net, {other} features)", call, names)
            yield Case(
                "engine",
                f"net_least_squares({name}, net of {other})",
                lambda g=gate, w=wrong: net_least_squares(g, net_of(w), X, Y, F),
                ("columns", "theta", "shape", "net"),
            )
        good = gate.features(X)
        for what, rows in bad_rows().items():
            yield Case(
                "engine",
                f"{name} features: {what}",
                lambda c=candidates, r=rows: engine.calibrate(c, r, Y, F, (0.1, 10.0)),
                ("features", "columns"),
            )
            yield Case(
                "engine",
                f"{name} F: {what}",
                lambda c=candidates, g=good, r=rows: engine.calibrate(c, g, Y, r, (0.1, 10.0)),
                ("F",),
            )
        for what, values in bad_vectors().items():
            yield Case(
                "engine",
                f"{name} y: {what}",
                lambda c=candidates, g=good, v=values: engine.calibrate(c, g, v, F, (0.1, 10.0)),
                ("y", "features", "F"),
            )


def geometry_cases():
    labels = np.arange(12) % 3
    weights = np.full((12, 3), 1 / 3)
    for what, rows in bad_rows(12, 3).items():
        for name, call, names in (
            ("best_expert(losses)", lambda r=rows: geometry.best_expert(r), ("losses",)),
            ("specialization(losses)", lambda r=rows: geometry.specialization(r, weights), ("losses",)),
            ("activation(predictions)", lambda r=rows: geometry.activation(r, Y, labels), ("predictions", "y")),
            ("assignment_loss(weights)", lambda r=rows: geometry.assignment_loss(r, labels), ("weights",)),
            (
                "EstimatedRegions(X)",
                lambda r=rows: geometry.EstimatedRegions(r, np.abs(F))(X),
                ("X", "columns", "losses"),
            ),
            ("squared_losses(predictions)", lambda r=rows: geometry.squared_losses(r, Y), ("predictions",)),
        ):
            yield Case("geometry", f"{name}: {what}", call, names)
    for what, values in bad_vectors().items():
        yield Case(
            "geometry",
            f"activation(y): {what}",
            lambda v=values: geometry.activation(F, v, labels),
            ("y", "predictions"),
        )
        yield Case(
            "geometry",
            f"layer_shares(distance): {what}",
            lambda v=values: geometry.layer_shares(v, labels, [0.1]),
            ("distance", "regions"),
            (lambda shares, w=what: w == "infinity" and (shares <= 1).all()),
        )
        yield Case(
            "geometry",
            f"assignment_loss(regions): {what}",
            lambda v=values: geometry.assignment_loss(weights, v),
            ("regions",),
        )
        yield Case(
            "statistics", f"adjusted_p_values: {what}", lambda v=values: stats.adjusted_p_values(v), ("p_values",)
        )
    for name, call, words in (
        ("adjusted_p_values([-1, .5])", lambda: stats.adjusted_p_values([-1.0, 0.5]), "p_values"),
        ("adjusted_p_values([2])", lambda: stats.adjusted_p_values([2.0]), "p_values"),
        ("mean_interval(level=2)", lambda: stats.mean_interval(Y, level=2), "level"),
        ("mean_interval(level=-1)", lambda: stats.mean_interval(Y, level=-1), "level"),
        ("best_mixtures(k_max=0)", lambda: geometry.best_mixtures(np.eye(3), 0), "k_max"),
        ("best_mixtures(k_max=9)", lambda: geometry.best_mixtures(np.eye(3), 9), "k_max"),
        ("layer_shares(radii=-1)", lambda: geometry.layer_shares(np.abs(Y), labels, [-1.0]), "radii"),
        ("layer_shares(label of 1e9)", lambda: geometry.layer_shares(np.abs(Y), labels + 10**9, [0.1]), "regions"),
        ("assignment_loss off the simplex", lambda: geometry.assignment_loss(2 * weights, labels), "weights"),
        ("EstimatedRegions at 1e300", lambda: geometry.EstimatedRegions(X * 1e300, np.abs(F))(X), "X"),
        ("activation in units of 1e140", lambda: geometry.activation(F * 1e140, Y * 1e140, labels), "predictions"),
        ("PolynomialBasis(-1)", lambda: PolynomialBasis(-1).transform(X), "degree"),
        ("KernelGate off the simplex", lambda: net_least_squares(GATES["kernel"], kernel_off(), X, Y, F), "theta"),
    ):
        yield Case("geometry", name, call, (words,))


def kernel_off():
    thetas = np.stack([theta_of(GATES["kernel"], seed) for seed in range(3)])
    thetas[2] *= 2
    return GATES["kernel"].net(thetas=thetas)


class Failing:
    """An expert that fails in one of several ways."""

    def __init__(self, way="raise"):
        self.way = way

    def get_params(self, deep=True):
        return {"way": self.way}

    def set_params(self, **params):
        vars(self).update(params)
        return self

    def fit(self, X, y):
        if self.way == "raise":
            raise KeyError("no such thing")
        return self

    def predict(self, X):
        n = len(X)
        return {
            "nan": np.full(n, np.nan), "short": np.zeros(n - 1), "text": np.full(n, "a"), "wide": np.zeros((n, 2)),
            "none": None, "complex": np.full(n, 1j), "inf": np.full(n, np.inf),
        }[self.way]  # fmt: skip


def estimator_cases():
    from sklearn.linear_model import LinearRegression

    rows, y = RNG.normal(size=(40, 2)), RNG.normal(size=40)
    line, first = LinearRegression(), ColumnExpert(0)

    def fit(rows=rows, y=y, experts=(line, first), weight=None, **parameters):
        return gw.MoERegressor(list(experts), **parameters).fit(rows, y, sample_weight=weight)

    for what, bad in bad_rows(40).items():
        if what == "NaN":
            continue  # experts may take missing values
        yield Case(
            "MoERegressor",
            f"X: {what}",
            lambda b=bad: fit(b),
            ("X", "array", "dimension", "1D", "scalar", "feature", "DataFrame", "float() argument"),
        )
    for what, bad in bad_vectors(40).items():
        yield Case("MoERegressor", f"y: {what}", lambda b=bad: fit(y=b), ("y", "target"))
        if what != "nothing":
            yield Case("MoERegressor", f"sample_weight: {what}", lambda b=bad: fit(weight=b), ("sample_weight",))
    for size in (1e160, 1e308):
        yield Case("MoERegressor", f"X of {size:g}", lambda s=size: fit(np.sign(rows) * s), ("X",))
        yield Case("MoERegressor", f"y of {size:g}", lambda s=size: fit(y=np.sign(y) * s), ("y",))
    for way in ("raise", "nan", "short", "text", "wide", "none", "complex", "inf"):
        yield Case(
            "MoERegressor",
            f"an expert that gives {way}",
            lambda w=way: fit(experts=[line, ("bad", Failing(w))]),
            ("'bad'",),
        )
    for name, parameters, words in (
        ("a classifier", {"experts": [line, ("logit", LogisticRegression())]}, "'logit'"),
        ("no experts", {"experts": []}, "experts"),
        ("a class as expert", {"experts": [LinearRegression]}, "experts"),
        ("a number as expert", {"experts": [3]}, "experts"),
        ("two of a name", {"experts": [("a", line), ("a", line)]}, "'a'"),
        ("a column that is not there", {"experts": [line, ("c", ColumnExpert("zz"))]}, "zz"),
        ("a column beyond the end", {"experts": [line, ("c", ColumnExpert(7))]}, "7"),
        ("600 experts", {"experts": [(f"e{i}", line) for i in range(600)]}, "experts"),
        ("gates='round'", {"gates": "round"}, "gates"),
        ("gates=None", {"gates": None}, "gates"),
        ("gates of other experts", {"gates": [gw.LinearGate(7)]}, "gates"),
        ("k=0", {"k": 0}, "k"),
        ("k=9", {"k": 9}, "k"),
        ("k='many'", {"k": "many"}, "k"),
        ("cv=1", {"cv": 1}, "n_splits"),
        ("cv with rows out of range", {"cv": [(np.arange(30), np.arange(30, 50))]}, "cv"),
        ("cv with rows in both parts", {"cv": [(np.arange(30), np.arange(20, 40))]}, "cv"),
        ("cv without splits", {"cv": []}, "cv"),
        ("settings='fast'", {"settings": "fast"}, "settings"),
    ):
        yield Case("MoERegressor", name, lambda p=parameters: fit(**p), (words,))
    gate = gw.LinearGate(2)
    for model in (
        gw.MoERegressor([line, line]),
        gw.MoEClassifier([LogisticRegression()] * 2),
        gw.GateSelector([("a", line), ("b", line)]),
        gw.RouterAggregator(sines(), gate, gate.net([0.0, 1.0], d=2)),
        gw.GateRegressor(sines(), gate),
        gw.SharedRoutedRegressor(),
    ):
        for what, (bad, response) in {
            "X": (rows + 1j, y),
            "X in lists": ((rows + 1j).tolist(), y),
            "X in a frame": (pd.DataFrame(rows + 1j), y),
            "y": (rows, y + 1j),
        }.items():
            name = f"complex {what} for {type(model).__name__}"
            words = (f"{what[0]} must hold real numbers",)
            yield Case("estimators", name, lambda m=model, b=bad, r=response: m.fit(b, r), words)
    for name, call, words in (
        ("RouterAggregator gate=None", lambda: gw.RouterAggregator([line, line], None, None).fit(rows, y), "gate"),
        ("RouterAggregator random_state='a'", lambda: router(gate, random_state="a").fit(rows, y), "random_state"),
        (
            "RouterAggregator blocks={}",
            lambda: gw.RouterAggregator(sines(), gate, gate.net([0.0, 1.0], d=2), blocks={}).fit(rows, y),
            "blocks",
        ),
        (
            "SharedRoutedRegressor region 1e9",
            lambda: gw.SharedRoutedRegressor(PolynomialBasis(1), None, lambda X: np.full(len(X), 10**9)).fit(rows, y),
            "partition",
        ),
        (
            "MoEClassifier random_state='a'",
            lambda: gw.MoEClassifier([LogisticRegression()] * 2, random_state="a").fit(rows, y > np.median(y)),
            "random_state",
        ),
        (
            "GateRegressor random_state='a'",
            lambda: gw.GateRegressor(sines(), gate, random_state="a").fit(rows, y),
            "random_state",
        ),
        (
            "RouterAggregator net of another gate",
            lambda: router(gate, gw.LinearGate(2, intercept=False).net([0.0, 1.0], d=2)).fit(rows, y),
            "theta",
        ),
        ("n_experts=1", lambda: gw.LinearGate(1), "n_experts"),
        ("n_experts='a'", lambda: gw.LinearGate("a"), "n_experts"),
        ("k=0 of a gate", lambda: gw.LinearGate(3, k=0), "k"),
        ("phi='round'", lambda: gw.LinearGate(3, phi="round"), "phi"),
        ("mesh=0", lambda: gw.KernelGate(3, mesh=0.0), "mesh"),
        ("net without values", gate.net, "net"),
        ("net eta=0", lambda: gate.net(eta=0.0, radius=1.0, d=2), "eta"),
        ("MoESettings(rate='a')", lambda: gw.MoESettings(rate="a"), "rate"),
        ("MoESettings(spreads=())", lambda: gw.MoESettings(spreads=()), "spreads"),
        ("MoESettings(noise='pink')", lambda: gw.MoESettings(noise="pink"), "noise"),
    ):
        yield Case("estimators", name, call, (words,))


def score_router_cases():
    """Queries may be of any kind, with gaps; scores and costs are numbers, and NaN in scores is a gap."""
    rows, scores = RNG.normal(size=(60, 2)), RNG.uniform(size=(60, 2))
    readable = ("NaN", "infinity", "dates", "durations", "text", "objects")

    def weights(rows=rows, scores=scores, costs=None, propensity=None, price=0.0):
        return gw.ScoreRouter(random_state=0).fit(rows, scores, costs, propensity).gate_weights(rows, price)

    for what, bad in bad_rows(60).items():
        answer = on_the_simplex if what in readable else False
        yield Case("ScoreRouter", f"X: {what}", lambda b=bad: weights(b), ("X",), answer)
        answer = on_the_simplex if what == "NaN" else False
        yield Case("ScoreRouter", f"scores: {what}", lambda b=bad: weights(scores=b), ("scores",), answer)
        answer = on_the_simplex if what == "nothing" else False
        costs = np.abs(bad) if what in ("NaN", "infinity", "masked") else bad
        yield Case("ScoreRouter", f"costs: {what}", lambda c=costs: weights(costs=c), ("costs",), answer)
    gaps = np.where(RNG.uniform(size=scores.shape) < 0.2, np.nan, scores)
    for what, bad in bad_vectors(2).items():
        answer = on_the_simplex if what == "nothing" else False
        yield Case(
            "ScoreRouter",
            f"propensity: {what}",
            lambda b=bad: weights(scores=gaps, propensity=b),
            ("propensity",),
            answer,
        )
    for what, bad in (NO_NUMBERS | {"minus one": -1, "infinity": float("inf")}).items():
        yield Case("ScoreRouter", f"price: {what}", lambda b=bad: weights(price=b), ("price",))
    mixed = pd.DataFrame({"a": rows[:, 0], "b": [1j, *rows[1:, 1]]}, dtype=object)
    for name, call, words in (
        ("one complex query", lambda: weights(mixed), "column b of X must hold real numbers"),
        ("X of 1e308", lambda: weights(np.sign(rows) * 1e308), "X must not exceed"),
        ("X of 1e308 and infinity", lambda: weights(np.where(rows > 1, np.inf, 1e308)), "X must not exceed"),
        ("complex X later", lambda: fitted_route(rows, scores).gate_weights(rows + 1j), "real numbers"),
        (
            "X of other columns later",
            lambda: fitted_route(rows, scores).gate_weights(rows[:, :1]),
            "X must have the 2",
        ),
        ("two queries", lambda: weights(rows[:2], scores[:2]), "X"),
        ("one model", lambda: weights(scores=scores[:, :1]), "scores"),
        ("a model that was never tried", lambda: weights(scores=scores * [1.0, np.nan]), "scores"),
    ):
        yield Case("ScoreRouter", name, call, (words,))


def fitted_route(rows, scores):
    return gw.ScoreRouter(random_state=0).fit(rows, scores)


def sines():
    return [lambda X: X[:, 0], lambda X: -X[:, 0]]


def router(gate, net=None, **parameters):
    return gw.RouterAggregator(sines(), gate, gate.net([0.0, 1.0], d=2) if net is None else net, **parameters)


GROUPS = {
    "gates": gate_cases,
    "engine": engine_cases,
    "geometry": geometry_cases,
    "estimators": estimator_cases,
    "score router": score_router_cases,
}


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_bad_arrays(group):
    outcomes = {case.name: run(case) for case in GROUPS[group]()}
    assert {name: outcome for name, outcome in outcomes.items() if outcome not in ("right", "clear")} == {}


def test_a_few_of_each_group():
    """One case in forty, so that the quick tests know the suite."""
    for group, make in GROUPS.items():
        for case in list(make())[::40]:
            assert run(case) in ("right", "clear"), (group, case.name)
