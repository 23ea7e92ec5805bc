"""The obvious twins of the fast paths: plain loops that follow the formulas."""

import numpy as np


def naive_score_weights(scores, k, log_phi):
    """Top-k weights of one row of scores."""
    order = sorted(range(len(scores)), key=lambda m: (-scores[m], m))[:k]
    values = np.array([log_phi(np.array([scores[m]]))[0] for m in order])
    weights = np.zeros(len(scores))
    weights[order] = np.exp(values - values.max()) / np.exp(values - values.max()).sum()
    return weights


def naive_kernel_weights(x, theta, centers, bandwidth):
    """The Gaussian-kernel gate at one point."""
    phi = np.exp(-((x - centers) ** 2).sum(axis=1) / (2 * bandwidth**2))
    return theta @ phi / phi.sum()


def naive_quadratic_score(x, B, beta, alpha):
    return x @ B @ x + beta @ x + alpha
