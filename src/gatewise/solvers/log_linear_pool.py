"""The log-linear pool: class probabilities from a weighted sum of the experts' log probabilities."""

import numpy as np

from gatewise.arrays import Floats, Indices

MOST_STEPS = 30
ACCURACY = 1e-8  # nats a row: a fit stops when a Newton step promises less
HALVINGS = 20


def pool_log_probabilities(logs: Floats, theta: Floats) -> Floats:
    """log p(c | x) (n, C) of a pool with parameters theta (M + C,), from log probabilities (n, M, C).

    p(c | x) is proportional to exp(theta_{M + c}) prod_m p_m(c | x)^{theta_m}: an exponent for every expert, an
    inverse temperature, and an offset for every class.
    """
    M = logs.shape[1]
    scores = np.einsum("m,imc->ic", theta[:M], logs) + theta[M:]
    scores -= scores.max(axis=1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def log_linear_pool(logs: Floats, outcome: Indices, sample_weight: Floats, start: Floats, spread: float) -> Floats:
    """The parameters (M + C,) of the log-linear pool that minimise the log loss with a ridge penalty.

    Minimised is sum_i w_i (-log p(y_i | x_i)) + |theta - (start, 0)|^2 / (2 spread^2), which is convex, by Newton's
    method with halved steps; ``logs`` (n, M, C) are log probabilities, ``outcome`` (n,) the numbers of the classes.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), 4000)
    >>> outcome = np.array([rng.choice(3, p=one) for one in p])
    >>> overconfident = np.log(p**2 / (p**2).sum(axis=1, keepdims=True))[:, None, :]
    >>> log_linear_pool(overconfident, outcome, np.ones(4000), np.ones(1), 10.0)[:1].round(1)
    array([0.5])
    """
    n, M, _ = logs.shape
    logs = logs - logs.mean(axis=2, keepdims=True)  # the pool is the same, and its Hessian better conditioned
    center = np.append(start, np.zeros(logs.shape[2]))
    theta, value = center, _objective(logs, outcome, sample_weight, center, center, spread)
    flat = logs.transpose(0, 2, 1).reshape(-1, M)  # (n C, M)
    for _ in range(MOST_STEPS):
        p = np.exp(pool_log_probabilities(logs, theta)) * sample_weight[:, None]
        gradient, hessian = _slopes(logs, flat, outcome, sample_weight, p)
        gradient += (theta - center) / spread**2
        hessian[np.diag_indices(len(theta))] += spread**-2.0
        step = np.linalg.solve(hessian, -gradient)
        promised, length = -float(gradient @ step), 1.0
        for _ in range(HALVINGS):
            found = _objective(logs, outcome, sample_weight, theta + length * step, center, spread)
            if found <= value:
                theta, value = theta + length * step, found
                break
            length *= 0.5
        if promised < ACCURACY * n:
            break
    return np.asarray(theta)


def _objective(
    logs: Floats, outcome: Indices, sample_weight: Floats, theta: Floats, center: Floats, spread: float
) -> float:
    log_p = pool_log_probabilities(logs, theta)[np.arange(len(outcome)), outcome]
    return float(-sample_weight @ log_p + 0.5 * ((theta - center) ** 2).sum() / spread**2)


def _slopes(logs: Floats, flat: Floats, outcome: Indices, sample_weight: Floats, p: Floats) -> tuple[Floats, Floats]:
    """Gradient (M + C,) and Hessian of the weighted log loss; p (n, C) are probabilities times sample weights."""
    n, M, C = logs.shape
    means = np.column_stack([np.einsum("ic,imc->im", p, logs), p])  # (n, M + C), times the sample weight
    seen = np.column_stack([logs[np.arange(n), :, outcome], np.eye(C)[outcome]])
    second = np.zeros((M + C, M + C))
    second[:M, :M] = flat.T @ (flat * p.reshape(-1, 1))
    second[:M, M:] = np.einsum("ic,imc->mc", p, logs)
    second[M:, :M] = second[:M, M:].T
    second[M:, M:] = np.diag(p.sum(axis=0))
    with_weight = sample_weight > 0.0
    scaled = means[with_weight] / np.sqrt(sample_weight[with_weight])[:, None]
    return means.sum(axis=0) - sample_weight @ seen, second - scaled.T @ scaled
