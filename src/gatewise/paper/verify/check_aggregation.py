"""Sections 3 and A checked piece by piece: AFTER, scale calibration, moving experts, cross-entropy, concentration."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from gatewise import theory
from gatewise.aggregation import after
from gatewise.aggregation.scales import clipped_scale
from gatewise.arrays import Floats
from gatewise.gates import LinearGate
from gatewise.paper.verify.check import Check, CheckOutcome, held_out_ratio, slope

NODES = (np.arange(64) + 0.5) / 64  # midpoints of [0, 1], where X is uniform


def _waves(rng: np.random.Generator, count: int) -> Callable[[Floats], Floats]:
    """count random functions on [0, 1], bounded by one: a map x -> (count, len(x))."""
    phase, order = rng.uniform(0, 2 * np.pi, count), rng.uniform(0.5, 3, count)
    return lambda x: np.sin(order[:, None] * 2 * np.pi * x + phase[:, None])


def after_oracle(rng: np.random.Generator, quick: bool, weigh: Callable[[Floats], Floats] = after) -> CheckOutcome:
    """Random forecasts: AFTER's log loss against the best forecast's, and its risk against the explicit bound."""
    S, n, noise, worst, risks, bounds = 30, 300, 0.7, -np.inf, [], []
    for _ in range(20 if quick else 200):
        forecasts, truth = _waves(rng, S), _waves(rng, 1)
        x = rng.uniform(size=n)
        y = truth(x)[0] + noise * rng.normal(size=n)
        log_density = -0.5 * ((y[:, None] - forecasts(x).T) / noise) ** 2
        weights = weigh(log_density)[:-1]  # those that predict: row t before observation t
        loss = -logsumexp(log_density, axis=1, b=np.maximum(weights, 1e-300))
        worst = max(worst, float(loss.sum() + log_density.sum(axis=0).max() - np.log(S)))
        errors = forecasts(NODES) - truth(NODES)
        risks.append(float(((weights @ errors) ** 2).mean()))
        best = float((errors**2).mean(axis=1).min())
        bounds.append(theory.after_risk(best, np.log(S), n, noise, 1.0))
    ratio = float(np.mean(risks) / np.mean(bounds))
    figure = f"largest regret - log S {worst:.4f}; mean risk / explicit bound {ratio:.3f}"
    return CheckOutcome(figure, worst <= 1e-9 and ratio <= 1)


def scale_calibration(
    rng: np.random.Generator, quick: bool, estimate: Callable[[Floats, float, float], Floats] = clipped_scale
) -> CheckOutcome:
    """The mean squared error of the calibrated scale over block sizes and biases of the forecast."""
    sigma, reps, ratios, exact = 1.0, 400 if quick else 4000, [], []
    sizes = np.array([25, 50, 100, 200, 400])
    for bias in (0.0, 0.2, 0.5):
        for m in sizes:
            residuals = sigma * rng.normal(size=(reps, m)) + bias * np.sign(rng.normal(size=(reps, m)))
            error = float(((estimate(residuals.T, 0.5, 2.0) - sigma) ** 2).mean())
            # (a + b + c)^2 <= 3 (a^2 + b^2 + c^2) for the proof's three terms; roots differ by squares / (2 x 0.5)
            bound = 3 / (4 * 0.5**2) * (2 * sigma**4 / m + 4 * sigma**2 * bias**2 / m + bias**4)
            ratios.append(error / bound)
            exact.extend([error] if bias == 0 else [])
    rate = slope(sizes, exact)
    figure = f"exponent {rate:.3f} where the forecast is exact; largest error / explicit bound {max(ratios):.3f}"
    return CheckOutcome(figure, abs(rate + 1) < 0.15 and max(ratios) <= 1)


def moving_experts(rng: np.random.Generator, quick: bool, factor: float = 1.0) -> CheckOutcome:
    """Checks that when experts change, no gate's predictor changes by more than the sum of the experts' changes.

    All changes are mean squares. One gate reaches the sum, so the bound cannot be improved to their mean.
    """
    largest = 0.0
    for M in (2, 4, 8, 16):
        cell = np.minimum((NODES * M).astype(int), M - 1)
        own = np.where(cell == np.arange(M)[:, None], rng.uniform(0.5, 1.0, (M, 1)), 0.0)
        for shift in (own, rng.normal(size=(M, NODES.size))):
            total = factor * float((shift**2).mean(axis=1).sum())
            centers = (np.arange(M) + 0.5) / M
            sharp = np.column_stack([2 * centers, -(centers**2)])  # Top-1 by nearest centre
            thetas = np.concatenate(
                [[sharp[:-1] - sharp[-1]], rng.normal(scale=3, size=(50 if quick else 500, M - 1, 2))]
            )
            for k in (1, None):
                moved = np.einsum("snm,mn->sn", LinearGate(M, k=k).weights(NODES[:, None], thetas), shift)
                largest = max(largest, float((moved**2).mean(axis=1).max()) / total)
    return CheckOutcome(f"largest shift / sum of shifts {largest:.6f}, reached", 0.99 < largest <= 1 + 1e-9)


def divergence(rng: np.random.Generator, quick: bool, factor: float = 0.5) -> CheckOutcome:
    """Kullback-Leibler divergence over squared distance for random weights whose second vector is at least s."""
    low, high = np.inf, 0.0
    for M in (2, 3, 8):
        for _ in range(2000 if quick else 50_000):
            p, q = rng.dirichlet(np.full(M, 0.5)), rng.dirichlet(np.full(M, 5.0))
            p = q + (p - q) * rng.uniform() ** 3
            square = float(((p - q) ** 2).sum())
            if square < 1e-10:
                continue
            ratio = float((p * np.log(np.maximum(p, 1e-300) / q)).sum()) / square
            low, high = min(low, ratio), max(high, ratio * float(q.min()))
    figure = f"KL / |p - q|^2 at least {low:.4f} (so 1/2 may be 1), s KL / |p - q|^2 at most {high:.4f}"
    return CheckOutcome(figure, low >= factor and high <= 1)


def _cross_entropy(features: Floats, labels: Floats) -> Floats:
    """The softmax gate with least cross-entropy to soft labels, theta (M-1, p): a convex problem, by Newton steps."""
    M, p = labels.shape[1], features.shape[1]
    theta = np.zeros((M - 1, p))
    for _ in range(20):
        weights = softmax(np.column_stack([features @ theta.T, np.zeros(len(features))]), axis=1)[:, :-1]
        gradient = (weights - labels[:, :-1]).T @ features / len(features)
        curvature = np.einsum("nm,mk->nmk", weights, np.eye(M - 1)) - weights[:, :, None] * weights[:, None, :]
        hessian = np.einsum("nmk,ni,nj->mikj", curvature, features, features) / len(features)
        step = np.linalg.solve(hessian.reshape(2 * [gradient.size]) + 1e-12 * np.eye(gradient.size), gradient.ravel())
        theta = theta - step.reshape(theta.shape)
    return theta


def _mixing_gates(rng: np.random.Generator) -> Callable[[Floats], Floats]:
    """A time mean of aggregated gates: sum over t and s of weights times softmax gates, x -> (n, 3)."""
    thetas, weights = rng.uniform(-2, 2, size=(12, 2, 2)), rng.dirichlet(np.full(12, 0.3), size=30)
    return lambda x: np.einsum("s,snm->nm", weights.mean(axis=0), LinearGate(3).weights(x[:, None], thetas))


def cross_entropy(
    rng: np.random.Generator, quick: bool, fit: Callable[[Floats, Floats], Floats] = _cross_entropy
) -> CheckOutcome:
    """The cross-entropy gate's squared error in the weights against the least possible, and its variance over n."""
    sizes, reps = np.array([25, 50, 100, 200, 400, 800]), 25 if quick else 200
    variance, worst, gate = np.zeros((reps, sizes.size)), 0.0, LinearGate(3)
    fine = np.column_stack([NODES, np.ones(NODES.size)])
    for row in range(reps):
        target = _mixing_gates(rng)
        wanted = target(NODES)

        def error(theta: Floats, wanted: Floats = wanted) -> float:
            weights = gate.weights(NODES[:, None], theta.reshape(2, 2))
            return float(((weights - wanted) ** 2).sum(axis=1).mean())

        limit = _cross_entropy(fine, wanted)
        found = 0.0
        for column, m in enumerate(sizes):
            x = NODES[rng.integers(NODES.size, size=m)]
            theta = fit(np.column_stack([x, np.ones(m)]), target(x))
            found = error(theta)
            moved = gate.weights(NODES[:, None], theta) - gate.weights(NODES[:, None], limit)
            variance[row, column] = (moved**2).sum(axis=1).mean()
        if row >= 5:
            continue
        nearest = minimize(error, limit.ravel(), method="Nelder-Mead", tol=1e-9)
        least = float(gate.weights(NODES[:, None], nearest.x.reshape(2, 2)).min())
        worst = max(worst, found * least / (2 * float(nearest.fun)))  # at the largest sample
    ratio = held_out_ratio(variance.mean(axis=0), np.log(sizes) / sizes)
    figure = (
        f"error / (2/s x least) up to {worst:.3f} at n = 800; "
        f"variance on larger n {ratio:.2f} x log n/n from smaller n"
    )
    return CheckOutcome(figure, worst <= 1 and ratio <= 1.2)


def concentration(rng: np.random.Generator, quick: bool, used: Callable[[int], int] = lambda n: n) -> CheckOutcome:
    """sup over a net of |empirical - mean squared loss| over n, and the excess risk of the empirical minimiser."""
    sizes, reps, noise = np.array([100, 200, 400, 800, 1600]), 60 if quick else 400, 0.5
    thetas = rng.uniform(-2, 2, size=(300, 1, 2))
    sign, truth = np.array([1.0, -1.0]), np.array([[1.1, -0.4]])
    curves = (
        LinearGate(2).weights(NODES[:, None], thetas) @ sign - LinearGate(2).weights(NODES[:, None], truth) @ sign
    )
    risk = (curves**2).mean(axis=1) + noise**2
    deviation, excess = np.zeros((reps, sizes.size)), np.zeros((reps, sizes.size))
    for row in range(reps):
        for column, n in enumerate(sizes):
            bins, errors = rng.integers(64, size=used(n)), noise * rng.normal(size=used(n))
            empirical = ((errors - curves[:, bins]) ** 2).mean(axis=1)
            deviation[row, column] = np.abs(empirical - risk).max()
            excess[row, column] = risk[np.argmin(empirical)] - risk.min()
    rate = slope(sizes, deviation.mean(axis=0))
    fast = slope(sizes, excess.mean(axis=0) + 1e-12)
    costs = [theory.erm_cost(2, 1, int(n)) > theory.dense_cost(2, 1, int(n)) for n in sizes]
    figure = f"exponent of the uniform deviation {rate:.3f}; of the minimiser's own excess {fast:.2f}"
    return CheckOutcome(figure, abs(rate + 0.5) < 0.08 and all(costs))


CHECKS = (
    Check(
        "prop:risk_AFTER",
        "regret and risk on random forecasts",
        "regret <= log S; risk <= explicit bound",
        after_oracle,
    ),
    Check(
        "lemma:remove_scale_estimation",
        "error of the calibrated scale",
        "n^-1 +- 0.15; <= explicit bound",
        scale_calibration,
    ),
    Check(
        "lem:supp-evolving-population-comparator",
        "shift of predictors by moving experts",
        "<= sum over experts, reached",
        moving_experts,
    ),
    Check(
        "lem:supp-kl-l2-weight-comparison", "KL over squared distance of weights", "between 1/2 and 1/s", divergence
    ),
    Check(
        "remark:fixedM", "gates fitted by cross-entropy", "<= 2/s least; variance log n/n, C from half", cross_entropy
    ),
    Check("prop:supp-erm-subgaussian", "uniform deviation of the squared loss", "n^-1/2 +- 0.08", concentration),
)
