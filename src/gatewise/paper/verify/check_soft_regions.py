"""Dense softmax on linearly separable regions: how near it comes to hard and to mixed assignments over M.

M may be as large as 10^96: the idle experts, which have one score, are taken as one, whose intercept is higher by the
log of their number.
"""

import numpy as np

from gatewise import theory
from gatewise.arrays import Floats
from gatewise.experts import ConstantExpert
from gatewise.gates import LinearGate
from gatewise.geometry import assignment_loss, soft_mixture_gate, soft_region_gate
from gatewise.mixture import MixtureOfExperts
from gatewise.paper.verify.check import Check, CheckOutcome, slope
from gatewise.paper.verify.check_routing import REGIONS

INPUT_NORM, BOX = np.sqrt(3.0), 3.0
LONGEST = float(np.linalg.norm(REGIONS, axis=1).max())  # the paper has max |v_r| = 1
LOGS = np.log(10.0) * np.array([3, 6, 12, 24, 48, 96])


def _margin_density(probability: Floats) -> float:
    """A bound on the margins' densities: a.x + b has density at most 1 / (sqrt(2) |a|) on the square."""
    gaps = np.linalg.norm(REGIONS[:, None, :2] - REGIONS[None, :, :2], axis=2) / LONGEST
    forms = np.where(gaps > 0, 1 / (np.sqrt(2) * np.where(gaps > 0, gaps, 1.0)), 0.0).sum(axis=1)
    return float((forms / probability).max())


def _parameters(log_m: float, ratios: Floats, n_idle: int | None = None) -> Floats:
    """The proofs' gate, (named, 3): each region's experts at the given ratios (3, c), relative to the idle ones.

    They have the score -C log M each; their number is M unless given.
    """
    t = BOX * log_m / (4 * INPUT_NORM)
    named = np.repeat(t * (REGIONS - REGIONS[2]) / LONGEST, ratios.shape[1], axis=0)
    named[:, 2] += (
        np.log(ratios / ratios[:, [-1]]).ravel() + BOX * log_m - (log_m if n_idle is None else np.log(n_idle))
    )
    return named


def _over_m(rng: np.random.Generator, quick: bool, ratios: Floats) -> tuple[Floats, Floats, float]:
    """Losses of gates and squared errors of predictors behind them over M, and a bound on the margins' density."""
    X = rng.uniform(-1, 1, size=(20_000 if quick else 200_000, 2))
    own = np.argmax(np.column_stack([X, np.ones(len(X))]) @ REGIONS.T, axis=1)
    named = ratios.size
    targets = np.repeat(np.eye(3), ratios.shape[1], axis=1) * ratios.ravel()  # (region, named expert)
    experts = np.sin(rng.uniform(0, 6, named) + X[:, :1] * rng.uniform(1, 3, named))
    truth = (targets[own] * experts).sum(axis=1)
    gate, losses, errors = LinearGate(named + 1), [], []
    for log_m in LOGS:
        weights = gate.weights(X, _parameters(float(log_m), ratios))
        losses.append(assignment_loss(weights, own, np.column_stack([targets, np.zeros(3)])).value)
        errors.append(float((((weights[:, :-1] * experts).sum(axis=1) - truth) ** 2).mean()))
    return np.array(losses), np.array(errors), _margin_density(np.bincount(own, minlength=3) / len(own))


def hard_regions(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Dense softmax on three regions over M: the loss against the explicit bound, and the sum over idle experts."""
    losses, _, density = _over_m(rng, quick, np.ones((3, 1)))
    bounds = [theory.soft_assignment_error(3, round(np.exp(v)), density, INPUT_NORM) for v in LOGS]
    rate, ratio = slope(LOGS[2:], losses[2:]), float((losses / bounds).max())
    M, X = 1000, rng.uniform(-1, 1, size=(2000, 2))
    built = soft_region_gate(REGIONS / LONGEST, M, INPUT_NORM, BOX)
    weights = built.weights(X)
    named = weights[:, built.specialists]
    idle = float(((1 - named.sum(axis=1)) / named.max(axis=1)).max())
    grouped = LinearGate(4).weights(X, _parameters(float(np.log(M)), np.ones((3, 1)), M - 3))
    apart = float(np.abs(grouped[:, :3] - named).max())
    figure = (
        f"exponent in log M {rate:.3f}; the sharp constant is {ratio:.3f} of the stated; "
        f"idle sum at M = 1000 {idle:.1e}, "
        f"bound {M**-0.5:.1e}, the display as printed {(M - 3) * M**1.5:.1e}"
    )
    return CheckOutcome(figure, abs(rate + 1) < 0.1 and 0.01 < ratio <= 1 and idle <= M**-0.5 and apart < 1e-9)


def mixed_regions(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The same with two experts in each region at given weights."""
    first = rng.uniform(0.3, 0.7, (3, 1))
    ratios = np.hstack([first, 1 - first])
    losses, _, density = _over_m(rng, quick, ratios)
    log_weight = float(-np.log(ratios).min())
    bounds = [theory.soft_mixture_error(3, round(np.exp(v)), density, INPUT_NORM, log_weight) for v in LOGS]
    rate, ratio = slope(LOGS[2:], losses[2:]), float((losses / bounds).max())
    X, built = rng.uniform(-1, 1, size=(500, 2)), soft_mixture_gate(REGIONS / LONGEST, ratios, 1000, INPUT_NORM, BOX)
    grouped = LinearGate(7).weights(X, _parameters(float(np.log(1000)), ratios, 994))
    apart = float(np.abs(grouped[:, :6] - built.weights(X)[:, built.specialists.ravel()]).max())
    figure = f"exponent in log M {rate:.3f}; the sharp constant is {ratio:.4f} of the stated; gates {apart:.0e} apart"
    return CheckOutcome(figure, abs(rate + 1) < 0.1 and 5e-4 < ratio <= 1 and apart < 1e-9)


def soft_predictors(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The squared error of the predictors behind these gates, against 4 A^2 and 8 A^2 times the gates' losses.

    Both constants are reached by one region's experts at A among 300 others at -A that share a little weight.
    """
    first = rng.uniform(0.3, 0.7, (3, 1))
    worst, rates, reached = 0.0, [], []
    for ratios, constant in ((np.ones((3, 1)), 4.0), (np.hstack([first, 1 - first]), 8.0)):
        losses, errors, _ = _over_m(rng, quick, ratios)
        worst = max(worst, float((errors / (constant * losses)).max()))
        rates.append(slope(LOGS[2:], errors[2:]))
        reached.append(_extremal(ratios.shape[1], constant))
    figure = (
        f"error / bound {worst:.3f}, {reached[0]:.3f} and {reached[1]:.3f} in the extremal cases; "
        f"exponents in log M {rates[0]:.3f} (hard), {rates[1]:.3f} (mixed)"
    )
    held = worst <= 1 and all(0.98 < ratio <= 1 for ratio in reached)
    return CheckOutcome(figure, held and all(abs(rate + 1) < 0.12 for rate in rates))


def _extremal(own: int, constant: float) -> float:
    """Error over ``constant`` A^2 times the loss: ``own`` experts at A with equal targets, 300 others at -A."""
    A, M = 1.5, own + 300
    theta = np.zeros((M - 1, 2))
    theta[:own, 1] = 12.0
    gate, X = LinearGate(M), np.zeros((1, 1))
    model = MixtureOfExperts(gate, theta, [ConstantExpert(A if m < own else -A) for m in range(M)])
    target = np.where(np.arange(M) < own, 1 / own, 0.0)[None]
    loss = assignment_loss(gate.weights(X, theta), [0], target).value
    return float((model.predict(X)[0] - A) ** 2) / (constant * A**2 * loss)


CHECKS = (
    Check(
        "prop:supp-linear-no-margin",
        "dense softmax on three hard regions over M",
        "(log M)^-1 +- 0.1; <= explicit bound",
        hard_regions,
    ),
    Check(
        "prop:supp-linear-top2-no-margin",
        "dense softmax on three mixed regions",
        "(log M)^-1 +- 0.1; <= explicit bound",
        mixed_regions,
    ),
    Check(
        "cor:supp-example-softmax-upper1, 2",
        "predictors behind these gates over M",
        "<= 4 A^2, 8 A^2 loss, reached; (log M)^-1 +- 0.12",
        soft_predictors,
    ),
)
