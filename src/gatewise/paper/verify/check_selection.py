"""Selection among gate classes, and dense softmax on linearly separable regions."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from gatewise import theory
from gatewise.aggregation import after
from gatewise.arrays import Floats
from gatewise.gates import KernelGate, LinearGate, QuadraticGate
from gatewise.paper.verify.check import Check, CheckOutcome, slope

NOISE = 0.5


def _nearest(distances: Floats) -> int:
    return int(np.argmin(distances))


class Selected(NamedTuple):
    """What a selection did: the chosen risk, the aggregate's, and the candidates'."""

    chosen: float
    aggregate: float
    candidates: Floats


def select(
    curves: Floats, truth: Floats, n: int, rng: np.random.Generator, project: Callable[[Floats], int]
) -> Selected:
    """Algorithm `alg:selection` with known noise: curves (L, P) and truth (P,) on P equally likely points."""
    at = rng.integers(truth.size, size=n)
    y = truth[at] + NOISE * rng.normal(size=n)
    weights = after(-0.5 * ((y[:, None] - curves[:, at].T) / NOISE) ** 2)[:-1].mean(axis=0)
    aggregate = weights @ curves
    risks = ((curves - truth) ** 2).mean(axis=1)
    chosen = project(((curves - aggregate) ** 2).mean(axis=1))
    return Selected(float(risks[chosen]), float(((aggregate - truth) ** 2).mean()), risks)


def selection_price(
    rng: np.random.Generator, quick: bool, project: Callable[[Floats], int] = _nearest
) -> CheckOutcome:
    """Lists of 2 to 256 estimators: the projection's inequality path by path, the mean risk against the bound."""
    pathwise, ratios = 0.0, []
    x = (np.arange(200) + 0.5) / 200
    for L in (2, 16, 256):
        for n in (100, 400):
            chosen, bounds = [], []
            for _ in range(15 if quick else 150):
                truth = np.sin(2 * np.pi * x)
                curves = np.clip(truth + rng.exponential(0.3, (L, 1)) * np.cos(rng.uniform(1, 20, (L, 1)) * x), -2, 2)
                done = select(curves, truth, n, rng, project)
                best = float(done.candidates.min())
                pathwise = max(pathwise, done.chosen / (6 * done.aggregate + 4 * best))
                chosen.append(done.chosen)
                bounds.append(6 * theory.after_risk(best, np.log(L), n, NOISE, 2.0) + 4 * best)
            ratios.append(np.mean(chosen) / np.mean(bounds))
    figure = (
        f"chosen / (6 aggregate + 4 best) up to {pathwise:.3f}; mean risk / explicit bound up to {max(ratios):.4f}"
    )
    return CheckOutcome(figure, pathwise <= 1 and bool(max(ratios) <= 1))


def selection_by_region(
    rng: np.random.Generator, quick: bool, project: Callable[[Floats], int] = _nearest
) -> CheckOutcome:
    """Linear, quadratic and kernel gates on a disk: the chosen risk against expert errors and assignment losses."""
    axis = (np.arange(30) + 0.5) / 30
    X = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    inside = np.linalg.norm(X - 0.5, axis=1) <= 0.35
    experts = np.where(inside[:, None], [1.0, -1.0], [0.5, -1.0])  # (P, 2): expert 1 inside, expert 2 outside
    truth = np.where(inside, 1.0, -1.0) + 0.1 * np.sin(6 * X[:, 0])
    kernel = KernelGate(2, mesh=0.1)
    hard = (np.linalg.norm(kernel.centers(2) - 0.5, axis=1) <= 0.35).astype(float)
    gates = [
        LinearGate(2).weights(X, [[5.0, 0.0, -2.0]]),
        QuadraticGate(2).weights(X, [[-40.0, 0.0, -40.0, 40.0, 40.0, -15.1]]),
        kernel.weights(X, np.stack([hard, 1 - hard])),
    ]
    own = np.where(inside, 0, 1)
    expert_error = float(((experts[np.arange(len(X)), own] - truth) ** 2).mean())
    losses = [float(((g - np.eye(2)[own]) ** 2).sum(axis=1).mean()) for g in gates]
    curves = np.stack([(g * experts).sum(axis=1) for g in gates])
    reps, n = 20 if quick else 200, 300
    runs = [select(curves, truth, n, rng, project) for _ in range(reps)]
    chosen = float(np.mean([run.chosen for run in runs]))
    best = 2 * expert_error + 8 * 1.1**2 * min(losses)  # experts and truth are bounded by 1.1
    bound = 6 * theory.after_risk(best, np.log(3), n, NOISE, 1.1) + 4 * best
    picked = sum(run.chosen <= 1.01 * run.candidates.min() for run in runs)
    shown = ", ".join(f"{loss:.3f}" for loss in losses)
    figure = f"losses {shown}; best class chosen {picked}/{reps}; risk {chosen:.3f}, bound {bound:.1f}"
    return CheckOutcome(figure, chosen <= bound and picked >= 0.95 * reps)


REGIONS = np.array([[0.8, 0.1, 0.1], [-0.5, 0.6, 0.0], [-0.3, -0.7, 0.2]])  # v_r of three regions of [-1, 1]^2
INPUT_NORM, BOX = np.sqrt(3.0), 3.0


def _margin_density(probability: Floats) -> float:
    """A bound on the margins' densities: a.x + b has density at most 1 / (sqrt(2) |a|) on the square."""
    gaps = np.linalg.norm(REGIONS[:, None, :2] - REGIONS[None, :, :2], axis=2)
    forms = np.where(gaps > 0, 1 / (np.sqrt(2) * np.where(gaps > 0, gaps, 1.0)), 0.0).sum(axis=1)
    return float((forms / probability).max())


def _region_gate(scores: Floats, log_m: float, ratios: Floats, idle_sign: float) -> Floats:
    """The proofs' gate: weights of the named experts, then of all idle ones together, (n, named + 1)."""
    t = BOX * log_m / (4 * INPUT_NORM)
    named = np.repeat(t * (scores - scores[:, [2]]), ratios.shape[1], axis=1) + np.log(ratios).ravel()
    idle = log_m - idle_sign * BOX * log_m  # fewer than M experts, each with the intercept -C log M
    return np.asarray(softmax(np.column_stack([named, np.full(len(scores), idle)]), axis=1))


def _softmax_regions(
    rng: np.random.Generator, quick: bool, ratios: Floats, idle_sign: float
) -> tuple[Floats, Floats, Floats, float]:
    """Gate losses over M, predictor errors over M, log M, and a bound on the margins' density.

    ``ratios`` (3, c) are the target weights of each region's own c experts.
    """
    X = rng.uniform(-1, 1, size=(20_000 if quick else 200_000, 2))
    scores = np.column_stack([X, np.ones(len(X))]) @ REGIONS.T
    own = scores.argmax(axis=1)
    targets = np.repeat(np.eye(3), ratios.shape[1], axis=1) * ratios.ravel()  # (region, named expert)
    named = targets.shape[1]
    experts = np.sin(rng.uniform(0, 6, named) + X[:, :1] * rng.uniform(1, 3, named))
    truth = (targets[own] * experts).sum(axis=1)
    logs, losses, errors = np.log(10.0) * np.array([3, 6, 12, 24, 48, 96]), [], []
    for log_m in logs:
        weights = _region_gate(scores, float(log_m), ratios, idle_sign)[:, :-1]
        losses.append(float(((weights - targets[own]) ** 2).sum(axis=1).mean()))
        errors.append(float((((weights * experts).sum(axis=1) - truth) ** 2).mean()))
    return np.array(losses), np.array(errors), logs, _margin_density(np.bincount(own, minlength=3) / len(own))


def hard_regions(rng: np.random.Generator, quick: bool, idle_sign: float = 1.0) -> CheckOutcome:
    """Dense softmax on three regions over M: the loss against the explicit bound, and the sum over idle experts."""
    losses, _, logs, density = _softmax_regions(rng, quick, np.ones((3, 1)), idle_sign)
    bounds = [theory.soft_assignment_error(3, round(np.exp(v)), density, INPUT_NORM) for v in logs]
    rate, ratio = slope(logs[2:], losses[2:]), float((losses / bounds).max())
    M, t = 1000, BOX * np.log(1000) / (4 * INPUT_NORM)
    X = rng.uniform(-1, 1, size=(2000, 2))
    lead = np.column_stack([X, np.ones(len(X))]) @ (REGIONS[2] - REGIONS).T
    idle = (M - 3) * np.exp(-idle_sign * BOX * np.log(M) + t * lead.max())
    figure = (
        f"exponent in log M {rate:.3f}; loss / bound {ratio:.3f}; idle sum at M = 1000 {idle:.1e}, "
        f"bound {M**-0.5:.1e}, the display as printed {(M - 3) * M**1.5:.1e}"
    )
    return CheckOutcome(figure, abs(rate + 1) < 0.1 and ratio <= 1 and idle <= M**-0.5)


def mixed_regions(rng: np.random.Generator, quick: bool, idle_sign: float = 1.0) -> CheckOutcome:
    """The same with two experts in each region at given weights."""
    first = rng.uniform(0.3, 0.7, (3, 1))
    ratios = np.hstack([first, 1 - first])
    losses, _, logs, density = _softmax_regions(rng, quick, ratios, idle_sign)
    log_weight = float(-np.log(ratios).min())
    bounds = [theory.soft_mixture_error(3, round(np.exp(v)), density, INPUT_NORM, log_weight) for v in logs]
    rate, ratio = slope(logs[2:], losses[2:]), float((losses / bounds).max())
    return CheckOutcome(f"exponent in log M {rate:.3f}; loss / bound {ratio:.3f}", abs(rate + 1) < 0.1 and ratio <= 1)


def soft_predictors(rng: np.random.Generator, quick: bool, factor: float = 1.0) -> CheckOutcome:
    """The squared error of the predictors behind these gates, against 4 A^2 and 8 A^2 times the gates' losses."""
    first = rng.uniform(0.3, 0.7, (3, 1))
    worst, rates = 0.0, []
    for ratios, constant in ((np.ones((3, 1)), 4.0), (np.hstack([first, 1 - first]), 8.0)):
        losses, excess, logs, _ = _softmax_regions(rng, quick, ratios, 1.0)
        worst = max(worst, float((excess / (factor * constant * losses)).max()))
        rates.append(slope(logs[2:], excess[2:]))
    figure = f"error / bound {worst:.3f}; exponents in log M {rates[0]:.3f} (hard), {rates[1]:.3f} (mixed)"
    return CheckOutcome(figure, worst <= 1 and all(abs(rate + 1) < 0.12 for rate in rates))


CHECKS = (
    Check(
        "thm:selection(global)",
        "selection among 2 to 256 estimators",
        "6 aggregate + 4 best; mean <= explicit bound",
        selection_price,
    ),
    Check(
        "cor:selection(regionwise)",
        "selection among three gates on a disk",
        "<= explicit bound; best class in 95 %",
        selection_by_region,
    ),
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
        "<= 4 A^2, 8 A^2 loss; (log M)^-1 +- 0.12",
        soft_predictors,
    ),
)
