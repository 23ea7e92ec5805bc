"""From the aggregate to one gate: KL against L2, the cross-entropy fit, its risk as a predictor, least squares."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr

from gatewise import theory
from gatewise.aggregation import Blocks, cross_entropy_fit, least_squares, net_least_squares
from gatewise.arrays import Floats
from gatewise.estimators import RouterAggregator
from gatewise.gates import LinearGate
from gatewise.paper.verify.check import Check, CheckOutcome, fitted_constant, held_out_ratio, slope
from gatewise.paper.verify.oracle_runs import MovingExpert, OracleDesign
from gatewise.solvers.cross_entropy import cross_entropy

NODES = (np.arange(64) + 0.5) / 64  # midpoints of [0, 1], where X is uniform
SIGMA, RADIUS = 0.3, 3.0


def divergence(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Kullback-Leibler divergence over squared distance for random weights whose second vector is at least s."""
    low, high = np.inf, 0.0
    for M in (2, 3, 8):
        for trial in range(500 if quick else 10_000):
            p, q = rng.dirichlet(np.full(M, 0.5)), rng.dirichlet(np.full(M, 5.0))
            p = q + (p - q) * rng.uniform() ** 3
            if trial == 0:  # a vertex against the centre, where the upper constant is reached for M = 2
                p, q = np.eye(M)[0], np.full(M, 1 / M)
            square = float(((p - q) ** 2).sum())
            if square < 1e-10:
                continue
            theta = np.log(q[:-1] / q[-1])[:, None]
            divergence = cross_entropy(theta, np.ones((1, 1)), p[None])[0] - float(entr(p).sum())
            low, high = min(low, divergence / square), max(high, divergence * float(q.min()) / square)
    figure = (
        f"KL / |p - q|^2 at least {low:.4f}: sharp 1, stated 1/2; "
        f"s KL / |p - q|^2 at most {high:.4f}: sharp log 2, stated 1"
    )
    return CheckOutcome(figure, 1 <= low + 1e-9 < 1.1 and abs(high - np.log(2)) < 1e-6)


def _mixing_gates(rng: np.random.Generator) -> Callable[[Floats], Floats]:
    """A time mean of aggregated gates: sum over t and s of weights times softmax gates, x -> (n, 3)."""
    thetas, weights = rng.uniform(-2, 2, size=(12, 2, 2)), rng.dirichlet(np.full(12, 0.3), size=30)
    return lambda x: LinearGate(3).mean_weights(x[:, None], thetas, weights.mean(axis=0))


def gate_estimation(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The cross-entropy gate's squared error in the weights against the least possible, and its variance over n."""
    sizes, reps = np.array([25, 50, 100, 200, 400, 800]), 20 if quick else 150
    variance, worst, gate = np.zeros((reps, sizes.size)), 0.0, LinearGate(3)
    for row in range(reps):
        target = _mixing_gates(rng)
        wanted = target(NODES)

        def error(theta: Floats, wanted: Floats = wanted) -> float:
            weights = gate.weights(NODES[:, None], theta.reshape(2, 2))
            return float(((weights - wanted) ** 2).sum(axis=1).mean())

        limit = cross_entropy_fit(gate, NODES[:, None], wanted, radius=20.0).theta
        for column, m in enumerate(sizes):
            x = NODES[rng.integers(NODES.size, size=m)]
            theta = cross_entropy_fit(gate, x[:, None], target(x), radius=20.0).theta
            moved = gate.weights(NODES[:, None], theta) - gate.weights(NODES[:, None], limit)
            variance[row, column] = (moved**2).sum(axis=1).mean()
        if row < 5:
            nearest = minimize(error, limit.ravel(), method="Nelder-Mead", tol=1e-9)
            least = float(gate.weights(NODES[:, None], nearest.x.reshape(2, 2)).min())
            worst = max(worst, error(theta) * least / (2 * float(nearest.fun)))  # at the largest sample
    ratio = held_out_ratio(variance.mean(axis=0), np.log(sizes) / sizes)
    figure = (
        f"error / (2/s x least) up to {worst:.3f} at n = 800; "
        f"variance on larger n {ratio:.2f} x log n/n from smaller n"
    )
    return CheckOutcome(figure, worst <= 1 and 0.3 <= ratio <= 1.2)


def _three_experts(size: Callable[[int], float] | None = None) -> OracleDesign:
    """Three experts whose differences show, a truth inside the class; with ``size``, experts that are off by a_t."""
    gate, theta = LinearGate(3), np.array([[1.5, 0.3], [-1.2, 0.4]])
    targets: list[Callable[[Floats], Floats]] = [
        lambda X: 1.0 + 0.3 * X[:, 0],
        lambda X: -1.0 + 0.5 * X[:, 0] ** 2,
        lambda X: 0.5 * np.sin(4.0 * X[:, 0]),
    ]

    def truth(X: Floats) -> Floats:
        F = np.column_stack([target(X) for target in targets])
        return np.asarray((gate.weights(X, theta) * F).sum(axis=1))

    experts = targets if size is None else [MovingExpert(target, _ripple, size) for target in targets]
    return OracleDesign(gate, 1, experts, truth, SIGMA)


def _ripple(X: Floats) -> Floats:
    """A function of mean square 1 that no smooth gate over these experts follows."""
    return np.asarray(np.sqrt(2) * np.sin(8 * np.pi * X[:, 0]))


def fixed_experts(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The predictor behind the cross-entropy gate, over n and along experts that are off by a: risk over the law."""
    sizes, reps, risks, laws = (200, 400, 800) if quick else (200, 400, 800, 1600), 20 if quick else 40, [], []
    net = LinearGate(3).net(np.linspace(-RADIUS, RADIUS, 9), d=1)
    for a in (0.0, 0.15):
        design = _three_experts(None if a == 0 else np.full(max(sizes) + 1, a).item)
        for n in sizes:
            blocks = Blocks(burn_in=0, updates=None if a == 0 else n // 4)
            done = design.mean_risks(
                reps if a == 0 else reps // 6, n, net, rng, projection="cross_entropy", blocks=blocks
            )
            risks.append(done.single)
            laws.append(theory.fixed_experts_risk(0.0, n, a**2 / SIGMA**2) * SIGMA**2)
    constant, rate = fitted_constant(risks, laws), slope(sizes, risks[: len(sizes)])
    figure = (
        f"C = {constant.value:.2f}, spread {constant.spread:.2f}; exponent in n {rate:.2f} where experts are known"
    )
    return CheckOutcome(figure, constant.value <= 4 and constant.spread <= 4 and rate < -0.4)


def convex_projection(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The projection by cross-entropy is convex: its certificate against a thousand other gates and many steps aside.

    The loss is linear in the labels, so the time-expanded loss must be the loss at the time-averaged gate.
    """
    below, apart, gate, X = np.inf, 0.0, LinearGate(3), NODES[:, None]
    features = gate.features(X)
    for _ in range(3 if quick else 20):
        thetas, weights = rng.uniform(-2, 2, (12, 2, 2)), rng.dirichlet(np.full(12, 0.3), size=30)
        labels = np.einsum("ts,snm->tnm", weights, gate.weights(X, thetas))
        fit = cross_entropy_fit(gate, X, labels.mean(axis=0), RADIUS)
        others = np.concatenate(
            [rng.uniform(-RADIUS, RADIUS, (300, 2, 2)), fit.theta + 1e-3 * rng.normal(size=(300, 2, 2))]
        )
        values = [
            cross_entropy(theta, features, labels.mean(axis=0))[0] for theta in np.clip(others, -RADIUS, RADIUS)
        ]
        below = min(below, min(values) - (fit.objective - fit.gap))
        expanded = np.mean([cross_entropy(fit.theta, features, label)[0] for label in labels])
        apart = max(apart, abs(float(expanded) - fit.objective), 0.0 if fit.converged else np.inf)
    design, n = _three_experts(), 400
    x = rng.uniform(-1, 1, (n, 1))
    router = RouterAggregator(
        design.experts,
        gate,
        gate.net(np.linspace(-RADIUS, RADIUS, 9), d=1),
        projection="cross_entropy",
        random_state=0,
    ).fit(x, design.truth(x) + SIGMA * rng.normal(size=n))
    report: Any = router.projection_
    figure = (
        f"no gate below the certified minimum (by {below:.1e}); time-expanded loss off by {apart:.0e}; "
        f"router's gap {report.fit.gap:.0e}, compatibility {report.compatibility.smallest_ratio:.3f}"
    )
    held = below >= 0 and apart < 1e-9 and report.fit.converged and report.compatibility.smallest_ratio > 0
    return CheckOutcome(figure, bool(held))


def empirical_risk(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Least squares over a net and over the box: the excess risk over sqrt(M d log(M d n) / n), and its own exponent.

    ``uniform`` is the largest deviation over the net of the empirical from the mean squared loss, the proof's step.
    """
    sizes, reps = np.array([100, 200, 400, 800, 1600]), 20 if quick else 150
    gate, theta, F = LinearGate(2), np.array([[1.1, -0.4]]), np.array([1.0, -1.0])
    net = gate.net(eta=0.35, radius=2.0, d=1)
    curves = gate.weights(NODES[:, None], np.concatenate(list(net.blocks()))) @ F
    truth = gate.weights(NODES[:, None], theta) @ F
    risk = ((curves - truth) ** 2).mean(axis=1)
    uniform, excess = np.zeros((reps, sizes.size)), np.zeros((2, reps, sizes.size))
    for row in range(reps):
        for column, n in enumerate(sizes):
            bins, noise = rng.integers(64, size=n), SIGMA * rng.normal(size=n)
            X, y, rows = NODES[bins][:, None], truth[bins] + noise, np.tile(F, (n, 1))
            mse = ((y - curves[:, bins]) ** 2).mean(axis=1)
            uniform[row, column] = np.abs(mse - risk - SIGMA**2).max()
            found = net_least_squares(gate, net, X, y, rows)
            free = least_squares(gate, X, y, rows, radius=3.0, n_starts=3, rng=0)
            away = float(((gate.weights(NODES[:, None], free.theta) @ F - truth) ** 2).mean())
            excess[:, row, column] = float(risk[found.candidate] - risk.min()), away
    rate, fast = slope(sizes, uniform.mean(axis=0)), slope(sizes, excess[1].mean(axis=0))
    laws = [theory.erm_cost(2, 1, int(n)) for n in sizes]
    largest = float((np.quantile(excess, 0.95, axis=1) / laws).max())
    figure = (
        f"exponents: uniform deviation {rate:.3f}, excess over the box {fast:.2f}; "
        f"95 % of the excesses below {largest:.3f} of the law"
    )
    return CheckOutcome(figure, abs(rate + 0.5) < 0.1 and abs(fast + 1) < 0.2 and largest <= 0.1)


CHECKS = (
    Check(
        "lem:supp-kl-l2-weight-comparison",
        "KL over squared distance of weights",
        "between 1/2 and 1/s; sharp 1 and (log 2)/s",
        divergence,
    ),
    Check(
        "lem:supp-ce-weight-estimator",
        "gates fitted by cross-entropy",
        "<= 2/s least; variance log n/n, C from half",
        gate_estimation,
    ),
    Check(
        "remark:fixedM",
        "certificate of the convex projection",
        "no gate below it; loss linear in labels",
        convex_projection,
    ),
    Check(
        "prop:supp-fixed-mr-ce",
        "risk behind the cross-entropy gate, n and a",
        "C and spread <= 4 for a^2 + sigma^2 log n/n; n^-0.4 or faster",
        fixed_experts,
        cost=4.0,
    ),
    Check(
        "prop:supp-erm-subgaussian",
        "least squares over a net and over the box",
        "deviation n^-1/2 +- 0.1; excess <= 0.1 law, itself n^-1 +- 0.2",
        empirical_risk,
        cost=2.0,
    ),
)
